//! Named points in message processing, for the lab to time. They compile to nothing unless `checkpoints` is on.

//! Engines under fuzzing.

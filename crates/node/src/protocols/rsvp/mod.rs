//! RSVP in a node: the engine, receivers that answer by a policy, and aggregation at the edge of a core.

pub(crate) mod aggregation;
pub(crate) mod core_reservation;
pub(crate) mod engine;
pub(crate) mod listen;
mod listing;
pub(crate) mod outcome;
mod receivers;

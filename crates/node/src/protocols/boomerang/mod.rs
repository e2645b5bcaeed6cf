//! Boomerang in a node.

pub(crate) mod core_reservation;
pub(crate) mod engine;
mod listing;
pub(crate) mod outcome;

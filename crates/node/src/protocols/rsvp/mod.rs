//! RSVP in a node: the engine, and receivers that answer by a policy.

pub(crate) mod engine;
mod listing;
pub(crate) mod outcome;
pub(crate) mod receiver;

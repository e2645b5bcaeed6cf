//! NSIS in a node: GIST, QoS NSLP, NATFW NSLP and Ping NSLP.

pub(crate) mod engine;
mod listing;
mod natfw;
pub(crate) mod outcome;
mod routing_state;

//! NSIS in a node: GIST, QoS NSLP and Ping NSLP.

pub(crate) mod engine;
mod listing;
pub(crate) mod outcome;
mod routing_state;

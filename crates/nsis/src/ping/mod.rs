//! Ping NSLP on one node: finds the signalling nodes on the path of a flow, their distance, and their reservable
//! bandwidth.
//!
//! An initiator sends a message downstream, along the path of packets to a destination. Each node on the path
//! increments the hop count and appends a record: its address, its time, its free bandwidth. The last one returns the
//! message, and on the way back each node appends another record. The difference of the two times of a node is how long
//! the message was beyond it. The initiator subtracts it from the whole round trip, and so gets the distance of each
//! node without synchronized clocks.
//!
//! This application is also the shortest complete example on GIST: everything that a node in transit does is in
//! `engine.rs`. GIST finds the next node on the path and carries messages there; it calls [`Nslp::receive`] for each
//! message, and [`HandlerContext::send`] sends one. Transit nodes keep no state, not even for messages that wait for
//! their next node: if GIST finds none, it returns the message to [`Nslp::undelivered`], and this node is the last.
//!
//! [`HandlerContext::send`]: crate::HandlerContext::send
//! [`Nslp::receive`]: crate::Nslp::receive
//! [`Nslp::undelivered`]: crate::Nslp::undelivered

mod api;
mod config;
mod counters;
mod engine;
mod initiator;
mod instance;
mod node_record;
#[cfg(test)]
mod tests;

pub use api::{Application, Command, Event, Rejection, Request, Visit};
pub use config::Config;
pub use counters::Counters;
pub use instance::PingNslp;

//! What the simulator does with networks, data and signalling, a module for each part.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/core_network.rs"]
mod core_network;

mod admission;
mod aggregation;
mod boomerang;
mod claims;
mod edge;
mod fluid;
mod graceful_restart;
mod interfaces;
mod loss_laws;
mod multicast;
mod network;
mod nsis;
mod processor;
mod tokens;
mod tracing;
mod tunnel;
mod yessir;

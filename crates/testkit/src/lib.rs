//! Support of the workspace's tests: a bench for one engine, the player of conformance cases, valid messages of every
//! protocol, damage, command lines, checkpoints, measurements, replications, and waiting.
//!
//! No crate depends on this one except for its tests.

pub mod bench;
pub mod checkpoints;
pub mod command_line;
pub mod conformance;
pub mod damage;
pub mod instructions;
pub mod memory;
pub mod messages;
pub mod replications;
pub mod wait;

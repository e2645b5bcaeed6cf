//! Engines under fuzzing: a network of three nodes that the octets of the fuzzer drive step by step.
//!
//! The nodes are those of the daemon, with the peers of an engine in the same network: their messages are valid, and
//! steps deliver, lose, repeat, reorder, change and cut them. Beside them arrive messages that are built from drawn
//! fields, and plain octets. After each input the invariants of the node are checked, and all of them once more after
//! every application has released what it has and all soft state had time to expire.

mod draw;
mod host;
mod invariants;
mod network;
mod packet;
pub mod protocols;
mod steps;
mod topology;

pub use steps::play;

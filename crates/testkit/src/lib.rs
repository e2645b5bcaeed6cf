//! Support of the workspace's tests: the player of conformance cases, valid messages of every protocol, and damage.
//!
//! No crate depends on this one except for its tests.

pub mod conformance;
pub mod damage;
pub mod messages;

//! One router, or host, in a box: protocol engines, their ledger and their routes, still without I/O.
//!
//! A driver (the daemon, the simulator, a test) turns what happens into [`Input`]s, carries out the
//! [`Effects`](earmark_core::Effects), and calls again when [`Node::next_deadline`] has come. Routes and interfaces
//! are inputs too, so that a recording of the inputs replays the node exactly.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod node;
mod receiver;
mod show;

pub use node::{Command, Event, HostUpdate, Input, Node, NodeConfig};
pub use receiver::{Ask, Listen, Unanswerable};
pub use show::{
    LinkRow, NeighborRow, ReductionRow, ReservationRow, SenderName, SessionRow, TrafficRow,
};

//! One router, or host, in a box: protocol engines, their ledger and their routes, still without I/O.
//!
//! A driver (the daemon, the simulator, a test) turns what happens into [`Input`]s, carries out the
//! [`Effects`](earmark_core::Effects), and calls again when [`Node::next_deadline`] has come. Routes and interfaces
//! are inputs too, so that a recording of the inputs replays the node exactly.
//!
//! A node speaks RSVP, Boomerang and YESSIR at once. The engines know nothing of each other: what they share is the
//! ledger. When one of them gives bandwidth back, or takes it from another, the node tells those whom it concerns before
//! the input is done with. At the edge of a core it lets one aggregate of Boomerang carry the flows of RSVP (module `edge`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod edge;
mod host;
mod node;
pub mod outcome;
mod receiver;
mod show;

pub use api::{Command, EnforcementChange, Event, HostUpdate, Input, NodeConfig};
pub use edge::{Across, AggregateChange, AggregateRow, Border, RSVP_E2E_IGNORE};
pub use node::Node;
pub use receiver::{Ask, Listen, Unanswerable};
pub use show::{
    AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow, QueueView, ReductionRow,
    ReservationRow, RoutingStateRow, SenderName, SessionRow, TrafficRow,
};

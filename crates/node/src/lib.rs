//! A router or host: protocol engines, their ledger and their routes, without I/O.
//!
//! A driver (the daemon, the simulator, a test) converts what happens into [`Input`]s, executes the
//! [`Effects`](earmark_core::Effects), and calls again at [`Node::next_deadline`]. Routes and interfaces are inputs
//! too, so that a recording of the inputs replays the node exactly.
//!
//! A node supports RSVP, Boomerang, YESSIR and NSIS at the same time. The engines are independent of each other and
//! share the ledger. When one of them releases bandwidth or preempts another, the node notifies the engines concerned
//! within the same input. At the edge of a core one aggregate of Boomerang carries the flows of RSVP (module `edge`).
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
    AdmissionRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow, QueueView,
    ReductionRow, ReservationRow, RoutingStateRow, SenderName, SessionRow, TrafficRow,
};

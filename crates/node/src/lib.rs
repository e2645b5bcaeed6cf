//! A router or host: protocol engines, their ledger and their routes, without I/O.
//!
//! A driver (the daemon, the simulator, a test) converts what happens into [`Input`]s, executes the
//! [`Effects`](earmark_core::Effects), and calls again at [`Node::next_deadline`]. Routes and interfaces are inputs
//! too, so that a recording of the inputs replays the node exactly.
//!
//! A node is composed of engines: those of this project (module `protocols`), and those that
//! a program adds ([`Engines::with`]). The engines are independent of each other and share the ledger. When one of them releases bandwidth or preempts another, the node notifies the engines concerned
//! within the same input. At the edge of a core one aggregate carries many flows (module `edge`).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod config;
mod edge;
mod engine;
mod host;
mod node;
pub mod outcome;
mod protocols;
mod show;

pub use api::{Command, EnforcementChange, Event, HostUpdate, Input, OtherCommand, OtherEvent};
pub use config::{AddEngineError, EngineKind, Engines, NodeConfig};
pub use earmark_core::listing::{
    AggregateRow, AssociationRow, EnforcementRow, LinkRow, LinkState, NeighborRow, ReductionRow,
    ReservationRow, RoutingStateRow, SenderName, SessionRow, TrafficRow,
};
pub use edge::{Across, AggregateChange, Border, RSVP_E2E_IGNORE};
pub use engine::{Arrival, Counter, HeldClaim, Interception, NodeEngine, NodeView, Rows};
pub use node::Node;
pub use protocols::rsvp::receiver::{Ask, Listen, Unanswerable};
pub use show::QueueView;

//! A router or host: protocol engines, their ledger and their routes, without I/O.
//!
//! A driver (the daemon, the simulator, a test) converts what happens into [`Input`]s, executes the
//! [`Effects`](earmark_core::Effects), and calls again at [`Node::next_deadline`]. Routes and interfaces are inputs
//! too, so that a recording of the inputs replays the node exactly.
//!
//! A node is composed of engines: those of this project (module `protocols`), and those that a program adds
//! ([`Engines::with`]). The engines are independent of each other and share the ledger. When one of them releases
//! bandwidth or preempts another, the node notifies the engines concerned within the same input. At the edge of a core
//! one aggregate carries many flows ([`Edge`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod change;
mod edge;
mod engine;
mod engines;
mod host;
mod input;
mod interception;
mod node;
mod other;
pub mod outcome;
mod protocols;
mod show;

pub use change::{AggregateChange, EnforcementChange};
pub use earmark_core::listing::{
    AggregateRow, AssociationRow, EnforcementRow, FilterSessionRow, LinkRow, LinkState,
    NeighborRow, PinholeRow, ReductionRow, ReservationRow, RoutingStateRow, SenderName, SessionRow,
    TrafficRow, TranslationRow,
};
pub use edge::{AggregateNotice, Edge, EdgeAction, Lane, StoredDatagram};
pub use engine::{
    Counter, EngineKind, Engines, HeldClaim, NodeEngine, NodeView, OwnCommands, ProcessInput, Rows,
    Slots, StateCount,
};
pub use engines::AddEngineError;
pub use input::{HostUpdate, Input};
pub use interception::{Arrival, Interception};
pub use node::Node;
pub use other::{OtherCommand, OtherEvent};
pub use protocols::{
    Across, Ask, Border, Command, CorePackets, CoreProtocol, CoreProtocolError, Deaggregate,
    E2E_IGNORE, Event, Listen, NodeConfig, TunnelProtocol, Unanswerable, router_alert6,
};
pub use show::{EngineSlots, Position, QueueView};

//! The contract between protocol engines and the world: time, timers, units, flows, inputs and effects, routes, and
//! the one ledger of link capacity.
//!
//! This crate knows no protocol, socket or clock. An engine is driven by [`Engine::handle`] and acts only through
//! [`Effects`]; a [`Context`] gives it the state of the host.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod admission;
pub mod amounts;
mod application;
pub mod checkpoint;
mod context;
mod effects;
mod end_reason;
mod engine;
mod flow;
pub mod growth;
pub mod hash;
mod input;
mod interface;
pub mod keys;
pub mod listing;
mod marking;
pub mod memory;
mod named_enum;
mod octets;
pub mod outcome;
mod packet_filter;
pub mod random;
pub mod record;
mod routes;
mod row_filter;
mod secret;
pub mod shares;
pub mod slew;
mod stream;
pub mod throttle;
mod time;
pub mod timer;
mod trust;
mod units;

pub use application::ApplicationId;
pub use context::Context;
pub use effects::{Effect, Effects, Installation, Neighbor, Outgoing};
pub use end_reason::EndReason;
pub use engine::Engine;
pub use flow::{Flow, FlowError, Prefix, PrefixError};
pub use input::{Datagram, HostEvent, Input};
pub use interface::{Interface, InterfaceId, Interfaces};
pub use marking::{Marking, Markings};
pub use octets::{Octets, OctetsError};
pub use packet_filter::{
    Endpoint, FilterAction, FilterChange, FilterEvent, FilterRule, FilterRuleError, FilteredPackets,
};
pub use routes::{
    Branches, FlowAnswer, FlowResolver, Hop, MulticastRoute, Resolution, Route, RouteTable, Routes,
};
pub use row_filter::{EndFilter, EndFilterError, RowFilter};
pub use secret::{KeyedDigest, Secret, SecretSeed};
pub use stream::{CloseReason, Connect, ConnectionId, StreamEvent, Transport};
pub use time::Time;
pub use trust::{Role, Trust};
pub use units::{Rate, RateError};

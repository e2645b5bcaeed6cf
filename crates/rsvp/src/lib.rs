//! RSVP (RFC 2205, RFC 2209).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod config;
mod confirm;
mod counters;
mod engine;
mod error;
mod host;
mod merge;
mod path;
mod refresh;
mod resv;
mod state;
mod store;
mod tear;
mod traffic;
mod view;

pub use api::*;
pub use config::{Config, Timing};
pub use counters::{Counters, DropReason, MESSAGES};
pub use engine::{PROTOCOL, Rsvp};
pub use state::TimerKind;
pub use view::{NeighborView, ReservationView, SenderView};

//! RSVP (RFC 2205, RFC 2209).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod config;
mod counters;

pub use api::*;
pub use config::{Config, Timing};
pub use counters::{Counters, DropReason};

//! NSIS on one node, without I/O: GIST (RFC 5971), and the signalling applications that ride on it.
//!
//! Two layers. [`gist`] finds the next node on a flow's path that takes part, keeps that knowledge as soft state, and
//! carries messages there: in datagrams, or over connections that all sessions of two peers share. The applications say
//! what the messages mean: [`qos`] reserves bandwidth (RFC 5974), [`ping`] shows who takes part. Between both stands the
//! interface of RFC 5971 appendix B, the trait [`Nslp`]; a third application is one file that implements it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod api;
mod config;
mod engine;
pub mod gist;
mod instance;
pub mod nslp;
pub mod ping;
pub mod qos;
mod route;
mod session;

pub use api::{Command, Event};
pub use config::Config;
pub use engine::TimerKind;
pub use instance::Nsis;
pub use nslp::{HandlerContext, Nslp};
pub use session::SessionIds;

/// UDP port of GIST, on which Queries and all else without a connection arrive (RFC 5971 section 9).
pub const PORT: u16 = 270;

/// The page for those who write applications; its code is run as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/nslp.md")]
mod page {}

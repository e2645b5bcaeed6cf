//! NSIS on one node, without I/O: GIST (RFC 5971), and the signalling applications on top of it.
//!
//! There are two layers. [`gist`] finds the next NSIS node on the path of a flow, keeps it as soft state, and carries
//! messages there: in datagrams, or over connections that all sessions of two peers share. The applications define the
//! messages: [`qos`] reserves bandwidth (RFC 5974), [`natfw`] opens firewalls and translators (RFC 5973), [`ping`] lists the
//! nodes that take part. The interface between the layers is that of RFC 5971 appendix B, the trait [`Nslp`]; another
//! application is one file that implements it.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod api;
mod applications;
mod auth_object;
mod behind;
mod config;
mod engine;
pub mod gist;
mod input_context;
mod instance;
pub mod natfw;
pub mod nslp;
pub mod ping;
pub mod qos;
mod route;
mod session;
mod tolerated;

pub use api::{Command, Event};
pub use config::Config;
pub use engine::TimerKind;
pub use instance::Nsis;
pub use nslp::{HandlerContext, Nslp};
pub use session::SessionIds;
pub use tolerated::Tolerated;

/// UDP port of GIST, which receives Queries and all other messages without a connection (RFC 5971 section 9).
pub const PORT: u16 = 270;

/// Number of this engine in the ledger.
pub const ID: earmark_core::admission::Protocol = earmark_core::admission::Protocol::new(4);

/// The page for authors of applications; its code runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/nslp.md")]
mod page {}

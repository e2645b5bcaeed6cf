//! The control socket: what the command line and other programs say to the daemon, and what it answers.
//!
//! JSON objects over a Unix socket, one a line; `docs/control-protocol.md` describes them for other languages.
//! [`protocol`] holds the objects, `connection` one client's buffers, `hub` all clients together with the applications
//! that live in the daemon on their behalf, `requests`, `light`, `path` and `trace` what each request does, `checks` what it must
//! be, `listener` the socket's file.

mod checks;
mod connection;
mod hub;
mod light;
mod listener;
mod nsis;
mod path;
pub mod protocol;
mod requests;
mod trace;

pub use hub::{ClientId, Hub, MOST_CLIENTS};
pub use listener::{Listener, ListenerError};

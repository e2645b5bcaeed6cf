//! The control socket: requests of the command line and other programs, and the daemon's answers.
//!
//! The protocol consists of JSON objects over a Unix socket, one a line; `docs/control-protocol.md` describes it for other
//! languages; the crate `earmark-control` defines the objects. `connection` the buffers of a client, `hub` all clients with their
//! applications, `requests`, `light`, `nsis`, `path` and `trace` the handling of each request, `checks` its validation, and
//! `listener` the socket's file.

mod checks;
mod connection;
mod events;
mod hub;
mod light;
mod listener;
mod nsis;
mod path;
mod requests;
mod trace;

pub use events::engine_event;
pub use hub::{ClientId, Hub, MOST_CLIENTS};
pub use listener::{Listener, ListenerError};

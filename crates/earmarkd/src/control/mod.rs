//! The control socket: requests of the command line and other programs, and the daemon's answers.
//!
//! The protocol is JSON objects over a Unix socket, one a line; `docs/control-protocol.md` describes it for other
//! languages; the crate `earmark-control` defines the objects. `connection` has the buffers of a client, `hub` all clients with their
//! applications, `serve` their lines, `requests` and `path` the handling of requests, and `listener` the socket's file.

mod connection;
mod events;
mod hub;
mod listener;
mod path;
mod requests;
mod serve;

pub use hub::{ClientId, Hub, MAX_CLIENTS};
pub use listener::{Listener, ListenerError};

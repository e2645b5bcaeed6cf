//! The control socket: requests of the command line and other programs, and the daemon's answers.
//!
//! The protocol is JSON objects over a Unix socket, one a line; `docs/control-protocol.md` describes it for other
//! languages; the crate `earmark-control` defines the objects. `connection` has the buffers of a client, `clients` all of them, `hub` their
//! applications, `places` their limits, `roles` what they may do, `audit` the log of what they change, `event_log` that of
//! events, `serve` their lines, `config` requests about the configuration, `counters` the sum of what is counted, `requests` and `path` the
//! handling of requests, and `listener` the socket's file. `listing` divides listings into slices, `listing_filter` their filters.

mod audit;
mod change;
mod clients;
mod config;
mod connection;
mod counters;
mod event_log;
mod events;
mod hub;
mod listener;
mod listing;
mod listing_filter;
mod path;
mod places;
mod requests;
mod roles;
mod serve;

pub use audit::TARGET as AUDIT_TARGET;
pub use clients::ClientId;
#[cfg(feature = "http")]
pub(crate) use counters::counters;
pub use hub::Hub;
pub use listener::{Listener, ListenerError};
pub(crate) use listener::{check_group, group_number};
pub use places::{MAX_CLIENTS, MAX_CLIENTS_PER_USER, RESERVED_CLIENTS};
pub use roles::{Role, Roles};

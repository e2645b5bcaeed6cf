//! The control protocol of the Earmark daemon: its objects, and a blocking client.
//!
//! The protocol is JSON objects over a Unix socket, one a line; `docs/control-protocol.md` describes it for other
//! languages. A client sends a [`Request`] and receives a [`Response`]; the rows of listings are those of
//! [`earmark_core::listing`]. [`Client`] does so for Rust. The crate links no protocol engine and no driver.
#![forbid(unsafe_code)]

mod answer;
mod client;
pub mod command;
mod config;
mod event;
mod listing;
mod log;
mod path;
pub mod protocols;
mod request;
mod reservation;
#[cfg(feature = "schema")]
pub mod schema;
mod short_file;
pub mod text;

pub use answer::*;
pub use client::{Client, ClientError, Pages};
pub use config::*;
pub use earmark_core::ApplicationId;
pub use earmark_core::listing::{
    AdmissionRow, AggregateRow, AssociationRow, EnforcementRow, FilterSessionRow, LinkRow,
    LinkState, NeighborRow, PinholeRow, ReductionRow, ReservationRow, RoutingStateRow, SenderName,
    SessionRow, TrafficRow, TranslationRow, UserRow,
};
pub use event::Event;
pub use listing::{Listing, ListingFilter, Show};
pub use log::{
    ALL_TARGETS, LogAnswer, LogLevel, LogLevels, LogLevelsError, LogRequest, LogTargetRow,
};
pub use path::*;
pub use protocols::{Expose, Open, Ping, Statistics, StyleName, Trace};
pub use request::*;
pub use reservation::{ChangeRequest, Identity, ListenRequest, ReservationRequest};
pub use short_file::{ShortFile, read_short_file};

/// Control socket of a daemon without another setting.
pub const DEFAULT_SOCKET: &str = "/run/earmark/control.sock";

/// Version of this protocol. The version rises only on incompatible changes.
///
/// | version | since |
/// |---|---|
/// | 1 | unicast, fixed filter only; without a version number and a request for it |
/// | 2 | `outgoing` of a session's row and `senders` of a reservation's are lists; events name `filters` and `style` |
/// | 3 | rows and events of several protocols; `protocol` of an application's row |
/// | 4 | `reserve` and `listen` for all protocols, with the protocol's own members in `options`; `send`, `loop`, `attach`, `answer`, `establish` and `expect` are gone; messages in outcomes have their standard's names |
pub const VERSION: u32 = 4;

/// Longest line that the daemon reads, octets, without its terminator.
pub const LONGEST_LINE: usize = 64 * 1024;

/// Most rows of a listing, by default.
pub const DEFAULT_ROWS: usize = 10_000;

//! YESSIR (Pan and Schulzrinne) without I/O: reservations carried in RTCP sender reports.
//!
//! # Protocol
//!
//! A sender of real-time data by RTP reports periodically, by RTCP, how much it has sent. The report takes the same
//! path as the data. So it can carry a request for bandwidth: one more packet in the compound, with a *flowspec*, and
//! a router alert so that routers process it. Each of them admits the request against the ledger of the outgoing
//! link, installs it in traffic control, and forwards the report. One pass, from the sender to the receivers, without
//! a message of its own.
//!
//! A link without room does not stop the report. The router writes a failure note into it and forwards it, so that
//! the stream is reserved on the other links (*partial reservation*). The receiver returns the notes in its receiver
//! report, so the sender learns which hops have failed. The router remembers the request: it tries again with each
//! report, and as soon as bandwidth is released (*resource grabbing*).
//!
//! A sender that does not know its rate leaves it to the routers: they derive it from successive reports
//! (*measurement mode*, [`Flowspec::Measured`]). This works even for senders without YESSIR, on interfaces where it
//! is enabled ([`Config::measured`]).
//!
//! # State
//!
//! A stream is identified by its addresses and data ports. It has a leg for each outgoing link, and a leg has one
//! claim in the ledger. All state is soft: it ends when three consecutive reports are missing, or at once by a BYE or
//! a release. Reports of a sender follow after 0.7 to 1.3 intervals; the default interval is 30 s.
//!
//! A refresh costs a lookup, a store and the forwarded copy: no timer operation, no allocation. A stream has one
//! timer; if it fires too early it is armed again. Nothing ever walks all streams.
//!
//! # Retries
//!
//! A refused request waits in the ledger's queue ([`earmark_core::admission::Ledger::enqueue`]). When bandwidth is
//! released, by whatever protocol, the driver finds the next request there and reports it by
//! [`HostEvent::Grantable`]. A leg counts how often it entered the queue; past the threshold T it may not enter any
//! more. Waiting longer, and retrying with a report, are not counted. `tests/retry.rs` compares this with the
//! published loop.
//!
//! # Roles
//!
//! - **Router**: all of the above.
//! - **Sender** ([`Command::Attach`]): makes the reports of an RTP stream of this host that has none; reserves its
//!   first link like any router.
//! - **Receiver** ([`Command::Listen`]): answers announced streams.
//! - Applications with RTCP of their own use [`library`]: a packet to append, and a way to read the answer.
//!
//! # Odd cases
//!
//! - **A refused increase** leaves the old reservation; the difference waits.
//! - **A route change**: the next report takes the new route, and the claim on the old link is released. Streams of
//!   this host are announced on their new route at once.
//! - **Groups**: one leg per branch. Each copy of the report has the notes of its own branch only.
//! - **Shared style**: the senders of a session have one claim per link, the largest of their requests
//!   ([`Style::Shared`]).
//! - **Traffic control refuses** what the ledger granted: the next report notes it, the one after it tries again.
//! - **A malformed message, or one that fails a check** (AUTH, UDP checksum), is forwarded unchanged and has no
//!   effect.
//! - **Routers without YESSIR** are detected by the TTL: see [`LinkInfo::other_hops`].
//! - **A message for this host** or without YESSIR reaches the engine as a copy, and is never forwarded: the packet
//!   itself has been delivered already.
//!
//! # Scope and limits
//!
//! The wire format is our own ([`earmark_wire::yessir`]), since none is published; it does not interoperate with the
//! implementation of 1998. SRTCP hides the requests from routers. Answers are not authenticated. A host whose
//! application appends the packet itself does not reserve its own first link: its reports do not pass this engine.
//!
//! # References
//!
//! Pan, Schulzrinne, *Lightweight Resource Reservation Signaling* (2000) and *Processing Overhead Studies in Resource
//! Reservation Protocols* (2001); RFC 3550, 3551, 5761; RFC 4094 section 6.2. Instruction counts: `cargo bench -p
//! earmark-yessir --bench instructions`.
//!
//! [`Flowspec::Measured`]: earmark_wire::yessir::Flowspec::Measured
//! [`HostEvent::Grantable`]: earmark_core::HostEvent::Grantable
//! [`LinkInfo::other_hops`]: earmark_wire::yessir::LinkInfo::other_hops
//! [`Style::Shared`]: earmark_wire::yessir::Style::Shared
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission;
mod api;
pub mod auth;
mod config;
mod counters;
mod engine;
mod flowspec;
mod foreign;
mod forward;
mod initiator;
mod instance;
pub mod library;
mod limits;
mod measure;
mod next_hops;
mod origin;
mod pool;
mod receive;
mod refresh;
mod release;
mod reserve;
mod responder;
mod roles;
mod state;
mod store;
mod tokens;
mod view;

pub use api::*;
pub use config::{Config, Limits, Measuring};
pub use counters::{Counters, DropReason};
pub use instance::{PROTOCOL, Yessir};
pub use state::TimerKind;
pub use view::{ApplicationView, LegView, SessionView};

/// Number of this engine in the ledger.
pub const ID: earmark_core::admission::Protocol = earmark_core::admission::Protocol::new(2);

//! YESSIR (Pan and Schulzrinne), without I/O: reservations that ride in RTCP sender reports.
//!
//! # The story
//!
//! Whoever sends real-time data by RTP reports now and then, by RTCP, how much it has sent. Such a report takes the same
//! way as the data. So it can carry a request for bandwidth: one more packet in the compound, with a *flowspec*, and a
//! router alert so that routers look at it. Each of them admits the request against the ledger of the link that the
//! report leaves by, puts it into traffic control, and sends the report on. One pass, from the sender to the receivers,
//! and no message of its own.
//!
//! A link that has not room for it does not stop the report. The router writes a note of failure into it and sends it
//! on, so that the stream has what it can have on the other links (*partial reservation*). The receiver sends the notes
//! back in its receiver report, so the sender learns who lacks what. The router remembers the request: it tries again
//! with each report that comes, and as soon as others give back (*resource grabbing*).
//!
//! A sender that does not know how much it needs leaves it to the routers: they take the rate from what successive
//! reports say was sent (*measurement mode*, [`Flowspec::Measured`]). That works even for senders that have never heard of
//! YESSIR, on interfaces where it is switched on ([`Config::measured`]).
//!
//! # State and its life
//!
//! A stream is known by its addresses and data ports. It has a leg for each link that it leaves by, and a leg a claim in
//! the ledger. All state is soft: it ends when three reports in a row are missing, or at once by a BYE or a release.
//! Reports of a sender come after 0.7 to 1.3 intervals, 30 s if nobody says otherwise.
//!
//! A report that says nothing new costs a look-up, a store and the copy that goes on: no timer moves, nothing is
//! allocated. A stream has one timer; if it fires too early it is armed again. Nothing ever walks all streams.
//!
//! # Retries
//!
//! A request that was refused waits in the ledger's line ([`earmark_core::admission::Ledger::enqueue`]), where whoever
//! drives the engine finds whose turn it is when bandwidth is given back, by whatever protocol, and says so by
//! [`HostEvent::Grantable`]. A leg counts how often it was put into the line, and past the threshold T it is not any
//! more. To wait longer, or to try again with a report, is free. See `tests/retry.rs` for the published loop beside ours.
//!
//! # Roles
//!
//! - **Router**: all of the above.
//! - **Sender** ([`Command::Attach`]): makes the reports of an RTP stream of this host that has none; reserves its first
//!   link like any router.
//! - **Receiver** ([`Command::Listen`]): answers announced streams.
//! - Applications with RTCP of their own use [`library`]: a packet to append, and a way to read the answer.
//!
//! # Odd cases
//!
//! - **An increase that is refused** leaves what there was; the difference waits.
//! - **The route moves**: the next report takes the new way, and the old link's claim ends with it. Streams of this host
//!   are announced on their new way at once.
//! - **Groups**: a leg a branch. Each copy of the report has the notes of its own branch only.
//! - **Shared style**: the senders of a session have one claim a link, the largest of their requests ([`Style::Shared`]).
//! - **Traffic control refuses** what the ledger granted: the next report says so, the one after it tries again.
//! - **What cannot be read, or not be believed** (AUTH, UDP checksum) goes on as it came, and has no effect.
//! - **Routers without YESSIR** are told by the TTL: see [`LinkInfo::other_hops`].
//! - **A message for this host** or without YESSIR is a copy for us to look at, and never sent on: the packet itself has gone
//!   its way already.
//!
//! # Scope and limits
//!
//! The wire format is our own ([`earmark_wire::yessir`]), for there is no public one; this is no interoperability with
//! the implementation of 1998. SRTCP hides the requests from routers. Answers are not authenticated. A host whose
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
mod forward;
mod initiator;
mod instance;
pub mod library;
mod limits;
mod measure;
mod next_hops;
mod pool;
mod receive;
mod refresh;
mod release;
mod reserve;
mod responder;
mod roles;
mod state;
mod store;
mod view;

pub use api::*;
pub use config::{Config, Limits, Measuring};
pub use counters::{Counters, DropReason};
pub use instance::{PROTOCOL, Yessir};
pub use state::TimerKind;
pub use view::{ApplicationView, LegView, SessionView};

//! RSVP version 1 (RFC 2205, with the processing rules of RFC 2209 and the objects of RFC 2210), without I/O.
//!
//! # Overview
//!
//! A sender's host announces a data flow with a Path message, addressed to the flow's destination and marked with a
//! router alert, so that every RSVP router on the path examines it. Each router stores the previous hop (in a path state
//! block, PSB), and sends a Path of its own to the next hop. When the Path reaches the receiver's host, an application
//! there may answer with a Resv, which follows the path back hop by hop: each router admits the request against the
//! ledger of its outgoing link, installs it in traffic control (as a traffic-control state block, TCSB, made of one
//! reservation state block, RSB, for each next hop), and sends a request to the previous hop. At the sender's host the
//! reservation is complete; a receiver that requested a confirmation gets a ResvConf.
//!
//! # Soft state
//!
//! All state is soft. A Path or Resv contains the refresh period R, and its state expires (K + 0.5) · 1.5 · R after the
//! last refresh. Each node refreshes the state at its neighbours at intervals of its own, drawn at random from [0.5 R,
//! 1.5 R]. State is removed at once by a PathTear, which follows the data and also removes reservations, or by a
//! ResvTear, which follows the path back and stops where other requests remain. A node whose state expires sends a tear
//! to those that got the state from it.
//!
//! A refresh without changes costs a lookup and a store: no timer moves, nothing is allocated, nothing is sent. A block
//! has one timer, armed for the earliest of its times; a refresh only stores the new end of the block's lifetime, and a
//! timer that fires too early is armed again. No operation iterates over all sessions at once.
//!
//! Between neighbours with refresh reduction (RFC 2961), a Path or Resv has a MESSAGE_ID and is retransmitted until it
//! is acknowledged. From then on its identifier in a summary refresh, one short message for many states, is its
//! refresh. See `neighbors::refresh_reduction`, which includes Hello (RFC 3209 section 5).
//!
//! # Odd cases
//!
//! - **A refused increase** leaves the old reservation, and the ResvErr has the flag InPlace. Everything is computed
//!   and granted before anything is stored, so nothing has to be undone.
//! - **Two next hops on one link**, as after a route change further downstream, are merged by the least upper bound.
//! - **A route change** causes a Path on the new path after a short delay, or with the next received Path. The old path
//!   gets a PathTear some seconds later, and reservations there end. Until then they are not requested upstream any
//!   more, but not torn either.
//! - **A request that fails upstream** is left out of the merged request for a while (blockade state).
//! - **Styles are not mixed**: a request in another style than the session's gets a ResvErr, and the first style stays.
//! - **If traffic control refuses** what the ledger granted, the receiver gets a ResvErr (code 22), the previous hop a
//!   ResvTear.
//! - **Through an interface without RSVP** messages are relayed as by a router without RSVP.
//! - **Objects of unknown classes** cause rejection, are ignored, or are stored and forwarded, by their highest bits.
//!
//! # Scope and limits
//!
//! Unicast and multicast sessions in the styles FF, SE and WF, in IPv4 and IPv6 formats. The requirement lists under
//! `docs/conformance` say what is missing, and why.
//!
//! # Structure
//!
//! | module | answers |
//! |---|---|
//! | `state` | which blocks, neighbours and applications are known, and how they are found |
//! | `neighbors` | who may change what, how messages reach neighbours, signatures, limits, refresh reduction and Hello |
//! | `rules` | what each message, timer and route change does to path and reservation state, and what others are told |
//! | `host` | what applications, proxies and the operator ask for, and what they see |
//!
//! Handlers import downwards in this table, and no file is in a circle of imports. Files of data beside them hold what
//! the engine of one node is made of (`instance`); `engine` dispatches its inputs.
//!
//! # References
//!
//! RFC 2205, 2207, 2209, 2210, 2211, 2212, 2215, 2747, 2961, 3097, 3209 (Hello only), 3473 (sections 4.2 to 4.4, and 9 without labels),
//! 4558, 5063, 5945, 5946. Instruction counts: `cargo bench -p earmark-rsvp`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod api;
mod config;
mod context;
mod counters;
mod engine;
mod filters;
mod host;
mod instance;
mod neighbors;
mod offer;
mod records;
mod rules;
mod state;
mod tolerated;

pub use host::proxy;
pub use neighbors::{integrity, limits};
pub use rules::{diagnostics, notify, policy};

pub use api::*;
pub use config::{Config, HelloTiming, Reduction, RestartTimes, Retransmission, Timing};
pub use counters::{Counters, DropReason, MESSAGES, ReductionCounters};
pub use filters::Filters;
pub use host::reload::Renewal;
pub use instance::{PROTOCOL, Rsvp};
pub use neighbors::graceful_restart::RestartView;
pub use neighbors::refresh_reduction::{Bundled, Bundler, Envelope, Liveness};
pub use offer::Offer;
pub use records::{NeighborView, ReductionView, ReservationView, SenderView};
pub use rules::merge::least_upper_bound;
pub use state::TimerKind;
pub use state::applications::EDGE;
pub use tolerated::{Deviations, Tolerated};

/// Number of this engine in the ledger.
pub const ID: earmark_core::admission::Protocol = earmark_core::admission::Protocol::new(1);

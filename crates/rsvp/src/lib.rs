//! RSVP version 1 (RFC 2205, with the processing rules of RFC 2209 and the objects of RFC 2210), without I/O.
//!
//! # The story
//!
//! A sender's host announces a data flow with a Path message, addressed to the flow's destination and marked with a
//! router alert, so that every RSVP router on the way takes it up. Each of them notes where it came from (a [`Psb`]),
//! and sends a Path of its own onward. When the Path reaches the receiver's host, an application there may answer with
//! a Resv, which retraces the way hop by hop: each router admits the request against the ledger of its outgoing link,
//! puts it into traffic control (a [`Tcsb`], made of one [`Rsb`] a next hop), and asks the next one upstream. At the
//! sender's host the reservation is complete; a receiver that wanted to know is told with a ResvConf.
//!
//! # State and its life
//!
//! All state is soft. A Path or Resv carries the period R in which it will be refreshed, and the state that it made
//! lives (K + 0.5) · 1.5 · R after the last of them. Each node refreshes towards its own neighbours at its own random
//! pace, drawn anew each time from [0.5 R, 1.5 R]. State also ends at once: by a PathTear, which follows the data and
//! takes reservations with it, or by a ResvTear, which retraces the way of the Resv and stops where others still want
//! what it gives back. Whoever lets state time out tears it for those who got it from here.
//!
//! What arrives and says nothing new costs a look-up and a store: no timer moves, nothing is allocated, nothing is
//! sent. A block has one timer, armed for whatever comes first; a refresh only writes how long the block lives, and a
//! timer that fires too early is armed again. Nothing ever walks all sessions.
//!
//! Between neighbours that can do better (RFC 2961), a Path or Resv has a number, is acknowledged, and is sent again until
//! it is; from then on its number in a list, one short message for many states, is its refresh. See [`refresh_reduction`], which
//! also treats Hello (RFC 3209 section 5).
//!
//! # Odd cases
//!
//! - **An increase that is refused** leaves the old reservation; the ResvErr says so (InPlace). Everything is computed
//!   and granted before anything is written, so there is nothing to undo.
//! - **Two next hops on one link**, as after a route change further on, are merged: the least upper bound counts.
//! - **The route moves**: a short while after the routes have changed, the senders concerned are announced on their new
//!   way, or as soon as a Path comes. The old one is told by a PathTear some seconds later, and what is reserved there
//!   ends; until then it is not asked for upstream any more, but nothing is given back.
//! - **A request that fails upstream** is left out for a while where smaller ones can do without it (blockade state).
//! - **Styles do not mix**: who asks for another one than the session has gets a ResvErr, and the first one stays.
//! - **Traffic control refuses** what the ledger granted: the receiver gets a ResvErr (code 22), the previous hop a
//!   ResvTear.
//! - **An interface that takes no part** is crossed by relaying messages as a router without RSVP would.
//! - **Objects of unknown classes** reject the message, vanish, or are kept and sent on, by their highest bits.
//!
//! # Scope and limits
//!
//! Unicast and multicast sessions in the styles FF, SE and WF, in IPv4 and IPv6 formats. What is not here, and why, stands
//! in the requirement lists under `docs/conformance`.
//!
//! # References
//!
//! RFC 2205, 2209, 2210, 2211, 2212, 2215, 2747, 2961, 3097, 3209 (Hello only), 4558. Instruction counts: `cargo bench -p earmark-rsvp`.
//!
//! [`Psb`]: state::Psb
//! [`Tcsb`]: state::Tcsb
//! [`Rsb`]: state::Rsb
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
mod api;
mod applications;
mod blockade;
mod config;
mod confirm;
mod counters;
pub mod diagnostics;
mod engine;
mod error;
mod host;
mod instance;
pub mod integrity;
pub mod limits;
mod marking;
mod merge;
mod next_hops;
mod path;
pub mod policy;
mod pool;
pub mod proxy;
mod reach;
mod refresh;
mod refresh_reduction;
mod reload;
mod repair;
mod resv;
mod shared;
mod state;
mod store;
mod tear;
mod traffic;
mod view;

pub use api::*;
pub use config::{Config, HelloTiming, Reduction, Retransmission, Timing};
pub use counters::{Counters, DropReason, MESSAGES, ReductionCounters};
pub use instance::{PROTOCOL, Rsvp};
pub use merge::least_upper_bound;
pub use refresh_reduction::{Bundled, Bundler, Envelope, Liveness};
pub use reload::Renewal;
pub use state::TimerKind;
pub use view::{NeighborView, ReductionView, ReservationView, SenderView};

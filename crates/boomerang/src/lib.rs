//! Boomerang, without I/O: one loop of one message reserves both directions of a flow.
//!
//! # The story
//!
//! An *initiating node*, a sender, a receiver or a router between them, puts what it wants into a ping to the far end: a
//! classifier and a mask for the packets, and two rates. Each *Boomerang node* on the way that the ping takes reserves
//! the forward rate on the link through which it leaves. The far end answers the ping like any other; it need know nothing
//! of all this. Each node on the way back, which may be another way, reserves the reverse rate on the link through
//! which the reply leaves. A node that cannot reserve writes that into the message (NACK), with what it could offer, and sends
//! it on; behind it the message asks no more, but finds out what could be had. So when the message is back, the
//! initiating node knows all that there is to know.
//!
//! # State and its life
//!
//! A node keeps a session for each flow, with a half for each pass that has come by. It never sends a message of its own
//! accord, and never brings the two passes together. The initiating node repeats its message every interval, give or take
//! half of it; who has not seen one for three intervals forgets. A message with both rates zero ends a session at
//! once.
//!
//! What arrives and says nothing new costs a look-up and a store: no route is asked for unless routes have changed, no
//! timer moves, nothing is allocated, and the message leaves as it came. Nothing ever walks all sessions.
//!
//! Sessions are found by (mask, classifier under the mask): a tuple space, in which exact sessions and wide ones are found
//! alike. There are few masks, and their number is limited.
//!
//! # Odd cases
//!
//! - **An increase that is refused** leaves the old grant, and keeps it alive as long as the initiating node asks.
//! - **The route moves**: with the next message what was held on the old link is given back, and the new one is asked.
//! - **Somebody else** asks for a flow that has an initiating node already: refused, nothing offered.
//! - **Traffic control refuses** what the ledger granted: the next message that comes by is refused.
//! - **A mask that makes no sense**, or that packets cannot be told apart by: refused, in the same words.
//! - **What cannot be read** goes on untouched; it is a ping of somebody after all.
//! - **Groups**: see [`multicast`]. **Locks**: see [`lock`]. **Aggregates**: see [`aggregate`]. **A kernel that
//!   helps**: see [`offload`].
//!
//! # Scope and limits
//!
//! IPv4 and IPv6; bitrates and lists of downgrades. IntServ bodies and DS-marker messages have no published layout and go
//! on untouched. Aggregates are of the forward direction, and nobody takes them apart. What is not here, and why, stands in
//! the list `docs/conformance/boomerang.md`.
//!
//! # References
//!
//! The specification draft of 1999, the framework drafts of 1999 and 2000, and "Performance analysis of the signalling
//! protocols RSVP and Boomerang" (Budapest, 2001). Instruction counts: `cargo bench -p earmark-boomerang`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
mod aggregate;
mod api;
mod config;
mod counters;
mod credential;
mod engine;
mod initiator;
mod instance;
mod limits;
mod lock;
mod lookup;
mod message;
mod multicast;
mod offload;
mod participation;
mod responder;
mod route;
mod state;
mod store;
mod transit;
mod view;

pub use api::*;
pub use config::{Account, AggregateRule, Config, Limits, Secret};
pub use counters::{Counters, DropReason, RefusalReason};
pub use instance::Boomerang;
pub use state::TimerKind;
pub use view::{HalfView, LoopView, SessionView};

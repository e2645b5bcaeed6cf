//! Boomerang without I/O: one loop of one message reserves both directions of a flow.
//!
//! # Protocol
//!
//! An *initiating node*, a sender, a receiver or a router between them, puts its request into a ping to the far end:
//! a classifier and a mask for the packets, and two rates. Each *Boomerang node* on the path of the ping reserves the
//! forward rate on the link through which it leaves. The far end answers the ping like any other; it need not support
//! Boomerang. Each node on the way back, which may be another path, reserves the reverse rate on the link through
//! which the reply leaves. A node that cannot reserve writes a NACK and its available rate into the message, and
//! forwards it; behind it the message only collects the available rates. When the message is back, the initiating
//! node knows the result.
//!
//! # State
//!
//! A node keeps a session for each flow, with a half for each pass that has come by. It never originates messages in
//! transit, and never relates the two passes to each other. The initiating node repeats its message every interval,
//! give or take half of it; a node that has not seen one for three intervals removes the state. A message with both
//! rates zero releases a session at once.
//!
//! A refresh costs a lookup and a store: no route lookup unless routes have changed, no timer operation, no
//! allocation, and the message leaves unchanged. Nothing ever walks all sessions.
//!
//! Sessions are found by (mask, classifier under the mask): a tuple space, in which exact sessions and wide ones are
//! found alike. There are few masks, and their number is limited.
//!
//! # Odd cases
//!
//! - **A refused increase** leaves the old grant, and refreshes it as long as the initiating node asks.
//! - **A route change**: the next message releases the bandwidth on the old link and requests it on the new one.
//! - **Another initiating node** asks for a flow that has one already: refused without an offer.
//! - **Traffic control refuses** what the ledger granted: the next message of the session is refused.
//! - **An invalid mask**, or one that traffic control cannot match packets by: refused in the message.
//! - **A malformed message** is forwarded unchanged, because it may be an ordinary ping; from an access interface within the share of
//!   requests.
//! - **Groups**: see [`multicast`]. **Locks**: see [`lock`]. **Aggregates**: see [`aggregate`]. **Kernel offload**:
//!   see [`offload`].
//!
//! # Scope and limits
//!
//! IPv4 and IPv6; bitrates and lists of downgrades. IntServ bodies and DS-marker messages have no published layout
//! and are forwarded unchanged. Aggregates exist in the forward direction, and no node de-aggregates.
//! `docs/conformance/boomerang.md` lists what is missing, and why.
//!
//! # References
//!
//! The specification draft of 1999, the framework drafts of 1999 and 2000, and the performance analysis of 2001, all in
//! `docs/boomerang.md`. Instruction counts: `cargo bench -p earmark-boomerang`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod admission;
mod aggregate;
mod aggregates;
mod api;
mod arrival;
mod config;
mod context;
mod counters;
pub mod credential;
mod engine;
mod initiator;
mod instance;
mod limits;
mod lock;
mod lookup;
mod loops;
mod message;
mod multicast;
mod offload;
mod origin;
mod participation;
mod reserve;
mod responder;
mod route;
mod selector;
mod state;
mod store;
mod tokens;
mod transit;
mod view;

pub use api::*;
pub use config::{AggregateRule, Config, Limits};
pub use counters::{Counters, DropReason, RefusalReason};
pub use instance::Boomerang;
pub use selector::{Direction, Selector};
pub use state::TimerKind;
pub use view::{HalfView, LoopView, SessionView};

/// Number of this engine in the ledger.
pub const ID: earmark_core::admission::Protocol = earmark_core::admission::Protocol::new(3);

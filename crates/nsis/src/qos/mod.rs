//! QoS NSLP: reserves bandwidth along the path of a flow, hop by hop, on top of GIST (RFC 5974, with RFC 5975).
//!
//! A RESERVE travels from the QNI to the QNR. Each node on the path admits the flow to its outgoing link, against the
//! ledger that all protocols share, and sends a RESERVE of its own to the next node. The QNI is the data sender, or the
//! receiver after a QUERY of the sender: then RESERVEs travel upstream, and reserve for the same packets.
//!
//! A [`Session`](state) is soft state. The peer towards the QNI refreshes it, and it refreshes the peer towards the
//! QNR, independently of each other. Refreshes omit unchanged objects, and can cover many sessions. A RESERVE with an
//! RII gets a RESPONSE from the end of the path. Sequence numbers order the messages, and an epoch shows that a
//! neighbor has restarted.
//!
//! | file | contents |
//! |---|---|
//! | `reserve` | RESERVE: new, refreshed, changed |
//! | `forward` | a RESERVE to the next node, or back as a response or a refusal |
//! | `tear`, `release` | end of sessions and of those that depend on them, and of what applications have |
//! | `summary` | many sessions in one message |
//! | `query`, `response`, `notify` | the other three messages |
//! | `refresh` | timers |
//! | `oversize` | messages that exceed a datagram |
//! | `route_change` | route changes |
//! | `sharing` | flows that share the reservation of a session |
//! | `binding` | messages that wait for each other |
//! | `path_extent` | part of the path that a reservation covers |
//! | `aggregate` | many flows across a domain in one session |
//! | `reload` | new settings |
//! | `admission`, `policy` | claims, and policy rules |
//! | `rmf`, `qspec` | the meaning of a QSPEC for a link, and QSPECs that this node writes |
//! | `initiator`, `own_queries`, `responder` | applications of this node: QNI, QUERYs, QNR |
//! | `ended_requests` | requests to receivers that have ended without a reservation |
//! | `request`, `outcome` | their requests, and the results |
//! | `origin` | who may touch a session |
//! | `limits` | limits of sessions and of changes |
//! | `completion` | QSPECs of other implementations without the maximum packet size |
//! | `engine` | dispatch of commands, and of the calls of GIST |
//!
//! # What the standard leaves open
//!
//! - If a new reservation is refused further along the path, the nodes before release it at once (RFC 5975 section
//!   4.2.3). A refused change leaves all nodes as they are, and the QNI requests the old reservation again.
//! - Refreshes are reduced after a RESPONSE, or after two full RESERVEs without an error.
//! - A preempted node keeps the protocol state, drops refreshes, and waits for the decision of the QNI.
//! - An old branch is torn down even if the response is "refresh successful"; the sequence number protects the new one.
//! - A node that cannot take part (no reservable outgoing link) does not become a peer: its neighbors see the gap and
//!   set BREAK.
//! - Errors always get a response, because GIST has verified the peer; errors in tears never do.

mod addressing;
mod admission;
mod aggregate;
mod aggregate_state;
mod api;
mod binding;
mod binding_state;
mod completion;
mod config;
mod counters;
mod dependents;
mod ended_requests;
mod engine;
mod flow;
mod forward;
mod initiator;
mod instance;
mod limits;
mod notify;
mod origin;
mod outcome;
mod oversize;
mod own_queries;
mod path_extent;
mod pending_tear;
mod policy;
mod qspec;
mod query;
mod receive;
mod received_reserve;
mod refresh;
mod release;
mod reload;
mod request;
mod reserve;
mod responder;
mod response;
mod rmf;
mod role;
mod route_change;
mod send;
mod session_auth;
mod sharing;
mod state;
mod store;
mod stored_reserve;
mod summary;
mod summary_lists;
mod tear;
#[cfg(test)]
mod tests;
mod timeouts;
mod view;
mod wait;

pub use aggregate_state::AggregateView;
pub use api::{
    Application, Change, Command, Event, Listen, OnRefusal, Rejection, Request, RequestedQos,
    Scope, Source,
};
pub use config::{AggregateRule, Config, Limits, Rule};
pub use counters::{Counters, DropReason};
pub use instance::QosNslp;
pub use view::SessionView;

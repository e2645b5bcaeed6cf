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
//! | `tear` | end of sessions, and of those that depend on them |
//! | `summary` | many sessions in one message |
//! | `query`, `response`, `notify` | the other three messages |
//! | `refresh` | timers |
//! | `route` | route changes |
//! | `binding` | messages that wait for each other |
//! | `path_extent` | part of the path that a reservation covers |
//! | `aggregate` | many flows across a domain in one session |
//! | `reload` | new settings |
//! | `admission`, `policy`, `rmf` | claims, policy rules, and QSPECs |
//! | `application`, `own_queries`, `listeners`, `request` | applications of this node: QNI, QUERYs, QNR, their requests |
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

mod admission;
mod aggregate;
mod api;
mod application;
mod binding;
mod config;
mod counters;
mod forward;
mod listeners;
mod notify;
mod own_queries;
mod path_extent;
mod policy;
mod query;
mod receive;
mod refresh;
mod reload;
mod request;
mod reserve;
mod response;
mod rmf;
mod route;
mod send;
mod state;
mod store;
mod summary;
mod tear;
#[cfg(test)]
mod tests;
mod view;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;
use earmark_core::timer::TimingWheel;
use earmark_wire::gist::SessionId;

pub use aggregate::AggregateView;
use aggregate::Aggregates;
pub use api::{
    Application, Change, Command, Event, Listen, OnRefusal, Rejection, Request, RequestedQos,
    Scope, Source,
};
use application::Role;
use binding::Bindings;
pub use config::{AggregateRule, Config, Limits, Rule};
pub use counters::{Counters, DropReason};
use own_queries::Wait;
use policy::Policy;
use store::Store;
use summary::{PendingTear, SummaryLists};
pub use view::SessionView;

use crate::session::SessionIds;

/// QoS NSLP on one node.
#[derive(Debug)]
pub struct QosNslp {
    config: Config,
    store: Store,
    /// Applications of this node, in order.
    applications: BTreeMap<Application, Role>,
    /// Applications with a QUERY, by session.
    own_queries_by_session: BTreeMap<SessionId, Application>,
    bindings: Bindings,
    /// Timers besides those of the sessions.
    waits: TimingWheel<Wait>,
    policy: Policy,
    aggregates: Aggregates,
    /// Rate limits of changes per peer.
    throttle: Throttle,
    counters: Counters,
    /// Distinguishes this run of the node from others (RFC 5974 section 5.3.1).
    epoch: u32,
    jitter: Stream,
    /// Source of RIIs.
    riis: Stream,
    /// Source of session identifiers.
    ids: SessionIds,
    /// Buffer for messages.
    scratch: Vec<u8>,
    lists: SummaryLists,
    /// Sessions that ended during this input.
    pending_tears: Vec<PendingTear>,
}

impl QosNslp {
    /// Creates QoS NSLP without state. It draws from the streams `nsis/qos/hash`, `nsis/qos/epoch`, `nsis/qos/jitter`
    /// and `nsis/qos/rii`, and session identifiers from [`SessionIds`].
    pub fn new(config: Config, random: &RandomStreams) -> QosNslp {
        QosNslp {
            store: Store::new(KeyedHash::draw(&mut random.stream("nsis/qos/hash"))),
            applications: BTreeMap::new(),
            own_queries_by_session: BTreeMap::new(),
            bindings: Bindings::default(),
            waits: TimingWheel::new(),
            policy: Policy::new(config.policy.clone()),
            aggregates: Aggregates::new(&config.aggregates),
            throttle: Throttle::default(),
            counters: Counters::default(),
            epoch: random.stream("nsis/qos/epoch").next_u64() as u32,
            jitter: random.stream("nsis/qos/jitter"),
            riis: random.stream("nsis/qos/rii"),
            ids: SessionIds::new(random, "qos"),
            scratch: Vec::new(),
            lists: SummaryLists::default(),
            pending_tears: Vec::new(),
            config,
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

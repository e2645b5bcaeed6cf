//! QoS NSLP: reserves bandwidth along the path of a flow, hop by hop, on top of GIST (RFC 5974, with RFC 5975).
//!
//! A RESERVE travels from the QNI to the QNR. Each node on the way admits the flow to the link that its packets leave by,
//! against the ledger that all protocols share, and sends a RESERVE of its own to the next node. The data sender may be
//! the QNI, or the receiver, after a QUERY of the sender has shown it the way: then RESERVEs go against the flow, and what
//! they reserve is the same.
//!
//! A [`Session`](state) is soft state. The peer towards the QNI refreshes it, and it refreshes the peer towards the QNR;
//! neither waits for the other. Refreshes leave out what has not changed, and can speak of many sessions at once. A RESERVE
//! with an RII is answered from the end by a RESPONSE, which says what became of it. Sequence numbers tell new from old,
//! and an epoch tells that a neighbour has started anew.
//!
//! | file | holds |
//! |---|---|
//! | `reserve` | RESERVE: new, refreshed, changed |
//! | `onward` | where it goes from there: on, or back as an answer or a refusal |
//! | `tear` | how sessions end, and those that depend on them |
//! | `summary` | many sessions in one message |
//! | `query`, `response`, `notify` | the other three messages |
//! | `refresh` | what is due |
//! | `route` | peers that change |
//! | `binding` | messages that wait for each other |
//! | `reach` | how far a reservation reaches, and who says so |
//! | `aggregate` | many flows across a domain in one session |
//! | `renewal` | other settings |
//! | `admission`, `policy`, `rmf` | claims, who may have them, and what a QSPEC asks for |
//! | `application`, `asking`, `listening`, `wish` | applications of this node: QNI, QUERYs, QNR, what they wish |
//!
//! # What the standard leaves open
//!
//! - A new reservation that is refused further on is given back at once by the nodes in front (RFC 5975 section 4.2.3); a
//!   change that is refused leaves all nodes as they are, and the QNI asks for what there was before.
//! - Refreshes are reduced once a RESPONSE has come, or a full RESERVE was sent twice without a complaint.
//! - A node that is preempted keeps the state of the protocol, drops refreshes, and waits for what the QNI decides.
//! - An old branch is torn down even if the answer says "refresh successful"; the sequence number protects the new one.
//! - Whoever cannot take part (no reservable link where the flow leaves) does not become a peer: the nodes around it see
//!   the gap and set BREAK.
//! - Errors are always answered, since GIST has made sure that the peer is there; those in tearing messages never.

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
    Application, Change, Command, Event, Listen, OnRefusal, Rejection, Request, ReservationRequest,
    Scope, Source,
};
use application::Role;
use binding::Bindings;
pub use config::{AggregateRule, Config, Limits, Rule};
pub use counters::{Counters, DropReason};
use own_queries::Wait;
use policy::Policy;
use store::Store;
use summary::{Lists, PendingTear};
pub use view::SessionView;

use crate::session::SessionIds;

/// QoS NSLP on one node.
#[derive(Debug)]
pub struct QosNslp {
    config: Config,
    store: Store,
    /// Of this node, in order.
    applications: BTreeMap<Application, Role>,
    /// Whose QUERY has the name of which session.
    questions: BTreeMap<SessionId, Application>,
    bindings: Bindings,
    /// What waits beside the sessions.
    waits: TimingWheel<Wait>,
    policy: Policy,
    aggregates: Aggregates,
    /// Changes that peers have asked for.
    throttle: Throttle,
    counters: Counters,
    /// Tells this run of the node from others (RFC 5974 section 5.3.1).
    epoch: u32,
    jitter: Stream,
    /// Names of requests.
    riis: Stream,
    /// Names of sessions.
    ids: SessionIds,
    /// Room to compose in.
    scratch: Vec<u8>,
    lists: Lists,
    /// What has ended in this turn.
    pending_tears: Vec<PendingTear>,
}

impl QosNslp {
    /// One without state. It draws from the streams `nsis/qos/hash`, `nsis/qos/epoch`, `nsis/qos/jitter` and
    /// `nsis/qos/rii`, and the names of its sessions from [`SessionIds`].
    pub fn new(config: Config, random: &RandomStreams) -> QosNslp {
        QosNslp {
            store: Store::new(KeyedHash::draw(&mut random.stream("nsis/qos/hash"))),
            applications: BTreeMap::new(),
            questions: BTreeMap::new(),
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
            lists: Lists::default(),
            pending_tears: Vec::new(),
            config,
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

//! One instance of QoS NSLP: its state and settings.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::Time;
use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;
use earmark_core::timer::TimingWheel;
use earmark_token::Tokens;
use earmark_wire::gist::SessionId;

use super::aggregate_state::Aggregates;
use super::api::Application;
use super::binding_state::Bindings;
use super::config::Config;
use super::counters::Counters;
use super::ended_requests::EndedRequests;
use super::pending_tear::PendingTear;
use super::policy::Policy;
use super::role::Role;
use super::state::Index;
use super::store::{Ended, Store};
use super::summary_lists::SummaryLists;
use super::wait::Wait;
use crate::session::SessionIds;

/// QoS NSLP on one node.
#[derive(Debug)]
pub struct QosNslp {
    pub(super) config: Config,
    pub(super) store: Store,
    /// Applications of this node, in order.
    pub(super) applications: BTreeMap<Application, Role>,
    /// Applications with a QUERY, by session.
    pub(super) own_queries_by_session: BTreeMap<SessionId, Application>,
    /// Requests to receivers that have ended.
    pub(super) ended_requests: EndedRequests,
    pub(super) bindings: Bindings,
    /// Timers besides those of the sessions.
    pub(super) waits: TimingWheel<Wait>,
    pub(super) policy: Policy,
    /// Tokens that prove the names of users, and the sessions that depend on them.
    pub(super) tokens: Tokens<Index>,
    pub(super) aggregates: Aggregates,
    /// Rate limits of changes per peer.
    pub(super) throttle: Throttle,
    pub(super) counters: Counters,
    /// Distinguishes this run of the node from others (RFC 5974 section 5.3.1).
    pub(super) epoch: u32,
    pub(super) jitter: Stream,
    /// Source of RIIs.
    pub(super) riis: Stream,
    /// Source of session identifiers.
    pub(super) ids: SessionIds,
    /// Buffer for messages.
    pub(super) scratch: Vec<u8>,
    pub(super) lists: SummaryLists,
    /// What has ended while sessions are bound to it, with the first slot that was not handled yet.
    pub(super) ended: BTreeMap<Ended, Index>,
    /// Sessions that ended during this input.
    pub(super) pending_tears: Vec<PendingTear>,
    /// Refresh period to which the one in force rises, if it does.
    pub(super) rising: Option<RisingPeriod>,
}

impl QosNslp {
    /// Creates QoS NSLP without state. It draws from the streams `nsis/qos/hash`, `nsis/qos/epoch`, `nsis/qos/jitter`
    /// and `nsis/qos/rii`, and session identifiers from [`SessionIds`].
    pub fn new(config: Config, random: &RandomStreams) -> QosNslp {
        QosNslp {
            store: Store::new(KeyedHash::draw(&mut random.stream("nsis/qos/hash"))),
            applications: BTreeMap::new(),
            own_queries_by_session: BTreeMap::new(),
            ended_requests: EndedRequests::default(),
            bindings: Bindings::default(),
            waits: TimingWheel::new(),
            policy: Policy::new(config.policy.clone()),
            tokens: Tokens::new(config.tokens.clone()),
            aggregates: Aggregates::new(&config.aggregates),
            throttle: Throttle::default(),
            counters: Counters::default(),
            epoch: random.stream("nsis/qos/epoch").next_u64() as u32,
            jitter: random.stream("nsis/qos/jitter"),
            riis: random.stream("nsis/qos/rii"),
            ids: SessionIds::new(random, "qos"),
            scratch: Vec::new(),
            lists: SummaryLists::default(),
            ended: BTreeMap::new(),
            pending_tears: Vec::new(),
            rising: None,
            config,
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// A refresh period that is longer than the one in force.
#[derive(Clone, Copy, Debug)]
pub(super) struct RisingPeriod {
    pub(super) wanted: Duration,
    /// When the period in force rises again.
    pub(super) next_at: Time,
}

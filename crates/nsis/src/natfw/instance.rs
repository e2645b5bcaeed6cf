//! One instance of NATFW NSLP.

use alloc::collections::{BTreeSet, VecDeque};

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;
use earmark_token::Tokens;

use super::binding::Bindings;
use super::config::Config;
use super::counters::Counters;
use super::deletion::Deletion;
use super::policy::Policy;
use super::state::Index;
use super::store::{Ended, Store};
use crate::session::SessionIds;

/// NATFW NSLP on one node.
#[derive(Debug)]
pub struct NatfwNslp {
    pub(super) config: Config,
    pub(super) store: Store,
    pub(super) bindings: Bindings,
    pub(super) policy: Policy,
    pub(super) tokens: Tokens<Index>,
    pub(super) throttle: Throttle,
    pub(super) ids: SessionIds,
    /// Numbers of first messages, and refresh intervals.
    pub(super) numbers: Stream,
    /// What has ended, whose dependent sessions end one after the other.
    pub(super) ended: BTreeSet<Ended>,
    /// Requests that delete several sessions, in their order.
    pub(super) deletions: VecDeque<Deletion>,
    pub(super) counters: Counters,
}

impl NatfwNslp {
    /// Creates an engine without sessions.
    pub fn new(config: Config, random: &RandomStreams) -> NatfwNslp {
        NatfwNslp {
            store: Store::new(KeyedHash::draw(&mut random.stream("natfw packets"))),
            bindings: Bindings::default(),
            policy: Policy::new(config.rules.clone()),
            tokens: Tokens::new(config.tokens.clone()),
            throttle: Throttle::default(),
            ids: SessionIds::new(random, "natfw"),
            numbers: random.stream("natfw numbers"),
            ended: BTreeSet::new(),
            deletions: VecDeque::new(),
            counters: Counters::default(),
            config,
        }
    }

    /// Replaces the settings that may change while the engine runs.
    pub(crate) fn reload(&mut self, new: Config) {
        self.policy.replace(new.rules.clone());
        self.tokens.reload(new.tokens.clone());
        self.config = self.config.renewed(new);
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the octets of the tables of sessions on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> usize {
        self.store.sessions.len()
    }

    /// Asserts that no index has an entry: nothing is left of any session.
    #[cfg(test)]
    pub(super) fn assert_empty(&self) {
        self.store.assert_empty();
        self.bindings.assert_empty();
        self.policy.assert_empty();
    }
}

//! Limits of routing states: of this node, with one peer, and through one interface.

use crate::behind::share_of_interface;

use super::Gist;
use super::state::{HalfRef, Index, NONE};

impl Gist {
    /// Returns whether a peer has reached its limit of routing states.
    pub(super) fn exceeds_peer_limit(&self, peer: Index) -> bool {
        let limit = self.config.limits.states_per_peer;
        self.peers.get(peer).is_some_and(|peer| peer.uses >= limit)
    }

    /// Returns whether a querying peer has reached its limit of routing states, or its interface has: nobody chooses
    /// the interface by a claim.
    pub(super) fn exceeds_querier_limit(&self, peer: Index) -> bool {
        let limit = share_of_interface(self.config.limits.states);
        let interface = self.peers.get(peer).map(|peer| peer.interface);
        self.exceeds_peer_limit(peer)
            || interface.is_some_and(|interface| self.peers.interface(interface).states >= limit)
    }

    /// Counts a half whose peer has queried this node for the interface of the peer.
    pub(super) fn count_querier(&mut self, at: &HalfRef) {
        let half = self.store.half_mut(at.half_id());
        let Some(interface) = self.peers.get(half.peer).map(|peer| peer.interface) else { return };
        half.of_querier = true;
        self.peers.interface_mut(interface).states += 1;
    }

    /// Returns whether a new routing state would exceed the limit.
    pub(super) fn is_full(&self, at: &HalfRef) -> bool {
        at.index == NONE && self.store.states.len() >= self.config.limits.states as usize
    }
}

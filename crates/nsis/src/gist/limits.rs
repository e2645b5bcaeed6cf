//! Limits of routing states: of this node, and with one peer.

use super::Gist;
use super::state::{HalfRef, Index, NONE};

impl Gist {
    /// Returns whether a peer has reached its limit of routing states.
    pub(super) fn exceeds_peer_limit(&self, peer: Index) -> bool {
        let limit = self.config.limits.states_per_peer;
        self.peers.get(peer).is_some_and(|peer| peer.uses >= limit)
    }

    /// Returns whether a new routing state would exceed the limit.
    pub(super) fn is_full(&self, at: &HalfRef) -> bool {
        at.index == NONE && self.store.states.len() >= self.config.limits.states as usize
    }
}

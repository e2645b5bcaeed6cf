//! Limits of routing states: of this node, with one peer, and through one interface.

use earmark_core::shares::Bounds;

use super::Gist;
use super::state::{HalfRef, Index, NONE};
use crate::input_context::InputContext;

impl Gist {
    /// Returns whether a peer has reached its limit of routing states.
    pub(super) fn exceeds_peer_limit(&self, peer: Index) -> bool {
        let limit = self.config.limits.states_per_peer;
        self.peers.get(peer).is_some_and(|peer| peer.uses >= limit)
    }

    /// Returns whether a querying peer has reached its limit of routing states, or its interface has: nobody chooses
    /// the interface by a claim.
    pub(super) fn exceeds_querier_limit(&mut self, cx: &InputContext<'_, '_>, peer: Index) -> bool {
        let Some(interface) = self.peers.get(peer).map(|peer| peer.interface) else { return false };
        let bounds = self.bounds(cx, self.config.limits.states);
        self.exceeds_peer_limit(peer) || !self.peers.queried.admits(interface, bounds)
    }

    /// Returns the bounds of interfaces in a table with this limit.
    pub(super) fn bounds(&self, cx: &InputContext<'_, '_>, limit: u32) -> Bounds {
        let percent = self.config.limits.share_of_interface;
        Bounds { limit, percent, interfaces: cx.context.interfaces.count() }
    }

    /// Counts a half whose peer has queried this node for the interface of the peer.
    pub(super) fn count_querier(&mut self, at: &HalfRef) {
        let half = self.store.half(at.half_id());
        debug_assert!(half.has_querier(), "only a Query or its Confirm names a querying node");
        let Some(interface) = self.peers.get(half.peer).map(|peer| peer.interface) else { return };
        self.peers.queried.add(interface);
    }

    /// Returns whether a new routing state would exceed the limit.
    pub(super) fn is_full(&self, at: &HalfRef) -> bool {
        at.index == NONE && self.store.states.len() >= self.config.limits.states as usize
    }
}

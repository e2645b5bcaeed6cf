//! Limits: the sessions of this node, of each peer and through each interface, and the changes per second.

use earmark_core::Time;
use earmark_core::shares::{Bounds, OWN};
use earmark_wire::natfw_nslp::Outcome;

use super::instance::NatfwNslp;
use super::outcome::FULL;
use crate::nslp::{Channel, HandlerContext, Origin, PeerHandle, Received};

/// Rate limits of peers have other buckets than those of the first interfaces.
const FIRST_PEER_KEY: u64 = 1_024;

impl NatfwNslp {
    /// Checks the limits for a new session of another node.
    ///
    /// # Errors
    /// The outcome for the peer.
    pub(super) fn check_room(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        peer: PeerHandle,
    ) -> Result<(), Outcome> {
        let limits = self.config.limits;
        let bounds = self.bounds(cx);
        let full = !self.store.shares.admits(message.interface, bounds)
            || self.store.sessions_from(peer) >= limits.sessions_per_peer;
        if full || !self.may_change(cx.now, &message.origin) {
            return Err(FULL);
        }
        Ok(())
    }

    /// Returns whether this node may ask for another session itself.
    pub(super) fn has_own_room(&mut self, cx: &HandlerContext<'_, '_>) -> bool {
        let bounds = self.bounds(cx);
        self.store.shares.admits(OWN, bounds)
    }

    /// Returns whether the sender of a message may ask for another change.
    pub(super) fn may_change(&mut self, now: Time, origin: &Origin) -> bool {
        // One node can have many addresses behind an interface, so in datagrams the interface counts.
        let key = match (origin.channel, origin.peer) {
            (Channel::Datagram { interface, .. }, _) => u64::from(interface.0),
            (Channel::Association { .. }, peer) => {
                peer.map_or(0, |peer| FIRST_PEER_KEY + u64::from(peer.slot))
            }
        };
        self.throttle.admits(now, key, self.config.limits.changes_per_second)
    }

    fn bounds(&self, cx: &HandlerContext<'_, '_>) -> Bounds {
        Bounds {
            limit: self.config.limits.sessions,
            percent: self.config.limits.share_of_interface,
            interfaces: cx.context.interfaces.count(),
        }
    }
}

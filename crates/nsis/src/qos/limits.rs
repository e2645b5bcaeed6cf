//! Limits: the sessions of this node, of each peer and through each interface, and the changes per second.

use earmark_core::Time;
use earmark_core::shares::Bounds;
use earmark_wire::gist::Direction;
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use super::QosNslp;
use super::admission::Refused;
use super::received_reserve::ReceivedReserve;
use crate::nslp::{Channel, HandlerContext, Origin, Received};
use crate::route;

/// Rate limits of peers have other buckets than those of the first interfaces.
const FIRST_PEER_KEY: u64 = 1_024;
/// Messages by which a request gets to a node that is not known yet: Query, Confirm, and the request itself.
const MESSAGES: u32 = 3;

impl QosNslp {
    /// Checks the limits for a new session; returns its QSPEC.
    pub(super) fn check_new<'a>(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'a>,
    ) -> Result<&'a [u8], Refused> {
        let Some(qspec) = received.reserve.qspec else {
            return Err(Refused::of(Outcome::TransientFailure(
                TransientFailure::FullQspecRequired,
            )));
        };
        let limits = self.config.limits;
        let interface = received.message.interface;
        let bounds = Bounds {
            limit: limits.sessions,
            percent: limits.share_of_interface,
            interfaces: cx.context.interfaces.count(),
        };
        let full = !self.store.shares.admits(interface, bounds)
            || self.store.sessions_from(received.peer) >= limits.sessions_per_peer;
        if full
            || !self.may_change(cx.now, &received.message.origin)
            || !may_forward(cx, received.message)
        {
            return Err(Refused::of(Outcome::TransientFailure(
                TransientFailure::ReservationFailure,
            )));
        }
        Ok(qspec)
    }

    /// Returns whether the sender of a message may request another change.
    pub(super) fn may_change(&mut self, now: Time, origin: &Origin) -> bool {
        // One node can have many addresses behind an interface, so in datagrams the interface counts. GIST chooses the
        // handles, so no peer can choose to share the bucket of another one.
        let key = match (origin.channel, origin.peer) {
            (Channel::Datagram { interface, .. }, _) => u64::from(interface.0),
            (Channel::Association { .. }, peer) => {
                peer.map_or(0, |peer| FIRST_PEER_KEY + u64::from(peer.slot))
            }
        };
        self.throttle.admits(now, key, self.config.limits.changes_per_second)
    }
}

/// Returns whether a message that asks for something new may be forwarded: those of one access interface share half of the
/// signalling class of a link.
pub(super) fn may_forward(cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) -> bool {
    let end = message.end_ahead();
    if cx.context.is_core(message.interface) || cx.context.interfaces.is_local(end) {
        return true;
    }
    let hop = match message.mri.direction() {
        Direction::Downstream => route::hop(cx.context, &message.mri),
        Direction::Upstream => cx.context.routes.lookup(end),
    };
    let Some(hop) = hop else { return true };
    cx.context.may_forward_request(cx.now, (message.interface, hop.interface), MESSAGES)
}

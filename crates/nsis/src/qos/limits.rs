//! Limits: the sessions of this node and of each peer, and the changes of a peer per second.

use earmark_core::Time;
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use super::QosNslp;
use super::admission::Refused;
use super::received_reserve::ReceivedReserve;
use crate::nslp::{HandlerContext, PeerHandle};

impl QosNslp {
    /// Checks the limits for a new session; returns its QSPEC.
    pub(super) fn check_new<'a>(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        received: &ReceivedReserve<'a>,
    ) -> Result<&'a [u8], Refused> {
        let Some(qspec) = received.reserve.qspec else {
            return Err(Refused::of(Outcome::TransientFailure(
                TransientFailure::FullQspecRequired,
            )));
        };
        let limits = self.config.limits;
        let full = self.store.sessions.len() >= limits.sessions as usize
            || self.store.sessions_from(received.peer) >= limits.sessions_per_peer;
        if full || !self.may_change(cx.now, received.peer) {
            return Err(Refused::of(Outcome::TransientFailure(
                TransientFailure::ReservationFailure,
            )));
        }
        Ok(qspec)
    }

    /// Returns whether a peer may request another change.
    pub(super) fn may_change(&mut self, now: Time, peer: PeerHandle) -> bool {
        // GIST chooses the handles, so no peer can choose to share the bucket of another one.
        self.throttle.admits(now, peer.slot.into(), self.config.limits.changes_per_second)
    }
}

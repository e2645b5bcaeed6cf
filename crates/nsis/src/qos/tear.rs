//! End of sessions by a tear or by expiry (RFC 5974 section 5.4.1).

use core::time::Duration;

use earmark_core::Time;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::{Answers, InfoSpec, Outcome, Rsn};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::Change;
use super::counters::DropReason;
use super::received_reserve::{Order, ReceivedReserve, order};
use super::send::{ReserveOptions, release_routing_state};
use super::state::{Flags, Index, OldBranch, PendingRequest, Session};
use crate::nslp::HandlerContext;

/// Whether the end of the path confirms a tear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confirmation {
    /// The node that has begun the tear wants no confirmation (section 5.4.1, case 1).
    None,
    /// The confirmation has this RII (case 2).
    Requested(u32),
    /// This node begins the tear, and asks for a confirmation if it may be lost.
    IfUnreliable,
}

impl QosNslp {
    /// Handles a tear by the peer of a session.
    #[inline(never)] // a refresh needs fewer registers without it
    pub(super) fn tear(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        let ReceivedReserve { message, reserve, .. } = *received;
        if order(self.store.session(index).rsn, reserve.rsn) == Order::Older {
            return self.ignore(cx, message, DropReason::OldRsn);
        }
        if let Some(summary) = reserve.summary {
            self.tear_summary(cx, received, &summary);
        }
        if !self.store.session(index).sharing().is_empty() {
            return self.tear_flow(cx, received, index);
        }
        self.counters.released += 1;
        self.store.session_mut(index).rsn = reserve.rsn;
        if self.store.session(index).flags.has(Flags::ENDS_HERE)
            && let Some(rii) = reserve.rii
        {
            let info = InfoSpec::new(Outcome::Success(Success::Teardown));
            self.respond(cx, message, Some(Answers::Rii(rii)), info, None);
        }
        if reserve.rii.is_some()
            && let Some(extra) = &mut self.store.session_mut(index).extra
        {
            // The node that has drawn the RII repeats the tear (section 5.3.2).
            extra.request = None;
        }
        let confirmation = reserve.rii.map_or(Confirmation::None, Confirmation::Requested);
        self.end(cx, index, Change::Released, confirmation);
    }

    /// Handles a tear for an unknown session, which has nothing to remove (section 5.4.1). If it requests a response, the one
    /// to the first tear may be lost.
    #[cold]
    pub(super) fn tear_unknown(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
    ) {
        self.ignore(cx, received.message, DropReason::NoSession);
        if let Some(rii) = received.reserve.rii {
            let info = InfoSpec::new(Outcome::Success(Success::Teardown));
            self.respond(cx, received.message, Some(Answers::Rii(rii)), info, None);
        }
    }

    /// Ends a session here and further along the path. With an RII its state stays until the response, as long as a tear
    /// may be repeated, and one refresh period at least.
    pub(super) fn end(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        change: Change,
        confirmation: Confirmation,
    ) {
        self.release_claim(cx, index, change);
        mark(Checkpoint::ReservationManagement);
        let session = self.store.session(index);
        let (id, arrival) = (session.id, (!session.is_initiator()).then_some(session.arrival));
        self.note_end(cx.now, id, arrival);
        if self.store.session(index).back.is_some() {
            self.report_gone(cx, index, change);
        }
        let flags = self.store.session(index).flags;
        if flags.has(Flags::ENDS_HERE) {
            return self.forget(cx, index);
        }
        if flags.has(Flags::LEFT) && change == Change::Expired {
            self.tear_old_branch(cx, index);
            return self.forget(cx, index);
        }
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        let is_asked = matches!(confirmation, Confirmation::Requested(_));
        if !is_asked && self.can_join_summary_tear(index) {
            return self.queue_summary_tear(index);
        }
        let rii = match confirmation {
            Confirmation::None => None,
            Confirmation::Requested(rii) => Some(rii),
            Confirmation::IfUnreliable => {
                self.leave_receiver(cx, index);
                self.tear_confirmation(cx.now, index)
            }
        };
        self.send_reserve(
            cx,
            index,
            &ReserveOptions { tear: true, rii, ..ReserveOptions::default() },
        );
        if !self.store.session(index).sharing().is_empty() {
            self.tear_all_further(cx, index);
        }
        mark(Checkpoint::Forward);
        if let Some(branch) = self.store.session(index).extra.as_ref().and_then(|e| e.old_branch) {
            self.tear_branch(cx, index, &branch);
        }
        if rii.is_none() {
            self.forget(cx, index);
            return mark(Checkpoint::TearSession);
        }
        let expires_at = cx.now + self.config.refresh.max(self.config.give_up);
        let session = self.store.session_mut(index);
        session.flags.set(Flags::TORN, true);
        (session.expires_at, session.refresh_at) = (expires_at, Time::MAX);
        self.rearm(index);
    }

    /// Releases the routing state towards the receiver of a receiver-initiated session that ends without a request of the
    /// receiver. While the tear waits for its response, GIST would refresh that state by Queries. If the path has left this
    /// node, they would make it the next node of its former neighbor again (section 5.2.5.4).
    pub(super) fn leave_receiver(&self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        if session.direction() == Direction::Upstream && !session.is_initiator() {
            let Addressing { session, mri, nslpid, .. } = self.towards_qni(index, None);
            cx.for_nslpid(nslpid, |cx| cx.set_state_lifetime(mri, session, Duration::ZERO));
        }
    }

    /// Requests a response to the tear of a session, and returns its RII; `None` if the tear cannot be lost, or if there is no
    /// next node.
    fn tear_confirmation(&mut self, now: Time, index: Index) -> Option<u32> {
        let session = self.store.session(index);
        let is_lossless = session.attributes.reliable || session.attributes.secure;
        if is_lossless || session.is_last() || session.on.is_none() {
            return None;
        }
        Some(self.request_confirmation(now, index))
    }

    /// Requests a response to the tear of a session, and returns its RII. In datagrams the tear is repeated until then (RFC
    /// 5974 section 5.2.4 advises against that; but otherwise nodes further along keep a reservation for three minutes).
    pub(super) fn request_confirmation(&mut self, now: Time, index: Index) -> u32 {
        let rii = self.draw_rii();
        let (at, wait_ms, until) = self.first_retry(now);
        let session = self.store.session_mut(index);
        let is_lossless = session.attributes.reliable || session.attributes.secure;
        let at = if is_lossless { Time::MAX } else { at };
        session.extra().request = Some(PendingRequest { rii, at, wait_ms, until });
        rii
    }

    /// Sends a tear to an old next node, explicitly routed, with the number before the current one: if it is also the
    /// new next node, it ignores the tear as old (section 5.2.5.2).
    pub(super) fn tear_branch(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        branch: &OldBranch,
    ) {
        let mri = Mri::PathCoupled(branch.mri);
        let addressing = Addressing { mri, ..self.towards_qnr(index, Some(branch.peer)) };
        let session = self.store.session(index);
        let rsn = Rsn { number: session.own_rsn.wrapping_sub(1), epoch: self.epoch };
        self.write_reserve(
            cx,
            index,
            addressing,
            rsn,
            &ReserveOptions { tear: true, ..ReserveOptions::default() },
        );
    }

    /// Removes a session without resources.
    pub(super) fn forget(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let &Session { id, mri, flags, claim, .. } = self.store.session(index);
        debug_assert_eq!(claim, None, "resources are released before");
        self.set_verified(index, None);
        if !self.store.session(index).sharing().is_empty() {
            self.release_further(cx, index);
        }
        self.store.remove(index);
        let on = self.nslpid_of_level(flags.has(Flags::IN_AGGREGATE));
        let back = self.nslpid_of_level(flags.has(Flags::FROM_AGGREGATE));
        release_routing_state(cx, id, Mri::PathCoupled(mri), (on, back));
    }
}

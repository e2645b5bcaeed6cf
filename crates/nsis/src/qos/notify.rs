//! NOTIFY: asynchronous reports (RFC 5974 section 5.4.4). They travel to the QNI, which decides.

use earmark_wire::qos_nslp::iana::{Informational, TransientFailure};
use earmark_wire::qos_nslp::{Extra as Objects, Message, Notify, Outcome};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::{Event, OnRefusal, Source};
use super::counters::DropReason;
use super::oversize::NO_REVERSE_PATH;
use super::response::is_error;
use super::send::info_here;
use super::state::{Flags, Index};
use crate::nslp::{HandlerContext, PeerHandle, Received, Validity};

impl QosNslp {
    /// Handles a NOTIFY.
    #[inline(never)] // the receipt of other messages needs fewer registers without it
    pub(super) fn receive_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        let Some(index) = self.store.find(message.session) else {
            return self.receive_query_notify(cx, message, notify);
        };
        let session = self.store.session(index);
        if message.mri.direction() == session.direction() {
            // The receiver asks the sender of the QUERY for associations.
            if notify.info.outcome == NO_REVERSE_PATH && session.back == message.origin.peer {
                return self.receive_query_notify(cx, message, notify);
            }
            return self.ignore(cx, message, DropReason::Unasked);
        }
        let checked = self.check_answer(message, index);
        if let Err(reason) = checked.and_then(|()| self.check_on_path(cx.now, message, index)) {
            return self.ignore(cx, message, reason);
        }
        let outcome = notify.info.outcome;
        if outcome == Outcome::Informational(Informational::RouteChange) {
            // The next node has a new previous hop: this node must query for its next node again (section 5.2.5.3). The old
            // peer itself, which is told by explicit routing, does so with its next refresh only: a Query now would make it
            // the latest peer of a node that the flow reaches another way (section 5.2.5.4), and that node would refuse
            // what comes from the new one. Nodes before it, where the paths part, query at once.
            let Addressing { mri, nslpid, .. } = self.towards_qnr(index, None);
            let is_urgent = !message.explicitly_routed;
            let session = self.store.session_mut(index);
            // Of several flows each has a path of its own.
            if message.explicitly_routed && !session.is_initiator() && session.sharing().is_empty()
            {
                session.flags.set(Flags::LEFT, true);
                session.flags.set(Flags::CONFIRMED, false);
            }
            cx.for_nslpid(nslpid, |cx| {
                cx.invalidate_routing_state(mri, Validity::Tentative, is_urgent);
            });
        }
        if self.store.session(index).is_initiator() {
            let source = notify.info.source.and_then(Source::of);
            return self.handle_loss(cx, index, outcome, source);
        }
        let addressing = self.towards_qni(index, None).with_hops_of(message);
        let flags = self.flags_of(message.session);
        self.send(cx, addressing, &Message::Notify(Notify { flags, ..*notify }));
    }

    /// Handles a NOTIFY about a QUERY, which has no state: forwards it to the sender of the QUERY.
    fn receive_query_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        if !self.is_own_end(cx, message) {
            return self.send(cx, Addressing::forwarding(message), &Message::Notify(*notify));
        }
        if !self.receive_invitation_notify(cx, message, notify) {
            self.ignore(cx, message, DropReason::Unasked);
        }
    }

    /// Notifies the QNI of a session of a change at this node.
    pub(super) fn notify_qni(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        outcome: Outcome,
    ) {
        if self.store.session(index).is_initiator() {
            return self.handle_loss(cx, index, outcome, None);
        }
        self.send_failure(cx, index, outcome, None);
    }

    /// Sends a NOTIFY towards the QNI; with `to`, explicitly routed to the peer.
    fn send_failure(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        outcome: Outcome,
        to: Option<PeerHandle>,
    ) {
        let session = self.store.session(index);
        let addressing = self.towards_qni(index, to);
        let info = info_here(cx, session.interface, &session.towards_qni(), outcome);
        let flags = self.flags_of(session.id);
        let notify = Notify { flags, info, qspec: None, extra: Objects::NONE };
        self.send(cx, addressing, &Message::Notify(notify));
    }

    /// Counts a refresh that cannot be sent towards the sender of the flow. Only the sender can show the way there; when the
    /// nodes on the way have let the reservation expire, it is of no use, and the QNI is told.
    #[cold]
    pub(super) fn count_lost_refresh(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let gap = self.config.refresh.saturating_mul(3);
        let most = self.config.lost_refreshes.max(1);
        let session = self.store.session_mut(index);
        session.flags.set(Flags::CONFIRMED, false);
        let extra = session.extra();
        let (last, earlier) = extra.lost_refreshes;
        let count = if cx.now <= last + gap { earlier.saturating_add(1) } else { 1 };
        extra.lost_refreshes = (cx.now, count);
        if count < most {
            return;
        }
        extra.lost_refreshes = (cx.now, 0);
        let session = self.store.session(index);
        if session.is_initiator() {
            return self.handle_loss(cx, index, NO_REVERSE_PATH, None);
        }
        // If the path has left this node, the peer has another next node, and must not take this one for it.
        let back = session.back;
        self.send_failure(cx, index, NO_REVERSE_PATH, back);
        self.leave_receiver(cx, index);
    }

    /// Handles a NOTIFY at the QNI of a session.
    fn handle_loss(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        outcome: Outcome,
        source: Option<Source>,
    ) {
        let truncated = Outcome::TransientFailure(TransientFailure::PathTruncated);
        if !is_error(outcome) {
            return;
        }
        let session = self.store.session(index);
        if session.is_aggregate() && outcome != truncated {
            return self.handle_aggregate_loss(cx, index);
        }
        let Some(application) = session.application() else { return };
        cx.report(Event::Lost { application, outcome, source });
        let on_refusal = session.extra.as_ref().map(|extra| extra.on_refusal);
        // A silent neighbor may return, or GIST finds another path.
        if outcome == truncated {
            return;
        }
        match on_refusal {
            Some(OnRefusal::Retry) => self.retry_later(cx, index),
            _ => self.release(cx, index),
        }
    }
}

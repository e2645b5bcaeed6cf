//! RESPONSE: the result of a RESERVE or a QUERY (RFC 5974 section 5.4.3).
//!
//! With an RII it travels back to the node that has drawn the RII. With an RSN it is between two neighbors; an error is
//! passed back by each of them, under the RSN of its own peer.

use earmark_wire::qos_nslp::iana::{ErrorClass, Informational, Success, TransientFailure};
use earmark_wire::qos_nslp::{Answers, GenericFlags, Message, Outcome, Response, Rsn};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::Change;
use super::counters::DropReason;
use super::send::ReserveOptions;
use super::state::{Flags, Index};
use crate::nslp::{HandlerContext, Received};

/// Returns whether an outcome is a failure.
pub(super) fn is_error(outcome: Outcome) -> bool {
    !matches!(outcome.class(), ErrorClass::Informational | ErrorClass::Success)
}

impl QosNslp {
    /// Handles a RESPONSE.
    pub(super) fn receive_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
    ) {
        if let Some(Answers::Rii(rii)) = response.answers
            && self.receive_query_response(cx, message, rii, response)
        {
            return;
        }
        let Some(index) = self.store.find(message.session) else {
            return self.forward_response(cx, message, response);
        };
        if message.mri.direction() == self.store.session(index).direction() {
            // The direction of RESERVEs: a response to a QUERY of the other end.
            return self.forward_response(cx, message, response);
        }
        let checked = self.check_answer(message, index);
        if let Err(reason) = checked.and_then(|()| self.check_on_path(cx.now, message, index)) {
            return self.ignore(cx, message, reason);
        }
        if self.store.session(index).flags.has(Flags::TORN) {
            return self.receive_response_to_tear(cx, message, response, index);
        }
        if response.info.outcome == Outcome::Success(Success::Teardown) {
            return self.ignore(cx, message, DropReason::Unasked);
        }
        let session = self.store.session_mut(index);
        session.flags.set(Flags::BREAK, session.flags.has(Flags::BREAK) || response.flags.breaks);
        match response.answers {
            Some(Answers::Rii(rii)) => {
                self.receive_response_to_rii(cx, message, response, index, rii);
            }
            Some(Answers::Rsn(rsn)) => {
                self.receive_response_to_rsn(cx, message, response, index, rsn);
            }
            // It stays between neighbors, and no request is pending here (section 5.4.3).
            None => self.ignore(cx, message, DropReason::Unasked),
        }
    }

    fn receive_response_to_rii(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
        index: Index,
        rii: u32,
    ) {
        self.learn_next_peer(cx, message, index);
        let session = self.store.session(index);
        let request = session.extra.as_ref().and_then(|extra| extra.request);
        let is_ours = request.is_some_and(|request| request.rii == rii);
        if !is_ours && session.is_initiator() {
            return self.ignore(cx, message, DropReason::Unasked);
        }
        self.apply_outcome(cx, index, response.info.outcome);
        if is_ours {
            return self.handle_request_response(cx, index, response);
        }
        self.send_response_back(cx, message, index, response, Some(Answers::Rii(rii)));
    }

    /// Handles the response to the tear of a session. Whatever its outcome, the next node has no reservation; nothing but
    /// that response ends the wait for it.
    fn receive_response_to_tear(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
        index: Index,
    ) {
        let Some(Answers::Rii(rii)) = response.answers else {
            return self.ignore(cx, message, DropReason::Unasked);
        };
        let session = self.store.session(index);
        let request = session.extra.as_ref().and_then(|extra| extra.request);
        if request.is_some_and(|request| request.rii == rii) {
            self.finish_release(cx, index);
        } else if session.is_initiator() {
            return self.ignore(cx, message, DropReason::Unasked);
        } else {
            self.send_response_back(cx, message, index, response, Some(Answers::Rii(rii)));
        }
        self.forget(cx, index);
    }

    fn receive_response_to_rsn(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
        index: Index,
        rsn: Rsn,
    ) {
        let session = self.store.session(index);
        if rsn != (Rsn { number: session.own_rsn, epoch: self.epoch }) {
            return self.ignore(cx, message, DropReason::Unasked);
        }
        if message.mri != session.towards_qni() && session.is_towards_qni_of_sharing(&message.mri) {
            return self.receive_response_for(cx, message, response, index);
        }
        self.learn_next_peer(cx, message, index);
        match response.info.outcome {
            Outcome::TransientFailure(TransientFailure::FullQspecRequired) => {
                self.send_full_reserve(cx, index);
            }
            Outcome::Informational(Informational::ReducedRefreshesNotSupported) => {
                self.store.session_mut(index).flags.set(Flags::FULL_ONLY, true);
                self.send_full_reserve(cx, index);
            }
            Outcome::Informational(_) => {
                let Some(summary) = response.summary else { return };
                let on = self.store.session(index).on;
                for id in summary.ids() {
                    let other = self.store.find(id);
                    let is_of_peer = |&other: &Index| {
                        let other = self.store.session(other);
                        let is_secured = message.origin.channel.is_secured();
                        other.on == on && (is_secured || !other.attributes.secure)
                    };
                    if let Some(other) = other.filter(is_of_peer) {
                        self.send_full_reserve(cx, other);
                    }
                }
            }
            Outcome::Success(_) => {
                let session = self.store.session_mut(index);
                session.flags.set(Flags::CONFIRMED, true);
                if let Some(extra) = &mut session.extra {
                    extra.acknowledged_by = None;
                    session.trim();
                }
            }
            outcome if is_error(outcome) => {
                self.apply_outcome(cx, index, outcome);
                if self.store.session(index).is_initiator() {
                    return self.handle_request_response(cx, index, response);
                }
                let answers = Some(Answers::Rsn(self.store.session(index).rsn));
                self.send_response_back(cx, message, index, response, answers);
            }
            _ => {}
        }
    }

    /// Sends a full RESERVE to a node that lacks the session.
    fn send_full_reserve(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        if session.flags.has(Flags::REMOVED) || session.flags.has(Flags::ENDS_HERE) {
            return;
        }
        session.flags.set(Flags::CONFIRMED, false);
        let rii = session.extra.as_ref().and_then(|extra| extra.request).map(|r| r.rii);
        self.send_reserve(
            cx,
            index,
            &ReserveOptions { full: true, rii, ..ReserveOptions::default() },
        );
    }

    /// Applies an outcome to the reservation of this node: a failed new reservation is released (RFC 5975 section
    /// 4.2.3), a failed change leaves the old one until the QNI decides.
    fn apply_outcome(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, outcome: Outcome) {
        let session = self.store.session_mut(index);
        let is_new = !session.flags.has(Flags::CONFIRMED) && session.own_rsn == 0;
        match outcome {
            Outcome::Success(Success::Reservation | Success::Refresh) => {
                session.flags.set(Flags::CONFIRMED, true);
            }
            outcome if is_error(outcome) && is_new && !session.is_initiator() => {
                self.release_claim(cx, index, Change::Refused);
            }
            _ => {}
        }
    }

    /// Forwards a RESPONSE to the peer towards the QNI.
    fn send_response_back(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        index: Index,
        response: &Response<'_>,
        answers: Option<Answers>,
    ) {
        let addressing = self.towards_qni(index, None).with_hops_of(message);
        let flags = GenericFlags { scoping: false, ..self.flags_of(addressing.session) };
        let forwarded = Message::Response(Response { flags, answers, summary: None, ..*response });
        self.send(cx, addressing, &forwarded);
    }

    /// Forwards a RESPONSE without state of this node: QUERYs leave none (section 4.2).
    fn forward_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
    ) {
        if self.is_own_end(cx, message) || !matches!(response.answers, Some(Answers::Rii(_))) {
            return self.ignore(cx, message, DropReason::Unasked);
        }
        self.send(cx, Addressing::forwarding(message), &Message::Response(*response));
    }

    /// Returns whether the path of a message ends here.
    pub(super) fn is_own_end(&self, cx: &HandlerContext<'_, '_>, message: &Received<'_>) -> bool {
        cx.context.interfaces.is_local(message.end_ahead())
    }

    /// Draws a new RII.
    pub(super) fn draw_rii(&mut self) -> u32 {
        self.riis.next_u64() as u32
    }
}

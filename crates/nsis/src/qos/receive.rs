//! Receipt of RESERVEs, and of what is malformed, ignored or undeliverable.

use earmark_wire::gist::{Direction, Mri};
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError, Success, TransientFailure};
use earmark_wire::qos_nslp::{
    Answers, Extra as Objects, GenericFlags, InfoSpec, Message, Outcome, ParseError, RequestIds,
    Reserve, Response,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::Event;
use super::counters::DropReason;
use super::oversize::needs_association;
use super::path_extent::ends_near;
use super::qspec;
use super::received_reserve::ReceivedReserve;
use super::send::{ReserveOptions, info_here};
use super::state::Flags;
use crate::nslp::{HandlerContext, Received, SendFailure, SendMessage};

impl QosNslp {
    pub(super) fn hold_or_handle_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reserve: &Reserve<'_>,
    ) {
        if reserve.binding.is_none() {
            return self.handle_reserve(cx, message, reserve);
        }
        let (Mri::PathCoupled(mri), Some(peer)) = (message.mri, message.origin.peer) else {
            return self.handle_reserve(cx, message, reserve);
        };
        let received = ReceivedReserve { message, reserve, mri, peer };
        if !self.must_wait(cx, &received) {
            self.receive_reserve(cx, &received);
        }
    }

    /// Handles a RESERVE that does not wait for another message.
    pub(super) fn handle_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reserve: &Reserve<'_>,
    ) {
        let Some(peer) = message.origin.peer else {
            return self.ignore(cx, message, DropReason::NoPeer);
        };
        let Mri::PathCoupled(mri) = message.mri else {
            let outcome = Outcome::ProtocolError(ProtocolError::UnknownMri);
            let info = info_here(cx, Some(message.interface), &message.mri, outcome);
            let answers = reserve.rii.map_or(Answers::Rsn(reserve.rsn), Answers::Rii);
            self.counters.refused += 1;
            return self.respond(cx, message, Some(answers), info, None);
        };
        self.receive_reserve(cx, &ReceivedReserve { message, reserve, mri, peer });
    }

    /// Handles a malformed message. A request gets a response (RFC 5974 section 5.2.3).
    #[cold]
    pub(super) fn malformed(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        error: &ParseError,
    ) {
        self.counters.malform(error.kind.name());
        let (session, interface) = (message.session, message.interface);
        let reason = DropReason::Malformed;
        cx.report(Event::Dropped { reason, session, interface });
        let message_type = message.data.first().map(|code| MessageType::from_code(*code));
        let is_answer = matches!(message_type, Some(MessageType::Response | MessageType::Notify));
        if is_answer || message.origin.peer.is_none() {
            return;
        }
        let RequestIds { rii, rsn } = RequestIds::find(message.data);
        let answers = rii.map(Answers::Rii).or(rsn.map(Answers::Rsn));
        let mut room = [0; 4];
        let error_info = error.info_spec(&mut room);
        let source =
            info_here(cx, Some(message.interface), &message.mri, error_info.outcome).source;
        self.respond(cx, message, answers, InfoSpec { source, ..error_info }, None);
    }

    /// Counts a dropped message, and reports it.
    #[cold]
    pub(super) fn ignore(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reason: DropReason,
    ) {
        self.counters.drop(reason);
        let (session, interface) = (message.session, message.interface);
        cx.report(Event::Dropped { reason, session, interface });
    }

    /// Handles an undeliverable RESERVE of this node.
    pub(super) fn reserve_undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        reserve: &Reserve<'_>,
        failure: SendFailure,
    ) {
        let Some(index) = self.store.find(sent.session) else { return };
        if failure == SendFailure::TooLarge && !sent.attributes.reliable {
            // An association carries larger messages.
            self.store.session_mut(index).attributes.reliable = true;
            let (full, tear, rii) = (reserve.qspec.is_some(), reserve.tear, reserve.rii);
            return self.send_reserve(
                cx,
                index,
                &ReserveOptions { full, tear, rii, ..ReserveOptions::default() },
            );
        }
        let session = self.store.session(index);
        let is_torn = session.flags.has(Flags::TORN);
        // A node that has taken part refuses the flow now, as a translator without translation does.
        let is_left = failure == SendFailure::Refused && session.on.is_some();
        if (failure == SendFailure::NoNextNode || is_left) && !is_torn {
            self.become_last(cx, index);
        }
        if self.store.session(index).is_initiator() {
            if failure == SendFailure::NoNextNode {
                self.complete_locally(cx, index);
            }
            // Otherwise a request is retransmitted, or abandoned in the end.
            self.own_reserve_undelivered(cx, index, failure);
            if failure == SendFailure::NoUpstreamState && reserve.rii.is_none() && !reserve.tear {
                self.count_lost_refresh(cx, index);
            }
            return;
        }
        let Some(rii) = reserve.rii else {
            if sent.mri.direction() == Direction::Upstream && !reserve.tear {
                self.count_lost_refresh(cx, index);
            }
            return;
        };
        let session = self.store.session(index);
        if reserve.tear && !is_torn {
            return; // reserved again since
        }
        let is_own = session.extra.as_ref().and_then(|extra| extra.request).map(|r| r.rii);
        // Only the sender can show the way to it. Until then the path ends here for the tear of a receiver: if it has left
        // this node, nothing would end the session, whose node would be taken for the next one again (section 5.2.5.4).
        let has_no_way =
            reserve.tear && is_own != Some(rii) && failure == SendFailure::NoUpstreamState;
        if failure != SendFailure::NoNextNode && !has_no_way {
            if is_own != Some(rii) && !reserve.tear {
                let outcome = outcome_of(failure, sent.mri.direction());
                let info = info_here(cx, None, &sent.mri, outcome);
                self.send_refusal(cx, self.towards_qni(index, None), Some(rii), info, None);
            }
            return;
        }
        if is_own == Some(rii) && reserve.tear {
            self.finish_release(cx, index);
            return self.forget(cx, index);
        }
        if is_own == Some(rii) {
            // The route has changed, and the path ends here now.
            let extra = self.store.session_mut(index).extra();
            extra.request = None;
            return self.tear_old_branch(cx, index);
        }
        let success = match (reserve.tear, session.flags.has(Flags::CONFIRMED)) {
            (true, _) => Success::Teardown,
            (false, true) => Success::Refresh,
            (false, false) => Success::Reservation,
        };
        let qspec = if reserve.tear { None } else { qspec::success(&session.qspec) };
        let addressing = self.towards_qni(index, None);
        let outcome = Outcome::Success(success);
        let info = info_here(cx, self.store.session(index).interface, &addressing.mri, outcome);
        let flags = self.flags_of(addressing.session);
        let flags = GenericFlags { breaks: flags.breaks || !ends_near(cx, &sent.mri), ..flags };
        let (answers, extra) = (Some(Answers::Rii(rii)), Objects::NONE);
        let (summary, qspec) = (None, qspec.as_deref());
        let response = Response { flags, answers, info, summary, qspec, extra };
        self.send(cx, addressing, &Message::Response(response));
        if reserve.tear {
            self.forget(cx, index);
        }
    }

    /// Returns the transport of messages of a session: no weaker than that of a received message, so that the
    /// requirement of the QNI holds for the whole path.
    pub(super) fn attributes_of(&self, message: &Received<'_>) -> crate::nslp::Attributes {
        let (own, theirs) = (self.config.attributes, message.attributes());
        crate::nslp::Attributes {
            reliable: own.reliable || theirs.reliable,
            secure: own.secure || theirs.secure,
        }
    }
}

/// Returns the addressing of a response to the originator of an undeliverable message.
pub(super) fn back(sent: &SendMessage) -> Addressing {
    let SendMessage { session, mri, attributes, .. } = *sent;
    Addressing { session, mri: mri.inverted(), to: None, attributes, nslpid: None, hops: None }
}

/// Returns the outcome that a QNI gets for a failure of GIST in a direction.
pub(super) fn outcome_of(failure: SendFailure, direction: Direction) -> Outcome {
    Outcome::TransientFailure(match failure {
        failure if needs_association(failure) && direction == Direction::Upstream => {
            TransientFailure::NoReversePath
        }
        SendFailure::NoUpstreamState => TransientFailure::NoReversePath,
        SendFailure::NoRoute => TransientFailure::NoPathState,
        _ => TransientFailure::PathTruncated,
    })
}

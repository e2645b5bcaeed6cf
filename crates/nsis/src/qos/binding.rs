//! Messages that wait for each other: MSG-ID and BOUND-MSG-ID (RFC 5974 section 4.6).
//!
//! One map by MSG-ID has two kinds of entries: RESERVEs that wait for the message with that MSG-ID, with their octets,
//! and MSG-IDs of messages that have arrived, with their result. Entries expire after QOSNSLP_REQUEST_RETRY.

use alloc::boxed::Box;

use earmark_wire::gist::Mri;
use earmark_wire::qos_nslp::iana::{BindingCode, TransientFailure};
use earmark_wire::qos_nslp::{Message, MessageBinding, MessageId, Outcome, Reserve};

use super::QosNslp;
use super::admission::Refused;
use super::binding_state::{Binding, State};
use super::counters::DropReason;
use super::received_reserve::ReceivedReserve;
use super::state::{Flags, Index};
use super::stored_reserve::StoredReserve;
use super::wait::Wait;
use crate::nslp::{HandlerContext, Received};

impl QosNslp {
    /// Returns whether a RESERVE must wait for another one, or is refused because of it. If so, it was handled.
    pub(super) fn must_wait(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
    ) -> bool {
        let Some(binding) = received.reserve.binding else { return false };
        match binding {
            MessageBinding::Bound(id) if self.synchronizes(cx, received) => {
                self.receive_bound(cx, received, id)
            }
            MessageBinding::Id(id) if id.bidirectional && self.is_end(cx, received) => {
                let waits = matches!(
                    self.bindings.by_id.get(&id.id),
                    Some(Binding { state: State::Waiting(stored), .. }) if !stored.has_message_id
                );
                if !waits {
                    self.store_waiting(cx, received.message, id, true);
                }
                !waits
            }
            _ => false,
        }
    }

    fn receive_bound(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        id: MessageId,
    ) -> bool {
        if let Some(Binding { state: State::Waiting(stored), .. }) = self.bindings.by_id.get(&id.id)
            && !stored.has_message_id
        {
            self.store_waiting(cx, received.message, id, false);
            return true;
        }
        match self.take(id) {
            Some(State::Arrived(true)) => false,
            Some(State::Arrived(false)) => {
                let code = TransientFailure::MismatchedSynchronization;
                self.deny(cx, received, &Refused::of(Outcome::TransientFailure(code)));
                true
            }
            // Both wait for each other and have arrived: first this one, then the other.
            Some(State::Waiting(stored)) if stored.has_message_id => {
                self.receive_reserve(cx, received);
                self.resume(cx, &stored);
                true
            }
            _ => {
                self.store_waiting(cx, received.message, id, false);
                true
            }
        }
    }

    /// Returns whether this node synchronizes the two messages: as the end of a tunnel or aggregate, or of the session
    /// itself.
    pub(super) fn synchronizes(
        &self,
        cx: &HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
    ) -> bool {
        let is_inner = received
            .reserve
            .bound
            .iter()
            .any(|bound| matches!(bound.binding, BindingCode::Tunnel | BindingCode::Aggregate));
        is_inner || self.is_end(cx, received)
    }

    fn is_end(&self, cx: &HandlerContext<'_, '_>, received: &ReceivedReserve<'_>) -> bool {
        self.is_own_end(cx, received.message)
    }

    /// Resumes the RESERVE that waits for a MSG-ID, after the RESERVE with the MSG-ID was handled.
    pub(super) fn resume_bound(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        id: MessageId,
    ) {
        match self.bindings.by_id.get(&id.id) {
            Some(Binding { state: State::Waiting(stored), .. }) if !stored.has_message_id => {
                if let Some(State::Waiting(stored)) = self.take(id) {
                    self.resume(cx, &stored);
                }
            }
            None if self
                .store
                .sessions
                .get(index as usize)
                .is_some_and(|session| session.flags.has(Flags::ENDS_HERE)) =>
            {
                self.record_result(cx, id, true);
            }
            _ => {}
        }
    }

    /// Refuses the RESERVE that waits for a MSG-ID, after the RESERVE with the MSG-ID was refused.
    pub(super) fn fail_bound(&mut self, cx: &mut HandlerContext<'_, '_>, id: MessageId) {
        match self.take(id) {
            Some(State::Waiting(stored)) if !stored.has_message_id => {
                self.fail_waiting(cx, &stored);
            }
            _ => self.record_result(cx, id, false),
        }
    }

    fn record_result(&mut self, cx: &HandlerContext<'_, '_>, id: MessageId, success: bool) {
        if self.bindings.by_id.len() < self.config.limits.waiting as usize {
            let timer = self.waits.arm(cx.now + self.config.retry, Wait::Message(id.id));
            self.bindings.by_id.insert(id.id, Binding { state: State::Arrived(success), timer });
        }
    }

    fn store_waiting(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        id: MessageId,
        has_message_id: bool,
    ) {
        // A retransmission replaces the waiting message; another session or peer does not.
        if let Some(Binding { state: State::Waiting(stored), .. }) = self.bindings.by_id.get(&id.id)
            && (stored.session, stored.origin.peer) != (message.session, message.origin.peer)
        {
            return self.ignore(cx, message, DropReason::OtherPeer);
        }
        self.take(id);
        if self.bindings.by_id.len() >= self.config.limits.waiting as usize {
            return self.ignore(cx, message, DropReason::Limit);
        }
        let state = State::Waiting(Box::new(StoredReserve::of(message, cx.nslpid, has_message_id)));
        let timer = self.waits.arm(cx.now + self.config.retry, Wait::Message(id.id));
        self.bindings.by_id.insert(id.id, Binding { state, timer });
    }

    fn take(&mut self, id: MessageId) -> Option<State> {
        let Binding { state, timer } = self.bindings.by_id.remove(&id.id)?;
        self.waits.cancel(timer);
        Some(state)
    }

    /// Handles a waiting RESERVE again.
    pub(super) fn resume(&mut self, cx: &mut HandlerContext<'_, '_>, stored: &StoredReserve) {
        let previous_nslpid = core::mem::replace(&mut cx.nslpid, stored.nslpid);
        let message = stored.message();
        if let Ok(Message::Reserve(reserve)) = Message::parse(&stored.data) {
            self.handle_reserve(cx, &message, &reserve);
        }
        cx.nslpid = previous_nslpid;
    }

    /// Handles the timeout of a waiting RESERVE.
    pub(super) fn expire_binding(&mut self, cx: &mut HandlerContext<'_, '_>, id: [u8; 16]) {
        if let Some(Binding { state: State::Waiting(stored), .. }) = self.bindings.by_id.remove(&id)
        {
            self.fail_waiting(cx, &stored);
        }
    }

    /// Refuses a RESERVE whose other message did not arrive: the synchronization has failed.
    fn fail_waiting(&mut self, cx: &mut HandlerContext<'_, '_>, stored: &StoredReserve) {
        let message = stored.message();
        self.ignore(cx, &message, DropReason::NotBound);
        let Ok(Message::Reserve(reserve)) = Message::parse(&stored.data) else { return };
        let reserve = Reserve { binding: None, ..reserve };
        let (Mri::PathCoupled(mri), Some(peer)) = (stored.mri, stored.origin.peer) else { return };
        let received = ReceivedReserve { message: &message, reserve: &reserve, mri, peer };
        let previous_nslpid = core::mem::replace(&mut cx.nslpid, stored.nslpid);
        let code = TransientFailure::MismatchedSynchronization;
        self.deny(cx, &received, &Refused::of(Outcome::TransientFailure(code)));
        cx.nslpid = previous_nslpid;
    }
}

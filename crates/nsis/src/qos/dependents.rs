//! Sessions bound to one that has ended: those that depend on it end too, and the QNIs of the others are notified (RFC 5974
//! section 5.4.1).
//!
//! This happens in calls of its own, with a bounded number of sessions in each: while a message is handled, the end of one session
//! ends no other, however long a chain or a circle of sessions bound to each other is.

use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{BindingCode, Informational};

use super::QosNslp;
use super::api::Change;
use super::state::{Flags, Index};
use super::store::Ended;
use super::tear::Confirmation;
use super::wait::Wait;
use crate::nslp::HandlerContext;

/// Limit of the bound sessions that one call handles.
const BOUND_PER_CALL: usize = 64;

impl QosNslp {
    /// Notes that a session has ended, if others are bound to it. `arrival` is the interface through which it was asked for;
    /// `None` if this node asked.
    pub(super) fn note_end(&mut self, now: Time, session: SessionId, arrival: Option<InterfaceId>) {
        if self.store.next_bound(session, Index::MIN).is_some() {
            self.note_ended(now, Ended::Session(session, arrival));
        }
    }

    /// Notes what has ended. The sessions that are bound to it are handled at once, but not in this call.
    pub(super) fn note_ended(&mut self, now: Time, ended: Ended) {
        if self.ended.is_empty() {
            self.waits.arm(now, Wait::Dependents);
        }
        self.ended.insert(ended, Index::MIN);
    }

    /// Handles some of the sessions that are bound to what has ended; the timer is due again at once for the rest.
    pub(super) fn end_dependents(&mut self, cx: &mut HandlerContext<'_, '_>) {
        for _ in 0..BOUND_PER_CALL {
            let Some((&ended, &from)) = self.ended.first_key_value() else { return };
            let Some(index) = self.store.next_bound(ended.session(), from) else {
                if let Ended::Aggregate(session, number) = ended {
                    self.finish_aggregate_loss(cx, session, number);
                }
                self.ended.remove(&ended);
                continue;
            };
            self.ended.insert(ended, index + 1);
            match ended {
                Ended::Aggregate(session, _) => self.leave_aggregate(cx, index, session),
                Ended::Session(session, arrival) => self.end_bound(cx, index, session, arrival),
            }
        }
        if !self.ended.is_empty() {
            self.waits.arm(cx.now, Wait::Dependents);
        }
    }

    /// Ends a session that is bound to an ended one and depends on it, and notifies the QNI in any case.
    fn end_bound(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        ended: SessionId,
        arrival: Option<InterfaceId>,
    ) {
        let session = self.store.session(index);
        if session.id == ended || session.flags.has(Flags::TORN) {
            return;
        }
        let mut bound = session.extra.iter().flat_map(|extra| &extra.bound);
        let depends = bound.any(|it| it.session == ended && it.binding == BindingCode::Dependent);
        let outcome = Outcome::Informational(Informational::UnknownBoundSessionId);
        self.notify_qni(cx, index, outcome);
        // Others may have asked for the session that this one depends on.
        let session = self.store.session(index);
        let is_concerned = session.is_initiator()
            || arrival.is_none_or(|arrival| cx.context.may_concern(arrival, session.arrival));
        if depends && is_concerned {
            self.end_dependent(cx, index);
        }
    }

    /// Ends a session without a request of its QNI. If this node is the QNI, the application gets an event after the response.
    fn end_dependent(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        if session.is_initiator() {
            return self.release(cx, index);
        }
        self.counters.released += 1;
        self.end(cx, index, Change::Released, Confirmation::IfUnreliable);
    }
}

//! The ends of sessions: deleted by the initiator, expired, ended by a node (RFC 5973 sections 3.2.8 and 3.7.4).

use core::time::Duration;

use earmark_wire::natfw_nslp::iana::Informational;
use earmark_wire::natfw_nslp::{Extra, Info, Outcome};

use super::api::{Change, Event, Refusal};
use super::instance::NatfwNslp;
use super::received::Request;
use super::state::{Flags, Index, Role, Session};
use crate::nslp::HandlerContext;

impl NatfwNslp {
    /// Deletes a session at the wish of its initiator, and passes the request on. Nobody answers it (section 3.7.4).
    pub(super) fn release_by(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        request: &Request<'_>,
    ) {
        self.counters.released += 1;
        let session = self.store.session(index);
        if session.role == Role::Forwarder || session.flags.has(Flags::PROBED) {
            self.send_request(cx, index, (0, Some(request.message.hops)), Some(request));
        }
        self.end(cx, index, Change::Released);
    }

    /// Deletes a session of this node along its path.
    pub(super) fn release_own(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        self.counters.released += 1;
        let session = self.store.session_mut(index);
        session.msn = session.msn.wrapping_add(1);
        self.send_request(cx, index, (0, None), None);
        self.end(cx, index, Change::Released);
    }

    /// Ends a request of this node that was refused, and deletes what other nodes still have of it.
    pub(super) fn fail(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, refusal: Refusal) {
        let session = self.store.session(index);
        let Role::Initiator(application) = session.role else { return };
        let was_granted = session.extra.as_ref().is_some_and(|extra| extra.was_granted);
        cx.report(Event::Refused { application, refusal });
        if was_granted || refusal == Refusal::Unanswered {
            self.release_own(cx, index);
        } else {
            self.end(cx, index, Change::Ended);
        }
    }

    /// Ends a session for a reason of this node, and tells both sides.
    pub(super) fn terminate(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let info = Info::new(Outcome::Informational(Informational::Terminated));
        // "NIs MUST NOT generate NOTIFY messages" (section 3.7.5).
        if let Role::Proxy(primary) = self.store.session(index).role {
            self.release_own(cx, index);
            return self.secondary_failed(cx, primary);
        }
        let session = self.store.session(index);
        if session.back.is_some() {
            let inbound = self.towards_initiator(index);
            self.send_notify(cx, inbound, info, Extra::NONE);
        }
        if let Role::Initiator(application) = self.store.session(index).role {
            cx.report(Event::Ended { application, info: Some(info) });
        }
        self.end_towards_responder(cx, index);
    }

    /// Ends a session for a reason of this node that its initiator knows, and tells the nodes towards the responder.
    pub(super) fn end_towards_responder(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        if self.store.session(index).role == Role::Forwarder {
            let info = Info::new(Outcome::Informational(Informational::Terminated));
            let outbound = self.towards_responder(index);
            self.send_notify(cx, outbound, info, Extra::NONE);
        }
        self.end(cx, index, Change::Ended);
    }

    /// Removes a session with its rules, its reservation, and the CREATE that depends on it.
    pub(super) fn end(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, why: Change) {
        let secondary = self.store.session(index).extra.as_ref().and_then(|it| it.secondary);
        if let Some(secondary) = secondary {
            // "The CREATE session is valid as long as the EXTERNAL-PROXY session" (section 3.7.6.1).
            self.release_own(cx, secondary);
        }
        self.detach(cx, index, why);
        let session = self.store.remove(index);
        if let Role::Proxy(primary) = session.role
            && let Some(primary) = self.store.sessions.get_mut(primary as usize)
            && let Some(extra) = &mut primary.extra
        {
            extra.secondary = None;
        }
        release_routing_state(cx, &session);
        cx.report_session_end(session.id, (!session.is_initiator()).then_some(session.arrival));
    }
}

/// Releases the GIST routing state of a session on both of its sides.
fn release_routing_state(cx: &mut HandlerContext<'_, '_>, session: &Session) {
    if session.near == session.far {
        return cx.forget(session.near, session.id);
    }
    cx.set_state_lifetime(session.far, session.id, Duration::ZERO);
    cx.set_state_lifetime(session.near.inverted(), session.id, Duration::ZERO);
}

//! The ends of sessions: deleted by the initiator, expired, ended by a node (RFC 5973 sections 3.2.8 and 3.7.4).

use core::time::Duration;

use earmark_core::Prefix;
use earmark_wire::natfw_nslp::iana::{Informational, PermanentFailure};
use earmark_wire::natfw_nslp::{Extra, Info, Outcome};

use super::api::{Change, Event, Refusal};
use super::deletion::Deletion;
use super::instance::NatfwNslp;
use super::outcome::{FULL, permanent};
use super::received::Request;
use super::state::{Flags, Index, Role, Session};
use super::store::Wait;
use crate::nslp::{HandlerContext, Received};

/// Limit of the requests that delete several sessions and are not carried out yet.
const MAX_DELETIONS: usize = 64;

/// Limit of the sessions that one call looks at, to delete them.
const DELETIONS_PER_CALL: usize = 64;

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

    /// Handles a request that deletes several sessions of an initiator, which stands in its routing information: those of the
    /// association that it came over. "Proof of ownership [...] is not possible when using this aggregation" (section 3.7.4).
    pub(super) fn receive_deletion(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
    ) {
        let Received { mri: pattern, origin, interface, .. } = *request.message;
        let initiator = Deletion::initiator(request.kind, &pattern).map(Prefix::host);
        let is_behind = initiator.is_some_and(|it| cx.context.is_range_behind(it, interface));
        let verdict = if request.lifetime != 0 || !is_behind {
            Err(permanent(PermanentFailure::Authorization))
        } else if !origin.channel.is_association() {
            Err(permanent(PermanentFailure::Authentication))
        } else if self.deletions.len() >= MAX_DELETIONS {
            Err(FULL)
        } else {
            Ok(())
        };
        if let Err(outcome) = verdict {
            return self.refuse(cx, request, outcome);
        }
        let is_idle = self.deletions.is_empty();
        self.deletions.push_back(Deletion {
            peer: request.peer,
            channel: origin.channel,
            kind: request.kind,
            pattern,
            terminal: request.terminal,
            from: Index::MIN,
        });
        if is_idle {
            self.delete_more(cx);
        }
    }

    /// Carries requests out that delete several sessions, a bounded number of these; the timer is due again at once for the rest.
    /// Other nodes get a request for each session.
    pub(super) fn delete_more(&mut self, cx: &mut HandlerContext<'_, '_>) {
        for _ in 0..DELETIONS_PER_CALL {
            let Some(deletion) = self.deletions.front_mut() else { return };
            let Some(index) = self.store.next_from(deletion.peer, deletion.from) else {
                self.deletions.pop_front();
                continue;
            };
            deletion.from = index + 1;
            let session = self.store.session(index);
            if deletion.covers(session) && session.check_channel(deletion.channel).is_ok() {
                self.release_own(cx, index);
            }
        }
        if !self.deletions.is_empty() {
            self.store.timers.arm(cx.now, Wait::Deletions);
        }
    }

    /// Deletes a session here and along the rest of its path, by a request of this node.
    pub(super) fn release_own(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        self.counters.released += 1;
        let session = self.store.session_mut(index);
        if session.role != Role::Responder || session.flags.has(Flags::PROBED) {
            session.msn = session.msn.wrapping_add(1);
            self.send_request(cx, index, (0, None), None);
        }
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

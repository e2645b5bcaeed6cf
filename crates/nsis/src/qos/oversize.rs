//! Messages that exceed a datagram, towards a peer that has queried this node: only that peer can open an association
//! (RFC 5971 sections 4.3.3 and 4.4.1).
//!
//! A node that cannot send its RESPONSE or RESERVE reports the outcome "no GIST reverse-path forwarding state" in a short
//! message instead. The node that has begun, by a RESERVE or a QUERY, repeats its request over associations. All nodes of
//! the path then use associations for the session, in both directions.

use earmark_wire::gist::Direction;
use earmark_wire::qos_nslp::iana::TransientFailure;
use earmark_wire::qos_nslp::{
    Answers, Extra as Objects, InfoSpec, Message, Notify, Outcome, Query, Response,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::api::{Application, Event, OnRefusal};
use super::counters::DropReason;
use super::response::is_error;
use super::role::Role;
use super::send::info_here;
use super::state::{Flags, Index};
use crate::nslp::{HandlerContext, SendFailure, SendMessage};

/// Outcome that asks the QNI, or the sender of a QUERY, for associations.
pub(super) const NO_REVERSE_PATH: Outcome =
    Outcome::TransientFailure(TransientFailure::NoReversePath);

/// Returns whether GIST has not sent a message because it needs an association that does not exist.
pub(super) const fn needs_association(failure: SendFailure) -> bool {
    matches!(failure, SendFailure::NoAssociation | SendFailure::TooLarge)
}

fn addressing_of(sent: &SendMessage) -> Addressing {
    let SendMessage { session, mri, to, attributes, hops, .. } = *sent;
    Addressing { session, mri, to, attributes, nslpid: None, hops }
}

impl QosNslp {
    /// Handles a RESPONSE that exceeds a datagram: its outcome is sent alone, or, if the QSPEC of a success is missing then,
    /// the request for associations.
    #[cold]
    pub(super) fn shorten_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        response: &Response<'_>,
    ) {
        if response.qspec.is_none() && response.extra.is_empty() && response.summary.is_none() {
            return self.counters.drop(DropReason::TooLong);
        }
        let outcome = response.info.outcome;
        let is_request = matches!(response.answers, Some(Answers::Rii(_))) && !is_error(outcome);
        let info = match is_request {
            true => info_here(cx, None, &sent.mri, NO_REVERSE_PATH),
            false => response.info,
        };
        let (summary, qspec, extra) = (None, None, Objects::NONE);
        let short = Response { info, summary, qspec, extra, ..*response };
        self.send(cx, addressing_of(sent), &Message::Response(short));
    }

    /// Handles a NOTIFY that exceeds a datagram: its outcome is sent alone.
    #[cold]
    pub(super) fn shorten_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        notify: &Notify<'_>,
    ) {
        if notify.qspec.is_none() && notify.extra.is_empty() {
            return self.counters.drop(DropReason::TooLong);
        }
        let short = Notify { qspec: None, extra: Objects::NONE, ..*notify };
        self.send(cx, addressing_of(sent), &Message::Notify(short));
    }

    /// Repeats a RESERVE of this node over associations, if the outcome of the last one asks for that; returns whether it
    /// does.
    pub(super) fn repeat_over_association(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        outcome: Outcome,
    ) -> bool {
        let session = self.store.session_mut(index);
        if outcome != NO_REVERSE_PATH || session.attributes.reliable {
            return false;
        }
        session.attributes.reliable = true;
        session.flags.set(Flags::OVERSIZE, true);
        self.reserve_anew(cx, index);
        true
    }

    /// Handles a RESERVE of a session of this node that needs an association: if the peer must open it, the peer is asked,
    /// and otherwise the request is refused. Returns whether that is done; if not, the RESERVE is retransmitted.
    #[cold]
    pub(super) fn own_reserve_undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        failure: SendFailure,
    ) -> bool {
        if !needs_association(failure) {
            return false;
        }
        let session = self.store.session(index);
        let (id, direction) = (session.id, session.direction());
        if direction == Direction::Upstream {
            // The sender of the QUERY repeats it, and then the retransmission is sent.
            let mut addressing = self.towards_qnr(index, None);
            // The short message itself needs no association.
            addressing.attributes.reliable = self.config.attributes.reliable;
            let info = info_here(cx, None, &addressing.mri, NO_REVERSE_PATH);
            let flags = self.flags_of(id);
            let notify = Notify { flags, info, qspec: None, extra: Objects::NONE };
            self.send(cx, addressing, &Message::Notify(notify));
            return true;
        }
        let is_asked = session.flags.has(Flags::OVERSIZE);
        let request = session.extra.as_ref().and_then(|extra| extra.request);
        let Some(request) = request.filter(|_| is_asked) else { return false };
        let response = Response {
            flags: self.flags_of(id),
            answers: Some(Answers::Rii(request.rii)),
            info: InfoSpec::new(NO_REVERSE_PATH),
            summary: None,
            qspec: None,
            extra: Objects::NONE,
        };
        self.handle_request_response(cx, index, &response);
        true
    }

    /// Repeats a QUERY of this node over associations, if the outcome asks for that; returns whether it does.
    pub(super) fn repeat_query_over_association(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        outcome: Outcome,
    ) -> bool {
        let own = self.config.attributes;
        let Some(Role::Querier(own_query)) = self.applications.get_mut(&application) else {
            return false;
        };
        let mut attributes = own_query.request.attributes.unwrap_or(own);
        if outcome != NO_REVERSE_PATH || attributes.reliable {
            return false;
        }
        attributes.reliable = true;
        own_query.request.attributes = Some(attributes);
        self.counters.repeated += 1;
        if let Some(Role::Querier(own_query)) = self.applications.remove(&application) {
            self.send_own_query(cx, &own_query);
            self.applications.insert(application, Role::Querier(own_query));
        }
        true
    }

    /// Handles a QUERY of this node that needs an association which cannot be had; returns whether it is one.
    #[cold]
    pub(super) fn own_query_undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        query: &Query<'_>,
        failure: SendFailure,
    ) -> bool {
        let Some((application, own_query)) = self.querier_of(sent.session) else { return false };
        if !needs_association(failure) || own_query.rii != query.rii {
            return false;
        }
        self.drop_own_query(application);
        let (outcome, source, available) = (NO_REVERSE_PATH, None, None);
        let reaction = OnRefusal::Release;
        cx.report(Event::Refused { application, outcome, source, available, reaction });
        true
    }
}

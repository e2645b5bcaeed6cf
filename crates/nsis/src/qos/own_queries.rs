//! QUERYs of this node, repeated until a response (RFC 5974 sections 5.2.4 and 5.4.2).

use alloc::boxed::Box;

use earmark_core::outcome::Outcome;
use earmark_core::{Rate, Time};
use earmark_wire::gist::{Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::{
    BoundSessions, Extra as Objects, GenericFlags, Notify, Query, Response,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::admission::link_resources;
use super::api::{Application, Event, OnRefusal, Rejection, Request, Scope, Source};
use super::counters::DropReason;
use super::flow::outgoing_interface;
use super::path_extent;
use super::qspec::{self, Purpose};
use super::refresh::MAX_TIMERS_PER_INPUT;
use super::request::qspec_of;
use super::response::is_error;
use super::role::{OwnQuery, Role};
use super::timeouts::next_retry;
use super::wait::Wait;
use crate::auth_object;
use crate::nslp::{HandlerContext, Received};

impl QosNslp {
    pub(super) fn start_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        request: Request,
        purpose: Purpose,
    ) -> Result<(), Rejection> {
        self.is_free(application)?;
        let mri = self.mri_of(cx, &request.flow)?;
        let mut qspec = qspec_of(&request.qos, purpose)?;
        let interface = outgoing_interface(cx, &mri).map_err(|_| Rejection::NoRoute)?;
        qspec::compose(&mut qspec, MessageType::Query, link_resources(cx, interface));
        let session = match request.session {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let rii = (purpose == Purpose::Query).then(|| self.draw_rii());
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let timer = Some(self.waits.arm(at, Wait::OwnQuery(application)));
        let own_query = OwnQuery { session, mri, request, qspec, rii, until, wait_ms, timer };
        self.own_queries_by_session.insert(session, application);
        self.ended_requests.remove(session);
        self.send_own_query(cx, &own_query);
        self.applications.insert(application, Role::Querier(Box::new(own_query)));
        Ok(())
    }

    pub(super) fn send_own_query(&mut self, cx: &mut HandlerContext<'_, '_>, own_query: &OwnQuery) {
        let request = &own_query.request;
        let attributes = request.attributes.unwrap_or(self.config.attributes);
        let (session, mri) = (own_query.session, Mri::PathCoupled(own_query.mri));
        let auth = request.token.as_ref().map(auth_object::object_of).unwrap_or_default();
        let flags = GenericFlags {
            scoping: request.scope == Scope::NextHop,
            proxy: request.scope == Scope::Proxy,
            ..GenericFlags::default()
        };
        let query = Query {
            flags,
            reserve_init: own_query.rii.is_none(),
            rii: own_query.rii,
            bound: BoundSessions::Items(&request.bound),
            classifier: None,
            info: None,
            qspec: &own_query.qspec,
            second_qspec: None,
            extra: Objects::wire(&auth),
        };
        self.send_query(
            cx,
            Addressing { session, mri, to: None, attributes, nslpid: None, hops: None },
            query,
        );
    }

    pub(super) fn querier_of(&self, session: SessionId) -> Option<(Application, &OwnQuery)> {
        let application = *self.own_queries_by_session.get(&session)?;
        match self.applications.get(&application)? {
            Role::Querier(own_query) => Some((application, own_query)),
            _ => None,
        }
    }

    /// Ends the QUERY of an application.
    pub(super) fn drop_own_query(&mut self, application: Application) {
        if let Some(Role::Querier(own_query)) = self.applications.remove(&application) {
            self.forget_own_query(&own_query);
        }
    }

    /// Ends a QUERY that is no role of its application any more. What a receiver still reserves for it is refused.
    pub(super) fn forget_own_query(&mut self, own_query: &OwnQuery) {
        self.own_queries_by_session.remove(&own_query.session);
        if let Some(timer) = own_query.timer {
            self.waits.cancel(timer);
        }
        if own_query.rii.is_none() {
            self.ended_requests.insert(own_query.session);
        }
    }

    /// Starts the QUERYs of an application anew, after a retransmission interval.
    pub(super) fn repeat_invitation(&mut self, now: Time, application: Application) {
        let (at, wait_ms, until) = self.first_retry(now);
        if let Some(Role::Querier(own_query)) = self.applications.get_mut(&application) {
            (own_query.wait_ms, own_query.until) = (wait_ms, until);
            let timer = self.waits.arm(at, Wait::OwnQuery(application));
            if let Some(earlier) = own_query.timer.replace(timer) {
                self.waits.cancel(earlier);
            }
        }
    }

    /// Ends the own QUERY with this RII; returns its application and MRI.
    fn end_own_query(
        &mut self,
        session: SessionId,
        rii: u32,
    ) -> Option<(Application, PathCoupled)> {
        let (application, own_query) = self.querier_of(session)?;
        let mri = own_query.mri;
        (own_query.rii == Some(rii)).then(|| {
            self.drop_own_query(application);
            (application, mri)
        })
    }

    /// Handles a RESPONSE to a QUERY of this node; returns whether it was one.
    pub(super) fn receive_query_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        rii: u32,
        response: &Response<'_>,
    ) -> bool {
        if let Some((_, own_query)) = self.querier_of(message.session)
            && own_query.rii == Some(rii)
            && let Err(reason) = self.check_query_answer(message, own_query)
        {
            self.ignore(cx, message, reason);
            return true;
        }
        if let Some((application, own_query)) = self.querier_of(message.session)
            && own_query.rii == Some(rii)
            && self.repeat_query_over_association(cx, application, response.info.outcome)
        {
            return true;
        }
        let Some((application, mri)) = self.end_own_query(message.session, rii) else {
            return false;
        };
        let values = qspec::response_values(response.qspec);
        let outcome = response.info.outcome;
        let event = match values.available {
            Some(rate) if !is_error(outcome) => {
                let (latency_us, breaks) = (values.latency_us, response.flags.breaks);
                let source = response.info.source.and_then(Source::of);
                let reach =
                    Outcome { offer: true, ..path_extent::by_response(&mri, breaks, source) };
                let reach = Box::new(reach);
                Event::Offered { application, rate, latency_us, breaks, reach }
            }
            available => {
                let source = response.info.source.and_then(Source::of);
                let reaction = OnRefusal::Release;
                Event::Refused { application, outcome, source, available, reaction }
            }
        };
        cx.report(event);
        true
    }

    /// Answers a QUERY of this node that no next node can answer; returns whether it was one.
    pub(super) fn answer_own_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        rii: u32,
        query: &Query<'_>,
    ) -> bool {
        let Some((application, mri)) = self.end_own_query(session, rii) else { return false };
        let values = qspec::response_values(Some(query.qspec));
        let (rate, latency_us) = (values.available.unwrap_or(Rate::ZERO), values.latency_us);
        let breaks = query.flags.breaks;
        let reach = Box::new(Outcome { offer: true, ..path_extent::only_here(cx, &mri) });
        cx.report(Event::Offered { application, rate, latency_us, breaks, reach });
        true
    }

    /// Ends an own QUERY with RESERVE-INIT that no next node can answer; returns whether it was one.
    pub(super) fn fail_own_invitation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
    ) -> bool {
        let Some((application, _)) = self.querier_of(session) else { return false };
        self.drop_own_query(application);
        cx.report(Event::TimedOut { application });
        true
    }

    /// Handles a NOTIFY about an own QUERY with RESERVE-INIT; returns whether it was one.
    pub(super) fn receive_invitation_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) -> bool {
        let Some((application, own_query)) = self.querier_of(message.session) else {
            return false;
        };
        if let Err(reason) = self.check_query_answer(message, own_query) {
            self.ignore(cx, message, reason);
            return true;
        }
        let outcome = notify.info.outcome;
        if self.repeat_query_over_association(cx, application, outcome) {
            return true;
        }
        if self.store.find(message.session).is_some() {
            // What the application was told of stands until it is torn down or expires.
            self.ignore(cx, message, DropReason::Unasked);
            return true;
        }
        self.drop_own_query(application);
        let source = notify.info.source.and_then(Source::of);
        let available = qspec::response_values(notify.qspec).available;
        let reaction = OnRefusal::Release;
        cx.report(Event::Refused { application, outcome, source, available, reaction });
        true
    }

    /// Retransmits QUERYs without response, and handles the other timers besides those of sessions.
    pub(super) fn expire_waiting(&mut self, cx: &mut HandlerContext<'_, '_>) {
        for _ in 0..MAX_TIMERS_PER_INPUT {
            let Some((_, wait)) = self.waits.pop_due(cx.now) else { break };
            match wait {
                Wait::Message(id) => self.expire_binding(cx, id),
                Wait::OwnQuery(application) => self.handle_query_timer(cx, application),
                Wait::Aggregate(number) => self.shrink_aggregate(cx, number),
                Wait::Token => self.end_with_token(cx),
                // Its work is that of a whole call, and the timer may be due again at once.
                Wait::Dependents => return self.end_dependents(cx),
            }
        }
    }

    fn handle_query_timer(&mut self, cx: &mut HandlerContext<'_, '_>, application: Application) {
        let Some(Role::Querier(mut own_query)) = self.applications.remove(&application) else {
            return;
        };
        own_query.timer = None;
        if cx.now >= own_query.until {
            self.forget_own_query(&own_query);
            return cx.report(Event::TimedOut { application });
        }
        let (at, wait_ms) = next_retry(cx.now, own_query.wait_ms, own_query.until);
        own_query.wait_ms = wait_ms;
        own_query.timer = Some(self.waits.arm(at, Wait::OwnQuery(application)));
        self.counters.repeated += 1;
        self.send_own_query(cx, &own_query);
        self.applications.insert(application, Role::Querier(own_query));
    }
}

//! Applications of this node: their requests, and the results.

use alloc::boxed::Box;

use earmark_core::{Rate, Time};
use earmark_wire::gist::{PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::{MessageType, Success};
use earmark_wire::qos_nslp::{Outcome, PacketClassifier, Response, Rsn};

use super::QosNslp;
use super::admission::{AdmissionRequest, Refused};
use super::api::{
    Application, Change, Event, OnRefusal, Rejection, Request, RequestedQos, Scope, Source,
};
use super::flow::{flow_of, outgoing_interface};
use super::path_extent;
use super::qspec::{self, Purpose};
use super::request::qspec_of;
use super::response::is_error;
use super::rmf;
use super::role::Role;
use super::send::ReserveOptions;
use super::state::{Flags, Index, NONE, PendingRequest, Ring, Session};
use super::store::VacantEntry;
use crate::nslp::HandlerContext;

/// Commands.
impl QosNslp {
    pub(super) fn is_free(&self, application: Application) -> Result<(), Rejection> {
        if self.applications.contains_key(&application) {
            return Err(Rejection::SessionOpen);
        }
        Ok(())
    }

    pub(super) fn start_reservation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        request: &Request,
    ) -> Result<(), Rejection> {
        self.is_free(application)?;
        let mri = self.mri_of(cx, &request.flow)?;
        let qspec = qspec_of(&request.qos, Purpose::Reserve)?;
        let session = match request.session {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let place = self.store.look_up(session).err().ok_or(Rejection::SessionTaken)?;
        self.applications.insert(application, Role::Initiator(session));
        let (classifier, breaks) = (None, false);
        let initiator = Some(application);
        let initiation = Initiation {
            application: initiator,
            session,
            mri,
            place,
            qspec: &qspec,
            classifier,
            breaks,
        };
        let Err(refused) = self.initiate(cx, &initiation, request) else { return Ok(()) };
        self.applications.remove(&application);
        match refused {
            InitiationError::Rejected(reason) => Err(reason),
            InitiationError::Refused(refused) => {
                let (outcome, available) = (refused.fault.outcome, refused.available);
                let (source, reaction) = (None, OnRefusal::Release);
                cx.report(Event::Refused { application, outcome, source, available, reaction });
                Ok(())
            }
        }
    }

    /// Creates a session of which this node is the QNI.
    pub(super) fn initiate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        initiation: &Initiation<'_>,
        request: &Request,
    ) -> Result<(), InitiationError> {
        let Initiation { application, session, mri, place, qspec, classifier, breaks } =
            *initiation;
        if self.store.sessions.len() >= self.config.limits.sessions as usize {
            return Err(InitiationError::Rejected(Rejection::TooMany));
        }
        let flow =
            flow_of(&mri, classifier).ok_or(InitiationError::Rejected(Rejection::BadFlow))?;
        let interface = outgoing_interface(cx, &mri)
            .map_err(|_| InitiationError::Rejected(Rejection::NoRoute))?;
        let attributes = request.attributes.unwrap_or(self.config.attributes);
        let block = self.store.next_index();
        let (held, rule) = (None, None);
        let aggregate = None;
        let asked =
            AdmissionRequest { block, flow, interface, aggregate, attributes, held, rule, qspec };
        let granted = self.admit(cx, &asked).map_err(InitiationError::Refused)?;
        let rii = self.draw_rii();
        let wait = self.refresh_wait();
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let mut block = Session {
            id: session,
            mri,
            back: None,
            on: None,
            rsn: Rsn::default(),
            own_rsn: 0,
            lifetime_ms: 0,
            expires_at: Time::MAX,
            refresh_at: cx.now + wait,
            timer: None,
            claim: granted.claim,
            interface,
            qspec: granted.qspec.into(),
            ring: Ring { previous: NONE, next: NONE },
            classifier,
            rule: granted.rule,
            attributes,
            flags: Flags::default()
                .with(Flags::SCOPING, request.scope == Scope::NextHop)
                .with(Flags::PROXY, request.scope == Scope::Proxy)
                .with(Flags::REPLACE, !request.keep_old_branch)
                .with(Flags::BREAK, breaks)
                .with(Flags::AGGREGATE, application.is_none()),
            extra: None,
        };
        let extra = block.extra();
        extra.application = application;
        extra.bound.clone_from(&request.bound);
        extra.on_refusal = request.on_refusal;
        extra.request = Some(PendingRequest { rii, at, wait_ms, until });
        let index = self.store.insert(block, place);
        self.counters.created += 1;
        self.store.bind(index);
        self.install(cx, index, false);
        if let Some(demand) = granted.claim.and_then(|claim| cx.context.ledger.demand(claim)) {
            self.report_change(cx, index, Change::Created, demand);
        }
        self.send_reserve(
            cx,
            index,
            &ReserveOptions { full: true, rii: Some(rii), ..ReserveOptions::default() },
        );
        self.rearm(index);
        Ok(())
    }

    pub(super) fn modify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        qos: &RequestedQos,
    ) -> Result<(), Rejection> {
        let Some(Role::Initiator(session)) = self.applications.get(&application) else {
            return Err(Rejection::NoSession);
        };
        let index = self.store.find(*session).ok_or(Rejection::NoSession)?;
        if self.store.session(index).flags.has(Flags::TORN) {
            return Err(Rejection::NoSession);
        }
        let qspec = qspec_of(qos, Purpose::Reserve)?;
        let before = self.store.session(index).qspec.clone();
        match self.change_reservation(cx, index, &qspec) {
            Ok(()) => {
                self.store.session_mut(index).extra().before.get_or_insert(before);
            }
            Err(refused) => {
                let (outcome, available) = (refused.fault.outcome, refused.available);
                let (source, reaction) = (None, OnRefusal::Release);
                cx.report(Event::Refused { application, outcome, source, available, reaction });
            }
        }
        Ok(())
    }

    /// Changes the reservation of a session of this node.
    pub(super) fn change_reservation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        qspec: &[u8],
    ) -> Result<(), Refused> {
        let session = self.store.session(index);
        let (interface, rule, attributes) = (session.interface, session.rule, session.attributes);
        if let Some(flow) = flow_of(&session.mri, session.classifier) {
            let held = session.claim;
            let (block, aggregate) = (index, None);
            let asked = AdmissionRequest {
                block,
                flow,
                interface,
                aggregate,
                attributes,
                held,
                rule,
                qspec,
            };
            let granted = self.admit(cx, &asked)?;
            let session = self.store.session_mut(index);
            (session.claim, session.rule) = (granted.claim, granted.rule);
            session.qspec = granted.qspec.into();
        }
        let rii = self.draw_rii();
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        session.flags.set(Flags::REMOVED, false);
        session.extra().request = Some(PendingRequest { rii, at, wait_ms, until });
        let claim = session.claim;
        self.install(cx, index, false);
        if let Some(demand) = claim.and_then(|claim| cx.context.ledger.demand(claim)) {
            self.report_change(cx, index, Change::Changed, demand);
        }
        self.send_reserve(
            cx,
            index,
            &ReserveOptions { full: true, rii: Some(rii), ..ReserveOptions::default() },
        );
        self.rearm(index);
        Ok(())
    }

    pub(super) fn release_application(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
    ) -> Result<(), Rejection> {
        match self.applications.get(&application) {
            None => Err(Rejection::NoSession),
            Some(Role::Initiator(session)) => {
                let index = self.store.find(*session).ok_or(Rejection::NoSession)?;
                self.release(cx, index);
                Ok(())
            }
            Some(Role::Querier(_) | Role::Listener(..)) => {
                match self.applications.remove(&application) {
                    Some(Role::Listener(_, sessions)) => self.drop_sessions(cx, &sessions),
                    Some(Role::Querier(own_query)) => {
                        self.own_queries_by_session.remove(&own_query.session);
                        if let Some(timer) = own_query.timer {
                            self.waits.cancel(timer);
                        }
                        // The receiver ends the resulting session.
                        self.drop_sessions(cx, &[own_query.session]);
                    }
                    _ => {}
                }
                cx.report(Event::Released { application });
                Ok(())
            }
        }
    }

    /// Ends those sessions of a listener of which this node is the QNI; the QNIs of the others end them.
    fn drop_sessions(&mut self, cx: &mut HandlerContext<'_, '_>, sessions: &[SessionId]) {
        for &session in sessions {
            let Some(index) = self.store.find(session) else { continue };
            if self.store.session(index).is_initiator() {
                self.end(cx, index, Change::Released, None);
            } else {
                let session = self.store.session_mut(index);
                session.extra().application = None;
                session.trim();
            }
        }
    }

    /// Tears a session of this node down, and waits for the response.
    pub(super) fn release(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        if self.store.session(index).flags.has(Flags::TORN) {
            return;
        }
        self.counters.released += 1;
        let rii = self.draw_rii();
        let request = PendingRequest { rii, at: Time::MAX, wait_ms: 0, until: Time::MAX };
        self.store.session_mut(index).extra().request = Some(request);
        self.end(cx, index, Change::Released, Some(rii));
    }
}

/// Parameters of a session of this node.
pub(super) struct Initiation<'a> {
    /// The application; `None` for an aggregate.
    pub(super) application: Option<Application>,
    pub(super) session: SessionId,
    pub(super) mri: PathCoupled,
    pub(super) place: VacantEntry,
    pub(super) qspec: &'a [u8],
    /// Classifier of the QUERY that caused the session.
    pub(super) classifier: Option<PacketClassifier>,
    /// Whether that QUERY has found routers that do not take part.
    pub(super) breaks: bool,
}

/// Why a session was not created.
pub(super) enum InitiationError {
    Rejected(Rejection),
    Refused(Refused),
}

/// Results of requests of this node.
impl QosNslp {
    /// Handles the response to a request of this node.
    pub(super) fn handle_request_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        response: &Response<'_>,
    ) {
        let outcome = response.info.outcome;
        if outcome == Outcome::Success(Success::Teardown) {
            self.finish_release(cx, index);
            return self.forget(cx, index);
        }
        let session = self.store.session_mut(index);
        let application = session.application();
        let is_initiator = session.is_initiator();
        if let Some(extra) = &mut session.extra {
            extra.request = None;
        }
        if session.flags.has(Flags::AGGREGATE) {
            let granted = !is_error(outcome);
            if granted {
                self.tear_old_branch(cx, index);
            }
            return self.handle_aggregate_response(cx, index, granted);
        }
        if !is_error(outcome) {
            if let Some(extra) = &mut session.extra {
                extra.before = None;
            }
            session.trim();
            self.tear_old_branch(cx, index);
            if let Some(application) = application.filter(|_| is_initiator) {
                self.report_reserved(cx, index, application, Some(response));
            }
            return;
        }
        session.trim();
        if !is_initiator {
            // The repair of the route has failed (section 5.2.5.2): the QNI decides.
            return self.notify_qni(cx, index, outcome);
        }
        if let Some(application) = application {
            self.handle_refusal(cx, index, application, response);
        }
    }

    fn report_reserved(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        application: Application,
        response: Option<&Response<'_>>,
    ) {
        let block = self.store.session(index);
        let session = block.id;
        let own =
            rmf::evaluate(&block.qspec, MessageType::Reserve).map(|wanted| wanted.demand.rate);
        let own = own.unwrap_or(Rate::ZERO);
        let qspec = response.and_then(|response| response.qspec);
        let rate = qspec::response_values(qspec).reserved.unwrap_or(own);
        let breaks = block.flags.has(Flags::BREAK);
        let reach = match response {
            Some(response) => path_extent::by_response(
                &block.mri,
                breaks,
                response.info.source.and_then(Source::of),
            ),
            None => path_extent::only_here(cx, &block.mri),
        };
        let reach = Box::new(reach);
        cx.report(Event::Reserved { application, session, rate, breaks, reach });
        if rate < own && rate > Rate::ZERO {
            // Nodes before the narrowest link hold more than is useful (RFC 5975 section 4.3.1).
            let resized = qspec::resized(&block.qspec, rate);
            if let Some(qspec) = resized {
                // A smaller rate is always granted.
                let _ = self.change_reservation(cx, index, &qspec);
            }
        }
    }

    fn handle_refusal(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        application: Application,
        response: &Response<'_>,
    ) {
        let outcome = response.info.outcome;
        let source = response.info.source.and_then(Source::of);
        let available = qspec::response_values(response.qspec).available;
        let extra = self.store.session_mut(index).extra();
        let (reaction, before) = (extra.on_refusal, extra.before.take());
        cx.report(Event::Refused { application, outcome, source, available, reaction });
        match (reaction, before) {
            (OnRefusal::Retry, _) => self.retry_later(cx, index),
            (OnRefusal::Release, None) => self.release(cx, index),
            (OnRefusal::Release, Some(before)) => {
                // This node can always return to a smaller reservation; a larger one may be taken.
                if self.change_reservation(cx, index, &before).is_err() {
                    self.release(cx, index);
                }
            }
        }
    }

    /// Repeats a request after a refresh period. The sequence number is increased, because nodes that have released the
    /// reservation ignore refreshes.
    pub(super) fn retry_later(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let (rii, wait) = (self.draw_rii(), self.refresh_wait());
        let (at, wait_ms, _) = self.first_retry(cx.now);
        let later = at + wait;
        let request =
            PendingRequest { rii, at: later, wait_ms, until: later + self.config.give_up };
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        session.flags.set(Flags::CONFIRMED, false);
        session.refresh_at = later + wait;
        session.extra().request = Some(request);
        self.rearm(index);
    }

    /// Handles a request without response; returns whether the session still exists.
    pub(super) fn handle_request_timeout(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
    ) -> bool {
        let session = self.store.session_mut(index);
        let application = session.application().filter(|_| session.is_initiator());
        let reaction = session.extra().on_refusal;
        session.extra().request = None;
        session.trim();
        if session.flags.has(Flags::AGGREGATE) {
            self.handle_aggregate_response(cx, index, false);
            return true;
        }
        if let Some(application) = application {
            cx.report(Event::TimedOut { application });
            if reaction == OnRefusal::Release {
                self.release(cx, index);
            }
        }
        true
    }

    /// Handles the end of the release of a session of this node: torn down on the whole path, as far as known.
    pub(super) fn finish_release(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, application) = (session.id, session.application());
        let Some(application) = application.filter(|_| session.is_initiator()) else { return };
        match self.applications.get_mut(&application) {
            Some(Role::Listener(_, sessions)) => sessions.retain(|&session| session != id),
            Some(Role::Initiator(session)) if *session == id => {
                self.applications.remove(&application);
                cx.report(Event::Released { application });
            }
            _ => {}
        }
    }

    /// Completes a request of this node for a session of which it is also the last node.
    pub(super) fn complete_locally(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        if session.flags.has(Flags::TORN) {
            self.finish_release(cx, index);
            return self.forget(cx, index);
        }
        if session.flags.has(Flags::AGGREGATE) {
            self.store.session_mut(index).extra().request = None;
            return self.handle_aggregate_response(cx, index, true);
        }
        let Some(application) = session.application() else { return };
        let asked = session.extra.as_ref().is_some_and(|extra| extra.request.is_some());
        if asked {
            let extra = self.store.session_mut(index).extra();
            (extra.request, extra.before) = (None, None);
            self.report_reserved(cx, index, application, None);
        }
    }
}

//! The initiator: applications of this node that reserve, and the sessions of which this node is the QNI.

use alloc::boxed::Box;

use earmark_core::{Flow, InterfaceId, Time};
use earmark_token::Verified;
use earmark_wire::gist::{PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::{Extra as Objects, PacketClassifier, Rsn};

use super::QosNslp;
use super::admission::{AdmissionRequest, Refused};
use super::api::{Application, Change, Event, OnRefusal, Rejection, Request, RequestedQos, Scope};
use super::flow::{flow_of, outgoing_interface};
use super::qspec::Purpose;
use super::request::qspec_of;
use super::role::Role;
use super::send::ReserveOptions;
use super::session_auth::Authorization;
use super::state::{Flags, Index, NONE, PendingRequest, Ring, Session};
use super::store::VacantEntry;
use crate::auth_object;
use crate::nslp::HandlerContext;

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
        let auth = request.token.as_ref().map(auth_object::object_of).unwrap_or_default();
        let initiation = Initiation {
            application: initiator,
            session,
            mri,
            place,
            qspec: &qspec,
            classifier,
            breaks,
            auth: &auth,
        };
        let Err(refused) = self.initiate(cx, &initiation, request) else { return Ok(()) };
        self.applications.remove(&application);
        match refused {
            InitiationError::Rejected(reason) => Err(reason),
            InitiationError::Refused(refused) => {
                report_refused(cx, application, &refused);
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
        let Initiation { application, session, mri, place, qspec, classifier, breaks, auth } =
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
        let verified = self.authorize_own(cx, Objects::wire(auth), &flow, qspec);
        let verified = verified.map_err(InitiationError::Refused)?;
        let secure = attributes.secure;
        let asked = AdmissionRequest {
            block,
            flow,
            interface,
            aggregate,
            secure,
            verified,
            held,
            rule,
            qspec,
        };
        let granted = self.admit(cx, &asked).map_err(InitiationError::Refused)?;
        let rii = self.draw_rii();
        let wait = self.refresh_wait();
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let mut block = Session {
            arrival: InterfaceId(0),
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
                .with(Flags::BREAK, breaks),
            extra: None,
        };
        let extra = block.extra();
        extra.application = application;
        extra.bound.clone_from(&request.bound);
        extra.kept = auth.to_vec();
        extra.on_refusal = request.on_refusal;
        extra.request = Some(PendingRequest { rii, at, wait_ms, until });
        let index = self.store.insert(block, place);
        self.counters.created += 1;
        self.set_verified(index, asked.verified);
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
            Err(refused) => report_refused(cx, application, &refused),
        }
        Ok(())
    }

    /// Verifies the token of a request of this node.
    fn authorize_own(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        objects: Objects<'_>,
        flow: &Flow,
        qspec: &[u8],
    ) -> Result<Option<Box<Verified>>, Refused> {
        let (message, arrival) = (MessageType::Reserve, None);
        self.authorize(cx, &Authorization { objects, flow, qspec, message, arrival })
    }

    /// Changes the reservation of a session of this node.
    pub(super) fn change_reservation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        qspec: &[u8],
    ) -> Result<(), Refused> {
        let session = self.store.session(index);
        let (interface, rule) = (session.interface, session.rule);
        let (secure, auth) = (session.attributes.secure, session.auth().to_vec());
        if let Some(flow) = flow_of(&session.mri, session.classifier) {
            let held = session.claim;
            let (block, aggregate) = (index, None);
            let verified = self.authorize_own(cx, Objects::wire(&auth), &flow, qspec)?;
            let asked = AdmissionRequest {
                block,
                flow,
                interface,
                aggregate,
                secure,
                verified,
                held,
                rule,
                qspec,
            };
            let granted = self.admit(cx, &asked)?;
            let session = self.store.session_mut(index);
            (session.claim, session.rule) = (granted.claim, granted.rule);
            session.qspec = granted.qspec.into();
            self.set_verified(index, asked.verified);
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

    /// Sends the RESERVE of a session of this node as a new request, because nodes on the path may have lost the reservation:
    /// a new sequence number is passed on at once.
    pub(super) fn reserve_anew(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let rii = self.draw_rii();
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let session = self.store.session_mut(index);
        session.flags.set(Flags::CONFIRMED, false);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        session.extra().request = Some(PendingRequest { rii, at, wait_ms, until });
        self.counters.repeated += 1;
        let options = ReserveOptions { full: true, rii: Some(rii), ..ReserveOptions::default() };
        self.send_reserve(cx, index, &options);
        self.rearm(index);
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
    /// SESSION_AUTH objects, in wire format.
    pub(super) auth: &'a [u8],
}

/// Why a session was not created.
pub(super) enum InitiationError {
    Rejected(Rejection),
    Refused(Refused),
}

/// Reports that this node itself refuses the request of an application.
fn report_refused(cx: &mut HandlerContext<'_, '_>, application: Application, refused: &Refused) {
    let (outcome, available) = (refused.fault.outcome, refused.available_rate());
    cx.report(Event::Refused {
        application,
        outcome,
        source: None,
        available,
        reaction: OnRefusal::Release,
    });
}

//! Applications of this node: what they ask for, and what comes of it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::timer::TimerId;
use earmark_core::{Flow, Rate, Time};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::{BindingCode, MessageType, Success};
use earmark_wire::qos_nslp::{
    BoundSessionId, BoundSessions, Extra as Objects, GenericFlags, Notify, Outcome,
    PacketClassifier, Query, Response, Rsn,
};

use super::QosNslp;
use super::admission::{Asked, flow_of, way_out};
use super::api::{
    Application, Change, Command, Event, Listen, OnRefusal, Rejection, Request, Scope, Source, Wish,
};
use super::refresh::next_try;
use super::response::is_error;
use super::rmf::{self, Purpose};
use super::send::{Saying, Way};
use super::state::{Asking, Flags, Index, NONE, Ring, Session};
use super::store::Place;
use crate::nslp::{Received, Turn};

/// What an application is to this node.
#[derive(Debug)]
pub(super) enum Role {
    /// It has asked for a session, of which this node is the QNI.
    Initiator(SessionId),
    /// It waits for the answer to a QUERY, or for the RESERVE that it has asked for.
    Asker(Box<Question>),
    /// It waits for sessions.
    Listener(Listen, Vec<SessionId>),
}

/// A QUERY of this node, until it is answered.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) session: SessionId,
    mri: PathCoupled,
    request: Request,
    qspec: Vec<u8>,
    rii: Option<u32>,
    until: Time,
    wait_ms: u32,
    timer: Option<TimerId>,
}

/// What waits for something, beside the sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// A message for another.
    Message([u8; 16]),
    /// A QUERY of an application for its answer.
    Question(Application),
}

/// Commands.
impl QosNslp {
    /// Carries out what an application asks for.
    pub fn command(&mut self, turn: &mut Turn<'_, '_>, command: Command) {
        let (application, result) = match command {
            Command::Reserve { application, request } => {
                (application, self.begin(turn, application, &request))
            }
            Command::Modify { application, wish } => {
                (application, self.modify(turn, application, &wish))
            }
            Command::Release { application } => (application, self.leave(turn, application)),
            Command::Query { application, request } => {
                (application, self.ask(turn, application, request, Purpose::Query))
            }
            Command::Invite { application, request } => {
                (application, self.ask(turn, application, request, Purpose::Invite))
            }
            Command::Listen { application, listen } => {
                (application, self.listen(application, listen))
            }
        };
        if let Err(reason) = result {
            tell(turn, Event::Rejected { application, reason });
        }
    }

    fn is_free(&self, application: Application) -> Result<(), Rejection> {
        if self.applications.contains_key(&application) {
            return Err(Rejection::SessionOpen);
        }
        Ok(())
    }

    fn begin(
        &mut self,
        turn: &mut Turn<'_, '_>,
        application: Application,
        request: &Request,
    ) -> Result<(), Rejection> {
        self.is_free(application)?;
        let mri = self.mri_of(turn, &request.flow)?;
        let qspec = qspec_of(&request.wish, Purpose::Reserve)?;
        let session = match request.session {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let place = self.store.look_up(session).err().ok_or(Rejection::SessionTaken)?;
        self.applications.insert(application, Role::Initiator(session));
        let initiation = Initiation { application, session, mri, place, qspec: &qspec };
        let Err(refused) = self.initiate(turn, &initiation, request) else { return Ok(()) };
        self.applications.remove(&application);
        match refused {
            NotBegun::Rejected(reason) => Err(reason),
            NotBegun::Refused(refused) => {
                let (outcome, available) = (refused.fault.outcome, refused.available);
                let (source, reaction) = (None, OnRefusal::Release);
                tell(turn, Event::Refused { application, outcome, source, available, reaction });
                Ok(())
            }
        }
    }

    /// Makes a session of which this node is the QNI.
    fn initiate(
        &mut self,
        turn: &mut Turn<'_, '_>,
        initiation: &Initiation<'_>,
        request: &Request,
    ) -> Result<(), NotBegun> {
        let Initiation { application, session, mri, place, qspec } = *initiation;
        if self.store.sessions.len() >= self.config.limits.sessions as usize {
            return Err(NotBegun::Rejected(Rejection::TooMany));
        }
        let flow = flow_of(&mri, None).ok_or(NotBegun::Rejected(Rejection::BadFlow))?;
        let interface = way_out(turn, &mri).map_err(|_| NotBegun::Rejected(Rejection::NoRoute))?;
        let attributes = request.attributes.unwrap_or(self.config.attributes);
        let block = self.store.next_index();
        let (held, rule) = (None, None);
        let asked = Asked { block, flow, interface, attributes, held, rule, qspec };
        let granted = self.admit(turn, &asked).map_err(NotBegun::Refused)?;
        let rii = self.draw_rii();
        let wait = self.refresh_wait();
        let (at, wait_ms, until) = self.first_try(turn.now);
        let mut block = Session {
            id: session,
            mri,
            back: None,
            on: None,
            rsn: Rsn::default(),
            own_rsn: 0,
            lifetime_ms: 0,
            expires_at: Time::MAX,
            refresh_at: turn.now + wait,
            timer: None,
            claim: granted.claim,
            interface,
            qspec: granted.qspec.into(),
            ring: Ring { previous: NONE, next: NONE },
            classifier: None,
            rule: granted.rule,
            attributes,
            flags: Flags::default()
                .with(Flags::SCOPING, request.scope == Scope::NextHop)
                .with(Flags::PROXY, request.scope == Scope::Proxy)
                .with(Flags::REPLACE, !request.keep_old_branch),
            extra: None,
        };
        let extra = block.extra();
        extra.application = Some(application);
        extra.bound.clone_from(&request.bound);
        extra.on_refusal = request.on_refusal;
        extra.request = Some(Asking { rii, at, wait_ms, until });
        let index = self.store.insert(block, place);
        self.counters.created += 1;
        self.store.bind(index);
        self.install(turn, index, false);
        if let Some(demand) = granted.claim.and_then(|claim| turn.context.ledger.demand(claim)) {
            self.tell(turn, index, Change::Created, demand);
        }
        self.send_reserve(turn, index, &Saying { full: true, rii: Some(rii), ..Saying::default() });
        self.rearm(index);
        Ok(())
    }

    fn modify(
        &mut self,
        turn: &mut Turn<'_, '_>,
        application: Application,
        wish: &Wish,
    ) -> Result<(), Rejection> {
        let Some(Role::Initiator(session)) = self.applications.get(&application) else {
            return Err(Rejection::NoSession);
        };
        let index = self.store.find(*session).ok_or(Rejection::NoSession)?;
        if self.store.session(index).flags.has(Flags::TORN) {
            return Err(Rejection::NoSession);
        }
        let qspec = qspec_of(wish, Purpose::Reserve)?;
        let before = self.store.session(index).qspec.clone();
        match self.ask_for(turn, index, &qspec) {
            Ok(()) => {
                self.store.session_mut(index).extra().before.get_or_insert(before);
            }
            Err(refused) => {
                let (outcome, available) = (refused.fault.outcome, refused.available);
                let (source, reaction) = (None, OnRefusal::Release);
                tell(turn, Event::Refused { application, outcome, source, available, reaction });
            }
        }
        Ok(())
    }

    /// Has a session of this node ask for something else from now on.
    fn ask_for(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        qspec: &[u8],
    ) -> Result<(), super::admission::Refused> {
        let session = self.store.session(index);
        let (interface, rule, attributes) = (session.interface, session.rule, session.attributes);
        if let Some(flow) = flow_of(&session.mri, session.classifier) {
            let held = session.claim;
            let asked = Asked { block: index, flow, interface, attributes, held, rule, qspec };
            let granted = self.admit(turn, &asked)?;
            let session = self.store.session_mut(index);
            (session.claim, session.rule) = (granted.claim, granted.rule);
            session.qspec = granted.qspec.into();
        }
        let rii = self.draw_rii();
        let (at, wait_ms, until) = self.first_try(turn.now);
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        session.flags.set(Flags::REMOVED, false);
        session.extra().request = Some(Asking { rii, at, wait_ms, until });
        let claim = session.claim;
        self.install(turn, index, false);
        if let Some(demand) = claim.and_then(|claim| turn.context.ledger.demand(claim)) {
            self.tell(turn, index, Change::Changed, demand);
        }
        self.send_reserve(turn, index, &Saying { full: true, rii: Some(rii), ..Saying::default() });
        self.rearm(index);
        Ok(())
    }

    fn leave(
        &mut self,
        turn: &mut Turn<'_, '_>,
        application: Application,
    ) -> Result<(), Rejection> {
        match self.applications.get(&application) {
            None => Err(Rejection::NoSession),
            Some(Role::Initiator(session)) => {
                let index = self.store.find(*session).ok_or(Rejection::NoSession)?;
                self.release(turn, index);
                Ok(())
            }
            Some(Role::Asker(_) | Role::Listener(..)) => {
                match self.applications.remove(&application) {
                    Some(Role::Listener(_, sessions)) => self.drop_sessions(turn, &sessions),
                    Some(Role::Asker(question)) => {
                        self.questions.remove(&question.session);
                        if let Some(timer) = question.timer {
                            self.waits.cancel(timer);
                        }
                        // What came of it is the receiver's to end.
                        self.drop_sessions(turn, &[question.session]);
                    }
                    _ => {}
                }
                tell(turn, Event::Released { application });
                Ok(())
            }
        }
    }

    /// Ends those sessions of a listener of which this node is the QNI. The others are not this node's to end.
    fn drop_sessions(&mut self, turn: &mut Turn<'_, '_>, sessions: &[SessionId]) {
        for &session in sessions {
            let Some(index) = self.store.find(session) else { continue };
            if self.store.session(index).is_initiator() {
                self.end(turn, index, Change::Released, None);
            } else {
                let session = self.store.session_mut(index);
                session.extra().application = None;
                session.trim();
            }
        }
    }

    /// Tears a session of this node down, and waits for the answer to that.
    pub(super) fn release(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        if self.store.session(index).flags.has(Flags::TORN) {
            return;
        }
        self.counters.released += 1;
        let rii = self.draw_rii();
        let request = Asking { rii, at: Time::MAX, wait_ms: 0, until: Time::MAX };
        self.store.session_mut(index).extra().request = Some(request);
        self.end(turn, index, Change::Released, Some(rii));
    }
}

/// What a session of this node is made of.
struct Initiation<'a> {
    application: Application,
    session: SessionId,
    mri: PathCoupled,
    place: Place,
    qspec: &'a [u8],
}

/// Why a session was not begun.
enum NotBegun {
    Rejected(Rejection),
    Refused(super::admission::Refused),
}

/// What comes of a session of this node.
impl QosNslp {
    /// The answer to a request of this node has come.
    pub(super) fn answered(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        response: &Response<'_>,
    ) {
        let outcome = response.info.outcome;
        if outcome == Outcome::Success(Success::Teardown) {
            self.release_is_over(turn, index);
            return self.forget(turn, index);
        }
        let session = self.store.session_mut(index);
        let application = session.application();
        let is_initiator = session.is_initiator();
        if let Some(extra) = &mut session.extra {
            extra.request = None;
        }
        if !is_error(outcome) {
            if let Some(extra) = &mut session.extra {
                extra.before = None;
            }
            session.trim();
            self.give_up_old_branch(turn, index);
            if let Some(application) = application.filter(|_| is_initiator) {
                self.is_reserved(turn, index, application, response.qspec);
            }
            return;
        }
        session.trim();
        if !is_initiator {
            // The repair of the way has failed (section 5.2.5.2): the QNI decides.
            return self.notify_qni(turn, index, outcome);
        }
        if let Some(application) = application {
            self.is_refused(turn, index, application, response);
        }
    }

    fn is_reserved(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        application: Application,
        qspec: Option<&[u8]>,
    ) {
        let block = self.store.session(index);
        let session = block.id;
        let own = rmf::judge(&block.qspec, MessageType::Reserve).map(|wanted| wanted.demand.rate);
        let own = own.unwrap_or(Rate::ZERO);
        let rate = rmf::told(qspec).reserved.unwrap_or(own);
        let breaks = block.flags.has(Flags::BREAK);
        tell(turn, Event::Reserved { application, session, rate, breaks });
        if rate < own && rate > Rate::ZERO {
            // Nodes in front of the narrowest one have more than is of use (RFC 5975 section 4.3.1).
            let resized = rmf::resized(&block.qspec, rate);
            if let Some(qspec) = resized {
                // Less is always granted.
                let _ = self.ask_for(turn, index, &qspec);
            }
        }
    }

    fn is_refused(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        application: Application,
        response: &Response<'_>,
    ) {
        let outcome = response.info.outcome;
        let source = response.info.source.and_then(Source::of);
        let available = rmf::told(response.qspec).available;
        let extra = self.store.session_mut(index).extra();
        let (reaction, before) = (extra.on_refusal, extra.before.take());
        tell(turn, Event::Refused { application, outcome, source, available, reaction });
        match (reaction, before) {
            (OnRefusal::Retry, _) => self.ask_later(turn, index),
            (OnRefusal::Release, None) => self.release(turn, index),
            (OnRefusal::Release, Some(before)) => {
                // What it had less of this node has still; more of it may be gone.
                if self.ask_for(turn, index, &before).is_err() {
                    self.release(turn, index);
                }
            }
        }
    }

    /// Asks for the same once more after a refresh period, with a number of its own, since nodes that have given the
    /// reservation back do not hear refreshes.
    pub(super) fn ask_later(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        let (rii, wait) = (self.draw_rii(), self.refresh_wait());
        let (at, wait_ms, _) = self.first_try(turn.now);
        let later = at + wait;
        let request = Asking { rii, at: later, wait_ms, until: later + self.config.give_up };
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(1);
        session.flags.set(Flags::CONFIRMED, false);
        session.refresh_at = later + wait;
        session.extra().request = Some(request);
        self.rearm(index);
    }

    /// Nobody has answered; whether the session is still there.
    pub(super) fn nobody_answers(&mut self, turn: &mut Turn<'_, '_>, index: Index) -> bool {
        let session = self.store.session_mut(index);
        let application = session.application().filter(|_| session.is_initiator());
        let reaction = session.extra().on_refusal;
        session.extra().request = None;
        session.trim();
        if let Some(application) = application {
            tell(turn, Event::TimedOut { application });
            if reaction == OnRefusal::Release {
                self.release(turn, index);
            }
        }
        true
    }

    /// A session of this node is torn down everywhere, or as far as can be known.
    pub(super) fn release_is_over(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, application) = (session.id, session.application());
        let Some(application) = application.filter(|_| session.is_initiator()) else { return };
        match self.applications.get_mut(&application) {
            Some(Role::Listener(_, sessions)) => sessions.retain(|&session| session != id),
            Some(Role::Initiator(session)) if *session == id => {
                self.applications.remove(&application);
                tell(turn, Event::Released { application });
            }
            _ => {}
        }
    }

    /// This node is the last one of a session of its own: nobody else is asked.
    pub(super) fn nobody_is_asked(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        let session = self.store.session(index);
        if session.flags.has(Flags::TORN) {
            self.release_is_over(turn, index);
            return self.forget(turn, index);
        }
        let Some(application) = session.application() else { return };
        let asked = session.extra.as_ref().is_some_and(|extra| extra.request.is_some());
        if asked {
            let extra = self.store.session_mut(index).extra();
            (extra.request, extra.before) = (None, None);
            self.is_reserved(turn, index, application, None);
        }
    }
}

/// QUERYs of this node.
impl QosNslp {
    fn ask(
        &mut self,
        turn: &mut Turn<'_, '_>,
        application: Application,
        request: Request,
        purpose: Purpose,
    ) -> Result<(), Rejection> {
        self.is_free(application)?;
        let mri = self.mri_of(turn, &request.flow)?;
        let mut qspec = qspec_of(&request.wish, purpose)?;
        let interface = way_out(turn, &mri).map_err(|_| Rejection::NoRoute)?;
        if let Some(interface) = interface {
            let left = turn.context.ledger.left(interface);
            let latency =
                turn.context.interfaces.by_id(interface).map_or(0, |link| link.latency_us);
            rmf::compose(&mut qspec, left, latency);
        }
        let session = match request.session {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let rii = (purpose == Purpose::Query).then(|| self.draw_rii());
        let (at, wait_ms, until) = self.first_try(turn.now);
        let timer = Some(self.waits.arm(at, Wait::Question(application)));
        let question = Question { session, mri, request, qspec, rii, until, wait_ms, timer };
        self.questions.insert(session, application);
        self.send_question(turn, &question);
        self.applications.insert(application, Role::Asker(Box::new(question)));
        Ok(())
    }

    fn send_question(&mut self, turn: &mut Turn<'_, '_>, question: &Question) {
        let request = &question.request;
        let attributes = request.attributes.unwrap_or(self.config.attributes);
        let (session, mri) = (question.session, Mri::PathCoupled(question.mri));
        let flags = GenericFlags {
            scoping: request.scope == Scope::NextHop,
            proxy: request.scope == Scope::Proxy,
            ..GenericFlags::default()
        };
        let query = Query {
            flags,
            reserve_init: question.rii.is_none(),
            rii: question.rii,
            bound: BoundSessions::Items(&request.bound),
            classifier: None,
            info: None,
            qspec: &question.qspec,
            second_qspec: None,
            extra: Objects::NONE,
        };
        self.send_query(turn, Way { session, mri, to: None, attributes }, query);
    }

    fn asker_of(&self, session: SessionId) -> Option<(Application, &Question)> {
        let application = *self.questions.get(&session)?;
        match self.applications.get(&application)? {
            Role::Asker(question) => Some((application, question)),
            _ => None,
        }
    }

    /// The question of an application is done with.
    fn drop_question(&mut self, application: Application) {
        if let Some(Role::Asker(question)) = self.applications.remove(&application) {
            self.questions.remove(&question.session);
            if let Some(timer) = question.timer {
                self.waits.cancel(timer);
            }
        }
    }

    /// Whether a RESPONSE answers a QUERY of this node.
    pub(super) fn query_is_answered(
        &mut self,
        turn: &mut Turn<'_, '_>,
        session: SessionId,
        rii: u32,
        response: &Response<'_>,
    ) -> bool {
        let Some((application, question)) = self.asker_of(session) else { return false };
        if question.rii != Some(rii) {
            return false;
        }
        self.drop_question(application);
        let told = rmf::told(response.qspec);
        let outcome = response.info.outcome;
        let event = match told.available {
            Some(rate) if !is_error(outcome) => {
                let (latency_us, breaks) = (told.latency_us, response.flags.breaks);
                Event::Offered { application, rate, latency_us, breaks }
            }
            available => {
                let source = response.info.source.and_then(Source::of);
                let reaction = OnRefusal::Release;
                Event::Refused { application, outcome, source, available, reaction }
            }
        };
        tell(turn, event);
        true
    }

    /// Whether it was a QUERY of this node that nobody further on can answer: then this node does.
    pub(super) fn own_query_ends(
        &mut self,
        turn: &mut Turn<'_, '_>,
        session: SessionId,
        rii: u32,
        query: &Query<'_>,
    ) -> bool {
        let Some((application, question)) = self.asker_of(session) else { return false };
        if question.rii != Some(rii) {
            return false;
        }
        self.drop_question(application);
        let told = rmf::told(Some(query.qspec));
        let (rate, latency_us) = (told.available.unwrap_or(Rate::ZERO), told.latency_us);
        tell(turn, Event::Offered { application, rate, latency_us, breaks: query.flags.breaks });
        true
    }

    /// Whether it was a request of this node for a RESERVE that goes no further.
    pub(super) fn own_invitation_ends(
        &mut self,
        turn: &mut Turn<'_, '_>,
        session: SessionId,
    ) -> bool {
        let Some((application, _)) = self.asker_of(session) else { return false };
        self.drop_question(application);
        tell(turn, Event::TimedOut { application });
        true
    }

    /// Whether a NOTIFY is about a request of this node for a RESERVE.
    pub(super) fn invitation_fails(
        &mut self,
        turn: &mut Turn<'_, '_>,
        session: SessionId,
        notify: &Notify<'_>,
    ) -> bool {
        let Some((application, _)) = self.asker_of(session) else { return false };
        self.drop_question(application);
        let outcome = notify.info.outcome;
        let source = notify.info.source.and_then(Source::of);
        let available = rmf::told(notify.qspec).available;
        let reaction = OnRefusal::Release;
        tell(turn, Event::Refused { application, outcome, source, available, reaction });
        true
    }

    /// Repeats what waits for an answer, and gives up what has waited too long.
    pub(super) fn waiting_expire(&mut self, turn: &mut Turn<'_, '_>) {
        while let Some((_, wait)) = self.waits.pop_due(turn.now) {
            match wait {
                Wait::Message(id) => self.binding_expires(turn, id),
                Wait::Question(application) => self.question_is_due(turn, application),
            }
        }
    }

    fn question_is_due(&mut self, turn: &mut Turn<'_, '_>, application: Application) {
        let Some(Role::Asker(mut question)) = self.applications.remove(&application) else {
            return;
        };
        question.timer = None;
        if turn.now >= question.until {
            self.questions.remove(&question.session);
            return tell(turn, Event::TimedOut { application });
        }
        let (at, wait_ms) = next_try(turn.now, question.wait_ms, question.until);
        question.wait_ms = wait_ms;
        question.timer = Some(self.waits.arm(at, Wait::Question(application)));
        self.counters.repeated += 1;
        self.send_question(turn, &question);
        self.applications.insert(application, Role::Asker(question));
    }
}

/// Listeners.
impl QosNslp {
    fn listen(&mut self, application: Application, listen: Listen) -> Result<(), Rejection> {
        self.is_free(application)?;
        self.applications.insert(application, Role::Listener(listen, Vec::new()));
        Ok(())
    }

    /// Who listens for a flow, and the most that is to be reserved for it. Applications are few.
    pub(super) fn listener_for(&self, mri: &PathCoupled) -> Option<(Application, Rate)> {
        self.applications.iter().find_map(|(&application, role)| {
            let Role::Listener(listen, _) = role else { return None };
            let fits = listen.destination.is_none_or(|address| address == mri.destination)
                && listen.protocol.is_none_or(|protocol| mri.protocol == Some(protocol))
                && listen.port.is_none_or(|port| mri.destination_port == Some(port));
            fits.then(|| (application, listen.most.unwrap_or(Rate::MAX)))
        })
    }

    /// A RESERVE that ends here has made or changed a session.
    pub(super) fn arrived(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, mri) = (session.id, session.mri);
        let application = session
            .application()
            .or_else(|| self.asker_of(id).map(|(application, _)| application))
            .or_else(|| self.listener_for(&mri).map(|(application, _)| application));
        let (Some(application), Some(flow)) = (application, flow_of(&mri, session.classifier))
        else {
            return;
        };
        let wanted = rmf::judge(&session.qspec, MessageType::Reserve);
        let rate = wanted.map_or(Rate::ZERO, |wanted| wanted.demand.rate);
        self.store.session_mut(index).extra().application = Some(application);
        match self.applications.get_mut(&application) {
            Some(Role::Asker(question)) => {
                if let Some(timer) = question.timer.take() {
                    self.waits.cancel(timer);
                }
            }
            Some(Role::Listener(_, sessions)) if !sessions.contains(&id) => sessions.push(id),
            _ => {}
        }
        tell(turn, Event::Incoming { application, session: id, flow, rate });
        self.answer_in_reverse(turn, index, application);
    }

    /// A session that had come has ended.
    pub(super) fn gone(&mut self, turn: &mut Turn<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, reverse) = (session.id, session.extra.as_ref().and_then(|extra| extra.reverse));
        let Some(application) = session.application() else { return };
        match self.applications.get_mut(&application) {
            Some(Role::Listener(_, sessions)) => sessions.retain(|&session| session != id),
            Some(Role::Asker(_)) => self.drop_question(application),
            _ => {}
        }
        tell(turn, Event::Gone { application, session: id });
        if let Some(reverse) = reverse.and_then(|reverse| self.store.find(reverse)) {
            self.release(turn, reverse);
        }
    }

    /// Makes the session of the way back, bound to the one that has come (section 4.4).
    fn answer_in_reverse(
        &mut self,
        turn: &mut Turn<'_, '_>,
        index: Index,
        application: Application,
    ) {
        let session = self.store.session(index);
        let (id, mri, attributes) = (session.id, session.mri, session.attributes);
        let extra = session.extra.as_ref();
        let Some(Role::Listener(listen, _)) = self.applications.get(&application) else { return };
        let Some(wish) = listen.reverse.filter(|_| extra.is_none_or(|e| e.reverse.is_none()))
        else {
            return;
        };
        let named = extra.into_iter().flat_map(|extra| &extra.bound);
        let named = named
            .filter(|bound| bound.binding == BindingCode::Bidirectional)
            .map(|bound| bound.session)
            .find(|&session| self.store.find(session).is_none());
        let back = PathCoupled {
            source: mri.destination,
            destination: mri.source,
            source_prefix: mri.destination_prefix,
            destination_prefix: mri.source_prefix,
            source_port: mri.destination_port,
            destination_port: mri.source_port,
            ..mri
        };
        let (Some(flow), Ok(qspec)) = (flow_of(&back, None), qspec_of(&wish, Purpose::Reserve))
        else {
            return;
        };
        let session = match named {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let Err(place) = self.store.look_up(session) else { return };
        let binding = BindingCode::Bidirectional;
        let request = Request {
            bound: [BoundSessionId { binding, session: id }].into(),
            attributes: Some(attributes),
            ..Request::new(flow, wish)
        };
        let initiation = Initiation { application, session, mri: back, place, qspec: &qspec };
        if self.initiate(turn, &initiation, &request).is_ok() {
            self.store.session_mut(index).extra().reverse = Some(session);
        }
    }

    /// Answers a QUERY for a RESERVE; whether that could be done.
    pub(super) fn reserve_back(
        &mut self,
        turn: &mut Turn<'_, '_>,
        message: &Received<'_>,
        mri: &PathCoupled,
        query: &Query<'_>,
        application: Application,
        most: Rate,
    ) -> bool {
        let place = match self.store.look_up(message.session) {
            // A repetition; what is known is said again.
            Ok(index) => {
                if self.store.session(index).is_initiator() {
                    let saying = Saying { full: true, ..Saying::default() };
                    self.send_reserve(turn, index, &saying);
                }
                return true;
            }
            Err(place) => place,
        };
        let Some(qspec) = rmf::answer(query.qspec, most) else { return false };
        let Some(flow) = flow_of(mri, query.classifier) else { return false };
        let upstream = PathCoupled { direction: Direction::Upstream, ..*mri };
        let request = Request {
            bound: query.bound.iter().collect(),
            attributes: Some(message.attributes),
            scope: if query.flags.proxy { Scope::Proxy } else { Scope::Path },
            ..Request::new(flow, Wish::of(Rate::ZERO))
        };
        let session = message.session;
        let initiation = Initiation { application, session, mri: upstream, place, qspec: &qspec };
        if self.initiate(turn, &initiation, &request).is_err() {
            return false;
        }
        if let Some(Role::Listener(_, sessions)) = self.applications.get_mut(&application) {
            sessions.push(session);
        }
        if let Some(index) = self.store.find(session) {
            let session = self.store.session_mut(index);
            session.classifier = query.classifier.filter(|c| *c != PacketClassifier::default());
            session.flags.set(Flags::BREAK, query.flags.breaks);
            let (peer, on) = (message.peer, session.on);
            if on.is_none() {
                self.store.set_on(index, peer);
            }
        }
        true
    }

    /// The message routing information of a flow that begins here.
    fn mri_of(&self, turn: &Turn<'_, '_>, flow: &Flow) -> Result<PathCoupled, Rejection> {
        let interfaces = turn.context.interfaces;
        let hop = turn.context.routes.lookup(flow.destination);
        let source = match flow.source.filter(|source| !source.is_unspecified()) {
            Some(source) => source,
            None => {
                let hop = hop.ok_or(Rejection::NoRoute)?;
                let interface = interfaces.by_id(hop.interface);
                hop.source
                    .or_else(|| interface.and_then(|i| i.address_like(flow.destination)))
                    .ok_or(Rejection::BadFlow)?
            }
        };
        let bits = if source.is_ipv4() { 32 } else { 128 };
        let port = |port: u16| (port != 0).then_some(port);
        let mri = PathCoupled {
            source,
            destination: flow.destination,
            source_prefix: bits - flow.source_open.min(bits),
            destination_prefix: bits - flow.destination_open.min(bits),
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            ds_field: None,
            flow_label: (flow.flow_label != 0).then_some(flow.flow_label),
            spi: None,
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
            direction: Direction::Downstream,
        };
        let begins_here = flow.source_open > 0 || interfaces.is_local(source);
        if !begins_here || flow_of(&mri, None).is_none() {
            return Err(Rejection::BadFlow);
        }
        Ok(mri)
    }
}

/// The QSPEC of a wish that makes sense.
fn qspec_of(wish: &Wish, purpose: Purpose) -> Result<Vec<u8>, Rejection> {
    let smallest = Rate::from_bps(8);
    let sound = wish.rate >= smallest
        && wish.burst > 0
        && wish.max_packet > 0
        && wish.peak.is_none_or(|peak| peak >= wish.rate)
        && wish.minimum.is_none_or(|minimum| {
            minimum <= wish.rate && (minimum == Rate::ZERO || minimum >= smallest)
        });
    sound.then(|| rmf::of_wish(wish, purpose)).flatten().ok_or(Rejection::BadWish)
}

fn tell(turn: &mut Turn<'_, '_>, event: Event) {
    turn.out.notify(crate::Event::Qos(event));
}

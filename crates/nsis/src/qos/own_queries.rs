//! QUERYs of this node: asked again until they are answered (RFC 5974 sections 5.2.4 and 5.4.2).

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::outcome::Outcome;
use earmark_core::timer::TimerId;
use earmark_core::{Rate, Time};
use earmark_wire::gist::{Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::{
    BoundSessions, Extra as Objects, GenericFlags, Notify, Query, Response,
};

use super::QosNslp;
use super::admission::way_out;
use super::api::{Application, Event, OnRefusal, Rejection, Request, Scope, Source};
use super::application::{Role, tell};
use super::path_extent;
use super::refresh::next_try;
use super::request::qspec_of;
use super::response::is_error;
use super::rmf::{self, Purpose};
use super::send::Addressing;
use crate::nslp::HandlerContext;

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
    pub(super) timer: Option<TimerId>,
}

/// What waits for something, beside the sessions.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// A message for another.
    Message([u8; 16]),
    /// A QUERY of an application for its answer.
    Question(Application),
    /// An aggregate, by its place, for its flows to need it less.
    Aggregate(usize),
}

impl QosNslp {
    pub(super) fn ask(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        request: Request,
        purpose: Purpose,
    ) -> Result<(), Rejection> {
        self.is_free(application)?;
        let mri = self.mri_of(cx, &request.flow)?;
        let mut qspec = qspec_of(&request.wish, purpose)?;
        let interface = way_out(cx, &mri).map_err(|_| Rejection::NoRoute)?;
        if let Some(interface) = interface {
            let left = cx.context.ledger.available(interface);
            let latency = cx.context.interfaces.by_id(interface).map_or(0, |link| link.latency_us);
            rmf::compose(&mut qspec, MessageType::Query, left, latency);
        }
        let session = match request.session {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let rii = (purpose == Purpose::Query).then(|| self.draw_rii());
        let (at, wait_ms, until) = self.first_try(cx.now);
        let timer = Some(self.waits.arm(at, Wait::Question(application)));
        let question = Question { session, mri, request, qspec, rii, until, wait_ms, timer };
        self.questions.insert(session, application);
        self.send_question(cx, &question);
        self.applications.insert(application, Role::Asker(Box::new(question)));
        Ok(())
    }

    fn send_question(&mut self, cx: &mut HandlerContext<'_, '_>, question: &Question) {
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
        self.send_query(cx, Addressing { session, mri, to: None, attributes, nslpid: None }, query);
    }

    pub(super) fn asker_of(&self, session: SessionId) -> Option<(Application, &Question)> {
        let application = *self.questions.get(&session)?;
        match self.applications.get(&application)? {
            Role::Asker(question) => Some((application, question)),
            _ => None,
        }
    }

    /// The question of an application is done with.
    pub(super) fn drop_question(&mut self, application: Application) {
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
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        rii: u32,
        response: &Response<'_>,
    ) -> bool {
        let Some((application, question)) = self.asker_of(session) else { return false };
        if question.rii != Some(rii) {
            return false;
        }
        let mri = question.mri;
        self.drop_question(application);
        let told = rmf::told(response.qspec);
        let outcome = response.info.outcome;
        let event = match told.available {
            Some(rate) if !is_error(outcome) => {
                let (latency_us, breaks) = (told.latency_us, response.flags.breaks);
                let source = response.info.source.and_then(Source::of);
                let reach = Outcome { offer: true, ..path_extent::answered(&mri, breaks, source) };
                let reach = Box::new(reach);
                Event::Offered { application, rate, latency_us, breaks, reach }
            }
            available => {
                let source = response.info.source.and_then(Source::of);
                let reaction = OnRefusal::Release;
                Event::Refused { application, outcome, source, available, reaction }
            }
        };
        tell(cx, event);
        true
    }

    /// Whether it was a QUERY of this node that nobody further on can answer: then this node does.
    pub(super) fn own_query_ends(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        rii: u32,
        query: &Query<'_>,
    ) -> bool {
        let Some((application, question)) = self.asker_of(session) else { return false };
        if question.rii != Some(rii) {
            return false;
        }
        let mri = question.mri;
        self.drop_question(application);
        let told = rmf::told(Some(query.qspec));
        let (rate, latency_us) = (told.available.unwrap_or(Rate::ZERO), told.latency_us);
        let breaks = query.flags.breaks;
        let reach = Box::new(Outcome { offer: true, ..path_extent::alone(cx, &mri) });
        tell(cx, Event::Offered { application, rate, latency_us, breaks, reach });
        true
    }

    /// Whether it was a request of this node for a RESERVE that goes no further.
    pub(super) fn own_invitation_ends(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
    ) -> bool {
        let Some((application, _)) = self.asker_of(session) else { return false };
        self.drop_question(application);
        tell(cx, Event::TimedOut { application });
        true
    }

    /// Whether a NOTIFY is about a request of this node for a RESERVE.
    pub(super) fn invitation_fails(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        notify: &Notify<'_>,
    ) -> bool {
        let Some((application, _)) = self.asker_of(session) else { return false };
        self.drop_question(application);
        let outcome = notify.info.outcome;
        let source = notify.info.source.and_then(Source::of);
        let available = rmf::told(notify.qspec).available;
        let reaction = OnRefusal::Release;
        tell(cx, Event::Refused { application, outcome, source, available, reaction });
        true
    }

    /// Repeats what waits for an answer, and gives up what has waited too long.
    pub(super) fn waiting_expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        while let Some((_, wait)) = self.waits.pop_due(cx.now) {
            match wait {
                Wait::Message(id) => self.binding_expires(cx, id),
                Wait::Question(application) => self.question_is_due(cx, application),
                Wait::Aggregate(number) => self.aggregate_shrinks(cx, number),
            }
        }
    }

    fn question_is_due(&mut self, cx: &mut HandlerContext<'_, '_>, application: Application) {
        let Some(Role::Asker(mut question)) = self.applications.remove(&application) else {
            return;
        };
        question.timer = None;
        if cx.now >= question.until {
            self.questions.remove(&question.session);
            return tell(cx, Event::TimedOut { application });
        }
        let (at, wait_ms) = next_try(cx.now, question.wait_ms, question.until);
        question.wait_ms = wait_ms;
        question.timer = Some(self.waits.arm(at, Wait::Question(application)));
        self.counters.repeated += 1;
        self.send_question(cx, &question);
        self.applications.insert(application, Role::Asker(question));
    }
}

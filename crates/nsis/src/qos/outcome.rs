//! Results of requests of this node: responses, refusals and timeouts.

use alloc::boxed::Box;

use earmark_core::Rate;
use earmark_wire::qos_nslp::Response;
use earmark_wire::qos_nslp::iana::MessageType;

use super::QosNslp;
use super::api::{Application, Event, OnRefusal, Source};
use super::path_extent;
use super::qspec;
use super::response::is_error;
use super::rmf;
use super::state::{Flags, Index, PendingRequest};
use crate::nslp::HandlerContext;

impl QosNslp {
    /// Handles the response to a request of this node.
    pub(super) fn handle_request_response(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        response: &Response<'_>,
    ) {
        let outcome = response.info.outcome;
        let session = self.store.session_mut(index);
        let application = session.application();
        let is_initiator = session.is_initiator();
        if let Some(extra) = &mut session.extra {
            extra.request = None;
        }
        if session.is_aggregate() {
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
        if is_initiator && self.repeat_over_association(cx, index, outcome) {
            return;
        }
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
        if session.is_aggregate() {
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

    /// Completes a request of this node for a session of which it is also the last node.
    pub(super) fn complete_locally(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        if session.flags.has(Flags::TORN) {
            self.finish_release(cx, index);
            return self.forget(cx, index);
        }
        if session.is_aggregate() {
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

//! Dispatch of commands, and of the calls of GIST.

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::outcome::Translation;
use earmark_core::{HostEvent, Interface, InterfaceId, Time};
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::qos_nslp::Message;

use super::QosNslp;
use super::api::{Application, Command, Event};
use super::flow::outgoing_interface;
use super::oversize::needs_association;
use super::qspec::Purpose;
use super::receive::{back, outcome_of};
use super::send::info_here;
use crate::nslp::{
    Attributes, HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received,
    SendFailure, SendMessage,
};

impl Nslp for QosNslp {
    fn id(&self) -> u16 {
        self.nslpid_of_level(false)
    }

    fn serves(&self, nslpid: u16) -> bool {
        nslpid == self.id() || !self.config.inner.is_empty() && nslpid == self.nslpid_of_level(true)
    }

    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        _answer: &mut Vec<u8>,
    ) -> Peering {
        let takes_part = match query.mri {
            // QoS NSLP does not use loose ends, but a peer that does gets an error.
            Mri::LooseEnd(_) => true,
            // Messages of the next level are handled at the egress of the domain.
            Mri::PathCoupled(mri) if cx.nslpid != self.id() || self.is_deaggregator(cx, query) => {
                self.ends_domain(cx, query.interface, &mri)
            }
            Mri::PathCoupled(mri) => match outgoing_interface(cx, &mri) {
                Ok(None) => true,
                Ok(Some(interface)) => {
                    let link = cx.context.interfaces.by_id(interface);
                    link.is_some_and(Interface::takes_part)
                }
                Err(_) => false,
            },
        };
        if takes_part { Peering::Accept } else { Peering::Pass }
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        if message.data.is_empty() {
            return;
        }
        // The parsed message is large, and is used in place.
        let parsed = Message::parse(message.data);
        mark(Checkpoint::Parse);
        match &parsed {
            Ok(found @ Message::Reserve(reserve)) => {
                if self.completes(cx, message, found, reserve.qspec) {
                    return;
                }
                self.counters.reserves += 1;
                self.hold_or_handle_reserve(cx, message, reserve);
            }
            Ok(found @ Message::Query(query)) => {
                if self.completes(cx, message, found, Some(query.qspec)) {
                    return;
                }
                self.counters.queries += 1;
                self.receive_query(cx, message, query);
            }
            Ok(found @ Message::Response(response)) => {
                if self.completes(cx, message, found, response.qspec) {
                    return;
                }
                self.counters.responses += 1;
                self.receive_response(cx, message, response);
            }
            Ok(found @ Message::Notify(notify)) => {
                if self.completes(cx, message, found, notify.qspec) {
                    return;
                }
                self.counters.notifies += 1;
                self.receive_notify(cx, message, notify);
            }
            Err(error) => return self.malformed(cx, message, error),
        }
        self.finish_input(cx);
    }

    fn status(
        &mut self,
        _cx: &mut HandlerContext<'_, '_>,
        _message: MessageHandle,
        _failure: SendFailure,
    ) {
    }

    fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &SendMessage,
        data: &[u8],
        failure: SendFailure,
    ) {
        match Message::parse(data) {
            Ok(Message::Reserve(reserve)) if message.to.is_none() => {
                self.reserve_undelivered(cx, message, &reserve, failure);
            }
            Ok(Message::Query(query)) if failure == SendFailure::NoNextNode => {
                self.handle_query_end(cx, message, &query);
            }
            Ok(Message::Query(query))
                if self.own_query_undelivered(cx, message, &query, failure) => {}
            Ok(Message::Query(query)) => {
                let addressing = back(message);
                let outcome = outcome_of(failure, message.mri.direction());
                let info = info_here(cx, None, &addressing.mri, outcome);
                self.send_refusal(cx, addressing, query.rii, info, None);
            }
            Ok(Message::Response(response)) if needs_association(failure) => {
                self.shorten_response(cx, message, &response);
            }
            Ok(Message::Notify(notify)) if needs_association(failure) => {
                self.shorten_notify(cx, message, &notify);
            }
            // The requesting node retransmits.
            _ => {}
        }
    }

    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        self.handle_notification(cx, notification);
    }

    fn translated(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        flow: (SessionId, Mri),
        translation: Translation,
    ) {
        self.report_translation(cx, flow, translation);
    }

    fn other_session_ended(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: SessionId,
        arrival: Option<InterfaceId>,
    ) {
        self.note_end(cx.now, session, arrival);
    }

    fn host_changes(&mut self, cx: &mut HandlerContext<'_, '_>, event: &HostEvent) {
        match event {
            HostEvent::Displaced(displaced) => self.handle_preemption(cx, displaced),
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.handle_control_failure(cx, *claim, *owner);
            }
            // Routes are looked up with each refresh, and GIST reports changes of the next node.
            _ => {}
        }
        self.finish_input(cx);
    }

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.expire_timers(cx);
        self.finish_input(cx);
    }

    fn next_deadline(&self) -> Option<Time> {
        match (self.store.timers.next_deadline(), self.waits.next_deadline()) {
            (Some(sessions), Some(others)) => Some(sessions.min(others)),
            (sessions, others) => sessions.or(others),
        }
    }
}

impl QosNslp {
    /// Executes a command of an application.
    pub fn command(&mut self, cx: &mut HandlerContext<'_, '_>, command: Command) {
        let (application, result) = match command {
            Command::Reserve { application, request } => {
                (application, self.start_reservation(cx, application, &request))
            }
            Command::Modify { application, qos } => {
                (application, self.modify(cx, application, &qos))
            }
            Command::Release { application } => {
                (application, self.release_application(cx, application))
            }
            Command::Query { application, request } => {
                (application, self.start_query(cx, application, request, Purpose::Query))
            }
            Command::Invite { application, request } => {
                (application, self.start_query(cx, application, request, Purpose::Invite))
            }
            Command::Listen { application, listen } => {
                (application, self.listen(application, listen))
            }
        };
        if let Err(reason) = result {
            cx.report(Event::Rejected { application, reason });
        }
        self.finish_input(cx);
    }

    /// Returns the attributes of the transport that a command needs, and its application.
    pub(crate) fn wanted_transport(&self, command: &Command) -> Option<(Application, Attributes)> {
        match command {
            Command::Reserve { application, request }
            | Command::Query { application, request }
            | Command::Invite { application, request } => {
                Some((*application, request.attributes.unwrap_or(self.config.attributes)))
            }
            Command::Modify { .. } | Command::Release { .. } | Command::Listen { .. } => None,
        }
    }

    /// Completes the handling of one input: checks the aggregates, and sends summary tears.
    pub(super) fn finish_input(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.check_aggregates(cx);
        self.send_summary_tears(cx);
    }
}

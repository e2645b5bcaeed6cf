//! Dispatch of messages, and of the calls of GIST.

use alloc::vec::Vec;

use earmark_core::{Endpoint, FilterEvent, FilterRule, HostEvent, Time};
use earmark_wire::gist::Direction;
use earmark_wire::natfw_nslp::iana::{MessageType, NSLPID};
use earmark_wire::natfw_nslp::{Message, ParseError, PartialMessage};

use super::api::Event;
use super::counters::DropReason;
use super::instance::NatfwNslp;
use super::received::Request;
use crate::nslp::{
    HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received, SendFailure,
    SendMessage,
};

impl Nslp for NatfwNslp {
    fn id(&self) -> u16 {
        NSLPID
    }

    /// A node on which NATFW NSLP is off forwards its messages like those of unknown applications.
    fn serves(&self, nslpid: u16) -> bool {
        self.config.enabled && nslpid == NSLPID
    }

    /// The translator makes the translations.
    fn is_about_packets(&self) -> bool {
        false
    }

    /// Firewalls and translators take part, and the ends.
    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        _answer: &mut Vec<u8>,
    ) -> Peering {
        let (source, destination) = query.mri.addresses();
        let end = match query.mri.direction() {
            Direction::Downstream => destination,
            Direction::Upstream => source,
        };
        match self.config.is_middlebox() || cx.context.interfaces.is_local(end) {
            true => Peering::Accept,
            false => Peering::Pass,
        }
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        if message.data.is_empty() {
            return;
        }
        let parsed = match Message::parse(message.data) {
            Ok(parsed) => parsed,
            Err(error) => return self.malformed(cx, message, &error),
        };
        match &parsed {
            Message::Create(create) => {
                self.counters.creates += 1;
                match message.origin.peer {
                    Some(peer) => {
                        self.receive_request(cx, &Request::of_create(message, peer, create));
                    }
                    None => self.ignore(cx, message, DropReason::NoPeer),
                }
            }
            Message::External(external) => {
                self.counters.externals += 1;
                match message.origin.peer {
                    Some(peer) => {
                        self.receive_request(cx, &Request::of_external(message, peer, external));
                    }
                    None => self.ignore(cx, message, DropReason::NoPeer),
                }
            }
            Message::Response(response) => {
                self.counters.responses += 1;
                self.receive_response(cx, message, response);
            }
            Message::Notify(notify) => {
                self.counters.notifies += 1;
                self.receive_notify(cx, message, notify);
            }
        }
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
        let is_request = match PartialMessage::parse(data) {
            // A request that deletes its session is not repeated.
            PartialMessage { message_type: Some(kind), lifetime: Some(1..), .. } => {
                matches!(kind, MessageType::Create | MessageType::External)
            }
            _ => false,
        };
        if is_request {
            self.request_undelivered(cx, message, failure);
        }
    }

    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        self.handle_notification(cx, notification);
    }

    fn host_changes(&mut self, cx: &mut HandlerContext<'_, '_>, event: &HostEvent) {
        match event {
            HostEvent::Filter(FilterEvent::Refused { packets, errno }) => {
                self.rule_refused(cx, *packets, *errno);
            }
            HostEvent::Filter(FilterEvent::Adopted(rule, until)) => self.adopt(rule, *until),
            _ => {}
        }
    }

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.expire_timers(cx);
    }

    fn next_deadline(&self) -> Option<Time> {
        self.store.timers.next_deadline()
    }
}

impl NatfwNslp {
    /// Handles a malformed message. A request gets a response (RFC 5973 section 3.3).
    #[cold]
    fn malformed(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        error: &ParseError,
    ) {
        self.counters.malform(error.kind.name());
        let (session, interface) = (message.session, message.interface);
        cx.report(Event::Dropped { reason: DropReason::Malformed, session, interface });
        let response = error.response(&PartialMessage::parse(message.data));
        let (Some(response), Some(peer)) = (response, message.origin.peer) else { return };
        self.send(cx, self.back_to(message, peer), &Message::Response(response));
    }

    /// Keeps the binding of a rule that an earlier run of this node has left in the packet filter. Rules without translation
    /// end by themselves, or are installed again by their session.
    fn adopt(&mut self, rule: &FilterRule, until: Time) {
        let flow = &rule.packets.flow;
        if let (Some(external), Some(source)) = (rule.source, flow.source)
            && external.port != 0
        {
            let internal = Endpoint { address: source, port: flow.source_port };
            self.bindings.adopt(flow.protocol, internal, external, until);
        }
        if let Some(internal) = rule.destination.filter(|internal| internal.port != 0) {
            let (address, port) = (flow.destination, flow.destination_port);
            let external = Endpoint { address, port };
            self.bindings.adopt(flow.protocol, internal, external, until);
        }
    }
}

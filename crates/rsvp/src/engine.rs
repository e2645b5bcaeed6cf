//! The engine: takes an input to the rules that treat it.

use core::net::IpAddr;

use earmark_core::admission::Displaced;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, Effects, Engine, HostEvent, Input, Interface, Time};
use earmark_wire::rsvp::{Body, ErrorKind, Message, MessageType, ParseError, PartialMessage};

use crate::api::{Command, Event};
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Rsvp};
use crate::path::is_neighbor;
use crate::refresh_reduction::message_id_key::MessageIdKey;
use crate::refresh_reduction::unbundled;
use crate::repair::Changed;
use crate::state::TimerKind;

/// Timers that one [`Input::Expire`] treats at most; the rest is due at once again.
const TIMERS_PER_TURN: usize = 256;

impl Engine for Rsvp {
    type Command = Command;
    type Event = Event;
    type TimerKind = TimerKind;

    fn handle<E: From<Event>>(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<E>,
    ) {
        let before = out.len();
        let mut cx = HandlerContext { now, context, out, name: MessageIdKey::NONE, owed: None };
        match input {
            Input::Datagram(datagram) => self.message_arrives(&mut cx, &datagram, None),
            // It has no connections.
            Input::Stream(_) => {}
            Input::Expire => self.timers_expire(&mut cx),
            Input::Command(command) => self.command(&mut cx, command),
            Input::Host(event) => self.host_changes(&mut cx, &event),
        }
        if let Some(integrity) = &mut self.integrity {
            integrity.sign(now, cx.context, before, &mut self.counters, cx.out);
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind))
    }
}

impl Rsvp {
    fn host_changes<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        if self.integrity.is_some() {
            self.host_changes_for_neighbors(cx, event);
        }
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, errno } => {
                self.traffic_control_refuses(cx, claim, owner, errno);
            }
            HostEvent::Displaced(Displaced { claim, owner, kept, by }) => {
                self.give_way(cx, claim, owner, kept, by);
            }
            // What it refuses it answers, and the receiver asks again; it has nobody wait.
            HostEvent::Grantable { .. } => {}
            HostEvent::RouteChanged(prefix) => {
                self.routes_change(cx.now, Changed::Prefix(prefix));
            }
            HostEvent::MulticastRouteChanged { source, group } => {
                self.routes_change(cx.now, Changed::Group(source, group));
            }
            // Routes through it may lead elsewhere now, or nowhere.
            HostEvent::InterfaceChanged(interface) => {
                self.routes_change(cx.now, Changed::Anything);
                self.interface_changes(cx, interface);
            }
        }
        if !self.announced.is_empty() {
            self.start_proxies(cx);
        }
    }

    /// A message arrives, by itself or in a Bundle that was sent with TTL `bundled`.
    pub(crate) fn message_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        bundled: Option<u8>,
    ) {
        if self.integrity.is_some() && !self.is_authentic(cx, datagram) {
            return;
        }
        let takes_part =
            cx.context.interfaces.by_id(datagram.interface).is_some_and(Interface::takes_part);
        // A message is large, so it is looked at where it was made.
        let mut parsed = Message::parse(datagram.payload);
        let message = match &mut parsed {
            Ok(message) => message,
            Err(error) => return self.malformed_arrives(cx, datagram, error, takes_part),
        };
        mark(Checkpoint::Parse);
        if message.body.session().is_none() {
            return self.neighbor_speaks(cx, datagram, message, takes_part);
        }
        let alone;
        let datagram = match bundled {
            None => datagram,
            Some(send_ttl) => {
                message.send_ttl = send_ttl;
                alone = unbundled(datagram, &message.body);
                &alone
            }
        };
        // RFC 2209, MESSAGE ARRIVES: what is on its way to another node goes on, but for the kinds that every node
        // on the way must look at.
        let for_every_node =
            matches!(message.body, Body::Path(_) | Body::PathTear(_) | Body::ResvConf(_));
        if !takes_part || (!for_every_node && passes_by(cx.context, datagram.destination)) {
            return self.relay(cx, datagram);
        }
        if !self.config.limits.interfaces.is_empty()
            && !self.listens_to(cx.context, datagram, &message.body)
        {
            return self.drop(cx, datagram, DropReason::UnknownNeighbor);
        }
        self.counters.receive(message.body.message_type());
        if datagram.encapsulated {
            self.encapsulating.insert(datagram.interface);
        }
        self.receive_leading_objects(cx, datagram, message);
        match &message.body {
            Body::Path(path) => self.path_arrives(cx, datagram, message, path),
            Body::Resv(resv) => self.resv_arrives(cx, datagram, resv),
            Body::PathErr(error) => self.path_err_arrives(cx, datagram, error),
            Body::ResvErr(error) => self.resv_err_arrives(cx, datagram, error),
            Body::PathTear(tear) => self.path_tear_arrives(cx, datagram, tear),
            Body::ResvTear(tear) => self.resv_tear_arrives(cx, datagram, tear),
            Body::ResvConf(confirmation) => self.resv_conf_arrives(cx, datagram, confirmation),
            Body::Dreq(question) => self.dreq_arrives(cx, datagram, message.send_ttl, question),
            Body::Drep(answer) => self.drep_arrives(cx, datagram, answer),
            _ => self.unsupported_arrives(cx, datagram),
        }
    }

    /// A message that is about no session, but between neighbours.
    fn neighbor_speaks<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        takes_part: bool,
    ) {
        // A summary may go to the group that it is about, and so to whoever forwards packets to it.
        let to_group =
            matches!(message.body, Body::Srefresh(_)) && datagram.destination.is_multicast();
        if !takes_part || !(to_group || cx.context.interfaces.is_local(datagram.destination)) {
            return self.relay(cx, datagram);
        }
        let is_reduction = !matches!(message.body, Body::Hello(_));
        if is_reduction && !self.config.reduction.enabled {
            return self.unsupported_arrives(cx, datagram);
        }
        if !is_neighbor(cx.context, datagram.source) {
            return self.drop(cx, datagram, DropReason::BadHop);
        }
        if !self.config.limits.interfaces.is_empty()
            && !self.listens_to(cx.context, datagram, &message.body)
        {
            return self.drop(cx, datagram, DropReason::UnknownNeighbor);
        }
        self.counters.receive(message.body.message_type());
        match &message.body {
            Body::Bundle(bundle) => {
                self.receive_bundle(cx, datagram, message.send_ttl, bundle);
            }
            Body::Ack => self.receive_leading_objects(cx, datagram, message),
            Body::Srefresh(srefresh) => {
                self.receive_leading_objects(cx, datagram, message);
                self.receive_srefresh(cx, datagram, srefresh);
            }
            Body::Hello(hello) => {
                self.receive_leading_objects(cx, datagram, message);
                self.hello_arrives(cx, datagram, hello);
            }
            _ => self.unsupported_arrives(cx, datagram),
        }
    }

    /// A message of a kind that this engine does not take part in: as good as one of an unknown type.
    #[cold]
    fn unsupported_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        *self.counters.malformed.entry(ErrorKind::MessageType.name()).or_default() += 1;
        self.drop(cx, datagram, DropReason::Malformed);
    }

    /// Counts a message that cannot be read, and answers it where RFC 2205 has an answer.
    fn malformed_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ParseError,
        takes_part: bool,
    ) {
        // What a neighbour sends to another node is that node's to judge.
        let hop_by_hop = matches!(
            PartialMessage::scan(datagram.payload).message_type,
            MessageType::Resv | MessageType::PathErr | MessageType::ResvErr | MessageType::ResvTear
        );
        if !takes_part || (hop_by_hop && passes_by(cx.context, datagram.destination)) {
            return self.relay(cx, datagram);
        }
        *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
        if let Some((code, value)) = error.report() {
            self.answer_malformed(cx, datagram, code, value);
        }
        self.drop(cx, datagram, DropReason::Malformed);
    }

    fn timers_expire<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind {
                TimerKind::Sender => self.sender_is_due(cx, timer.block),
                TimerKind::Reservation => self.reservation_is_due(cx, timer.block),
                TimerKind::Handshake => self.handshake_is_due(cx),
                TimerKind::Pool => self.pool_is_due(cx, timer.block),
                TimerKind::Repair => self.repair_is_due(cx),
                TimerKind::Departure => self.departures_are_due(cx),
                TimerKind::Trace => self.trace_is_due(cx, timer.block),
                TimerKind::Acknowledgement => self.acknowledgements_due(cx),
                TimerKind::Retransmission => self.retransmissions_due(cx),
                TimerKind::Summary => self.summary_due(cx, timer.block),
                TimerKind::Hello => self.hello_is_due(cx, timer.block),
            }
        }
    }
}

/// Whether a message with this destination is another node's.
fn passes_by(context: &Context<'_>, destination: IpAddr) -> bool {
    !destination.is_multicast() && !context.interfaces.is_local(destination)
}

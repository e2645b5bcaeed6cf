//! Engine contract: dispatch of inputs to the handlers of each message type and timer.

use core::net::IpAddr;

use earmark_core::admission::Displaced;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, Effects, Engine, HostEvent, Input, Time};
use earmark_wire::rsvp::{Body, ErrorKind, Message, MessageType, ParseError, PartialMessage};

use crate::api::{Command, Event};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::{NEIGHBOR_TTL, Rsvp};
use crate::neighbors::address::is_neighbor;
use crate::neighbors::refresh_reduction::unbundled;
use crate::rules::repair::RepairCause;
use crate::state::TimerKind;
use crate::state::message_id_key::MessageIdKey;

/// Limit of timers handled by one [`Input::Expire`]; the rest is due again at once.
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
        let mut cx = HandlerContext {
            now,
            context,
            out,
            verified: None,
            is_from_this_link: false,
            message_id: MessageIdKey::NONE,
            acknowledge_to: None,
            is_repeated: false,
        };
        match input {
            Input::Datagram(datagram) => self.receive_message(&mut cx, &datagram, None),
            // RSVP has no connections.
            Input::Stream(_) => {}
            Input::Expire => self.expire_timers(&mut cx),
            Input::Command(command) => self.command(&mut cx, command),
            Input::Host(event) => self.host_changed(&mut cx, &event),
        }
        if self.notifications.is_waiting() {
            self.send_notifications(&mut cx);
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
    fn host_changed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        if self.integrity.is_some() {
            self.host_changed_for_neighbors(cx, event);
        }
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, errno } => {
                self.traffic_control_refused(cx, claim, owner, errno);
            }
            HostEvent::Displaced(Displaced { claim, owner, kept, by }) => {
                self.reservation_preempted(cx, claim, owner, kept, by);
            }
            // Refused requests are answered at once, so none waits for bandwidth; the receiver repeats its request.
            HostEvent::Grantable { .. } => {}
            // RSVP has no rules in the packet filter.
            HostEvent::Filter(_) => {}
            HostEvent::Adopted => return self.recover(cx.now),
            HostEvent::RouteChanged(prefix) => {
                self.note_change(cx, RepairCause::Prefix(prefix));
            }
            HostEvent::MulticastRouteChanged { source, group } => {
                self.note_change(cx, RepairCause::Group(source, group));
            }
            // Routes through the interface may have changed or ended.
            HostEvent::InterfaceChanged(interface) => {
                self.set_interface_timing(cx, interface);
                self.note_change(cx, RepairCause::Interface(interface));
                self.interface_changed(cx, interface);
            }
        }
        if !self.sender_proxies.is_empty() {
            self.start_proxies(cx);
        }
    }

    /// Handles a message, received alone or in a Bundle that was sent with TTL `bundled`.
    pub(crate) fn receive_message<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        bundled: Option<u8>,
    ) {
        if self.integrity.is_some() {
            cx.verified = None; // of another message in a Bundle
            if !self.is_authentic(cx, datagram) {
                return;
            }
        }
        cx.is_from_this_link = datagram.ttl == NEIGHBOR_TTL && !datagram.encapsulated;
        let takes_part = cx.context.interfaces.takes_part(datagram.interface);
        // Parsed in place because a message is large.
        let mut parsed = Message::parse(datagram.payload);
        let message = match &mut parsed {
            Ok(message) => message,
            Err(error) => return self.receive_malformed(cx, datagram, error, takes_part),
        };
        mark(Checkpoint::Parse);
        if datagram.encapsulated {
            self.encapsulating.insert(datagram.interface);
        }
        if message.body.session().is_none() {
            return self.receive_neighbor_message(cx, datagram, message, takes_part);
        }
        let alone;
        let datagram = match bundled {
            None => datagram,
            Some(send_ttl) => {
                // The Send_TTL of an error counts the nodes that may forward it.
                if !matches!(message.body, Body::PathErr(_) | Body::ResvErr(_)) {
                    message.send_ttl = send_ttl;
                }
                alone = unbundled(datagram, &message.body);
                &alone
            }
        };
        // RFC 2209, MESSAGE ARRIVES: messages to other nodes are forwarded, except the types that every node on the
        // path examines.
        let for_every_node =
            matches!(message.body, Body::Path(_) | Body::PathTear(_) | Body::ResvConf(_));
        if !takes_part || (!for_every_node && is_for_other_node(cx.context, datagram.destination)) {
            return self.relay_foreign(cx, datagram);
        }
        if !self.config.limits.interfaces.is_empty()
            && !self.accepts_neighbor(cx.context, datagram, &message.body)
        {
            return self.drop(cx, datagram, DropReason::UnknownNeighbor);
        }
        if for_every_node && !datagram.router_alert && self.needs_router_alert(cx.context, datagram)
        {
            return self.drop(cx, datagram, DropReason::NoRouterAlert);
        }
        self.counters.receive(message.body.message_type());
        self.receive_leading_objects(cx, datagram, message);
        match &message.body {
            Body::Path(path) => self.receive_path(cx, datagram, message, path),
            Body::Resv(resv) => self.receive_resv(cx, datagram, resv),
            Body::PathErr(_) | Body::ResvErr(_) | Body::ResvConf(_) if cx.is_repeated => {
                self.drop(cx, datagram, DropReason::Repeated);
            }
            Body::PathErr(error) => self.receive_path_err(cx, datagram, message.send_ttl, error),
            Body::ResvErr(error) => self.receive_resv_err(cx, datagram, message.send_ttl, error),
            Body::PathTear(tear) => self.receive_path_tear(cx, datagram, tear),
            Body::ResvTear(tear) => self.receive_resv_tear(cx, datagram, tear),
            Body::ResvConf(confirmation) => self.receive_resv_conf(cx, datagram, confirmation),
            Body::Dreq(question) => self.receive_dreq(cx, datagram, message.send_ttl, question),
            Body::Drep(answer) => self.receive_drep(cx, datagram, answer),
            Body::RecoveryPath(path) if self.config.hello.restart.restart_time.is_some() => {
                self.receive_recovery_path(cx, datagram, path);
            }
            _ => self.receive_unsupported(cx, datagram),
        }
    }

    /// Handles a message between neighbours that concerns no session.
    fn receive_neighbor_message<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        takes_part: bool,
    ) {
        // A summary refresh may be sent to the group that it is about, and so arrive at nodes that forward the group's
        // packets.
        let to_group =
            matches!(message.body, Body::Srefresh(_)) && datagram.destination.is_multicast();
        if !takes_part || !(to_group || cx.context.interfaces.is_local(datagram.destination)) {
            return self.relay_foreign(cx, datagram);
        }
        if let Body::Notify(notify) = &message.body
            && self.config.notify.enabled
        {
            self.counters.receive(message.body.message_type());
            return self.receive_notify(cx, datagram, message, notify);
        }
        let is_reduction = !matches!(message.body, Body::Hello(_));
        if is_reduction && !self.config.reduction.enabled {
            return self.receive_unsupported(cx, datagram);
        }
        if !is_neighbor(cx.context, datagram.source) {
            return self.drop(cx, datagram, DropReason::BadHop);
        }
        if !self.config.limits.interfaces.is_empty()
            && !self.accepts_neighbor(cx.context, datagram, &message.body)
        {
            return self.drop(cx, datagram, DropReason::UnknownNeighbor);
        }
        if matches!(message.body, Body::Ack) && self.acknowledge_far(datagram.source, message) {
            return self.counters.receive(message.body.message_type());
        }
        // The TTL of a Bundle is that of its messages, and that of a Hello is 1.
        if matches!(message.body, Body::Ack | Body::Srefresh(_))
            && let Err(reason) = self.may_act_at(cx, datagram, datagram.interface, datagram.source)
        {
            return self.drop(cx, datagram, reason);
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
                self.receive_hello(cx, datagram, hello);
            }
            _ => self.receive_unsupported(cx, datagram),
        }
    }

    /// Handles a message type without support: dropped like an unknown type.
    #[cold]
    fn receive_unsupported<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        *self.counters.malformed.entry(ErrorKind::MessageType.name()).or_default() += 1;
        self.drop(cx, datagram, DropReason::Malformed);
    }

    /// Counts a malformed message, and sends an error if RFC 2205 defines one.
    fn receive_malformed<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ParseError,
        takes_part: bool,
    ) {
        // A message to another node is for that node to check, if not every node on the path examines its type.
        let hop_by_hop = matches!(
            PartialMessage::scan(datagram.payload).message_type,
            MessageType::Resv
                | MessageType::PathErr
                | MessageType::ResvErr
                | MessageType::ResvTear
                | MessageType::Notify
        );
        if !takes_part || (hop_by_hop && is_for_other_node(cx.context, datagram.destination)) {
            return self.relay_foreign(cx, datagram);
        }
        *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
        if let Some((code, value)) = error.report() {
            self.answer_malformed(cx, datagram, code, value);
        }
        self.drop(cx, datagram, DropReason::Malformed);
    }

    fn expire_timers<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        if self.timing_change.is_some() {
            self.let_periods_rise(cx.now);
        }
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind {
                TimerKind::Sender => self.sender_due(cx, timer.block),
                TimerKind::Reservation => self.reservation_due(cx, timer.block),
                TimerKind::Handshake => self.handshake_due(cx),
                TimerKind::Pool => self.pool_due(cx, timer.block),
                TimerKind::Repair => self.repair_due(cx),
                TimerKind::Departure => self.departures_due(cx),
                TimerKind::FormerHop => self.former_hops_due(cx.now),
                TimerKind::Trace => self.trace_due(cx, timer.block),
                TimerKind::Acknowledgement => self.acknowledgements_due(cx),
                TimerKind::Retransmission => self.retransmissions_due(cx),
                TimerKind::Summary => self.summary_due(cx, timer.block),
                TimerKind::Hello => self.hello_due(cx, timer.block),
                TimerKind::Token => self.tokens_due(cx),
                TimerKind::Increase => self.increases_due(cx),
                TimerKind::Restart => self.restarts_due(cx),
            }
        }
    }
}

/// Returns whether a destination is another node's.
fn is_for_other_node(context: &Context<'_>, destination: IpAddr) -> bool {
    !destination.is_multicast() && !context.interfaces.is_local(destination)
}

//! Events of connections: associations that are established or closed, and messages over them (RFC 5971 sections 5.4
//! and 6.4).

use core::mem;
use core::net::SocketAddr;

use earmark_core::{CloseReason, ConnectionId, InterfaceId, StreamEvent, Transport};
use earmark_wire::gist::{Body, ErrorCode, Header, Hello, Message, MessageType, Mode, message_len};

use super::Gist;
use super::association::{Association, Stage, decode};
use super::counters::DropReason;
use super::event_data::EventData;
use super::machine::{Event, Facts};
use super::prefix_form::PrefixForm;
use super::receipt::Receipt;
use super::state::{Index, NONE, Needs, Timer, TimerPurpose};
use super::tolerated_prefix::with_mri;
use super::translation::LocalForm;
use super::transmit::message;
use crate::PORT;
use crate::input_context::InputContext;
use crate::nslp::{AssociationId, Channel};

/// Limit of routing states that are notified of their association for one input; the others follow at once.
const MAX_NOTIFIED_PER_INPUT: usize = 256;

impl Gist {
    /// Handles an event of a connection.
    pub(crate) fn stream(&mut self, cx: &mut InputContext<'_, '_>, event: &StreamEvent<'_>) {
        match *event {
            StreamEvent::Open { connection, local, peer, transport } => {
                match self.associations.by_connection.get(&connection).copied() {
                    Some(index) => self.association_opened(cx, index),
                    None => self.accept(cx, connection, local, peer, transport),
                }
            }
            StreamEvent::Data { connection, octets } => {
                if let Some(&index) = self.associations.by_connection.get(&connection) {
                    self.receive_octets(cx, index, octets);
                }
            }
            StreamEvent::Closed { connection, reason } => {
                if let Some(&index) = self.associations.by_connection.get(&connection) {
                    self.fail_association(cx, index, reason);
                }
            }
        }
    }

    /// Handles the establishment of an association that this node has opened: tg_Connected.
    fn association_opened(&mut self, cx: &mut InputContext<'_, '_>, index: Index) {
        let Some(association) = self.associations.get_mut(index) else { return };
        association.stage = Stage::Open;
        (association.last_received, association.last_sent) = (cx.now, cx.now);
        association.next_waiting = association.first_user;
        self.counters.associations_opened += 1;
        self.schedule_hello(cx.now, index, cx.now);
        self.confirm_waiting(cx, index);
    }

    /// Sends the Confirms of some of the routing states that wait for an association.
    pub(super) fn confirm_waiting(&mut self, cx: &mut InputContext<'_, '_>, index: Index) {
        for _ in 0..MAX_NOTIFIED_PER_INPUT {
            let Some(association) = self.associations.get_mut(index) else { return };
            let Some(half) = decode(association.next_waiting) else {
                return self.arm_association(cx.now, index);
            };
            association.next_waiting = self.store.half(half).next_user;
            if !self.store.half(half).awaits_association() {
                continue;
            }
            let mut at = self.half_ref(half);
            let queue = self.store.half(half).queue;
            let queue = self.store.queues.get_mut(queue as usize);
            let Some(handshake) = queue.and_then(|queue| queue.handshake.take()) else { continue };
            if self.is_rerouted(cx, &at) {
                self.check_route(cx, &mut at);
                continue;
            }
            let event_data = EventData::Established { handshake: &handshake };
            self.step(cx, &mut at, Event::AssociationEstablished, Facts::default(), &event_data);
        }
        self.arm_association(cx.now, index);
    }

    /// Accepts a connection of a neighbor. The association is half open until its peer is known.
    fn accept(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        connection: ConnectionId,
        local: SocketAddr,
        remote: SocketAddr,
        transport: Transport,
    ) {
        let limits = self.config.limits;
        // The neighbor was reached by this route; the address that it has connected to says nothing about it.
        let interface = cx.context.routes.lookup(remote.ip()).map(|hop| hop.interface);
        let interface = interface
            .or_else(|| cx.context.interfaces.owner_of(local.ip()))
            .unwrap_or(InterfaceId(0));
        let is_half_open = |one: &Association| matches!(one.stage, Stage::HalfOpen { .. });
        let same = |one: &Association| is_half_open(one) && one.remote.ip() == remote.ip();
        let of_same = self.associations.slab.iter().filter(|(_, one)| same(one)).count();
        let too_weak = transport == Transport::Tcp && self.least_needs() == Needs::Secure;
        let half_open = self.bounds(cx, limits.half_open);
        let all = self.bounds(cx, limits.associations);
        let crowded = !self.associations.half_open.admits(interface, half_open)
            || !self.associations.shares.admits(interface, all)
            || of_same >= limits.half_open.div_ceil(4) as usize;
        if too_weak || crowded {
            self.counters.associations_refused += 1;
            return cx.out.close(connection);
        }
        let until = cx.now + self.config.associations.connect_timeout;
        let index = self.associations.insert(Association {
            connection,
            transport,
            stage: Stage::HalfOpen { until },
            peer: NONE,
            local,
            remote,
            interface,
            is_ours: false,
            hold_time_sent: true,
            first_user: NONE,
            next_waiting: NONE,
            uses: 0,
            hold_time: self.config.associations.hold_time,
            last_received: cx.now,
            last_sent: cx.now,
            hello_at: earmark_core::Time::MAX,
            buffer: alloc::vec::Vec::new(),
            timer: None,
        });
        self.arm_association(cx.now, index);
    }

    /// Handles octets: the rest of a message, whole messages, and the beginning of another one, each possibly missing.
    fn receive_octets(&mut self, cx: &mut InputContext<'_, '_>, index: Index, octets: &[u8]) {
        let Some(association) = self.associations.get_mut(index) else { return };
        association.last_received = cx.now;
        let mut buffer = mem::take(&mut association.buffer);
        // Usually messages arrive whole.
        let mut rest = if buffer.is_empty() {
            octets
        } else {
            buffer.extend_from_slice(octets);
            &buffer[..]
        };
        loop {
            let Some(association) = self.associations.get(index) else { return };
            let longest = match association.stage {
                Stage::Closed(_) => return,
                Stage::HalfOpen { .. } => self.config.limits.half_open_octets as usize,
                Stage::Opening { .. } | Stage::Open => usize::MAX,
            };
            match message_len(rest) {
                Ok(Some(length)) if length > longest => {
                    return self.end_association(cx, index, CloseReason::Broken);
                }
                Ok(Some(length)) if length <= rest.len() => {
                    let (message, behind) = rest.split_at(length);
                    rest = behind;
                    self.receive_stream_message(cx, index, message);
                }
                Ok(_) => break,
                Err(error) => {
                    // The start of the next message is unknown now.
                    *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                    let receipt = receipt(association, index, rest);
                    if let Some(answer) = error.error_data(rest, Mode::C) {
                        self.send_error(cx, &receipt, answer);
                    }
                    return self.end_association(cx, index, CloseReason::Broken);
                }
            }
        }
        let left = rest.to_vec();
        let keeps = buffer.capacity() <= 4_096;
        let Some(association) = self.associations.get_mut(index) else { return };
        association.buffer = if left.is_empty() && keeps {
            buffer.clear();
            buffer
        } else {
            left
        };
    }

    /// Handles a whole message on an association.
    fn receive_stream_message(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        index: Index,
        octets: &[u8],
    ) {
        let Some(association) = self.associations.get(index) else { return };
        let half_open = matches!(association.stage, Stage::HalfOpen { .. });
        let mut receipt = receipt(association, index, octets);
        let Ok(header) = Header::parse(octets) else { return };
        receipt.nslpid = header.nslpid;
        receipt.explicitly_routed = header.flags.explicitly_routed;
        let Some(hops) = header.hops.checked_sub(1) else {
            self.refuse(cx, &receipt, ErrorCode::HopLimitExceeded, 0);
            return self.ignore(cx, &receipt, DropReason::HopLimit);
        };
        receipt.hops = hops;
        let parsed = match Message::parse(octets, Mode::C) {
            Ok(parsed) => parsed,
            Err(error) => {
                *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                self.ignore(cx, &receipt, DropReason::Malformed);
                if let Some(answer) = error.error_data(octets, Mode::C) {
                    self.send_error(cx, &receipt, answer);
                }
                return;
            }
        };
        let exact;
        let parsed = match self.local_form(cx, header.nslpid, &parsed.body) {
            None => &parsed,
            Some(LocalForm { mri, prefix_form, upstream }) => {
                (receipt.prefix_form, receipt.upstream) = (prefix_form, upstream);
                exact = Message { body: with_mri(&parsed.body, mri), ..parsed };
                &exact
            }
        };
        self.count(parsed.body.message_type()).received += 1;
        let of_application = !matches!(parsed.body, Body::Error(_) | Body::Hello(_));
        if of_application && !cx.is_served(header.nslpid) {
            self.refuse(cx, &receipt, ErrorCode::UnknownNslpid, 0);
            return self.ignore(cx, &receipt, DropReason::UnknownApplication);
        }
        if half_open && matches!(header.message_type, MessageType::Response | MessageType::Data) {
            self.refuse(cx, &receipt, ErrorCode::IncorrectlyDelivered, 0);
            return self.ignore(cx, &receipt, DropReason::WrongAssociation);
        }
        match &parsed.body {
            Body::Response(response) => self.receive_response(cx, &receipt, response),
            Body::Confirm(confirm) => self.receive_confirm(cx, &receipt, confirm),
            Body::Data(data) => self.receive_data(cx, &receipt, data),
            Body::Error(error) => self.receive_error(cx, &receipt, error),
            Body::Hello(hello) => {
                if hello.reply_requested && !half_open {
                    self.send_hello(cx, index, Hello { reply_requested: false, ..*hello });
                }
            }
            Body::Query(_) => {} // refused by the parser
        }
    }

    /// Writes a message to an association; `false` if that is impossible.
    pub(super) fn write_message(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        index: Index,
        message: &Message<'_>,
    ) -> bool {
        let Some(association) = self.associations.get_mut(index) else { return false };
        if matches!(association.stage, Stage::Closed(_) | Stage::Opening { .. }) {
            return false;
        }
        association.last_sent = cx.now;
        let room = cx.out.write(association.connection, message.buffer_len());
        if message.emit(room).is_err() {
            cx.out.take_back();
            return false;
        }
        self.count(message.body.message_type()).sent += 1;
        true
    }

    pub(super) fn send_hello(&mut self, cx: &mut InputContext<'_, '_>, index: Index, hello: Hello) {
        self.write_message(cx, index, &message(1, 0, true, Body::Hello(hello)));
    }

    /// Closes an association.
    pub(super) fn end_association(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        index: Index,
        reason: CloseReason,
    ) {
        let Some(association) = self.associations.get(index) else { return };
        if !matches!(association.stage, Stage::Closed(_)) {
            cx.out.close(association.connection);
        }
        self.fail_association(cx, index, reason);
    }

    /// Handles the end of an association: er_MAConnect, er_MAFailure.
    fn fail_association(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        index: Index,
        reason: CloseReason,
    ) {
        self.associations.unindex(index);
        let Some(association) = self.associations.get_mut(index) else { return };
        association.stage = Stage::Closed(reason);
        association.buffer = alloc::vec::Vec::new();
        let (remote, peer) = (association.remote, association.peer);
        self.counters.associations_closed += 1;
        if peer != NONE {
            let event = super::api::Event::AssociationClosed { remote, reason };
            cx.report(event);
        }
        self.notify_closed(cx, index);
    }

    /// Notifies some of the routing states that used an association that it was closed.
    pub(super) fn notify_closed(&mut self, cx: &mut InputContext<'_, '_>, index: Index) {
        for _ in 0..MAX_NOTIFIED_PER_INPUT {
            let Some(association) = self.associations.get(index) else { return };
            let Some(half) = decode(association.first_user) else {
                return self.remove_association(cx, index);
            };
            let mut at = self.half_ref(half);
            let facts = self.failure_facts(&at);
            self.step(cx, &mut at, Event::AssociationError, facts, &EventData::Nothing);
            // No half refers to a closed association, whether it has a row for its end or not.
            if self.store.get(half).is_some_and(|half| half.association == index) {
                super::association::unlink_user(&mut self.store, &mut self.associations, half);
            }
        }
        self.arm_association(cx.now, index);
    }

    fn remove_association(&mut self, cx: &mut InputContext<'_, '_>, index: Index) {
        let Some(association) = self.associations.slab.try_remove(index as usize) else { return };
        self.associations.shares.remove(association.interface);
        if let Some(timer) = association.timer {
            self.store.timers.cancel(timer);
        }
        if let Some(peer) = self.peers.get_mut(association.peer) {
            peer.uses -= 1;
            self.start_peer_lifetime(cx.now, association.peer);
        }
    }

    /// Arms the timer of an association for its next deadline.
    pub(super) fn arm_association(&mut self, now: earmark_core::Time, index: Index) {
        let own = self.config.associations.hold_time;
        let Some(association) = self.associations.get_mut(index) else { return };
        let at = match association.stage {
            Stage::Opening { until } | Stage::HalfOpen { until } => until,
            Stage::Closed(_) => now,
            Stage::Open if association.next_waiting != NONE => now,
            Stage::Open => {
                association.hello_at.min((association.last_received + own).max(now + own / 4))
            }
        };
        let timers = &mut self.store.timers;
        if association.timer.is_none_or(|timer| !timers.rearm(timer, at)) {
            association.timer = Some(timers.arm(at, Timer::new(TimerPurpose::Association(index))));
        }
    }
}

/// Describes the receipt of a message on an association.
fn receipt<'a>(association: &Association, index: Index, octets: &'a [u8]) -> Receipt<'a> {
    Receipt {
        octets,
        interface: association.interface,
        source: association.remote.ip(),
        source_port: PORT,
        destination: association.local.ip(),
        ttl: None,
        association: index,
        channel: Channel::Association {
            id: AssociationId(index),
            secured: association.transport == Transport::Tls,
        },
        source_is_peer: true,
        explicitly_routed: false,
        prefix_form: PrefixForm::default(),
        upstream: None,
        nslpid: 0,
        hops: 0,
    }
}

//! What connections bring: associations that stand or end, and messages over them (RFC 5971 sections 5.4 and 6.4).

use core::mem;
use core::net::SocketAddr;

use earmark_core::{CloseReason, ConnectionId, InterfaceId, StreamEvent, Transport};
use earmark_wire::gist::{Body, ErrorCode, Header, Hello, Message, MessageType, Mode, message_len};

use super::Gist;
use super::association::{Association, Stage, place, waits};
use super::counters::DropReason;
use super::machine::{Event, Facts};
use super::state::{Arrival, Due, Index, NONE, Needs, Timer};
use super::step::Occasion;
use super::transmit::message;
use crate::PORT;
use crate::instance::Work;

/// Routing states that are told in one turn what became of their association; the others are told at once afterwards.
const TOLD_PER_TURN: usize = 256;

impl Gist {
    /// Something has happened to a connection.
    pub(crate) fn stream(&mut self, work: &mut Work<'_, '_>, event: &StreamEvent<'_>) {
        match *event {
            StreamEvent::Open { connection, local, peer, transport } => {
                match self.associations.by_connection.get(&connection).copied() {
                    Some(index) => self.opened(work, index),
                    None => self.accept(work, connection, local, peer, transport),
                }
            }
            StreamEvent::Data { connection, octets } => {
                if let Some(&index) = self.associations.by_connection.get(&connection) {
                    self.octets_arrive(work, index, octets);
                }
            }
            StreamEvent::Closed { connection, reason } => {
                if let Some(&index) = self.associations.by_connection.get(&connection) {
                    self.fail_association(work, index, reason);
                }
            }
        }
    }

    /// An association that this node has asked for stands: tg_Connected.
    fn opened(&mut self, work: &mut Work<'_, '_>, index: Index) {
        let Some(association) = self.associations.get_mut(index) else { return };
        association.stage = Stage::Open;
        (association.heard, association.said) = (work.now, work.now);
        association.next_waiting = association.first_user;
        self.counters.associations_opened += 1;
        self.schedule_hello(work.now, index, work.now);
        self.tell_waiting(work, index);
    }

    /// Some of the routing states that wait for an association are told that it stands.
    pub(super) fn tell_waiting(&mut self, work: &mut Work<'_, '_>, index: Index) {
        for _ in 0..TOLD_PER_TURN {
            let Some(association) = self.associations.get_mut(index) else { return };
            let Some(half) = place(association.next_waiting) else {
                return self.arm_association(work.now, index);
            };
            association.next_waiting = self.store.half(half).next_user;
            if !waits(self.store.half(half)) {
                continue;
            }
            let mut at = self.at_place(half);
            let queue = self.store.half(half).queue;
            let queue = self.store.queues.get_mut(queue as usize);
            let Some(handshake) = queue.and_then(|queue| queue.handshake.take()) else { continue };
            let occasion = Occasion::Established { handshake: &handshake };
            self.step(work, &mut at, Event::AssociationEstablished, Facts::default(), &occasion);
        }
        self.arm_association(work.now, index);
    }

    /// A neighbour has opened a connection. It is half open until it says who it is.
    fn accept(
        &mut self,
        work: &mut Work<'_, '_>,
        connection: ConnectionId,
        local: SocketAddr,
        remote: SocketAddr,
        transport: Transport,
    ) {
        let limits = self.config.limits;
        let is_half_open = |one: &Association| matches!(one.stage, Stage::HalfOpen { .. });
        let of_same = self.associations.slab.iter().map(|(_, one)| one);
        let of_same = of_same.filter(|one| is_half_open(one) && one.remote.ip() == remote.ip());
        let too_weak = transport == Transport::Tcp && self.least_needs() == Needs::Secure;
        // The last part of what may be half open is not for those who have some already.
        let crowded = self.associations.half_open >= limits.half_open
            || self.associations.slab.len() >= limits.associations as usize
            || of_same.count() as u32 >= limits.half_open.div_ceil(4);
        if too_weak || crowded {
            self.counters.associations_refused += 1;
            return work.out.close(connection);
        }
        let until = work.now + self.config.associations.connect_timeout;
        let interface = work.context.interfaces.owner_of(local.ip()).unwrap_or(InterfaceId(0));
        let index = self.associations.insert(Association {
            connection,
            transport,
            stage: Stage::HalfOpen { until },
            peer: NONE,
            local,
            remote,
            interface,
            is_ours: false,
            introduced: true,
            first_user: NONE,
            next_waiting: NONE,
            uses: 0,
            hold_time: self.config.associations.hold_time,
            heard: work.now,
            said: work.now,
            hello_at: earmark_core::Time::MAX,
            buffer: alloc::vec::Vec::new(),
            timer: None,
        });
        self.arm_association(work.now, index);
    }

    /// Octets have come: perhaps the rest of a message, whole ones, and the beginning of one more.
    fn octets_arrive(&mut self, work: &mut Work<'_, '_>, index: Index, octets: &[u8]) {
        let Some(association) = self.associations.get_mut(index) else { return };
        association.heard = work.now;
        let mut buffer = mem::take(&mut association.buffer);
        // As a rule messages come whole.
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
                    return self.end_association(work, index, CloseReason::Broken);
                }
                Ok(Some(length)) if length <= rest.len() => {
                    let (message, behind) = rest.split_at(length);
                    rest = behind;
                    self.message_comes(work, index, message);
                }
                Ok(_) => break,
                Err(error) => {
                    // Where the next message begins cannot be known any more.
                    *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                    let arrival = arrival(association, index, rest);
                    if let Some(answer) = error.error_data(rest, Mode::C) {
                        self.send_error(work, &arrival, answer);
                    }
                    return self.end_association(work, index, CloseReason::Broken);
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

    /// A whole message has come over an association.
    fn message_comes(&mut self, work: &mut Work<'_, '_>, index: Index, octets: &[u8]) {
        let Some(association) = self.associations.get(index) else { return };
        let half_open = matches!(association.stage, Stage::HalfOpen { .. });
        let mut arrival = arrival(association, index, octets);
        let Ok(header) = Header::parse(octets) else { return };
        arrival.nslpid = header.nslpid;
        let Some(hops) = header.hops.checked_sub(1) else {
            self.refuse(work, &arrival, ErrorCode::HopLimitExceeded, 0);
            return self.ignore(work, &arrival, DropReason::HopLimit);
        };
        arrival.hops = hops;
        let parsed = match Message::parse(octets, Mode::C) {
            Ok(parsed) => parsed,
            Err(error) => {
                *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
                self.ignore(work, &arrival, DropReason::Malformed);
                if let Some(answer) = error.error_data(octets, Mode::C) {
                    self.send_error(work, &arrival, answer);
                }
                return;
            }
        };
        self.count(parsed.body.message_type()).received += 1;
        let of_application = !matches!(parsed.body, Body::Error(_) | Body::Hello(_));
        if of_application && !work.is_served(header.nslpid) {
            self.refuse(work, &arrival, ErrorCode::UnknownNslpid, 0);
            return self.ignore(work, &arrival, DropReason::UnknownApplication);
        }
        if half_open && matches!(header.message_type, MessageType::Response | MessageType::Data) {
            self.refuse(work, &arrival, ErrorCode::IncorrectlyDelivered, 0);
            return self.ignore(work, &arrival, DropReason::WrongAssociation);
        }
        match &parsed.body {
            Body::Response(response) => self.response_arrives(work, &arrival, response),
            Body::Confirm(confirm) => self.confirm_arrives(work, &arrival, confirm),
            Body::Data(data) => self.data_arrives(work, &arrival, data),
            Body::Error(error) => self.error_arrives(work, &arrival, error),
            Body::Hello(hello) => {
                if hello.reply_requested && !half_open {
                    self.send_hello(work, index, Hello { reply_requested: false, ..*hello });
                }
            }
            Body::Query(_) => {} // refused by the parser
        }
    }

    /// Writes a message into an association; `false` where it cannot be written.
    pub(super) fn write_message(
        &mut self,
        work: &mut Work<'_, '_>,
        index: Index,
        message: &Message<'_>,
    ) -> bool {
        let Some(association) = self.associations.get_mut(index) else { return false };
        if matches!(association.stage, Stage::Closed(_) | Stage::Opening { .. }) {
            return false;
        }
        association.said = work.now;
        let room = work.out.write(association.connection, message.buffer_len());
        if message.emit(room).is_err() {
            work.out.take_back();
            return false;
        }
        self.count(message.body.message_type()).sent += 1;
        true
    }

    pub(super) fn send_hello(&mut self, work: &mut Work<'_, '_>, index: Index, hello: Hello) {
        self.write_message(work, index, &message(1, 0, true, Body::Hello(hello)));
    }

    /// This node ends an association.
    pub(super) fn end_association(
        &mut self,
        work: &mut Work<'_, '_>,
        index: Index,
        reason: CloseReason,
    ) {
        let Some(association) = self.associations.get(index) else { return };
        if !matches!(association.stage, Stage::Closed(_)) {
            work.out.close(association.connection);
        }
        self.fail_association(work, index, reason);
    }

    /// An association is no more: er_MAConnect, er_MAFailure.
    fn fail_association(&mut self, work: &mut Work<'_, '_>, index: Index, reason: CloseReason) {
        self.associations.hide(index);
        let Some(association) = self.associations.get_mut(index) else { return };
        association.stage = Stage::Closed(reason);
        association.buffer = alloc::vec::Vec::new();
        let (remote, peer) = (association.remote, association.peer);
        self.counters.associations_closed += 1;
        if peer != NONE {
            let told = super::api::Event::AssociationClosed { remote, reason };
            work.out.notify(crate::api::Event::Gist(told));
        }
        self.tell_closed(work, index);
    }

    /// Some of the routing states that used an association are told that it is no more.
    pub(super) fn tell_closed(&mut self, work: &mut Work<'_, '_>, index: Index) {
        for _ in 0..TOLD_PER_TURN {
            let Some(association) = self.associations.get(index) else { return };
            let Some(half) = place(association.first_user) else {
                return self.remove_association(work, index);
            };
            let mut at = self.at_place(half);
            let occasion = Occasion::Nothing;
            self.step(work, &mut at, Event::AssociationError, Facts::default(), &occasion);
            // Whatever the row said: nobody is left behind.
            if self.store.get(half).is_some_and(|half| half.association == index) {
                super::association::leave(&mut self.store, &mut self.associations, half);
            }
        }
        self.arm_association(work.now, index);
    }

    fn remove_association(&mut self, work: &mut Work<'_, '_>, index: Index) {
        let Some(association) = self.associations.slab.try_remove(index as usize) else { return };
        if let Some(timer) = association.timer {
            self.store.timers.cancel(timer);
        }
        if let Some(peer) = self.peers.get_mut(association.peer) {
            peer.uses -= 1;
            self.settle(work.now, association.peer);
        }
    }

    /// Sees to it that the timer of an association fires when something is due.
    pub(super) fn arm_association(&mut self, now: earmark_core::Time, index: Index) {
        let own = self.config.associations.hold_time;
        let Some(association) = self.associations.get_mut(index) else { return };
        let at = match association.stage {
            Stage::Opening { until } | Stage::HalfOpen { until } => until,
            Stage::Closed(_) => now,
            Stage::Open if association.next_waiting != NONE => now,
            Stage::Open => association.hello_at.min((association.heard + own).max(now + own / 4)),
        };
        let timers = &mut self.store.timers;
        if association.timer.is_none_or(|timer| !timers.rearm(timer, at)) {
            association.timer = Some(timers.arm(at, Timer::new(Due::Association(index))));
        }
    }
}

/// How a message has come that an association brings.
fn arrival<'a>(association: &Association, index: Index, octets: &'a [u8]) -> Arrival<'a> {
    Arrival {
        octets,
        interface: association.interface,
        source: association.remote.ip(),
        source_port: PORT,
        destination: association.local.ip(),
        ttl: None,
        association: index,
        source_is_peer: true,
        nslpid: 0,
        hops: 0,
    }
}

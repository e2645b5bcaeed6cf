//! What arrives through a secured interface: only what is genuine and new goes on (RFC 2747 section 4.2).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, HostEvent, Interface, Time};
use earmark_wire::rsvp::{Body, Message, MessageType, Object, objects};

use super::sign::integrity_of;
use super::{Integrity, Key, Secured};
use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Rsvp};
use crate::refresh::to_neighbor;
use crate::refresh_reduction::OutgoingMessage;
use crate::state::{Timer, TimerKind};

impl Rsvp {
    /// Whether a message may be acted upon. One that may not has been dropped, or, where it belongs to the handshake,
    /// dealt with.
    #[cold]
    pub(crate) fn is_authentic<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) -> bool {
        let Some(interface) = cx.context.interfaces.by_id(datagram.interface) else {
            return true;
        };
        let kind = datagram.payload.get(1).map(|&code| MessageType::from_code(code));
        let for_every_node =
            matches!(kind, Some(MessageType::Path | MessageType::PathTear | MessageType::ResvConf));
        let secured = self.integrity.as_ref().and_then(|i| i.secured(&interface.name));
        let (Some(secured), true) = (secured, interface.takes_part()) else { return true };
        if !for_every_node && !cx.context.interfaces.is_local(datagram.destination) {
            // Between the two nodes that it travels between. It is not even looked at.
            self.relay(cx, datagram);
            return false;
        }
        let verdict = match kind {
            Some(MessageType::IntegrityChallenge) if secured.sends() => {
                self.answer_challenge(cx, datagram, interface)
            }
            // Each message in it has its own.
            Some(MessageType::Bundle) => return true,
            _ if !secured.receives() => return true,
            Some(MessageType::IntegrityResponse) => self
                .verify(cx, datagram, interface)
                .and_then(|genuine| self.response_arrives(datagram, &genuine)),
            _ => {
                let verdict = self
                    .verify(cx, datagram, interface)
                    .and_then(|genuine| self.judge(cx.now, &genuine));
                self.send_challenges(cx);
                if verdict.is_ok() {
                    mark(Checkpoint::Integrity);
                    return true;
                }
                verdict
            }
        };
        if let Err(reason) = verdict {
            self.drop(cx, datagram, reason);
        }
        false
    }

    /// Finds the key of a message and compares digests.
    fn verify<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        interface: &Interface,
    ) -> Result<Genuine, DropReason> {
        let Some(integrity) = &mut self.integrity else { return Err(DropReason::UnknownKey) };
        let message = datagram.payload;
        let object = integrity_of(message).ok_or(DropReason::MissingIntegrity)?;
        let sender = sending_system(datagram);
        if cx.context.interfaces.is_local(sender) {
            // One of ours, sent back.
            return Err(DropReason::Replayed);
        }
        let (index, overdue) = integrity.key_of(cx.now, object.key_id, interface, sender)?;
        let key = &integrity.settings.keys[index];
        if object.digest.len() != key.algorithm.digest_len() {
            return Err(DropReason::DigestLength);
        }
        let covered = earmark_wire::rsvp::Integrity::covered(message);
        let right = |covered| integrity.hashes[index].verify(covered, object.digest);
        if !covered.is_some_and(right) {
            return Err(DropReason::WrongDigest);
        }
        if overdue && !integrity.overdue[index] {
            integrity.overdue[index] = true;
            cx.out.notify(Event::LastKeyExpired { key: object.key_id });
        }
        Ok(Genuine {
            key_id: object.key_id,
            sender,
            sequence: object.sequence,
            answers: object.flags & earmark_wire::rsvp::Integrity::HANDSHAKE != 0,
        })
    }

    fn judge(&mut self, now: Time, genuine: &Genuine) -> Result<(), DropReason> {
        let &Genuine { key_id, sender, sequence, answers } = genuine;
        let Some(integrity) = &mut self.integrity else { return Ok(()) };
        integrity.handshakes.judge(now, (key_id, sender), sequence, answers)
    }

    fn response_arrives(
        &mut self,
        datagram: &Datagram<'_>,
        genuine: &Genuine,
    ) -> Result<(), DropReason> {
        let Ok(Message { body: Body::IntegrityResponse(challenge), .. }) =
            Message::parse(datagram.payload)
        else {
            return Err(DropReason::Malformed);
        };
        let Some(integrity) = &mut self.integrity else { return Ok(()) };
        let peer = (genuine.key_id, genuine.sender);
        integrity.handshakes.answered(peer, challenge, genuine.sequence)
    }

    /// Sends a challenge back, signed with the key that it names, and once more what the challenger has just dropped.
    fn answer_challenge<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        interface: &Interface,
    ) -> Result<(), DropReason> {
        let Ok(Message { body: Body::IntegrityChallenge(challenge), .. }) =
            Message::parse(datagram.payload)
        else {
            return Err(DropReason::Malformed);
        };
        let Some(integrity) = &mut self.integrity else { return Ok(()) };
        let to = datagram.source;
        if cx.context.interfaces.is_local(to) {
            return Err(DropReason::BadHop);
        }
        let own = interface.address_like(to).ok_or(DropReason::NoRoute)?;
        let serves = |key: &Key| {
            key.id == challenge.key_id
                && key.purpose.sends()
                && key.start <= cx.now
                && !key.secret.is_empty()
                && key.serves(&interface.name, to)
        };
        let key = integrity.settings.keys.iter().position(serves).ok_or(DropReason::UnknownKey)?;
        if !integrity.handshakes.may_answer(cx.now) {
            return Err(DropReason::Limit);
        }
        let how = to_neighbor(own, to);
        let response = Message {
            integrity: Some(integrity.next_integrity(cx.now, key)),
            ..Message::new(how.ttl, Body::IntegrityResponse(challenge))
        };
        integrity.leave_as_it_is(cx.out.len());
        let place = cx.out.send(how, response.buffer_len());
        if response.emit(place).is_err() || !integrity.seal(key, place) {
            cx.out.discard_last();
        }
        integrity.send_again(cx.now, datagram.interface, to, cx.out);
        Ok(())
    }

    /// The host has changed: neighbours that keys name may be within reach now.
    #[cold]
    pub(crate) fn host_changes_for_neighbors<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match event {
            HostEvent::RouteChanged(prefix) => {
                self.greet_neighbors(cx, |neighbor| prefix.contains(neighbor));
            }
            HostEvent::InterfaceChanged(_) => self.greet_neighbors(cx, |_| true),
            _ => {}
        }
    }

    /// Challenges neighbours that keys name, of whom nothing is known, in advance.
    fn greet_neighbors<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        concerned: impl Fn(IpAddr) -> bool,
    ) {
        let Some(integrity) = &mut self.integrity else { return };
        let Integrity { settings, handshakes, .. } = &mut **integrity;
        for key in &settings.keys {
            if !key.purpose.accepts() || !key.is_valid(cx.now) || key.secret.is_empty() {
                continue;
            }
            for &neighbor in key.neighbors.iter().filter(|&&neighbor| concerned(neighbor)) {
                let way = cx.context.routes.lookup(neighbor);
                let interface = way.and_then(|hop| cx.context.interfaces.by_id(hop.interface));
                let secured = interface.and_then(|i| settings.interfaces.get(&i.name));
                if secured.is_some_and(|secured| Secured::receives(*secured))
                    && interface.is_some_and(|i| i.up && key.serves_on(&i.name))
                {
                    handshakes.greet(cx.now, (key.id, neighbor));
                }
            }
        }
        self.send_challenges(cx);
    }

    /// A command: other keys.
    pub(crate) fn replace_keys<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        keys: Vec<Key>,
    ) {
        if let Some(integrity) = &mut self.integrity {
            integrity.replace_keys(keys);
            self.greet_neighbors(cx, |_| true);
        }
    }

    /// Sends the challenges that are due, and sets the timer for the next ones.
    pub(crate) fn send_challenges<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let Some(integrity) = &mut self.integrity else { return };
        while let Some((neighbor, challenge)) = integrity.handshakes.next_challenge(cx.now) {
            let way = cx.context.routes.lookup(neighbor);
            let own = way
                .and_then(|hop| cx.context.interfaces.by_id(hop.interface))
                .and_then(|interface| interface.address_like(neighbor));
            // Without a way there, it is tried again later.
            let Some(own) = own else { continue };
            let body = Body::IntegrityChallenge(challenge);
            let outgoing_message = OutgoingMessage::new(to_neighbor(own, neighbor));
            self.refresh_reduction.send(&mut self.counters, cx.out, outgoing_message, &body);
        }
        let due = integrity.handshakes.next_due();
        let timers = &mut self.store.timers;
        match (due, integrity.timer) {
            (Some(due), Some(timer)) => {
                timers.rearm(timer, due);
            }
            (Some(due), None) => {
                let timer = Timer { kind: TimerKind::Handshake, block: 0 };
                integrity.timer = Some(timers.arm(due, timer));
            }
            (None, Some(timer)) => {
                timers.cancel(timer);
                integrity.timer = None;
            }
            (None, None) => {}
        }
    }

    /// The timer of the handshakes fired.
    pub(crate) fn handshake_is_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        if let Some(integrity) = &mut self.integrity {
            integrity.timer = None;
        }
        self.send_challenges(cx);
    }
}

impl Integrity {
    /// The key that a message was signed with, and whether its time is over; it may be used nevertheless if it is the
    /// last one for that neighbour (RFC 2747 section 5.3).
    fn key_of(
        &self,
        now: Time,
        id: u64,
        interface: &Interface,
        sender: IpAddr,
    ) -> Result<(usize, bool), DropReason> {
        let accepts = |key: &&Key| {
            key.purpose.accepts() && !key.secret.is_empty() && key.serves(&interface.name, sender)
        };
        let keys = &self.settings.keys;
        let index = keys
            .iter()
            .position(|key| key.id == id && accepts(&key))
            .ok_or(DropReason::UnknownKey)?;
        let key = &keys[index];
        if key.is_valid(now) {
            return Ok((index, false));
        }
        let has_better = || {
            keys.iter()
                .filter(accepts)
                .any(|other| other.is_valid(now) || (other.end <= now && other.end > key.end))
        };
        if now < key.start || has_better() {
            return Err(DropReason::KeyNotValid);
        }
        Ok((index, true))
    }
}

/// A message whose digest is right.
struct Genuine {
    key_id: u64,
    sender: IpAddr,
    sequence: u64,
    /// HF: the sender answers challenges.
    answers: bool,
}

/// The sending system: as the hop object names it, or else by the IP source address (RFC 2747 section 4).
fn sending_system(datagram: &Datagram<'_>) -> IpAddr {
    let hop = |object| match object {
        Object::RsvpHop(hop) => Some(hop.address),
        _ => None,
    };
    objects(datagram.payload)
        .map_while(Result::ok)
        .find_map(|decoded| hop(decoded.object))
        .unwrap_or(datagram.source)
}

//! Verification of messages received through secured interfaces: only authentic and new ones are accepted (RFC 2747
//! section 4.2).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::keys::{SharedKey, Unusable};
use earmark_core::{Datagram, HostEvent, Interface, Time};
use earmark_wire::rsvp::{Body, Message, MessageType, Object, objects};

use super::sign::integrity_of;
use super::{Directions, Integrity, Key, Signature};
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::outgoing::to_neighbor;
use crate::neighbors::refresh_reduction::OutgoingMessage;
use crate::state::{Timer, TimerKind};

impl Rsvp {
    /// Returns whether a message may be processed. Others have been dropped, or handled if they belong to the
    /// handshake.
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
            // Concerns only the two nodes that it travels between, so it is not verified here.
            self.relay_foreign(cx, datagram);
            return false;
        }
        let verdict = match kind {
            Some(MessageType::IntegrityChallenge) if secured.sends() => {
                self.answer_challenge(cx, datagram, interface)
            }
            // Each message in a Bundle has its own INTEGRITY.
            Some(MessageType::Bundle) => return true,
            _ if !secured.accepts() => return true,
            Some(MessageType::IntegrityResponse) => self
                .verify(cx, datagram, interface)
                .and_then(|verified| self.receive_response(datagram, &verified)),
            _ => {
                let verdict = self
                    .verify(cx, datagram, interface)
                    .and_then(|verified| self.check_sequence(cx.now, &verified));
                self.send_challenges(cx);
                match verdict {
                    Ok(signature) => {
                        cx.verified = Some(signature);
                        mark(Checkpoint::Integrity);
                        return true;
                    }
                    Err(reason) => Err(reason),
                }
            }
        };
        if let Err(reason) = verdict {
            self.drop(cx, datagram, reason);
        }
        false
    }

    /// Finds the key of a message and verifies the digest.
    fn verify<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        interface: &Interface,
    ) -> Result<VerifiedMessage, DropReason> {
        let Some(integrity) = &mut self.integrity else { return Err(DropReason::UnknownKey) };
        let message = datagram.payload;
        let object = integrity_of(message).ok_or(DropReason::MissingIntegrity)?;
        let sender = sending_system(datagram);
        if cx.context.interfaces.is_local(sender) {
            // A message of this node, reflected.
            return Err(DropReason::Replayed);
        }
        let index = integrity.key_of(cx.now, object.key_id, interface, sender)?;
        let key = &integrity.keys.keys()[index];
        if object.digest.len() != key.algorithm.digest_len() {
            return Err(DropReason::DigestLength);
        }
        let covered = earmark_wire::rsvp::Integrity::covered(message);
        let right = |covered| integrity.hashes[index].verify(covered, object.digest);
        if !covered.is_some_and(right) {
            return Err(DropReason::WrongDigest);
        }
        if let Some(key) = integrity.keys.report_overdue(cx.now, index) {
            cx.out.notify(Event::LastKeyExpired { key });
        }
        Ok(VerifiedMessage {
            key_id: object.key_id,
            signature: Signature { key: index, sender },
            sequence: object.sequence,
            handshake_flag: object.flags & earmark_wire::rsvp::Integrity::HANDSHAKE != 0,
        })
    }

    fn check_sequence(
        &mut self,
        now: Time,
        verified: &VerifiedMessage,
    ) -> Result<Signature, DropReason> {
        let &VerifiedMessage { key_id, signature, sequence, handshake_flag } = verified;
        if let Some(integrity) = &mut self.integrity {
            let peer = (key_id, signature.sender);
            integrity.handshakes.check_sequence(now, peer, sequence, handshake_flag)?;
        }
        Ok(signature)
    }

    fn receive_response(
        &mut self,
        datagram: &Datagram<'_>,
        verified: &VerifiedMessage,
    ) -> Result<(), DropReason> {
        let Ok(Message { body: Body::IntegrityResponse(challenge), .. }) =
            Message::parse(datagram.payload)
        else {
            return Err(DropReason::Malformed);
        };
        let Some(integrity) = &mut self.integrity else { return Ok(()) };
        let peer = (verified.key_id, verified.signature.sender);
        integrity.handshakes.accept_response(peer, challenge, verified.sequence)
    }

    /// Sends an Integrity Response signed with the key that the challenge names, and resends the messages that the
    /// challenger has just dropped.
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
        let key = integrity.keys.keys().iter().position(serves).ok_or(DropReason::UnknownKey)?;
        let rate = integrity.settings.answers_per_second;
        if !self.throttles.admits_challenge(cx.now, datagram.interface, to, rate) {
            return Err(DropReason::Limit);
        }
        let how = to_neighbor(own, to);
        let response = Message {
            integrity: Some(integrity.next_integrity(cx.now, key)),
            ..Message::new(how.ttl, Body::IntegrityResponse(challenge))
        };
        integrity.skip_signing(cx.out.len());
        let place = cx.out.send(how, response.buffer_len());
        if response.emit(place).is_err() || !integrity.seal(key, place) {
            cx.out.discard_last();
        }
        integrity.resend_recent(cx.now, datagram.interface, to, cx.out);
        Ok(())
    }

    /// Handles a change of interfaces or routes: neighbours that keys name may be reachable now.
    #[cold]
    pub(crate) fn host_changed_for_neighbors<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match event {
            HostEvent::RouteChanged(prefix) => {
                self.challenge_named_neighbors(cx, |neighbor| prefix.contains(neighbor));
            }
            HostEvent::InterfaceChanged(_) => self.challenge_named_neighbors(cx, |_| true),
            _ => {}
        }
    }

    /// Challenges unknown neighbours that keys name, in advance.
    fn challenge_named_neighbors<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        concerned: impl Fn(IpAddr) -> bool,
    ) {
        let Some(integrity) = &mut self.integrity else { return };
        let Integrity { settings, keys, handshakes, .. } = &mut **integrity;
        for key in keys.keys() {
            if !key.purpose.accepts() || !key.key_use().is_valid(cx.now) || key.secret.is_empty() {
                continue;
            }
            for &neighbor in key.neighbors.iter().filter(|&&neighbor| concerned(neighbor)) {
                let route = cx.context.routes.lookup(neighbor);
                let interface = route.and_then(|hop| cx.context.interfaces.by_id(hop.interface));
                let secured = interface.and_then(|i| settings.interfaces.get(&i.name));
                if secured.is_some_and(|secured| Directions::accepts(*secured))
                    && interface.is_some_and(|i| i.up && key.key_use().serves_on(&i.name))
                {
                    handshakes.challenge_in_advance(cx.now, (key.id, neighbor));
                }
            }
        }
        self.send_challenges(cx);
    }

    /// Handles the command that replaces the keys.
    pub(crate) fn replace_keys<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        keys: Vec<Key>,
    ) {
        if let Some(integrity) = &mut self.integrity {
            integrity.replace_keys(keys);
            self.challenge_named_neighbors(cx, |_| true);
        }
    }

    /// Sends due challenges, and arms the timer for the next ones.
    pub(crate) fn send_challenges<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let Some(integrity) = &mut self.integrity else { return };
        while let Some((neighbor, challenge)) = integrity.handshakes.next_challenge(cx.now) {
            let route = cx.context.routes.lookup(neighbor);
            let own = route
                .and_then(|hop| cx.context.interfaces.by_id(hop.interface))
                .and_then(|interface| interface.address_like(neighbor));
            // Without a route the challenge is repeated later.
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

    /// Handles the handshake timer.
    pub(crate) fn handshake_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        if let Some(integrity) = &mut self.integrity {
            integrity.timer = None;
        }
        self.send_challenges(cx);
    }
}

impl Integrity {
    /// Returns the key that a message was signed with.
    fn key_of(
        &self,
        now: Time,
        id: u64,
        interface: &Interface,
        sender: IpAddr,
    ) -> Result<usize, DropReason> {
        let serves = |key: &Key| key.serves(&interface.name, sender);
        self.keys.to_accept(now, id, serves).map_err(|unusable| match unusable {
            Unusable::Unknown => DropReason::UnknownKey,
            Unusable::NotValid => DropReason::KeyNotValid,
        })
    }
}

/// Message with a valid digest.
struct VerifiedMessage {
    key_id: u64,
    signature: Signature,
    sequence: u64,
    /// HF: the sender answers challenges.
    handshake_flag: bool,
}

/// Returns the sending system: the address in the hop object, or else the IP source address (RFC 2747 section 4).
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

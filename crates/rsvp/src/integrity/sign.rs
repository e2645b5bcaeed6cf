//! What leaves through a secured interface: every message gets its INTEGRITY here (RFC 2747 section 4.1).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Context, Effects, Interface, InterfaceId, Outgoing, Time};
use earmark_wire::rsvp::{Bundle, MessageType, Object, objects};

use super::digest::LONGEST_DIGEST;
use super::key::key_to_sign;
use super::{Integrity, Key};
use crate::api::Event;
use crate::counters::{Counters, DropReason};

/// What was sent last, to be sent again to a neighbour whose challenge shows that it has not listened.
#[derive(Debug, Default)]
pub(super) struct Recent {
    messages: VecDeque<Sent>,
    /// Numbers of effects that leave as they are: signed already, or another node's.
    as_they_are: Vec<usize>,
    /// Numbers of effects that are sent again, and will not be a third time.
    again: Vec<usize>,
}

/// A message before it was signed.
#[derive(Debug)]
struct Sent {
    at: Time,
    interface: InterfaceId,
    how: Outgoing,
    octets: Vec<u8>,
}

impl Recent {
    /// How many messages are kept.
    const MESSAGES: usize = 8;
    /// Longest message that is kept, octets.
    const LONGEST: usize = 2_048;
    /// How long one is worth sending again.
    const AGE: Duration = Duration::from_secs(1);

    fn keep(&mut self, at: Time, interface: InterfaceId, how: Outgoing, message: &[u8]) {
        if message.len() > Self::LONGEST {
            return;
        }
        // The room of the oldest is used again.
        let mut octets = match self.messages.len() < Self::MESSAGES {
            true => Vec::new(),
            false => self.messages.pop_front().map(|sent| sent.octets).unwrap_or_default(),
        };
        octets.clear();
        octets.extend_from_slice(message);
        self.messages.push_back(Sent { at, interface, how, octets });
    }
}

impl Integrity {
    /// The effect that comes next under this number is a message that leaves as it is.
    pub(crate) fn leave_as_it_is(&mut self, effect: usize) {
        self.recent.as_they_are.push(effect);
    }

    /// Sends once more what has just been sent to `neighbor`, or its way, through an interface.
    pub(super) fn send_again<E>(
        &mut self,
        now: Time,
        interface: InterfaceId,
        neighbor: IpAddr,
        out: &mut Effects<E>,
    ) {
        let again = &mut self.recent.again;
        self.recent.messages.retain(|sent| {
            let concerned = sent.interface == interface
                && (sent.how.destination == neighbor || sent.how.router_alert);
            if concerned && now - sent.at <= Recent::AGE {
                again.push(out.len());
                out.send(sent.how, sent.octets.len()).copy_from_slice(&sent.octets);
            }
            !concerned
        });
    }

    /// Signs the messages since effect `from` that leave through secured interfaces. Those for which there is no key do
    /// not leave.
    pub(crate) fn sign<E: From<Event>>(
        &mut self,
        now: Time,
        context: &Context<'_>,
        from: usize,
        counters: &mut Counters,
        out: &mut Effects<E>,
    ) {
        let mut overdue = Vec::new();
        out.rewrite_messages(from, |effect, how, message, octets| {
            if self.recent.as_they_are.contains(&effect) {
                octets.extend_from_slice(message);
                return true;
            }
            let again = self.recent.again.contains(&effect);
            let signed = self.sign_one(now, context, how, message, octets, again, &mut overdue);
            if !signed {
                counters.drop(DropReason::NotSigned);
            }
            signed
        });
        self.recent.as_they_are.clear();
        self.recent.again.clear();
        for key in overdue {
            out.notify(Event::LastKeyExpired { key });
        }
    }

    #[allow(clippy::too_many_arguments)] // what a message is, where it goes, and what is noted on the way
    fn sign_one(
        &mut self,
        now: Time,
        context: &Context<'_>,
        how: &mut Outgoing,
        message: &[u8],
        octets: &mut Vec<u8>,
        again: bool,
        overdue: &mut Vec<u64>,
    ) -> bool {
        let Some(interface) = leaves_through(context, how) else {
            // Nobody knows which way the kernel would send it, so it must not leave where that could be a secured one.
            return false;
        };
        let sends = self.secured(&interface.name).is_some_and(super::Secured::sends);
        let kind = message.get(1).map(|&code| MessageType::from_code(code));
        if !sends || kind == Some(MessageType::IntegrityChallenge) {
            octets.extend_from_slice(message);
            return true;
        }
        let destination = how.destination;
        let Some(key) = self.key_for(now, interface, destination, how.router_alert) else {
            return false;
        };
        if !again {
            self.recent.keep(now, interface.id, *how, message);
        }
        if kind == Some(MessageType::ResvConf)
            && let Some(own) = interface.address_like(destination)
        {
            how.source = own;
        }
        if self.settings.keys[key].end <= now && !self.overdue[key] {
            self.overdue[key] = true;
            overdue.push(self.settings.keys[key].id);
        }
        match kind {
            Some(MessageType::Bundle) => self.sign_bundle(now, key, message, octets),
            _ => self.sign_message(now, key, message, octets),
        }
    }

    /// The key for what leaves through an interface: what every RSVP node on the way must look at is for whoever is
    /// there, so the interface alone decides; otherwise a key that names the neighbour goes first.
    fn key_for(
        &self,
        now: Time,
        interface: &Interface,
        neighbor: IpAddr,
        for_every_node: bool,
    ) -> Option<usize> {
        let keys = &self.settings.keys;
        let usable = |key: &Key| !key.secret.is_empty() && key.serves_on(&interface.name);
        let named = |key: &Key| usable(key) && key.neighbors.contains(&neighbor);
        let shared = |key: &Key| usable(key) && key.neighbors.is_empty();
        let to_neighbor = if for_every_node { None } else { key_to_sign(keys, now, named) };
        let to_all = || key_to_sign(keys, now, shared);
        // On a link with one neighbour, its key will do for what is for every node.
        let only = || if for_every_node { key_to_sign(keys, now, usable) } else { None };
        to_neighbor.or_else(to_all).or_else(only)
    }

    fn sign_bundle(&mut self, now: Time, key: usize, message: &[u8], octets: &mut Vec<u8>) -> bool {
        let start = octets.len();
        let Some((header, parts)) = message.split_at_checked(Bundle::HEADER_LEN) else {
            return false;
        };
        let Ok(bundle) = Bundle::new(parts) else { return false };
        octets.extend_from_slice(header);
        for part in bundle.iter() {
            if !self.sign_message(now, key, part, octets) {
                return false;
            }
        }
        let (flags, send_ttl) = (header[0] & 0x0f, header[4]);
        Bundle::seal(&mut octets[start..], flags, send_ttl).is_ok()
    }

    /// Appends the message with its INTEGRITY.
    fn sign_message(
        &mut self,
        now: Time,
        key: usize,
        message: &[u8],
        octets: &mut Vec<u8>,
    ) -> bool {
        let integrity = self.next_integrity(now, key);
        let start = octets.len();
        octets.resize(start + message.len() + integrity.object_len(), 0);
        let place = &mut octets[start..];
        integrity.insert(message, place).is_ok() && self.seal(key, place)
    }

    /// The INTEGRITY of the next message that is signed with a key, its digest blank.
    pub(super) fn next_integrity(
        &mut self,
        now: Time,
        key: usize,
    ) -> earmark_wire::rsvp::Integrity<'static> {
        let key = &self.settings.keys[key];
        let sequence = self.clock.next(now, self.given.get(&key.id).copied());
        self.given.insert(key.id, sequence);
        earmark_wire::rsvp::Integrity::blank(
            earmark_wire::rsvp::Integrity::HANDSHAKE,
            key.id,
            sequence,
            key.algorithm.digest_len(),
        )
    }

    /// Puts the digest into a message with a blank one.
    pub(super) fn seal(&self, key: usize, message: &mut [u8]) -> bool {
        let mut buffer = [0; LONGEST_DIGEST];
        let Some(covered) = earmark_wire::rsvp::Integrity::covered(message) else { return false };
        let digest = self.hashes[key].digest(covered, &mut buffer);
        earmark_wire::rsvp::Integrity::seal(message, digest).is_ok()
    }
}

/// The interface that a message leaves through.
fn leaves_through<'c>(context: &Context<'c>, how: &Outgoing) -> Option<&'c Interface> {
    let id = match how.interface {
        Some(id) => id,
        None => context.routes.lookup(how.destination)?.interface,
    };
    context.interfaces.by_id(id)
}

/// INTEGRITY of a message, if it begins with one that can be read.
pub(super) fn integrity_of(message: &[u8]) -> Option<earmark_wire::rsvp::Integrity<'_>> {
    match objects(message).next()?.ok()?.object {
        Object::Integrity(integrity) => Some(integrity),
        _ => None,
    }
}

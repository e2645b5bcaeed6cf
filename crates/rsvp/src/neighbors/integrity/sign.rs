//! INTEGRITY of sent messages on secured interfaces (RFC 2747 section 4.1).

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::keys::SharedKey;
use earmark_core::{Context, Effects, Interface, InterfaceId, Outgoing, Time};
use earmark_wire::rsvp::{Bundle, MessageType, Object, objects};

use super::digest::LONGEST_DIGEST;
use super::recent_messages::RecentMessages;
use super::{Integrity, Key};
use crate::api::Event;
use crate::counters::{Counters, DropReason};

impl Integrity {
    /// Marks the message that becomes effect number `effect` as not to be signed.
    pub(crate) fn skip_signing(&mut self, effect: usize) {
        self.recent.unsigned_effects.push(effect);
    }

    /// Resends recent messages to `neighbor`, or to destinations beyond it, through an interface.
    pub(super) fn resend_recent<E>(
        &mut self,
        now: Time,
        interface: InterfaceId,
        neighbor: IpAddr,
        out: &mut Effects<E>,
    ) {
        let again = &mut self.recent.resent_effects;
        self.recent.messages.retain(|sent| {
            let concerned = sent.interface == interface
                && (sent.how.destination == neighbor || sent.how.router_alert);
            if concerned && now - sent.at <= RecentMessages::AGE {
                again.push(out.len());
                out.send(sent.how, sent.octets.len()).copy_from_slice(&sent.octets);
            }
            !concerned
        });
    }

    /// Signs the messages since effect `from` on secured interfaces, and removes those without a key.
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
            if self.recent.unsigned_effects.contains(&effect) {
                octets.extend_from_slice(message);
                return true;
            }
            let again = self.recent.resent_effects.contains(&effect);
            let signed = self.sign_one(now, context, how, message, octets, again, &mut overdue);
            if !signed {
                counters.drop(DropReason::NotSigned);
            }
            signed
        });
        self.recent.unsigned_effects.clear();
        self.recent.resent_effects.clear();
        for key in overdue {
            out.notify(Event::LastKeyExpired { key });
        }
    }

    #[allow(clippy::too_many_arguments)] // message, route and bookkeeping
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
            // The kernel would choose the route, which could lead through a secured interface, so the message is not
            // sent.
            return false;
        };
        let sends = self.secured(&interface.name).is_some_and(super::Directions::sends);
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
        overdue.extend(self.keys.report_overdue(now, key));
        match kind {
            Some(MessageType::Bundle) => self.sign_bundle(now, key, message, octets),
            _ => self.sign_message(now, key, message, octets),
        }
    }

    /// Returns the key for a message through an interface. For messages that every RSVP node on the path examines, only
    /// the interface counts; for others a key that names the neighbour is preferred.
    fn key_for(
        &self,
        now: Time,
        interface: &Interface,
        neighbor: IpAddr,
        for_every_node: bool,
    ) -> Option<usize> {
        let serves = |key: &Key| key.key_use().serves_on(&interface.name);
        let named = |key: &Key| serves(key) && key.neighbors.contains(&neighbor);
        let shared = |key: &Key| serves(key) && key.neighbors.is_empty();
        let to_neighbor = if for_every_node { None } else { self.keys.to_sign(now, named) };
        let to_all = || self.keys.to_sign(now, shared);
        // On a link with one neighbour, its key is used for messages to every node.
        let only = || if for_every_node { self.keys.to_sign(now, serves) } else { None };
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

    /// Appends the message with INTEGRITY.
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

    /// Returns the INTEGRITY object for the next message signed with a key, with an empty digest.
    pub(super) fn next_integrity(
        &mut self,
        now: Time,
        key: usize,
    ) -> earmark_wire::rsvp::Integrity<'static> {
        let key = &self.keys.keys()[key];
        let sequence = self.clock.next(now, self.last_sequences.get(&key.id).copied());
        self.last_sequences.insert(key.id, sequence);
        earmark_wire::rsvp::Integrity::blank(
            earmark_wire::rsvp::Integrity::HANDSHAKE,
            key.id,
            sequence,
            key.algorithm.digest_len(),
        )
    }

    /// Writes the digest into a message with an empty one.
    pub(super) fn seal(&self, key: usize, message: &mut [u8]) -> bool {
        let mut buffer = [0; LONGEST_DIGEST];
        let Some(covered) = earmark_wire::rsvp::Integrity::covered(message) else { return false };
        let digest = self.hashes[key].digest(covered, &mut buffer);
        earmark_wire::rsvp::Integrity::seal(message, digest).is_ok()
    }
}

/// Returns the outgoing interface of a message.
fn leaves_through<'c>(context: &Context<'c>, how: &Outgoing) -> Option<&'c Interface> {
    let id = match how.interface {
        Some(id) => id,
        None => context.routes.lookup(how.destination)?.interface,
    };
    context.interfaces.by_id(id)
}

/// Returns the INTEGRITY object of a message, if its first object is a valid one.
pub(super) fn integrity_of(message: &[u8]) -> Option<earmark_wire::rsvp::Integrity<'_>> {
    match objects(message).next()?.ok()?.object {
        Object::Integrity(integrity) => Some(integrity),
        _ => None,
    }
}

//! RSVP-E2E-IGNORE: messages that follow the data cross a core as another IP protocol, which its nodes ignore (RFC 3175
//! section 2.1).

use alloc::vec::Vec;

use earmark_core::{Datagram, Effect, Effects};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::iana::MessageType;
use earmark_wire::rsvp::{Body, Message};

use super::Aggregation;
use crate::protocols::Event;

/// IP protocol RSVP-E2E-IGNORE, of messages that the nodes of a core ignore (RFC 3175 section 2.1).
pub const E2E_IGNORE: u8 = 134;
/// Offsets of message type and Send_TTL in the common header (RFC 2205 section 3.1.1).
const TYPE: usize = 1;
const SEND_TTL: usize = 4;

impl Aggregation {
    /// Changes the IP protocol of messages that follow the data into a core, so that its nodes ignore them.
    pub(super) fn hide_from_core(&self, from: usize, out: &mut Effects<Event>) {
        if !self.core_interfaces.values().any(|&hidden| hidden) {
            return;
        }
        let mut number = 0;
        // The selection comes first: message types are in the octets, which cannot be read while the list changes.
        let along: Vec<bool> = out
            .iter()
            .skip(from)
            .map(|effect| match effect {
                Effect::Send(how, range) if how.protocol == rsvp::PROTOCOL => {
                    let hidden = how.interface.and_then(|id| self.core_interfaces.get(&id));
                    hidden == Some(&true) && is_hidden(out.octets(range))
                }
                _ => false,
            })
            .collect();
        out.retain_from(from, |effect| {
            if let (Effect::Send(how, _), Some(true)) = (effect, along.get(number)) {
                how.protocol = E2E_IGNORE;
                how.neighbor = None; // excluded from Bundles
            }
            number += 1;
            true
        });
    }

    /// Returns a message in the form for the engine, without the IP hops in the core. `None` for a hidden message
    /// from any other interface.
    pub(super) fn restore<'a>(&self, protocol: u8, datagram: Datagram<'a>) -> Option<Datagram<'a>> {
        let faces_core = self.core_interfaces.contains_key(&datagram.interface);
        if !faces_core {
            return (protocol == rsvp::PROTOCOL).then_some(datagram);
        }
        let sent = datagram.payload.get(SEND_TTL).copied().unwrap_or(datagram.ttl);
        // Routers of the core decrement the TTL. They do not support RSVP, but do not break the service either.
        let ttl = if follows_data(datagram.payload) { sent } else { datagram.ttl };
        Some(Datagram { ttl, ..datagram })
    }
}

/// Whether the nodes of a core ignore a message: one that follows the data of a flow, and not those of an aggregate.
fn is_hidden(message: &[u8]) -> bool {
    let of_aggregate = || match Message::parse(message).map(|message| message.body) {
        Ok(Body::Path(path)) => path.session.is_aggregate(),
        Ok(Body::PathTear(tear)) => tear.session.is_aggregate(),
        Ok(Body::ResvConf(confirmation)) => confirmation.session.is_aggregate(),
        _ => false,
    };
    follows_data(message) && !of_aggregate()
}

/// Whether a message follows the data hop by hop: Path, PathTear, ResvConf.
fn follows_data(message: &[u8]) -> bool {
    let kinds = [MessageType::Path, MessageType::PathTear, MessageType::ResvConf];
    message.get(TYPE).is_some_and(|&kind| kinds.contains(&MessageType::from(kind)))
}

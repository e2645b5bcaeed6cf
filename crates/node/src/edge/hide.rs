//! RSVP that a core is not to see: messages along the data's way cross it as another IP protocol (RFC 3175 section 2.1).

use alloc::vec::Vec;

use earmark_core::{Datagram, Effect, Effects};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::iana::MessageType;

use crate::api::Event;
use crate::node::Node;

/// IP protocol RSVP-E2E-IGNORE.
pub const PROTOCOL: u8 = 134;
/// Where the common header has the type of a message, and the TTL that it was sent with (RFC 2205 section 3.1.1).
const TYPE: usize = 1;
const SEND_TTL: usize = 4;

impl Node {
    /// Messages that follow the data into a core leave so that nobody there looks at them.
    pub(super) fn hide_from_core(&self, from: usize, out: &mut Effects<Event>) {
        if !self.edges.facing.values().any(|&hidden| hidden) {
            return;
        }
        let mut number = 0;
        // Which ones are to change: the types are in the octets, which cannot be looked at while the list is changed.
        let along: Vec<bool> = out
            .iter()
            .skip(from)
            .map(|effect| match effect {
                Effect::Send(how, range) if how.protocol == rsvp::PROTOCOL => {
                    let hidden = how.interface.and_then(|id| self.edges.facing.get(&id));
                    hidden == Some(&true) && follows_data(out.octets(range))
                }
                _ => false,
            })
            .collect();
        out.retain_from(from, |effect| {
            if let (Effect::Send(how, _), Some(true)) = (effect, along.get(number)) {
                how.protocol = PROTOCOL;
                how.neighbor = None; // no Bundle takes it up
            }
            number += 1;
            true
        });
    }

    /// A message of RSVP as the engine is to see it: what came out of a core has passed no hop there. `None` for a hidden one
    /// that came from elsewhere.
    pub(super) fn reveal<'a>(&self, protocol: u8, datagram: Datagram<'a>) -> Option<Datagram<'a>> {
        let faces_core = self.edges.facing.contains_key(&datagram.interface);
        if !faces_core {
            return (protocol == rsvp::PROTOCOL).then_some(datagram);
        }
        let sent = datagram.payload.get(SEND_TTL).copied().unwrap_or(datagram.ttl);
        // Routers of the core took one each, and speak no RSVP; yet they break no promise.
        let ttl = if follows_data(datagram.payload) { sent } else { datagram.ttl };
        Some(Datagram { ttl, ..datagram })
    }
}

/// Whether a message goes where the data goes, hop by hop: Path, PathTear, ResvConf.
fn follows_data(message: &[u8]) -> bool {
    let kinds = [MessageType::Path, MessageType::PathTear, MessageType::ResvConf];
    message.get(TYPE).is_some_and(|&kind| kinds.contains(&MessageType::from(kind)))
}

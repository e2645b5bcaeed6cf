//! Messages of Boomerang as JSON: fields of the header, then classifier, mask, rates and options as objects.

use earmark_wire::boomerang::{Reservation, is_boomerang};
use earmark_wire::icmp::{Echo, EchoError, HEADER, PROTOCOL_V4, PROTOCOL_V6, PseudoHeader};
use serde_json::{Map, Value};

use crate::objects;
use crate::protocol::{IpPacket, Protocol};

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "boomerang", title: "Boomerang", ip_protocol: None, decode };

/// Types of echo messages of ICMP and ICMPv6.
const ECHOES: [u8; 4] = [8, 0, 128, 129];

/// Whether an ICMP or ICMPv6 message carries a message of Boomerang, well-formed or malformed.
fn is_message(icmp: &[u8]) -> bool {
    icmp.first().is_some_and(|kind| ECHOES.contains(kind))
        && icmp.get(HEADER..).is_some_and(is_boomerang)
}

/// Returns the fields of a message, or its error. Offsets count from MAGIC; those in the ICMP header from the start of that.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let icmp = packet.payload;
    if !matches!(packet.ip_protocol, PROTOCOL_V4 | PROTOCOL_V6) || !is_message(icmp) {
        return None;
    }
    let ends = PseudoHeader::of(packet.source, packet.destination)?;
    let mut shown = Map::new();
    let reply = matches!(icmp.first(), Some(0 | 129));
    shown.insert("message".into(), if reply { "echo reply" } else { "echo" }.into());
    let echo = Echo::parse(icmp, ends);
    if let Ok(Echo { identifier, sequence, .. }) = echo {
        shown.insert("identifier".into(), identifier.into());
        shown.insert("sequence".into(), sequence.into());
    }
    let parsed = Reservation::parse(icmp.get(HEADER..).unwrap_or_default());
    if let Ok(message) = &parsed {
        let mut objects = Vec::new();
        objects::add(message, &mut shown, &mut objects);
        shown.insert("objects".into(), objects.into());
    }
    let error = match (echo, parsed) {
        (Err(error), _) => {
            let offset = match error {
                EchoError::Truncated(at) => at,
                EchoError::Type(_) => 0,
                EchoError::Code(_) => 1,
                EchoError::Checksum => 2,
            };
            objects::error(error.name(), offset, &error)
        }
        (Ok(_), Err(error)) => objects::error(error.kind.name(), error.offset, &error),
        (Ok(_), Ok(_)) => return Some(shown),
    };
    shown.insert("error".into(), error);
    Some(shown)
}

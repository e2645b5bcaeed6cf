//! Recognition of messages of RSVP, in IP and inside UDP.

use earmark_wire::rsvp::encapsulation::{FROM_OTHERS, FROM_UDP_ONLY};
use earmark_wire::rsvp::iana::MessageType;
use earmark_wire::udp;

/// IP protocol number of RSVP.
pub(super) const RSVP: u8 = 46;

/// Returns the message in what follows the IP header, well formed or not.
pub(super) fn message(ip_protocol: u8, payload: &[u8]) -> Option<&[u8]> {
    match ip_protocol {
        RSVP => Some(payload),
        udp::PROTOCOL => {
            let datagram = udp::Packet::parse(payload).ok()?;
            let is_rsvp = matches!(datagram.destination_port, FROM_UDP_ONLY | FROM_OTHERS);
            is_rsvp.then_some(datagram.payload)
        }
        _ => None,
    }
}

/// Returns the name of a message.
pub(super) fn name(ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
    let code = message(ip_protocol, payload)?.get(1)?;
    Some(MessageType::from_code(*code).name())
}

//! Recognition of messages of GIST, in datagrams and on connections.

use earmark_wire::gist::{Header, datagram};
use earmark_wire::udp;

/// IP protocol number of TCP.
const TCP: u8 = 6;

/// Returns the message in what follows the IP header of a datagram, well formed or not.
pub(super) fn in_datagram(ip_protocol: u8, payload: &[u8]) -> Option<&[u8]> {
    datagram(payload.get(udp::HEADER..).filter(|_| ip_protocol == udp::PROTOCOL)?)
}

/// Returns the name of the message in a datagram, or at the beginning of what a TCP segment carries.
pub(super) fn name(ip_protocol: u8, payload: &[u8]) -> Option<&'static str> {
    let octets = match ip_protocol {
        TCP => payload,
        _ => in_datagram(ip_protocol, payload)?,
    };
    Some(Header::parse(octets).ok()?.message_type.name())
}

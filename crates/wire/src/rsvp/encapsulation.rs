//! RSVP inside UDP, for hosts without raw sockets (RFC 2205 appendix C).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Pu: destination port of hosts without raw sockets.
pub const FROM_UDP_ONLY: u16 = 1_698;
/// Pu': destination port of all other nodes.
pub const FROM_OTHERS: u16 = 1_699;
/// Offset of Send_TTL in the common header (RFC 2205 section 3.1.1).
const SEND_TTL: usize = 4;

/// Returns G*, to which hosts without raw sockets send what is for a group (IANA: RSVP-ENCAPSULATION). It reaches no further
/// than the link.
pub const fn group(ipv6: bool) -> IpAddr {
    match ipv6 {
        false => IpAddr::V4(Ipv4Addr::new(224, 0, 0, 14)),
        true => IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x0e)),
    }
}

/// Returns the Send_TTL of a message, which takes the place of the received TTL; `None` if the message is too short.
pub fn send_ttl(message: &[u8]) -> Option<u8> {
    message.get(SEND_TTL).copied()
}

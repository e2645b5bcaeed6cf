//! IP headers of messages that leave through raw sockets, whole or in fragments.
//!
//! The kernel does not fragment packets whose header it did not write. In IPv4 a fragment differs from a whole packet
//! in two fields (RFC 791); in IPv6 it has a header of its own, after the hop-by-hop options (RFC 8200 section 4.5).

use std::net::IpAddr;

use earmark_core::Outgoing;
use earmark_wire::{ipv4, ipv6};

use super::SendError;
use super::protocols::router_alert6;

/// Length of the longest IP packet, octets.
pub(super) const MAX_PACKET: usize = 65_535;
/// Packet sizes for fragments if the link is too narrow for a message, widest first: Ethernet, IPv6's minimum, what
/// every IPv4 host accepts, and what every IPv4 link carries (RFC 791).
const FRAGMENT_SIZES: [usize; 4] = [1_500, 1_280, 576, 68];
/// Smallest of them that an IPv6 link may require.
const MIN_IPV6: usize = 1_280;
/// Length of the longest headers: IPv6 with router alert and a fragment header.
const MAX_HEADERS: usize = ipv6::HEADER_LEN + 8 + FRAGMENT_HEADER;

/// Type of service of our packets: internetwork control (RFC 791), class selector 6 (RFC 2474).
const TYPE_OF_SERVICE: u8 = 0xc0;
/// IPv4: the flag of all fragments but the last.
const MORE_FRAGMENTS: u16 = 1 << 13;
/// IPv6: octets of a fragment header, and its number.
const FRAGMENT_HEADER: usize = 8;
const FRAGMENT: u8 = 44;

/// The header of one message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Header {
    V4(ipv4::Repr),
    V6(ipv6::Repr),
}

/// Position of a fragment in its message.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentPosition {
    /// Identification, equal for all fragments of a message, never 0: for 0 the kernel would number each differently.
    pub(super) identification: u32,
    /// Octets of the message before the fragment, a multiple of eight.
    pub(super) offset: usize,
    /// Whether more fragments follow.
    pub(super) more: bool,
}

/// Encoded headers.
pub(super) struct Emitted {
    octets: [u8; MAX_HEADERS],
    length: usize,
}

impl Emitted {
    pub(super) fn octets(&self) -> &[u8] {
        &self.octets[..self.length]
    }
}

impl Header {
    /// Returns the header for a message of `length` octets.
    pub(super) fn new(out: &Outgoing, length: usize) -> Result<Header, SendError> {
        let header = match (out.source, out.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Header::V4(ipv4::Repr {
                tos: TYPE_OF_SERVICE,
                identification: 0, // the kernel assigns it
                dont_fragment: false,
                ttl: out.ttl,
                protocol: out.protocol,
                source,
                destination,
                router_alert: out.router_alert.then_some(0),
                payload_len: length,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Header::V6(ipv6::Repr {
                traffic_class: TYPE_OF_SERVICE,
                flow_label: 0,
                hop_limit: out.ttl,
                source,
                destination,
                router_alert: out.router_alert.then_some(router_alert6(out.protocol)),
                next_header: out.protocol,
                payload_len: length,
            }),
            _ => return Err(SendError::MixedFamilies),
        };
        if header.length() + length > MAX_PACKET {
            return Err(SendError::TooLong { length });
        }
        Ok(header)
    }

    /// Encodes the header of the whole message.
    pub(super) fn emit(&self) -> Emitted {
        let mut octets = [0; MAX_HEADERS];
        let emitted = match self {
            Header::V4(header) => header.emit(&mut octets), // the kernel writes the checksum
            Header::V6(header) => header.emit(&mut octets),
        };
        let length = emitted.expect("room for the longest header, and a length that was checked");
        Emitted { octets, length }
    }

    /// Encodes the header of a fragment of `length` octets.
    pub(super) fn emit_fragment(&self, position: FragmentPosition, length: usize) -> Emitted {
        let FragmentPosition { identification, offset, more } = position;
        match *self {
            Header::V4(header) => {
                let identification = identification as u16; // IPv4 has 16 bits
                let header =
                    Header::V4(ipv4::Repr { identification, payload_len: length, ..header });
                let mut emitted = header.emit();
                let field = (offset / 8) as u16 | if more { MORE_FRAGMENTS } else { 0 };
                emitted.octets[6..8].copy_from_slice(&field.to_be_bytes());
                emitted
            }
            Header::V6(header) => {
                let protocol = header.next_header;
                let payload_len = length + FRAGMENT_HEADER;
                let header =
                    Header::V6(ipv6::Repr { next_header: FRAGMENT, payload_len, ..header });
                let mut emitted = header.emit();
                let field = (offset as u16) | u16::from(more); // offsets are multiples of eight
                let start = emitted.length;
                emitted.length += FRAGMENT_HEADER;
                let octets = &mut emitted.octets[start..];
                octets[0] = protocol;
                octets[2..4].copy_from_slice(&field.to_be_bytes());
                octets[4..8].copy_from_slice(&identification.to_be_bytes());
                emitted
            }
        }
    }

    /// Returns the octets of message per fragment for each usable packet size, largest first; multiples of eight.
    pub(super) fn fragment_lengths(&self) -> impl Iterator<Item = usize> {
        let (least, headers) = match self {
            Header::V4(_) => (0, self.length()),
            Header::V6(_) => (MIN_IPV6, self.length() + FRAGMENT_HEADER),
        };
        let sizes = FRAGMENT_SIZES.into_iter().filter(move |&size| size >= least);
        sizes.map(move |size| (size - headers) & !7)
    }

    fn length(&self) -> usize {
        match self {
            Header::V4(header) => header.header_len(),
            Header::V6(header) => header.header_len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::InterfaceId;

    use super::*;

    fn header(source: &str, destination: &str) -> Header {
        let out = Outgoing {
            protocol: 46,
            interface: Some(InterfaceId(1)),
            source: source.parse().expect("an address"),
            destination: destination.parse().expect("an address"),
            ttl: 63,
            router_alert: true,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        Header::new(&out, 3_000).expect("fits")
    }

    const POSITION: FragmentPosition =
        FragmentPosition { identification: 0x1234, offset: 1_480, more: true };

    /// Layout of a fragment, octet by octet (RFC 791); the kernel writes the checksum.
    #[test]
    fn fragment_has_the_layout_of_rfc_791() {
        let mut emitted = header("10.0.0.1", "10.0.9.9").emit_fragment(POSITION, 8);
        emitted.octets[10..12].fill(0);
        let expected = [
            0x46, 0xc0, 0x00, 0x20, 0x12, 0x34, 0x20, 0xb9, 63, 46, 0, 0, // no checksum
            10, 0, 0, 1, 10, 0, 9, 9, 0x94, 4, 0, 0,
        ];
        assert_eq!(emitted.octets(), expected);
    }

    #[test]
    fn fragment_has_the_layout_of_rfc_8200() {
        let header = header("2001:db8::1", "2001:db8::9");
        let emitted = header.emit_fragment(POSITION, 8);
        let packet = [emitted.octets(), &[0xa5; 8]].concat();
        let packet = ipv6::Packet::parse(&packet).expect("well-formed");
        assert_eq!((packet.hop_limit, packet.router_alert), (63, Some(1)));
        assert!(packet.is_fragment());
        assert_eq!(packet.protocol(), 46);
        // Next header, reserved, 1 480 with the flag, identification; then the message.
        let expected = [46, 0, 0x05, 0xc9, 0, 0, 0x12, 0x34, 0xa5, 0xa5];
        assert_eq!(packet.payload[..10], expected);
        assert_eq!(header.fragment_lengths().collect::<Vec<_>>(), [1_440, 1_224]);
    }

    #[test]
    fn mixed_address_families_are_refused() {
        let out = Outgoing {
            protocol: 46,
            interface: None,
            source: "10.0.0.1".parse().expect("an address"),
            destination: "2001:db8::9".parse().expect("an address"),
            ttl: 1,
            router_alert: false,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        assert!(matches!(Header::new(&out, 8), Err(SendError::MixedFamilies)));
    }
}

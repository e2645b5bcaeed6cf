//! Packets that an attacker has seen or sends.

use std::net::IpAddr;

use earmark_core::Outgoing;
use earmark_wire::{icmp, ipv4, ipv6, udp};

/// IP protocol number of RSVP.
const RSVP: u8 = 46;
/// Octets of the longest header: that of IPv4 with options.
const LONGEST_HEADER: usize = 60;

/// An IP packet: header fields that matter to signalling, and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address, not necessarily the sender's own.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// IP protocol number.
    pub protocol: u8,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// Value of the router-alert option, if the packet has it.
    pub router_alert: Option<u16>,
    /// What follows the IP header.
    pub payload: Vec<u8>,
}

impl Packet {
    /// Parses a packet that begins with its IP header; `None` for fragments and for other packets.
    pub fn parse(octets: &[u8]) -> Option<Packet> {
        if let Ok(packet) = ipv6::Packet::parse(octets) {
            return (!packet.is_fragment()).then(|| Packet {
                source: packet.source.into(),
                destination: packet.destination.into(),
                protocol: packet.protocol(),
                ttl: packet.hop_limit,
                router_alert: packet.router_alert,
                payload: packet.payload.to_vec(),
            });
        }
        let packet = ipv4::Packet::parse(octets).ok().filter(|packet| !packet.is_fragment())?;
        Some(Packet {
            source: packet.source().into(),
            destination: packet.destination().into(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            router_alert: packet.router_alert(),
            payload: packet.payload().to_vec(),
        })
    }

    /// Returns the octets of the packet, from the IP header on; `None` if it is too long for one, or if its addresses are
    /// of different families.
    pub fn octets(&self) -> Option<Vec<u8>> {
        let mut octets = vec![0; LONGEST_HEADER];
        let payload_len = self.payload.len();
        let length = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
                tos: 0xc0,
                identification: 0,
                dont_fragment: false,
                ttl: self.ttl,
                protocol: self.protocol,
                source,
                destination,
                router_alert: self.router_alert,
                payload_len,
            }
            .emit(&mut octets),
            (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
                traffic_class: 0xc0,
                flow_label: 0,
                hop_limit: self.ttl,
                source,
                destination,
                router_alert: self.router_alert,
                next_header: self.protocol,
                payload_len,
            }
            .emit(&mut octets),
            _ => return None,
        };
        octets.truncate(length.ok()?);
        octets.extend_from_slice(&self.payload);
        Some(octets)
    }

    /// Makes the checksum of ICMP or UDP right again after a change, and the length of UDP. RSVP has no checksum if the
    /// field is zero.
    pub fn seal(&mut self) {
        match (self.protocol, &mut self.payload[..]) {
            (udp::PROTOCOL, &mut [s0, s1, d0, d1, ..]) => {
                let header = udp::Repr {
                    source: self.source,
                    destination: self.destination,
                    source_port: u16::from_be_bytes([s0, s1]),
                    destination_port: u16::from_be_bytes([d0, d1]),
                };
                let _ = header.emit(&mut self.payload); // shorter than a header: there is no checksum
            }
            (icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6 | RSVP, [_, _, c0, c1, ..]) => {
                (*c0, *c1) = (0, 0);
                if self.protocol != RSVP {
                    let checksum = self.icmp_checksum();
                    self.payload[2..4].copy_from_slice(&checksum.to_be_bytes());
                }
            }
            _ => {}
        }
    }

    /// Returns the checksum of an ICMP message; that of ICMPv6 covers the pseudo-header, too (RFC 8200 section 8.1).
    fn icmp_checksum(&self) -> u16 {
        let mut covered = Vec::new();
        if let (IpAddr::V6(source), IpAddr::V6(destination)) = (self.source, self.destination) {
            covered.extend([source.octets(), destination.octets()].concat());
            covered.extend((self.payload.len() as u32).to_be_bytes()); // a packet has 16 bits of length
            covered.extend([0, 0, 0, self.protocol]);
        }
        covered.extend_from_slice(&self.payload);
        earmark_wire::checksum::checksum(&covered)
    }

    /// Returns how the simulator sends the packet.
    pub fn outgoing(&self) -> Outgoing {
        let how = Outgoing::new(self.protocol, self.source, self.destination, self.ttl);
        Outgoing { router_alert: self.router_alert.is_some(), ..how }
    }
}

#[cfg(test)]
mod tests {
    use earmark_wire::udp::Checksum;

    use super::*;

    /// Addresses of a source and a destination, in both families.
    fn families() -> [[IpAddr; 2]; 2] {
        [
            [[10, 0, 0, 1].into(), [10, 0, 9, 9].into()],
            [[0x2001, 0xdb8, 0, 0, 0, 0, 0, 1].into(), [0x2001, 0xdb8, 0, 9, 0, 0, 0, 9].into()],
        ]
    }

    fn packet([source, destination]: [IpAddr; 2], protocol: u8, payload: &[u8]) -> Packet {
        let payload = payload.to_vec();
        Packet { source, destination, protocol, ttl: 63, router_alert: None, payload }
    }

    #[test]
    fn packet_is_parsed_as_it_was_written() {
        for addresses in families() {
            for router_alert in [None, Some(0), Some(1)] {
                let packet = Packet { router_alert, ..packet(addresses, 253, &[1, 2, 3, 4, 5]) };
                let octets = packet.octets().unwrap();
                assert_eq!(Packet::parse(&octets), Some(packet));
            }
        }
        let [[four, _], [six, _]] = families();
        assert_eq!(packet([four, six], 253, &[1]).octets(), None, "two families");
        assert_eq!(Packet::parse(&[0x50; 40]), None, "IP version 5");
    }

    #[test]
    fn changed_echo_has_a_right_checksum() {
        let [four, six] = families();
        for (addresses, protocol) in [(four, icmp::PROTOCOL_V4), (six, icmp::PROTOCOL_V6)] {
            let mut packet = packet(addresses, protocol, &[0, 0, 0xff, 0xff, 1, 2, 3, 4, 5, 6]);
            let header = icmp::PseudoHeader::of(packet.source, packet.destination).unwrap();
            packet.payload[0] = header.code(icmp::Kind::Request);
            packet.seal();
            icmp::Echo::parse(&packet.payload, header).unwrap();
            packet.payload.truncate(3);
            packet.seal();
            assert_eq!(packet.payload[2..], [packet.payload[2]], "too short for a checksum");
        }
    }

    #[test]
    fn changed_datagram_has_right_length_and_checksum() {
        for addresses in families() {
            let mut packet = packet(addresses, udp::PROTOCOL, &[0, 1, 0, 2, 9, 9, 9, 9, 7, 7, 7]);
            packet.seal();
            let parsed = udp::Packet::parse(&packet.payload).unwrap();
            assert_eq!(parsed.payload, [7, 7, 7]);
            assert_eq!(parsed.verify(packet.source, packet.destination), Checksum::Valid);
        }
    }
}

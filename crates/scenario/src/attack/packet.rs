//! Packets that an attacker has seen or sends.

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::Outgoing;
use earmark_wire::ipv4;

/// IP protocol numbers of what is sealed.
const ICMP: u8 = 1;
const UDP: u8 = 17;
const RSVP: u8 = 46;

/// An IPv4 packet: header fields that matter to signalling, and the payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Source address, not necessarily the sender's own.
    pub source: Ipv4Addr,
    /// Destination address.
    pub destination: Ipv4Addr,
    /// IP protocol number.
    pub protocol: u8,
    /// Time to live.
    pub ttl: u8,
    /// Whether the packet has the router-alert option.
    pub router_alert: bool,
    /// What follows the IP header.
    pub payload: Vec<u8>,
}

impl Packet {
    /// Parses a packet that begins with its IP header; `None` for fragments and for packets that are not IPv4.
    pub fn parse(octets: &[u8]) -> Option<Packet> {
        let packet = ipv4::Packet::parse(octets).ok().filter(|packet| !packet.is_fragment())?;
        Some(Packet {
            source: packet.source(),
            destination: packet.destination(),
            protocol: packet.protocol(),
            ttl: packet.ttl(),
            router_alert: packet.router_alert().is_some(),
            payload: packet.payload().to_vec(),
        })
    }

    /// Returns the octets of the packet, from the IP header on; `None` if it is too long for one.
    pub fn octets(&self) -> Option<Vec<u8>> {
        let header = ipv4::Repr {
            tos: 0xc0,
            identification: 0,
            dont_fragment: false,
            ttl: self.ttl,
            protocol: self.protocol,
            source: self.source,
            destination: self.destination,
            router_alert: self.router_alert.then_some(0),
            payload_len: self.payload.len(),
        };
        let mut octets = vec![0; 60 + self.payload.len()];
        let length = header.emit(&mut octets).ok()?;
        octets.truncate(length);
        octets.extend_from_slice(&self.payload);
        Some(octets)
    }

    /// Makes the checksum of ICMP, UDP or RSVP right again after a change. UDP and RSVP have none if the field is zero.
    pub fn seal(&mut self) {
        let field = match self.protocol {
            ICMP | RSVP => 2..4,
            UDP => 6..8,
            _ => return,
        };
        let Some(checksum) = self.payload.get_mut(field.clone()) else { return };
        checksum.fill(0);
        if self.protocol == ICMP {
            let checksum = earmark_wire::checksum::checksum(&self.payload);
            self.payload[field].copy_from_slice(&checksum.to_be_bytes());
        }
    }

    /// Returns how the simulator sends the packet.
    pub fn outgoing(&self) -> Outgoing {
        let (source, destination) = (IpAddr::V4(self.source), IpAddr::V4(self.destination));
        let how = Outgoing::new(self.protocol, source, destination, self.ttl);
        Outgoing { router_alert: self.router_alert, ..how }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_parsed_as_it_was_written() {
        for router_alert in [false, true] {
            let packet = Packet {
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 9, 9].into(),
                protocol: 253,
                ttl: 63,
                router_alert,
                payload: vec![1, 2, 3, 4, 5],
            };
            let octets = packet.octets().unwrap();
            assert_eq!(Packet::parse(&octets), Some(packet));
        }
        assert_eq!(Packet::parse(&[0x60; 40]), None, "IPv6");
    }

    #[test]
    fn changed_echo_has_a_right_checksum() {
        let mut packet = Packet {
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 9, 9].into(),
            protocol: ICMP,
            ttl: 63,
            router_alert: false,
            payload: vec![8, 0, 0xff, 0xff, 1, 2, 3, 4, 5, 6],
        };
        packet.seal();
        assert_eq!(earmark_wire::checksum::checksum(&packet.payload), 0);
        packet.payload.truncate(3);
        packet.seal();
        assert_eq!(packet.payload, [8, 0, packet.payload[2]], "too short for a checksum");
    }
}

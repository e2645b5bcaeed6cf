//! Packets in flight, and the changes that they undergo.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use earmark_core::{CloseReason, ConnectionId, Datagram, InterfaceId, Transport};
use earmark_wire::icmp::{self, PseudoHeader};
use earmark_wire::udp;

use crate::draw::Draw;

/// A packet that is about to arrive.
#[derive(Clone, Debug)]
pub struct Packet {
    /// The node.
    pub to: usize,
    pub interface: InterfaceId,
    pub protocol: u8,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub ttl: u8,
    pub router_alert: bool,
    pub payload: Vec<u8>,
}

/// Something in flight.
#[derive(Clone, Debug)]
pub enum Flight {
    Packet(Packet),
    /// An event of a connection of a node.
    Stream(usize, ConnectionId, Segment),
}

/// An event of a connection.
#[derive(Clone, Debug)]
pub enum Segment {
    Open { local: SocketAddr, peer: SocketAddr, transport: Transport },
    Data(Vec<u8>),
    Closed(CloseReason),
}

impl Packet {
    pub fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: self.ttl,
            router_alert: self.router_alert,
            encapsulated: false,
            payload: &self.payload,
        }
    }

    /// Writes lengths and checksums of the outer header again, so that changes behind it are looked at.
    pub fn seal(&mut self) {
        let Packet { source, destination, payload, .. } = self;
        match self.protocol {
            earmark_rsvp::PROTOCOL => {
                let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
                if let [first, _, c0, c1, _, _, l0, l1, ..] = &mut payload[..] {
                    *first = 0x10 | *first & 0xf;
                    (*c0, *c1) = (0, 0);
                    [*l0, *l1] = length.to_be_bytes();
                }
            }
            icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6 => {
                let ends = PseudoHeader::of(*source, *destination).unwrap_or(PseudoHeader::V4);
                let is_reply = payload.first().is_some_and(|code| matches!(code, 0 | 129));
                let kind = if is_reply { icmp::Kind::Reply } else { icmp::Kind::Request };
                let _ = icmp::seal(payload, ends, kind, 1, 2);
            }
            udp::PROTOCOL => {
                let &mut [s0, s1, d0, d1, ..] = &mut payload[..] else { return };
                let header = udp::Repr {
                    source: *source,
                    destination: *destination,
                    source_port: u16::from_be_bytes([s0, s1]),
                    destination_port: u16::from_be_bytes([d0, d1]),
                };
                let _ = header.emit(payload);
            }
            _ => {}
        }
    }
}

impl Flight {
    /// Changes octets, the length, or what surrounds them.
    pub fn damage(&mut self, draw: &mut Draw<'_>) {
        let (octets, packet) = match self {
            Flight::Packet(packet) => (&mut packet.payload, true),
            Flight::Stream(_, _, Segment::Data(octets)) => (octets, false),
            Flight::Stream(..) => return,
        };
        for _ in 0..=draw.below(3) {
            let at = usize::from(draw.u16());
            match draw.below(8) {
                0 => octets.truncate(at % (octets.len() + 1)),
                1 => octets.extend_from_slice(draw.take(at % 16)),
                2 if !octets.is_empty() => {
                    let at = at % octets.len();
                    octets[at] ^= 1 << draw.below(8);
                }
                3 if octets.len() >= 4 => {
                    let at = at % (octets.len() / 4) * 4;
                    octets[at..at + 4].copy_from_slice(&draw.u32().to_be_bytes());
                }
                _ if !octets.is_empty() => {
                    let at = at % octets.len();
                    octets[at] = draw.octet();
                }
                _ => {}
            }
        }
        if packet && let Flight::Packet(packet) = self {
            match draw.below(6) {
                0 => packet.ttl = draw.octet(),
                1 => packet.router_alert = !packet.router_alert,
                2 => {
                    packet.source =
                        IpAddr::V4(Ipv4Addr::new(10, 0, draw.octet() & 7, draw.octet() & 15))
                }
                _ => {}
            }
            if draw.octet() < 224 {
                packet.seal();
            }
        }
    }
}

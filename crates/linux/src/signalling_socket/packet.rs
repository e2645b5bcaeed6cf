//! Parsing of whole IP packets.

use std::net::IpAddr;

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::{ipv4, ipv6};

use crate::sys::socket::Received;

/// The content of an IP packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parsed<'a> {
    /// IP protocol number of the payload. A fragment over IPv6 has the number of the fragment header.
    pub(super) protocol: u8,
    pub(super) datagram: Datagram<'a>,
}

/// Parses a whole IP packet; `None` if the header is malformed.
pub(super) fn packet(octets: &[u8], interface: u32) -> Option<Parsed<'_>> {
    match octets.first()? >> 4 {
        4 => packet4(octets, interface),
        _ => packet6(octets, interface),
    }
}

fn packet4(octets: &[u8], interface: u32) -> Option<Parsed<'_>> {
    let packet = ipv4::Packet::parse(octets).ok()?;
    let datagram = Datagram {
        interface: InterfaceId(interface),
        source: IpAddr::V4(packet.source()),
        destination: IpAddr::V4(packet.destination()),
        ttl: packet.ttl(),
        router_alert: packet.router_alert().is_some(),
        encapsulated: false,
        payload: packet.payload(),
    };
    Some(Parsed { protocol: packet.protocol(), datagram })
}

fn packet6(octets: &[u8], interface: u32) -> Option<Parsed<'_>> {
    let packet = ipv6::Packet::parse(octets).ok()?;
    let datagram = Datagram {
        interface: InterfaceId(interface),
        source: IpAddr::V6(packet.source),
        destination: IpAddr::V6(packet.destination),
        ttl: packet.hop_limit,
        router_alert: packet.router_alert.is_some(),
        encapsulated: false,
        payload: packet.payload,
    };
    Some(Parsed { protocol: packet.next_header, datagram })
}

/// Returns the content of a packet whose IPv6 header the kernel has removed.
pub(super) fn payload6<'a>(octets: &'a [u8], about: &Received) -> Option<Datagram<'a>> {
    Some(Datagram {
        interface: InterfaceId(about.interface?),
        source: about.source?,
        destination: about.destination?,
        ttl: about.hop_limit?,
        router_alert: about.router_alert.is_some(),
        encapsulated: false,
        payload: octets,
    })
}

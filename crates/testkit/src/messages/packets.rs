//! Valid packets around messages: IP, UDP and ICMP, as octets, for tests that damage them.

use std::net::{Ipv4Addr, Ipv6Addr};

use earmark_wire::{icmp, ipv4, ipv6, udp};

/// Source of the messages.
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 254);
/// Destination of the messages.
pub const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
/// Returns a ping with these data; the checksum is that of ICMP over IPv4.
///
/// # Panics
/// Never: it has a header.
pub fn echo(data: &[u8]) -> Vec<u8> {
    let mut echo = [&[0; icmp::HEADER], data].concat();
    let header = icmp::PseudoHeader::V4;
    icmp::seal(&mut echo, header, icmp::Kind::Request, 1, 2).expect("it has a header");
    echo
}

/// Returns a UDP packet from [`SOURCE`] to [`DESTINATION`], with the same port at both ends.
///
/// # Panics
/// The payload is too long for UDP.
pub fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut octets = [&[0; udp::HEADER], payload].concat();
    let (source, destination) = (SOURCE.into(), DESTINATION.into());
    let header = udp::Repr { source, destination, source_port: port, destination_port: port };
    header.emit(&mut octets).expect("it is short");
    octets
}

/// Returns an IPv4 packet from [`SOURCE`] to [`DESTINATION`] with router alert.
///
/// # Panics
/// The payload is too long for IPv4.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr {
        tos: 0xc0,
        identification: 1,
        dont_fragment: false,
        ttl: 63,
        protocol,
        source: SOURCE,
        destination: DESTINATION,
        router_alert: Some(0),
        payload_len: payload.len(),
    };
    let mut octets = vec![0; header.header_len()];
    header.emit(&mut octets).expect("it is short");
    octets.extend(payload);
    octets
}

/// Returns an IPv6 packet with router alert.
///
/// # Panics
/// The payload is too long for IPv6.
pub fn ipv6(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 128 + payload.len()];
    let header = ipv6::Repr {
        traffic_class: 0xc0,
        flow_label: 1,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
        router_alert: Some(1),
        next_header: protocol,
        payload_len: payload.len(),
    };
    let length = header.emit(&mut packet).expect("it fits");
    packet.truncate(length + payload.len());
    packet
}

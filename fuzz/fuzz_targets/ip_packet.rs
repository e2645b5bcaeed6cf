//! Any octets as an IPv4 or IPv6 packet, a UDP packet, an ICMP echo and hop-by-hop options: no panic, and the fields that
//! can be written survive it.
#![no_main]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_wire::icmp::{Echo, PseudoHeader, make_reply};
use earmark_wire::{EmitError, icmp, ipv4, ipv6, udp};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| {
    read_ipv4(octets);
    read_ipv6(octets);
    let (v4, v6) = (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST));
    read_udp(octets, v4);
    read_udp(octets, v6);
    read_echo(octets, PseudoHeader::V4);
    read_echo(octets, PseudoHeader::V6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST));
    let _ = ipv6::router_alert(octets);
});

fn read_ipv4(octets: &[u8]) {
    let Ok(packet) = ipv4::Packet::parse(octets) else { return };
    assert!(packet.options().count() <= 40);
    let repr = ipv4::Repr::from_packet(&packet);
    let mut wire = vec![0xa5; repr.header_len() + repr.payload_len];
    match repr.emit(&mut wire) {
        Ok(length) => {
            wire[length..].copy_from_slice(packet.payload());
            let again = ipv4::Packet::parse(&wire).expect("what was emitted parses");
            assert_eq!(ipv4::Repr::from_packet(&again), repr);
            assert_eq!(again.payload(), packet.payload());
        }
        // Only a router alert that the packet itself did not have room for makes it longer.
        Err(_) => assert!(wire.len() > usize::from(u16::MAX)),
    }
}

fn read_ipv6(octets: &[u8]) {
    let Ok(packet) = ipv6::Packet::parse(octets) else { return };
    let _ = packet.protocol();
    let repr = ipv6::Repr::from_packet(&packet);
    let mut wire = vec![0xa5; repr.header_len() + repr.payload_len];
    match repr.emit(&mut wire) {
        Ok(length) => {
            wire[length..].copy_from_slice(packet.payload);
            // A second hop-by-hop header behind the first becomes the first.
            let Ok(again) = ipv6::Packet::parse(&wire) else {
                return assert_eq!(packet.next_header, 0);
            };
            if packet.next_header != 0 {
                assert_eq!(
                    (ipv6::Repr::from_packet(&again), again.payload),
                    (repr, packet.payload)
                );
            }
        }
        Err(error) => assert_eq!(error, EmitError::TooLong),
    }
}

fn read_udp(octets: &[u8], address: IpAddr) {
    let Ok(packet) = udp::Packet::parse(octets) else { return };
    let _ = packet.verify(address, address);
    let header = udp::Repr {
        source: address,
        destination: address,
        source_port: packet.source_port,
        destination_port: packet.destination_port,
    };
    let mut wire = packet.octets().to_vec();
    header.emit(&mut wire).expect("it was as long before");
    let again = udp::Packet::parse(&wire).expect("it was emitted");
    assert_eq!(again.verify(address, address), udp::Checksum::Valid);
    assert_eq!((again.source_port, again.payload), (packet.source_port, packet.payload));
}

fn read_echo(octets: &[u8], ends: PseudoHeader) {
    let _ = Echo::parse(octets, ends);
    // The checksum holds a fuzzer up for long; with a right one it gets to what is behind.
    let mut sealed = octets.to_vec();
    if icmp::seal(&mut sealed, ends, icmp::Kind::Request, 1, 2).is_err() {
        return assert!(octets.len() < icmp::HEADER);
    }
    let original = sealed.clone();
    let echo = Echo::parse(&original, ends).expect("it was sealed");
    let mut wire = vec![0xa5; echo.buffer_len()];
    assert_eq!(echo.emit(ends, &mut wire), Ok(wire.len()));
    assert_eq!(wire, original);
    make_reply(&mut sealed, ends);
    let reply = Echo::parse(&sealed, ends).expect("the checksum follows");
    assert_eq!((reply.kind, reply.data), (icmp::Kind::Reply, echo.data));
}

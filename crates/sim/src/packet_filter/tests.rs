//! Tests of the packet filter, packet by packet.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{
    Endpoint, FilterAction, FilterChange, FilterRule, FilteredPackets, Flow, Outgoing, Prefix,
};
use earmark_core::{InterfaceId, Time};
use earmark_wire::{icmp, udp};

use super::{NO_SPACE, PacketFilter, Passage};
use crate::packet::{Body, Packet};

const INSIDE: InterfaceId = InterfaceId(1);
const OUTSIDE: InterfaceId = InterfaceId(2);
const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [192, 0, 2, 1];
const PUBLIC: [u8; 4] = [203, 0, 113, 1];

fn packet(
    source: [u8; 4],
    source_port: u16,
    destination: [u8; 4],
    destination_port: u16,
) -> Packet {
    let (source, destination) = (IpAddr::from(source), IpAddr::from(destination));
    let mut octets = vec![0; udp::HEADER + 3];
    let header = udp::Repr { source, destination, source_port, destination_port };
    header.emit(&mut octets).expect("there is room");
    Packet::signalling(&Outgoing::new(udp::PROTOCOL, source, destination, 64), &octets)
}

fn rule(
    source: Option<[u8; 4]>,
    destination: [u8; 4],
    port: u16,
    action: FilterAction,
) -> FilterRule {
    let flow = Flow {
        source: source.map(IpAddr::from),
        protocol: 17,
        destination_port: port,
        ..Flow::to_range(Prefix::host(destination.into()))
    };
    let packets = FilteredPackets { flow, icmp_type: None };
    FilterRule { packets, action, source: None, destination: None }
}

fn endpoint(address: [u8; 4], port: u16) -> Option<Endpoint> {
    Some(Endpoint { address: address.into(), port })
}

fn filter(rules: &[FilterRule]) -> PacketFilter {
    let mut filter = PacketFilter::default();
    filter.guard(OUTSIDE);
    for rule in rules {
        let install = FilterChange::Install(*rule, Time::from_secs(100));
        filter.change(Time::ZERO, &install).expect("a valid rule");
    }
    filter
}

impl PacketFilter {
    fn at(&mut self, second: u64, from: InterfaceId, packet: &Packet) -> (Passage, Packet) {
        let mut packet = packet.clone();
        (self.pass(Time::from_secs(second), from, &mut packet), packet)
    }
}

/// Returns source and destination of a UDP packet, whose checksum must be valid.
fn ends(packet: &Packet) -> (IpAddr, u16, IpAddr, u16) {
    let Body::Signalling(octets) = &packet.body else { panic!("no stream") };
    let parsed = udp::Packet::parse(octets).expect("a UDP packet");
    assert_eq!(parsed.verify(packet.source, packet.destination), udp::Checksum::Valid);
    (packet.source, parsed.source_port, packet.destination, parsed.destination_port)
}

#[test]
fn guarded_interface_needs_a_rule_in_both_directions() {
    let request = packet(SERVER, 9, CLIENT, 5_000);
    let reply = packet(CLIENT, 5_000, SERVER, 9);
    let allow = rule(Some(SERVER), CLIENT, 5_000, FilterAction::Allow);
    let mut filter = filter(&[]);
    assert_eq!(filter.at(0, OUTSIDE, &request).0, Passage::Drop);
    filter.change(Time::ZERO, &FilterChange::Install(allow, Time::from_secs(100))).expect("valid");
    assert_eq!(filter.at(1, OUTSIDE, &request).0, Passage::Forward);
    assert_eq!(filter.at(1, INSIDE, &reply).0, Passage::Forward);
    let other = packet(SERVER, 9, CLIENT, 5_001);
    assert_eq!(filter.at(1, OUTSIDE, &other).0, Passage::Drop);
    filter.change(Time::from_secs(2), &FilterChange::Remove(allow.packets)).expect("valid");
    assert_eq!(filter.at(2, OUTSIDE, &request).0, Passage::Drop);
    assert_eq!(filter.at(2, INSIDE, &reply).0, Passage::UnguardedOnly, "its pinhole is gone");
}

#[test]
fn connection_from_inside_needs_no_rule() {
    let mut filter = filter(&[]);
    assert_eq!(filter.at(0, INSIDE, &packet(CLIENT, 9, SERVER, 80)).0, Passage::Forward);
    assert_eq!(filter.at(0, OUTSIDE, &packet(SERVER, 80, CLIENT, 9)).0, Passage::UnguardedOnly);
    let late = packet(SERVER, 80, CLIENT, 9);
    assert_eq!(filter.at(121, OUTSIDE, &late).0, Passage::Drop, "the connection has timed out");
}

#[test]
fn denied_packets_are_dropped_though_another_rule_allows_them() {
    let allow = rule(Some(SERVER), CLIENT, 5_000, FilterAction::Allow);
    let deny = rule(None, CLIENT, 5_000, FilterAction::Deny);
    let mut filter = filter(&[allow, deny]);
    assert_eq!(filter.at(0, OUTSIDE, &packet(SERVER, 9, CLIENT, 5_000)).0, Passage::Drop);
    assert_eq!(filter.at(0, INSIDE, &packet(SERVER, 9, CLIENT, 5_000)).0, Passage::Drop);
}

#[test]
fn rule_ends_by_itself_with_its_connections() {
    let allow = rule(Some(SERVER), PUBLIC, 80, FilterAction::Allow);
    let translated = FilterRule { destination: endpoint(CLIENT, 8_080), ..allow };
    let mut filter = filter(&[translated]);
    let request = packet(SERVER, 9, PUBLIC, 80);
    let reply = packet(CLIENT, 8_080, SERVER, 9);
    assert_eq!(filter.at(99, OUTSIDE, &request).0, Passage::Forward);
    assert_eq!(ends(&filter.at(99, INSIDE, &reply).1).0, IpAddr::from(PUBLIC));
    assert_eq!(filter.rules(Time::from_secs(99)).count(), 1);
    assert_eq!(filter.rules(Time::from_secs(100)).count(), 0);
    assert_eq!(filter.at(100, OUTSIDE, &request).0, Passage::Drop);
    assert_eq!(ends(&filter.at(100, INSIDE, &reply).1).0, IpAddr::from(CLIENT));
}

#[test]
fn both_directions_are_translated() {
    let out = rule(Some(CLIENT), SERVER, 80, FilterAction::Allow);
    let mut out = FilterRule { source: endpoint(PUBLIC, 6_000), ..out };
    out.packets.flow.source_port = 9;
    let incoming = rule(None, PUBLIC, 7_000, FilterAction::Allow);
    let incoming = FilterRule { destination: endpoint(CLIENT, 70), ..incoming };
    let mut filter = filter(&[out, incoming]);
    let address = IpAddr::from;

    let (passage, sent) = filter.at(0, INSIDE, &packet(CLIENT, 9, SERVER, 80));
    assert_eq!(passage, Passage::Forward);
    assert_eq!(ends(&sent), (address(PUBLIC), 6_000, address(SERVER), 80));
    let answer = packet(SERVER, 80, PUBLIC, 6_000);
    assert!(filter.redirects(Time::ZERO, &answer));
    let (passage, answered) = filter.at(0, OUTSIDE, &answer);
    assert_eq!(passage, Passage::Forward);
    assert_eq!(ends(&answered), (address(SERVER), 80, address(CLIENT), 9));

    let request = packet(SERVER, 50, PUBLIC, 7_000);
    assert!(filter.redirects(Time::ZERO, &request));
    let (passage, received) = filter.at(0, OUTSIDE, &request);
    assert_eq!(passage, Passage::Forward);
    assert_eq!(ends(&received), (address(SERVER), 50, address(CLIENT), 70));
    let (_, replied) = filter.at(0, INSIDE, &packet(CLIENT, 70, SERVER, 50));
    assert_eq!(ends(&replied), (address(PUBLIC), 7_000, address(SERVER), 50));
    assert!(!filter.redirects(Time::ZERO, &packet(SERVER, 50, PUBLIC, 7_001)));
}

#[test]
fn connection_older_than_its_translation_is_translated_anew() {
    let mut filter = filter(&[]);
    let request = packet(CLIENT, 9, SERVER, 80);
    assert_eq!(ends(&filter.at(0, INSIDE, &request).1).0, IpAddr::from(CLIENT));
    for (second, port) in [(1, 6_000), (2, 6_001)] {
        let allow = rule(Some(CLIENT), SERVER, 80, FilterAction::Allow);
        let mut rule = FilterRule { source: endpoint(PUBLIC, port), ..allow };
        rule.packets.flow.source_port = 9;
        let install = FilterChange::Install(rule, Time::from_secs(100));
        filter.change(Time::from_secs(second), &install).expect("a valid rule");
        let (_, sent) = filter.at(second, INSIDE, &request);
        assert_eq!(ends(&sent), (PUBLIC.into(), port, SERVER.into(), 80));
    }
}

#[test]
fn narrowest_translation_is_made() {
    let wide = FilterRule {
        source: endpoint(PUBLIC, 0),
        ..rule(Some(CLIENT), SERVER, 0, FilterAction::Allow)
    };
    let narrow = FilterRule {
        source: endpoint([203, 0, 113, 2], 0),
        ..rule(Some(CLIENT), SERVER, 80, FilterAction::Allow)
    };
    let mut filter = filter(&[wide, narrow]);
    let (_, sent) = filter.at(0, INSIDE, &packet(CLIENT, 9, SERVER, 80));
    assert_eq!(ends(&sent).0, IpAddr::from([203, 0, 113, 2]));
    let (_, sent) = filter.at(0, INSIDE, &packet(CLIENT, 9, SERVER, 81));
    assert_eq!(ends(&sent).0, IpAddr::from(PUBLIC));
}

#[test]
fn two_hosts_behind_one_address_get_different_ports() {
    let translated = |host| FilterRule {
        source: endpoint(PUBLIC, 0),
        ..rule(Some([10, 0, 0, host]), SERVER, 80, FilterAction::Allow)
    };
    let mut filter = filter(&[translated(1), translated(2)]);
    for (host, port) in [(1, 9), (2, 10)] {
        let (_, sent) = filter.at(0, INSIDE, &packet([10, 0, 0, host], 9, SERVER, 80));
        assert_eq!(ends(&sent).1, port);
        let (_, answered) = filter.at(0, OUTSIDE, &packet(SERVER, 80, PUBLIC, port));
        assert_eq!(ends(&answered), (SERVER.into(), 80, [10, 0, 0, host].into(), 9));
    }
}

#[test]
fn ping_and_its_reply_belong_to_the_rule_of_the_request() {
    let (source, destination) = (IpAddr::from(SERVER), IpAddr::from(CLIENT));
    let echo = |kind, source, destination| {
        let header = icmp::PseudoHeader::of(source, destination).expect("one family");
        let mut octets: Vec<u8> = vec![0; 8];
        icmp::seal(&mut octets, header, kind, 77, 1).expect("there is room");
        Packet::signalling(&Outgoing::new(1, source, destination, 64), &octets)
    };
    let mut allow = rule(Some(SERVER), CLIENT, 0, FilterAction::Allow);
    allow.packets.flow.protocol = 1;
    allow.packets.icmp_type = Some(8);
    let mut filter = filter(&[allow]);
    let request = echo(icmp::Kind::Request, source, destination);
    let reply = echo(icmp::Kind::Reply, destination, source);
    assert_eq!(
        filter.at(0, OUTSIDE, &echo(icmp::Kind::Reply, source, destination)).0,
        Passage::Drop
    );
    assert_eq!(filter.at(0, OUTSIDE, &request).0, Passage::Forward);
    assert_eq!(filter.at(0, INSIDE, &reply).0, Passage::Forward);
}

#[test]
fn refused_rule_leaves_nothing_installed() {
    let allow = rule(Some(SERVER), CLIENT, 5_000, FilterAction::Allow);
    let other = rule(Some(SERVER), CLIENT, 5_001, FilterAction::Allow);
    let mut filter = filter(&[allow]);
    filter.limit = 1;
    let install = |rule| FilterChange::Install(rule, Time::from_secs(100));
    assert_eq!(filter.change(Time::ZERO, &install(other)), Err(NO_SPACE));
    assert_eq!(filter.change(Time::ZERO, &install(allow)), Ok(()), "a replacement needs no room");
    filter.refuse = Some(1);
    assert_eq!(filter.change(Time::ZERO, &install(allow)), Err(1));
    assert_eq!(filter.rules(Time::ZERO).count(), 0);
    filter.refuse = None;
    assert_eq!(filter.change(Time::from_secs(1), &install(other)), Ok(()));
    assert_eq!(
        filter.change(Time::from_secs(100), &install(allow)),
        Ok(()),
        "the other one has ended"
    );
}

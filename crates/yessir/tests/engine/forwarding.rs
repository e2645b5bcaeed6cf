//! Forwarding: messages that are forwarded unchanged, messages that are not forwarded, and checksums.

use earmark_core::Rate;
use earmark_wire::yessir::Style;
use earmark_yessir::{DropReason, Event};

use crate::common::{Ask, DOWN, Node, SIDE, address};

/// An invalid message is forwarded unchanged and has no effect.
#[test]
fn invalid_message_is_forwarded_unchanged() {
    let ask = Ask::new(1);
    let good = ask.arrival();
    let mut broken = good.clone();
    let at = broken.octets.len() - 3;
    broken.octets[at] ^= 1; // the checksum is wrong now
    let mut ports = Ask::new(1);
    ports.ports = (4_000, 5_001); // reports to an even port
    let mut unknown = Ask::new(1);
    unknown.generic.style = Style::Unknown(9);
    let cases = [
        (broken, DropReason::Checksum),
        (ports.arrival(), DropReason::Ports),
        (unknown.arrival(), DropReason::Malformed),
    ];
    for (arrival, reason) in cases {
        let mut node = Node::new();
        let sent = node.pass(&arrival);
        assert_eq!((sent.octets, sent.how.ttl), (arrival.octets, 63), "{reason:?}");
        let reported = node.take_events();
        assert!(
            matches!(reported[..], [Event::Ignored { reason: why, .. }] if why == reason),
            "{reported:?}"
        );
        assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
    }
}

#[test]
fn undeliverable_message_is_dropped() {
    let mut node = Node::new();
    let last = crate::common::Arrival { ttl: 1, ..Ask::new(1).arrival() };
    node.arrive(&last);
    let nowhere = Ask { destination: address("192.0.2.1"), ..Ask::new(2) };
    node.arrive(&nowhere.arrival());
    let ours = Ask { destination: address("10.0.9.1"), ..Ask::new(3) };
    node.arrive(&ours.arrival());
    node.arrive(&Ask::new(4).with_octets(vec![0; 7]));
    node.arrive(&Ask::new(5).plain());
    let reasons: Vec<DropReason> = node
        .take_events()
        .iter()
        .map(|event| match event {
            Event::Ignored { reason, .. } => *reason,
            other => panic!("{other:?}"),
        })
        .collect();
    let expected =
        [DropReason::TtlExpired, DropReason::NoRoute, DropReason::NotForUs, DropReason::Malformed];
    assert_eq!(reasons, expected);
    assert_eq!((node.sent.len(), node.engine.session_count()), (0, 0));
}

/// A refresh whose TTL is used up goes no further than another message.
#[test]
fn refresh_with_the_last_ttl_is_dropped() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    for ttl in [64, 2] {
        assert_eq!(node.pass(&crate::common::Arrival { ttl, ..ask.arrival() }).how.ttl, ttl - 1);
    }
    assert_eq!(node.engine.counters().refreshed, 1);
    node.take_events();
    node.sent.clear();
    node.arrive(&crate::common::Arrival { ttl: 1, ..ask.arrival() });
    let events = node.take_events();
    let is_expired =
        |event: &Event| matches!(event, Event::Ignored { reason: DropReason::TtlExpired, .. });
    assert!(events.iter().any(is_expired), "{events:?}");
    assert!(node.sent.is_empty());
}

/// The sender left the checksum to its network card; the forwarded message must have one.
#[test]
fn hardware_checksum_is_computed() {
    let mut node = Node::new();
    let ask = Ask::rate(1, 6.0);
    let mut arrival = ask.arrival();
    let [IpSum(source), IpSum(destination)] = [ask.source, ask.destination].map(IpSum::of);
    let length = arrival.octets.len() as u32;
    let sum = source + destination + 17 + length;
    let sum = ((sum & 0xffff) + (sum >> 16)) as u16;
    arrival.octets[6..8].copy_from_slice(&sum.to_be_bytes());
    let sent = node.pass(&arrival);
    assert_eq!(sent.notes().len(), 1, "and its checksum is right");
    let release = ask.release();
    let mut arrival = release.arrival();
    arrival.octets[6..8].copy_from_slice(&sum.to_be_bytes());
    node.pass(&arrival).report();
}

struct IpSum(u32);

impl IpSum {
    fn of(address: std::net::IpAddr) -> IpSum {
        let std::net::IpAddr::V4(address) = address else { panic!("IPv4") };
        let [a, b, c, d] = address.octets().map(u32::from);
        IpSum((a << 8 | b) + (c << 8 | d))
    }
}

#[test]
fn absent_checksum_stays_absent() {
    let mut node = Node::new();
    let mut arrival = Ask::rate(1, 6.0).arrival();
    arrival.octets[6..8].fill(0);
    let sent = node.pass(&arrival);
    assert_eq!(sent.octets[6..8], [0, 0]);
    assert_eq!(sent.notes().len(), 1);
}

/// On an interface where the node takes no part, messages are relayed as by a router without YESSIR.
#[test]
fn interface_without_bandwidth_relays() {
    let mut node = Node::new();
    node.set_route("10.9.0.1/32", SIDE, 0);
    let mut side = node.interfaces.by_id(SIDE).expect("known").clone();
    side.bandwidth = Rate::ZERO;
    node.interfaces.set(side);
    let ask = Ask::new(1);
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.octets, ask.arrival().octets);
    assert_eq!(sent.how.interface, Some(SIDE));
    let mut from_there = Ask::new(2).arrival();
    from_there.interface = SIDE;
    let octets = from_there.octets.clone();
    assert_eq!(node.pass(&from_there).octets, octets);
    assert_eq!((node.held(DOWN), node.held(SIDE)), (0, 0));
}

/// Answers of receivers are forwarded unchanged, except for the TTL.
#[test]
fn answer_is_forwarded_unchanged() {
    let mut node = Node::new();
    let mut arrival = Ask::rate(1, 6.0).arrival();
    // The request as a receiver report: 20 octets less in front.
    let app = Ask::rate(1, 6.0).app();
    let mut octets = vec![0; 8];
    octets.extend([0x80, 201, 0, 1, 1, 0, 0, 1]);
    octets.extend(&app);
    let header = earmark_wire::udp::Repr {
        source: arrival.source,
        destination: arrival.destination,
        source_port: 1,
        destination_port: 2,
    };
    header.emit(&mut octets).expect("it fits");
    arrival.octets = octets;
    let sent = node.pass(&arrival);
    assert_eq!((sent.octets, sent.how.ttl), (arrival.octets, 63));
    assert_eq!((node.engine.counters().answers, node.engine.session_count()), (1, 0));
}

//! RSVP's sockets.

use std::net::IpAddr;

use earmark_core::{InterfaceId, Outgoing};
use earmark_linux::netns::Namespace;
use earmark_linux::{Incoming, OpenError, SendError, SignallingSocket};

use crate::support::{Line, RECEIVER, SENDER, eventually};

pub(crate) fn open(namespace: &Namespace) -> SignallingSocket {
    namespace.run_in(SignallingSocket::open).expect("inside").expect("the sockets")
}

/// Returns a Path on its way from the sender to the receiver.
pub(crate) fn path(router_alert: bool) -> Outgoing {
    Outgoing {
        protocol: 46,
        interface: None,
        source: IpAddr::V4(SENDER),
        destination: IpAddr::V4(RECEIVER),
        ttl: 64,
        router_alert,
        encapsulated: false,
        neighbor: None,
        next_hop: None,
    }
}

/// The router receives a Path that is not addressed to it; the receiver does not receive it until the router forwards
/// it, and then still with the sender's address.
pub(crate) fn message_in_transit_is_intercepted_and_sent_on() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    sender.send(&path(true), b"a path").expect("sent");
    let mut caught = Vec::new();
    eventually("the router catches it", || {
        let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
            assert_eq!((d.source, d.destination), (SENDER.into(), RECEIVER.into()));
            assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
            caught = d.payload.to_vec();
        };
        router.receive(each).expect("received") > 0
    });
    assert_eq!(caught, b"a path");
    assert_eq!(receiver.receive(|_| ()).expect("nothing"), 0, "consumed on the way");

    let onward = Outgoing { interface: Some(line.outward), ttl: 63, ..path(true) };
    router.send(&onward, &caught).expect("sent on");
    eventually("the receiver gets it", || {
        let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
            assert_eq!((d.source, d.ttl, d.router_alert), (SENDER.into(), 63, true));
            assert_eq!(d.payload, b"a path");
        };
        receiver.receive(each).expect("received") > 0
    });
    assert_eq!((router.counters().received, router.counters().sent), (1, 1));
}

/// Resv messages are addressed to the next hop and carry no alert; a router forwards those in transit.
pub(crate) fn message_without_router_alert_is_forwarded() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    sender.send(&path(false), b"a message").expect("sent");
    eventually("the receiver gets it", || {
        receiver.receive(|m| assert_eq!(m.datagram.ttl, 63)).expect("received") > 0
    });
    assert_eq!(router.receive(|_| ()).expect("nothing"), 0);
}

/// A message longer than the MTU is fragmented by the sender, reassembled by the router, and again so to the receiver.
pub(crate) fn message_longer_than_the_mtu_arrives_whole() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    let message: Vec<u8> = (0..9_001_u32).map(|n| n as u8).collect();
    sender.send(&path(true), &message).expect("sent");
    let mut caught = Vec::new();
    eventually("the router catches it", || {
        router.receive(|m| caught = m.datagram.payload.to_vec()).expect("received") > 0
    });
    assert!(caught == message, "whole at the router");
    router.send(&Outgoing { interface: Some(line.outward), ..path(true) }, &caught).expect("sent");
    eventually("the receiver gets it", || {
        receiver.receive(|m| assert!(m.datagram.payload == message)).expect("received") > 0
    });
    let outcome = sender.send(&path(true), &[0; 65_535]);
    assert!(matches!(outcome, Err(SendError::TooLong { length: 65_535 })));
    let nowhere =
        Outgoing { destination: "2001:db8::1".parse().expect("an address"), ..path(true) };
    assert!(matches!(sender.send(&nowhere, b""), Err(SendError::MixedFamilies)));
}

/// Messages to addresses that nobody on the link answers for wait for some seconds. Others leave meanwhile.
pub(crate) fn message_passes_others_to_silent_addresses() {
    let line = Line::new();
    line.add_ipv6();
    let [mut router, mut receiver] = [&line.router, &line.receiver].map(open);
    let address = |text: String| text.parse::<IpAddr>().expect("an address");
    for (source, prefix) in [("10.77.2.1", "10.77.1."), ("2001:db8:2::1", "2001:db8:1::")] {
        for number in 0..4_000 {
            let destination = address(format!("{prefix}{}", number % 200 + 20));
            let how = Outgoing { source: address(source.into()), destination, ..path(false) };
            router.send(&how, &[0; 100]).expect("it waits for its neighbour");
        }
        router.send(&path(false), b"a message").expect("sent");
        eventually("the receiver gets it", || {
            receiver.receive(|m| assert_eq!(m.datagram.payload, b"a message")).expect("received")
                > 0
        });
    }
}

/// Many messages at once, with special ones among them: all arrive in order, except those that cannot be sent.
pub(crate) fn many_messages_in_one_call_arrive_in_order() {
    let line = Line::new();
    let mut sockets = [&line.sender, &line.router].map(open);
    let [sender, router] = &mut sockets;
    let mut messages: Vec<(Outgoing, Vec<u8>)> =
        (0..100_u8).map(|n| (path(true), vec![n; 100])).collect();
    messages[7].1 = vec![7; 9_001]; // longer than the MTU
    messages[50].1 = vec![50; 65_535]; // longer than a packet
    messages[51].0.destination = "2001:db8::1".parse().expect("an address");
    messages[70].0.interface = Some(InterfaceId(9_999)); // no such interface
    let mut failed = Vec::new();
    sender.send_all(messages.iter().map(|(how, octets)| (how, &octets[..])), |how, error| {
        failed.push((how.destination, error));
    });
    assert!(
        matches!(
            failed[..],
            [
                (_, SendError::TooLong { .. }),
                (IpAddr::V6(_), SendError::MixedFamilies),
                (_, SendError::System(_))
            ]
        ),
        "{failed:?}"
    );
    assert_eq!(sender.counters().sent, 97);
    let mut arrived = Vec::new();
    eventually("the router catches them", || {
        router
            .receive(|Incoming { datagram: d, .. }| arrived.push((d.payload[0], d.payload.len())))
            .expect("received");
        arrived.len() >= 97
    });
    let expected: Vec<(u8, usize)> = (0..100)
        .filter(|n| ![50, 51, 70].contains(n))
        .map(|n| (n, if n == 7 { 9_001 } else { 100 }))
        .collect();
    assert_eq!(arrived, expected);
}

/// Returns the same Path between the IPv6 addresses of the line.
fn path6(router_alert: bool) -> Outgoing {
    Outgoing {
        source: "2001:db8:1::1".parse().expect("an address"),
        destination: "2001:db8:2::1".parse().expect("an address"),
        ..path(router_alert)
    }
}

/// Returns a line with IPv6 on which the neighbours have resolved each other's addresses.
fn line6() -> Line {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    line
}

/// As in IPv4: the router intercepts messages with the option, and no others; the sender's address stays.
pub(crate) fn ipv6_message_in_transit_is_intercepted_and_sent_on() {
    let line = line6();
    let mut sockets = [&line.sender, &line.router, &line.receiver].map(open);
    let [sender, router, receiver] = &mut sockets;
    let from = path6(true).source;
    sender.send(&path6(true), b"a path").expect("sent");
    eventually("the router catches it", || {
        let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
            assert_eq!((d.source, d.destination), (from, path6(true).destination));
            assert_eq!((d.interface, d.ttl, d.router_alert), (line.inward, 64, true));
            assert_eq!((d.payload, d.encapsulated), (&b"a path"[..], false));
        };
        router.receive(each).expect("received") > 0
    });
    assert_eq!(receiver.receive(|_| ()).expect("nothing"), 0, "consumed on the way");
    let onward = Outgoing { interface: Some(line.outward), ttl: 63, ..path6(true) };
    router.send(&onward, b"a path").expect("sent on");
    let arrives = |receiver: &mut SignallingSocket, ttl, alert, payload: &[u8]| {
        eventually("the receiver gets it", || {
            let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
                assert_eq!((d.source, d.destination), (from, path6(true).destination));
                assert_eq!((d.ttl, d.router_alert), (ttl, alert));
                assert_eq!(d.payload, payload);
            };
            receiver.receive(each).expect("received") > 0
        });
    };
    arrives(receiver, 63, true, b"a path");
    sender.send(&path6(false), b"no path").expect("sent");
    arrives(receiver, 63, false, b"no path");
    assert_eq!(router.receive(|_| ()).expect("nothing"), 0, "it flowed on");

    // Longer than the MTU: fragments are not reassembled on the way, so they are forwarded.
    let long: Vec<u8> = (0..9_001_u32).map(|n| n as u8).collect();
    sender.send(&path6(true), &long).expect("sent");
    eventually("the router sends the fragments on", || {
        router.receive(|d| panic!("seen: {d:?}")).expect("received");
        router.counters().forwarded >= 7
    });
    arrives(receiver, 63, true, &long);
}

/// Messages between link-local addresses, which need their interface.
pub(crate) fn message_to_a_link_local_address_arrives() {
    let line = line6();
    let mut sockets = [&line.sender, &line.router].map(open);
    let [sender, router] = &mut sockets;
    let address = |namespace: &Namespace, name: &str| {
        let dump = || earmark_linux::Mirror::open()?.initial();
        let updates = namespace.run_in(dump).expect("inside").expect("a dump");
        let addresses = updates.into_iter().find_map(|update| match update {
            earmark_linux::Update::Interface(state) if state.name == name => Some(state.addresses),
            _ => None,
        });
        *addresses.expect("the interface").last().expect("link-local ones come last")
    };
    eventually("the addresses are usable", || {
        [address(&line.sender, "right"), address(&line.router, "left")]
            .iter()
            .all(|a| matches!(a, IpAddr::V6(a) if a.is_unicast_link_local()))
    });
    let (here, there) = (address(&line.router, "left"), address(&line.sender, "right"));
    let resv = Outgoing {
        interface: Some(line.inward),
        source: here,
        destination: there,
        ttl: 255,
        ..path6(false)
    };
    router.send(&resv, b"a resv").expect("sent");
    eventually("the neighbour gets it", || {
        let each = |Incoming { datagram: d, .. }: Incoming<'_>| {
            assert_eq!((d.source, d.destination, d.ttl), (here, there, 255));
            assert_eq!(d.payload, b"a resv");
        };
        sender.receive(each).expect("received") > 0
    });
}

/// One daemon per namespace; another one can start after the first has ended, however it ended.
pub(crate) fn second_daemon_is_refused() {
    let line = Line::new();
    let first = open(&line.router);
    let second = line.router.run_in(SignallingSocket::open).expect("inside");
    assert!(matches!(second, Err(OpenError::AlreadyRunning)));
    let _elsewhere = open(&line.sender);
    drop(first);
    let _again = open(&line.router);
}

//! Traffic control without a flood.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use earmark_core::{Flow, Rate};
use earmark_linux::netlink::{Connection, Message};
use earmark_linux::netns::Namespace;
use earmark_linux::{
    Access, ClassifierChoice, TcError, TrafficControl, capabilities as our_capabilities,
};

use crate::support::{Line, PATIENCE, RECEIVER, flow, installation, meddle, tc_header};

const ROOT: u32 = u32::MAX;
const OUR_ROOT: u32 = 0xea4d_0000;

/// Sends a packet from the sender's port to the receiver's, and waits for it.
fn pass(line: &Line, from: u16, to: u16) {
    let (source, sink) = (line.source(from), line.sink(to));
    sink.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    source.send_to(&[0; 100], SocketAddr::from((RECEIVER, to))).expect("sent");
    sink.recv(&mut [0; 200]).expect("received");
}

/// Returns the number of packets through the class of a claim.
fn counted(control: &mut TrafficControl, slot: u32) -> u64 {
    let claim = earmark_core::admission::ClaimId { slot, generation: 0 };
    control.statistics(claim).expect("counted").packets
}

/// Of two adopted flows, one is claimed again, the other is dropped after a while, and its class is free again.
pub(crate) fn reaping(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (2, 2);
    let (mut first, _) = line.open(&plan, choice);
    let rate = Rate::from_mbps(1);
    for slot in [1, 2] {
        let flow = flow(6_000 + slot as u16, 5_000);
        first.install(&installation(&line, slot, flow, rate)).expect("installed");
    }
    drop(first);
    let (mut second, mut adopted) = line.open(&plan, choice);
    adopted.sort();
    assert_eq!(adopted, [flow(6_001, 5_000), flow(6_002, 5_000)]);
    // Another flow must wait for a class.
    let third = installation(&line, 3, flow(6_003, 5_000), rate);
    assert!(matches!(second.install(&third), Err(TcError::PoolFull { limit: 2, .. })));
    second.install(&installation(&line, 9, flow(6_002, 5_000), rate)).expect("claimed");
    assert_eq!(second.reap_adopted().expect("reaped"), 1);
    second.install(&third).expect("there is a class now");
    for (slot, from, packets) in [(9, 6_002, 1), (3, 6_003, 1), (3, 6_001, 1)] {
        pass(&line, from, 5_000);
        assert_eq!(counted(&mut second, slot), packets);
    }
}

/// The count of a link has the packets of all reservations, and not those of best effort.
pub(crate) fn reserved_octets(choice: ClassifierChoice) {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), choice);
    let mut counted = || control.reserved_octets(line.outward).expect("read").expect("counted");
    assert_eq!(counted(), 0);
    pass(&line, 6_009, 5_000);
    assert_eq!(counted(), 0, "best effort");
    for slot in [1, 2] {
        let flow = flow(6_000 + slot as u16, 5_000);
        control.install(&installation(&line, slot, flow, Rate::from_mbps(1))).expect("installed");
        pass(&line, flow.source_port, 5_000);
    }
    let mut counted = || control.reserved_octets(line.outward).expect("read").expect("counted");
    let octets = 2 * (20 + 8 + 100);
    assert_eq!(counted(), octets);
    pass(&line, 6_009, 5_000);
    assert_eq!(counted(), octets);
}

/// Another program deletes a class, the classifier's entry, the whole qdisc, and adds a class.
pub(crate) fn reconciling(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    plan.pool = 8;
    let (mut control, _) = line.open(&plan, choice);
    control
        .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
        .expect("installed");
    let reconcile = |control: &mut TrafficControl| {
        let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
        (found.removed, found.restored)
    };
    assert_eq!(reconcile(&mut control), (0, 0));

    // An unused class of the pool (RTM_DELTCLASS).
    meddle(&line.router, Message::new(41, 0).fixed(&tc_header(line.outward, OUR_ROOT | 0x17, 0)));
    assert_eq!(reconcile(&mut control), (0, 2), "the class and its queue");

    // An unknown class (RTM_NEWTCLASS with create flags): 1 Mbit/s in `struct tc_htb_opt`.
    let mut options = [0; 44];
    for at in [0, 12] {
        options[at + 1] = 1;
        options[at + 8..at + 12].copy_from_slice(&125_000_u32.to_ne_bytes());
    }
    options[32..36].copy_from_slice(&2_000_u32.to_ne_bytes());
    let header = tc_header(line.outward, OUR_ROOT | 0x7777, OUR_ROOT | 1);
    let class = Message::new(40, 0x400).fixed(&header).text(1, "htb");
    meddle(&line.router, class.nested(2, |m| m.attribute(1, &options)));
    assert_eq!(reconcile(&mut control), (1, 0));

    // Everything (RTM_DELQDISC).
    meddle(&line.router, Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)));
    let (removed, restored) = reconcile(&mut control);
    assert!(removed == 0 && restored >= 12, "root, three classes and eight, queues: {restored}");
    assert_eq!(reconcile(&mut control), (0, 0));
    pass(&line, 6_000, 5_000);
    assert_eq!(counted(&mut control, 1), 1, "the flow finds its class again");

    // Everything again, and an installation comes before the reconciliation.
    meddle(&line.router, Message::new(37, 0).fixed(&tc_header(line.outward, OUR_ROOT, ROOT)));
    let second = installation(&line, 2, flow(6_001, 5_000), Rate::from_mbps(1));
    line.router.run_in(|| control.install(&second)).expect("inside").expect("built again");
    pass(&line, 6_001, 5_000);
    assert_eq!(counted(&mut control, 2), 1);

    earmark_linux::link::delete(&line.router, "right").expect("deleted");
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!(found.gone, [line.outward]);
    assert!(matches!(control.install(&second), Err(TcError::UnknownLink { .. })));
}

/// Every kind of flow matches its packets, the more specific one first.
pub(crate) fn kinds_of_flows(choice: ClassifierChoice) {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), choice);
    let exact = flow(6_000, 5_000);
    let kinds = [
        exact,
        Flow { source_port: 0, ..exact },
        Flow { destination_port: 0, ..exact },
        Flow { source_port: 0, destination_port: 0, ..exact },
        Flow { source: None, source_port: 0, ..exact },
        Flow { source: None, destination_port: 0, ..exact },
        Flow { source: None, source_port: 0, destination_port: 0, ..exact },
    ];
    for (kind, slot) in kinds.into_iter().zip(0..) {
        let least_specific_first = installation(&line, slot, kind, Rate::from_mbps(1));
        control.install(&least_specific_first).expect("installed");
    }
    // The most specific one takes the packet; after its removal, the next one does.
    for slot in 0..kinds.len() as u32 {
        pass(&line, 6_000, 5_000);
        assert_eq!(counted(&mut control, slot), 1, "kind {slot}");
        control.remove(installation(&line, slot, exact, Rate::ZERO).claim).expect("removed");
    }
    // A second flow of the same reservation.
    let claim = installation(&line, 7, exact, Rate::from_mbps(1));
    control.install(&claim).expect("installed");
    control.add_flow(claim.claim, flow(6_001, 5_000)).expect("added");
    control.add_flow(claim.claim, flow(6_001, 5_000)).expect("there already");
    pass(&line, 6_001, 5_000);
    assert_eq!(counted(&mut control, 7), 1);
    control.remove_flow(claim.claim, flow(6_001, 5_000)).expect("removed");
    pass(&line, 6_001, 5_000);
    assert_eq!(counted(&mut control, 7), 1);
    // Another rate and another flow for the same claim.
    let moved = installation(&line, 7, flow(6_002, 5_000), Rate::from_mbps(2));
    control.install(&moved).expect("changed");
    pass(&line, 6_000, 5_000);
    pass(&line, 6_002, 5_000);
    assert_eq!(counted(&mut control, 7), 2);
    // Its own flow is removed, and then requested again.
    control.remove_flow(moved.claim, moved.flow).expect("removed");
    pass(&line, 6_002, 5_000);
    control.install(&moved).expect("entered again");
    pass(&line, 6_002, 5_000);
    assert_eq!(counted(&mut control, 7), 3);
    // Another claim on the flow is smaller, then larger, then removed.
    let other = installation(&line, 9, moved.flow, Rate::from_mbps(1));
    for (rate, expected) in [(1, (4, 0)), (3, (4, 1)), (1, (5, 1))] {
        control
            .install(&installation(&line, 9, moved.flow, Rate::from_mbps(rate)))
            .expect("stands");
        pass(&line, 6_002, 5_000);
        assert_eq!((counted(&mut control, 7), counted(&mut control, 9)), expected, "{rate}");
    }
    control.remove(other.claim).expect("removed");
    pass(&line, 6_002, 5_000);
    assert_eq!(counted(&mut control, 7), 6);
    let unclear = Flow { protocol: 50, ..exact };
    let refused = control.install(&installation(&line, 8, unclear, Rate::from_mbps(1)));
    assert!(matches!(refused, Err(TcError::Unclassifiable { .. })));
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0));
}

/// Ranges of addresses, in both families: a flow takes precedence over them, and the narrower one over the wider.
pub(crate) fn ranges(choice: ClassifierChoice) {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let (mut control, _) = line.open(&line.plan(), choice);
    let range = |text: &str| Flow::to_range(text.parse().expect("a prefix"));
    let of_source = |text: &str, flow: Flow| {
        let source = range(text);
        Flow { source: Some(source.destination), source_open: source.destination_open, ..flow }
    };
    let udp = |flow: Flow| Flow { protocol: 17, ..flow };
    let ports = |flow: Flow| Flow { destination_port: 5_000, ..udp(flow) };
    let exact = flow(6_000, 5_000);
    let addresses = |to: &str, from: &str| Flow {
        destination: to.parse().expect("an address"),
        source: Some(from.parse().expect("an address")),
        ..exact
    };
    let fours = [
        exact,
        udp(range("10.77.2.1/32")),
        of_source("10.77.1.0/24", ports(range("10.77.2.0/24"))),
        of_source("10.77.1.0/24", udp(range("10.77.2.0/24"))),
        of_source("10.77.1.0/24", range("10.77.2.0/24")),
        of_source("10.0.0.0/8", range("10.77.2.0/24")),
        range("10.77.2.0/24"),
        range("10.64.0.0/10"),
        range("0.0.0.0/0"),
    ];
    let sixes = [
        addresses("2001:db8:2::1", "2001:db8:1::1"),
        of_source("2001:db8:1::/48", udp(range("2001:db8:2::/48"))),
        udp(range("2001:db8:2::/48")),
        range("2001:db8:2::/48"),
        udp(range("2001:db8::/33")),
        range("::/0"),
    ];
    let elsewhere = [range("10.77.2.2/31"), range("2001:db8:3::/48"), range("::/64")];
    let all: Vec<Flow> = elsewhere.iter().chain(&sixes).chain(&fours).rev().copied().collect();
    let slot_of = |wanted: &Flow| all.iter().position(|flow| flow == wanted).expect("there") as u32;
    for &flow in &all {
        let widest_first = installation(&line, slot_of(&flow), flow, Rate::from_bps(100_000));
        control.install(&widest_first).expect("installed");
    }
    // The next daemon adopts them unchanged.
    drop(control);
    let (mut control, mut adopted) = line.open(&line.plan(), choice);
    let mut expected = all.clone();
    expected.sort();
    adopted.sort();
    assert_eq!(adopted, expected);
    for &flow in &all {
        let again = installation(&line, slot_of(&flow), flow, Rate::from_bps(100_000));
        control.install(&again).expect("claimed");
    }
    let bind = |namespace: &Namespace, address: &str| {
        let bound = namespace.run_in(|| UdpSocket::bind(address)).expect("inside");
        bound.expect("a socket")
    };
    for (kinds, from, to) in [
        (&fours[..], "10.77.1.1:6000", "10.77.2.1:5000"),
        (&sixes[..], "[2001:db8:1::1]:6000", "[2001:db8:2::1]:5000"),
    ] {
        let (source, sink) = (bind(&line.sender, from), bind(&line.receiver, to));
        sink.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        for kind in kinds {
            let before = counted(&mut control, slot_of(kind));
            source.send_to(&[0; 100], to).expect("sent");
            sink.recv(&mut [0; 200]).expect("received");
            // Neighbour discovery is in ranges of all protocols, too.
            assert!(counted(&mut control, slot_of(kind)) > before, "{kind:?}");
            assert!(before == 0 || kind.protocol == 0 && kind.destination.is_ipv6(), "{kind:?}");
            let claim = installation(&line, slot_of(kind), *kind, Rate::ZERO).claim;
            control.remove(claim).expect("removed");
        }
        source.send_to(&[0; 100], to).expect("sent");
        sink.recv(&mut [0; 200]).expect("received, with best effort");
    }
    for flow in &elsewhere {
        assert_eq!(counted(&mut control, slot_of(flow)), 0, "{flow:?}");
    }
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0));
}

/// IPv6 flows, exact and from any sender.
pub(crate) fn ipv6(choice: ClassifierChoice) {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let (mut control, _) = line.open(&line.plan(), choice);
    let exact = Flow {
        destination: "2001:db8:2::1".parse().expect("an address"),
        source: Some("2001:db8:1::1".parse().expect("an address")),
        ..flow(6_000, 5_000)
    };
    let wildcard = Flow { source: None, source_port: 0, ..exact };
    let rate = Rate::from_mbps(1);
    control.install(&installation(&line, 1, exact, rate)).expect("installed");
    control.install(&installation(&line, 2, wildcard, rate)).expect("installed");
    let bind = |namespace: &Namespace, address: &str| {
        let bound = namespace.run_in(|| UdpSocket::bind(address)).expect("inside");
        bound.expect("a socket")
    };
    let sink = bind(&line.receiver, "[2001:db8:2::1]:5000");
    sink.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    for port in [6_000, 6_001] {
        let source = bind(&line.sender, &format!("[2001:db8:1::1]:{port}"));
        source.send_to(&[0; 100], "[2001:db8:2::1]:5000").expect("sent");
        sink.recv(&mut [0; 200]).expect("received");
    }
    assert_eq!((counted(&mut control, 1), counted(&mut control, 2)), (1, 1));
    drop(control);
    let (_, mut adopted) = line.open(&line.plan(), choice);
    adopted.sort();
    assert_eq!(adopted, [wildcard, exact]);
}

/// Three flows share a class. The next daemon adopts all three, with the rate counted once; the first one that is
/// claimed takes over the class, and the others stay in it when they are added again.
pub(crate) fn shared_class(choice: ClassifierChoice) {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (1, 1);
    let (mut first, _) = line.open(&plan, choice);
    let rate = Rate::from_mbps(1);
    let shared = installation(&line, 1, flow(6_002, 5_000), rate);
    first.install(&shared).expect("installed");
    for port in [6_001, 6_003] {
        first.add_flow(shared.claim, flow(port, 5_000)).expect("added");
    }
    drop(first);
    let open = || TrafficControl::open(std::slice::from_ref(&plan), choice);
    let (mut second, mut adopted) =
        line.router.run_in(open).expect("inside").expect("traffic control");
    adopted.sort_by_key(|adopted| adopted.flow);
    let rates: Vec<_> = adopted.iter().map(|a| (a.flow.source_port, a.rate)).collect();
    assert_eq!(rates, [(6_001, rate), (6_002, Rate::ZERO), (6_003, Rate::ZERO)]);
    let again = installation(&line, 7, flow(6_003, 5_000), rate);
    second.install(&again).expect("claimed, by the last of them");
    second.add_flow(again.claim, flow(6_001, 5_000)).expect("added");
    assert_eq!(second.reap_adopted().expect("reaped"), 1, "only that which was not added");
    for (port, packets) in [(6_001, 1), (6_003, 2), (6_002, 2)] {
        pass(&line, port, 5_000);
        assert_eq!(counted(&mut second, 7), packets);
    }
}

/// A flow label in place of the source port; and with BPF, ports after extension headers.
pub(crate) fn flow_labels(choice: ClassifierChoice) {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let (mut control, _) = line.open(&line.plan(), choice);
    let (source, destination) = ("2001:db8:1::1", "2001:db8:2::1");
    let labelled = Flow {
        destination: destination.parse().expect("an address"),
        source: Some(source.parse().expect("an address")),
        source_port: 0,
        flow_label: 0x1_2345,
        ..flow(0, 5_000)
    };
    let with_port = Flow { source_port: 6_001, flow_label: 0, ..labelled };
    let any_port = Flow { flow_label: 0, ..labelled };
    for (flow, slot) in [any_port, with_port, labelled].into_iter().zip(1..) {
        control.install(&installation(&line, slot, flow, Rate::from_mbps(1))).expect("installed");
    }
    let raw = line.sender.run_in(|| {
        let (family, raw) = (socket2::Domain::IPV6, socket2::Type::RAW);
        socket2::Socket::new(family, raw, Some(255.into())) // the sender writes the header
    });
    let raw = raw.expect("inside").expect("a socket");
    let sink = line.receiver.run_in(|| UdpSocket::bind("[2001:db8:2::1]:5000"));
    let sink = sink.expect("inside").expect("a socket");
    sink.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let to: SocketAddr = "[2001:db8:2::1]:0".parse().expect("an address");
    let mut sent = [0; 4];
    for (label, port, options, slot) in [
        (0x1_2345, 6_000, 0, 3),
        (0x1_2345, 6_001, 0, 2),
        (0x1_2346, 6_000, 0, 1),
        (0x1_2345, 6_000, 2, 3),
        (0x7_0000, 6_001, 1, 2),
    ] {
        if options > 0 && choice == ClassifierChoice::U32 {
            continue; // u32 filters do not skip extension headers
        }
        raw.send_to(&udp_packet(label, port, options), &to.into()).expect("sent");
        sink.recv(&mut [0; 200]).expect("received");
        sent[slot] += 1;
        for (&sent, slot) in sent[1..].iter().zip(1..) {
            let case = (label, port, options);
            assert_eq!(counted(&mut control, slot), sent, "slot {slot}, {case:?}");
        }
    }
    drop(control);
    let (_, mut adopted) = line.open(&line.plan(), choice);
    adopted.sort();
    assert_eq!(adopted, [any_port, labelled, with_port]);
}

/// Returns IPv6 and UDP from the sender's `port` to the receiver's 5000, with this many destination options headers
/// between.
fn udp_packet(label: u32, port: u16, options: usize) -> Vec<u8> {
    let mut udp = Vec::new();
    for field in [port, 5_000, 12, 0] {
        udp.extend(field.to_be_bytes());
    }
    udp.extend(*b"data");
    let addresses = ["2001:db8:1::1", "2001:db8:2::1"]
        .map(|a| a.parse::<std::net::Ipv6Addr>().expect("an address").octets());
    let pseudo = addresses.concat().into_iter().chain([0, 12, 0, 17]).chain(udp.iter().copied());
    let octets: Vec<u8> = pseudo.collect();
    let sum: u32 = octets.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    let first = if options > 0 { 60 } else { 17 };
    let mut packet = (6 << 28 | label).to_be_bytes().to_vec();
    packet.extend([0, (udp.len() + options * 8) as u8, first, 64]);
    packet.extend(addresses.concat());
    for left in (0..options).rev() {
        packet.extend([if left > 0 { 60 } else { 17 }, 0, 1, 4, 0, 0, 0, 0]); // PadN of six octets
    }
    packet.extend(udp);
    packet
}

/// A daemon with the other classifier finds nothing to adopt and no leftovers of the first.
pub(crate) fn other_classifier() {
    let line = Line::new();
    for choice in [ClassifierChoice::Bpf, ClassifierChoice::U32, ClassifierChoice::Bpf] {
        let (mut control, adopted) = line.open(&line.plan(), choice);
        assert!(adopted.is_empty(), "{choice:?}: {adopted:?}");
        let port = if choice == ClassifierChoice::Bpf { 6_000 } else { 6_001 };
        let mine = installation(&line, 1, flow(port, 5_000), Rate::from_mbps(1));
        control.install(&mine).expect("installed");
        pass(&line, 6_000, 5_000);
        pass(&line, 6_001, 5_000);
        assert_eq!(counted(&mut control, 1), 1);
    }
}

/// A root qdisc of the operator stays, before and after.
pub(crate) fn foreign() {
    let line = Line::new();
    let pfifo = |flags| {
        let header = tc_header(line.outward, 0x0001_0000, ROOT);
        Message::new(36, flags).fixed(&header).text(1, "pfifo").u32(2, 10) // RTM_NEWQDISC
    };
    meddle(&line.router, pfifo(0x600));
    let refused = || TrafficControl::open(&[line.plan()], ClassifierChoice::Auto);
    match line.router.run_in(refused).expect("inside") {
        Err(error @ TcError::ForeignQdisc { .. }) => {
            assert_eq!(error.errno(), 16, "EBUSY");
            assert!(error.to_string().contains("pfifo"), "{error}");
        }
        other => panic!("not refused: {other:?}"),
    }
    meddle(&line.router, Message::new(37, 0).fixed(&tc_header(line.outward, 0x0001_0000, ROOT)));
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    meddle(&line.router, pfifo(0x500)); // replaces ours
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!(found.foreign, [(line.outward, "pfifo".to_owned())]);
    line.router.run_in(|| control.teardown()).expect("inside").expect("nothing of ours");
    let refused = line.router.run_in(refused).expect("inside");
    assert!(matches!(refused, Err(TcError::ForeignQdisc { .. })), "still there");
}

/// More installations than classes in advance, up to the limit; and classes are reused.
pub(crate) fn pool() {
    let line = Line::new();
    let mut plan = line.plan();
    (plan.pool, plan.pool_limit) = (10, 100);
    let (mut control, _) = line.open(&plan, ClassifierChoice::Bpf);
    let rate = Rate::from_bps(64_000);
    let numbered = |n: u32| installation(&line, n, flow(6_000 + n as u16, 5_000), rate);
    for n in 0..100 {
        control.install(&numbered(n)).expect("installed");
    }
    assert!(matches!(control.install(&numbered(100)), Err(TcError::PoolFull { limit: 100, .. })));
    control.install(&numbered(50)).expect("what is there can be changed");
    control.remove(numbered(3).claim).expect("removed");
    control.remove(numbered(3).claim).expect("gone already");
    control.install(&numbered(100)).expect("there is a class now");
    let found = line.router.run_in(|| control.reconcile()).expect("inside").expect("compared");
    assert_eq!((found.removed, found.restored), (0, 0));
    // A daemon with smaller plans keeps the classes in use.
    drop(control);
    let (_second, adopted) = line.open(&line.plan(), ClassifierChoice::Bpf);
    assert_eq!(adopted.len(), 100);
}

/// After the teardown nothing of ours is left on the link: another program's qdisc can be installed.
pub(crate) fn teardown() {
    for choice in [ClassifierChoice::Bpf, ClassifierChoice::U32] {
        let line = Line::new();
        let (mut control, _) = line.open(&line.plan(), choice);
        control
            .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
            .expect("installed");
        line.router.run_in(|| control.teardown()).expect("inside").expect("removed");
        let header = tc_header(line.outward, 0x0001_0000, ROOT);
        meddle(&line.router, Message::new(36, 0x600).fixed(&header).text(1, "pfifo").u32(2, 10));
        meddle(&line.router, Message::new(37, 0).fixed(&header));
        let (_, adopted) = line.open(&line.plan(), choice);
        assert!(adopted.is_empty());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// With only CAP_NET_ADMIN and CAP_NET_RAW, everything but opening works: installing, repairing a deleted qdisc and a
/// detached classifier, taking over another link, teardown.
pub(crate) fn capabilities() {
    let line = Line::new();
    let (mut control, _) = line.open(&line.plan(), ClassifierChoice::Bpf);
    let without = || {
        our_capabilities::drop_to_network_capabilities().expect("dropped");
        assert!(our_capabilities::missing(Access::Raw, true).expect("readable").is_empty());
        let refused = Namespace::create("earmark-never").expect_err("that takes CAP_SYS_ADMIN");
        assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
        control
            .install(&installation(&line, 1, flow(6_000, 5_000), Rate::from_mbps(1)))
            .expect("installed");
        control
            .add_link(&earmark_linux::LinkPlan { interface: line.inward, ..line.plan() })
            .expect("added");
        let everything = tc_header(line.outward, OUR_ROOT, ROOT);
        Connection::open()
            .and_then(|mut kernel| kernel.request("meddle", Message::new(37, 0).fixed(&everything)))
            .expect("deleted");
        assert!(control.reconcile().expect("built again").restored > 0);
        control
    };
    let mut control = line.router.run_in(without).expect("inside");
    pass(&line, 6_000, 5_000);
    assert_eq!(counted(&mut control, 1), 1);
    let leave = || {
        our_capabilities::drop_to_network_capabilities().expect("dropped");
        control.teardown().expect("removed");
    };
    line.router.run_in(leave).expect("inside");
}

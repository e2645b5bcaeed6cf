//! Classification of packets by kinds of flows, ranges, address families and flow labels.

use std::net::{SocketAddr, UdpSocket};

use earmark_core::{Flow, Rate};
use earmark_linux::netns::Namespace;
use earmark_linux::{ClassifierChoice, TcError};
use earmark_wire::ipsec;

use crate::support::{Line, TIME_LIMIT, flow, installation};
use crate::traffic_control::{counted, pass};

/// Every kind of flow matches its packets, the more specific one first.
pub(crate) fn packet_of_every_kind_of_flow_is_classified(choice: ClassifierChoice) {
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
pub(crate) fn packet_in_a_range_is_classified(choice: ClassifierChoice) {
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
        sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
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

/// Behavior aggregates: all packets of a family with a DSCP. A flow and a range of addresses take precedence.
pub(crate) fn packet_with_a_dscp_is_classified(choice: ClassifierChoice) {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let (mut control, _) = line.open(&line.plan(), choice);
    let range = |text: &str| Flow::to_range(text.parse().expect("a prefix"));
    let mut flows = [
        Flow::of_dscp(false, 46),
        Flow::of_dscp(false, 10),
        Flow::of_dscp(true, 46),
        Flow { dscp: 46, ..range("10.77.2.0/24") },
        range("0.0.0.0/0"),
        flow(6_001, 5_000),
    ];
    for (flow, slot) in flows.into_iter().zip(0..) {
        control.install(&installation(&line, slot, flow, Rate::from_mbps(1))).expect("installed");
    }
    drop(control);
    let (mut control, mut adopted) = line.open(&line.plan(), choice);
    for (flow, slot) in flows.into_iter().zip(0..) {
        control.install(&installation(&line, slot, flow, Rate::from_mbps(1))).expect("claimed");
    }
    let bind = |namespace: &Namespace, address: &str| {
        let bound = namespace.run_in(|| UdpSocket::bind(address)).expect("inside");
        bound.expect("a socket")
    };
    let mut sent = [0; 6];
    for (port, dscp, slot) in
        [(6_000, 46, 3), (6_000, 10, 1), (6_000, 12, 4), (6_000, 0, 4), (6_001, 46, 5)]
    {
        let source = bind(&line.sender, &format!("10.77.1.1:{port}"));
        let source = socket2::Socket::from(source);
        source.set_tos_v4(dscp << 2 | 1).expect("marked, with a bit of congestion notification");
        let sink = bind(&line.receiver, "10.77.2.1:5000");
        sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        let to: SocketAddr = "10.77.2.1:5000".parse().expect("an address");
        source.send_to(&[0; 100], &to.into()).expect("sent");
        sink.recv(&mut [0; 200]).expect("received");
        sent[slot] += 1;
        for (&sent, slot) in sent.iter().zip(0..) {
            assert_eq!(counted(&mut control, slot), sent, "slot {slot} after DSCP {dscp}");
        }
    }
    for dscp in [46, 45] {
        let source = socket2::Socket::from(bind(&line.sender, "[2001:db8:1::1]:6000"));
        source.set_tclass_v6(dscp << 2).expect("marked");
        let sink = bind(&line.receiver, "[2001:db8:2::1]:5000");
        sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        let to: SocketAddr = "[2001:db8:2::1]:5000".parse().expect("an address");
        source.send_to(&[0; 100], &to.into()).expect("sent");
        sink.recv(&mut [0; 200]).expect("received");
        assert_eq!(counted(&mut control, 2), 1, "after DSCP {dscp}");
    }
    adopted.sort();
    flows.sort();
    assert_eq!(adopted, flows);
}

/// IPv6 flows, exact and from any sender.
pub(crate) fn ipv6_packet_is_classified(choice: ClassifierChoice) {
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
    sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
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

/// A flow label in place of the source port; and with BPF, ports after extension headers.
pub(crate) fn packet_with_a_flow_label_is_classified(choice: ClassifierChoice) {
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
    sink.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
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

/// ESP and AH of both families: a claim with the SPI, another one without. In IPv6 the BPF classifier finds the ports behind
/// AH, too.
pub(crate) fn packet_with_an_spi_is_classified(choice: ClassifierChoice) {
    let line = Line::new();
    line.add_ipv6();
    line.meet_in_ipv6();
    let (mut control, _) = line.open(&line.plan(), choice);
    let portless = Flow { source_port: 0, destination_port: 0, ..flow(0, 0) };
    let six = |flow: Flow| Flow {
        destination: "2001:db8:2::1".parse().expect("an address"),
        source: Some("2001:db8:1::1".parse().expect("an address")),
        ..flow
    };
    // Only the first or only the second half of the SPI differs from 0.
    let spis = [0x0001_0000, 0x0000_1000];
    let mut flows = Vec::new();
    for protocol in [ipsec::ESP, ipsec::AH] {
        let any = Flow { protocol, ..portless };
        for any in [any, six(any)] {
            flows.extend(spis.map(|spi| Flow { spi, ..any }));
            flows.push(Flow { source: None, ..any });
        }
    }
    let behind_ah = six(flow(6_000, 5_000));
    flows.push(behind_ah);
    let slot_of =
        |wanted: &Flow| flows.iter().position(|flow| flow == wanted).expect("there") as u32;
    for flow in flows.iter().rev() {
        let claim = installation(&line, slot_of(flow), *flow, Rate::from_bps(100_000));
        control.install(&claim).expect("installed");
    }
    let open = |namespace: &Namespace, flow: &Flow| {
        let family = match flow.destination.is_ipv4() {
            true => socket2::Domain::IPV4,
            false => socket2::Domain::IPV6,
        };
        let protocol = Some(i32::from(flow.protocol).into());
        let socket =
            namespace.run_in(|| socket2::Socket::new(family, socket2::Type::RAW, protocol));
        let socket = socket.expect("inside").expect("a socket");
        socket.set_read_timeout(Some(TIME_LIMIT)).expect("a timeout");
        socket
    };
    let mut sent = vec![0; flows.len()];
    for any in flows.iter().filter(|flow| ipsec::has_spi(flow.protocol) && flow.spi == 0) {
        let (source, sink) = (open(&line.sender, any), open(&line.receiver, any));
        let to = SocketAddr::new(any.destination, 0);
        for spi in spis.into_iter().chain([0x0001_1000]) {
            let mut octets = match any.protocol {
                ipsec::ESP => Vec::new(),
                _ => vec![17, 1, 0, 0], // UDP follows after 12 octets
            };
            octets.extend(spi.to_be_bytes());
            octets.extend([0; 4]);
            octets.extend([6_000_u16, 5_000, 8, 0].map(u16::to_be_bytes).concat());
            source.send_to(&octets, &to.into()).expect("sent");
            sink.recv(&mut [std::mem::MaybeUninit::uninit(); 200]).expect("received");
            let mut of_spi = flows.iter().filter(|f| {
                f.spi == spi && (f.protocol, f.destination) == (any.protocol, any.destination)
            });
            let skips_ah = choice != ClassifierChoice::U32 && any.protocol == ipsec::AH;
            let rest = if skips_ah && any.destination.is_ipv6() { &behind_ah } else { any };
            sent[slot_of(of_spi.next().unwrap_or(rest)) as usize] += 1;
            for (flow, &sent) in flows.iter().zip(&sent) {
                assert_eq!(
                    counted(&mut control, slot_of(flow)),
                    sent,
                    "{flow:?} after {spi:x} {any:?}"
                );
            }
        }
    }
    drop(control);
    let (_, mut adopted) = line.open(&line.plan(), choice);
    adopted.sort();
    flows.sort();
    assert_eq!(adopted, flows);
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

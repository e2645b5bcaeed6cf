//! Pinholes of the packet filter: a sender behind a guarded interface of the router, and real packets.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use earmark_core::{FilterAction, FilterChange};
use earmark_linux::PacketFilterError;
use earmark_linux::netns::Namespace;
use socket2::{Domain, Socket, Type};

use crate::guarded::{
    Guarded, PATIENCE, PORT, SILENCE, allow, arrives, assert_passes, packets_to, passes, rule,
    socket, udp_pinhole,
};
use crate::packets::{self, Pinger};
use crate::support::{RECEIVER, SENDER, eventually};

/// Replies pass only while the pinhole stands, in both families.
pub(crate) fn udp_passes_both_ways_only_while_its_pinhole_stands() {
    let mut guarded = Guarded::new();
    for family in packets::FAMILIES {
        let [sender, receiver, _] = packets::addresses(family);
        let inside = socket(&guarded.line.sender, (sender, 6_000));
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        let mut packets = packets_to(Some(sender), receiver, 17);
        (packets.flow.source_port, packets.flow.destination_port) = (6_000, PORT);
        assert_passes(&inside, &outside, false, "closed at first");
        guarded.install(allow(packets));
        assert_passes(&inside, &outside, true, "open");
        assert_passes(&outside, &inside, true, "the reply");
        let other = socket(&guarded.line.sender, (sender, 6_001));
        assert_passes(&other, &outside, false, "another source port");
        guarded.remove(allow(packets));
        assert_passes(&outside, &inside, false, "no reply once it is closed");
        assert_passes(&inside, &outside, false, "closed again");
    }
}

/// A stream of the other direction needs no pinhole, nor do its replies.
pub(crate) fn connection_into_the_guarded_network_passes() {
    let guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    assert_passes(&inside, &outside, false, "guarded");
    assert_passes(&outside, &inside, true, "nothing guards that side");
    assert_passes(&inside, &outside, true, "its reply");
}

pub(crate) fn tcp_connection_stops_with_its_pinhole() {
    let mut guarded = Guarded::new();
    for family in packets::FAMILIES {
        let [sender, receiver, _] = packets::addresses(family);
        let address = SocketAddr::from((receiver, PORT));
        let listener = guarded.line.receiver.run_in(|| TcpListener::bind(address));
        let listener = listener.expect("inside").expect("a listener");
        let sender_namespace = &guarded.line.sender;
        let connect = |limit| {
            sender_namespace.run_in(|| TcpStream::connect_timeout(&address, limit)).expect("inside")
        };
        assert!(connect(Duration::from_millis(300)).is_err(), "closed at first");
        let mut packets = packets_to(Some(sender), receiver, 6);
        packets.flow.destination_port = PORT;
        guarded.install(allow(packets));
        let mut client = connect_eventually(&guarded.line.sender, address);
        let (mut server, _) = listener.accept().expect("accepted");
        echo(&mut client, &mut server, PATIENCE).expect("both ways");
        guarded.remove(allow(packets));
        assert!(echo(&mut client, &mut server, SILENCE).is_err(), "stopped");
        guarded.install(allow(packets));
        client.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut octets = [0; 4];
        server.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        server.read_exact(&mut octets).expect("the connection continues");
    }
}

fn connect_eventually(namespace: &Namespace, address: SocketAddr) -> TcpStream {
    let connect = || TcpStream::connect_timeout(&address, PATIENCE);
    namespace.run_in(connect).expect("inside").expect("connected")
}

fn echo(client: &mut TcpStream, server: &mut TcpStream, limit: Duration) -> std::io::Result<()> {
    let mut octets = [0; 4];
    client.set_read_timeout(Some(limit))?;
    server.set_read_timeout(Some(limit))?;
    client.write_all(b"ping")?;
    server.read_exact(&mut octets)?;
    server.write_all(b"pong")?;
    client.read_exact(&mut octets)
}

/// Nobody removes the rule: a daemon that died leaves no hole.
pub(crate) fn pinhole_closes_by_itself() {
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let start = Instant::now();
    let time = Duration::from_millis(1_500);
    guarded.install_for(udp_pinhole(6_000, PORT), time);
    drop(guarded.filter);
    assert_passes(&inside, &outside, true, "open");
    eventually("it is closed", || !passes(&inside, &outside, (RECEIVER, PORT).into(), false));
    let lasted = start.elapsed();
    assert!(lasted < time + Duration::from_secs(1), "{lasted:?}");
    assert!(lasted > time / 2, "{lasted:?}");
    assert_passes(&outside, &inside, false, "nor does a reply pass");
}

/// A session asks for the same lifetime with each refresh.
pub(crate) fn rule_installed_again_for_the_same_time_lives_longer() {
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let time = Duration::from_millis(1_500);
    for _ in 0..4 {
        guarded.install_for(udp_pinhole(6_000, PORT), time);
        assert_passes(&inside, &outside, true, "open");
        std::thread::sleep(time / 2);
    }
    assert_passes(&inside, &outside, true, "after twice its lifetime");
    eventually("it is closed", || !passes(&inside, &outside, (RECEIVER, PORT).into(), false));
}

/// A stream that runs while its rule is installed again and again loses nothing.
pub(crate) fn rule_installed_again_loses_no_packet() {
    const COUNT: u32 = 3_000;
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = guarded.line.sink(PORT);
    guarded.install(udp_pinhole(6_000, PORT));
    assert_passes(&inside, &outside, true, "open");
    let stream = std::thread::spawn(move || {
        for number in 0..COUNT {
            inside.send_to(&number.to_be_bytes(), (RECEIVER, PORT)).expect("sent");
            std::thread::sleep(Duration::from_micros(100));
        }
    });
    let mut again = 0;
    while !stream.is_finished() {
        guarded.install_for(udp_pinhole(6_000, PORT), Duration::from_secs(60 + again % 7));
        again += 1;
    }
    stream.join().expect("sent");
    let mut buffer = [0; 64];
    for number in 0..COUNT {
        let length = outside.recv(&mut buffer).unwrap_or_else(|error| panic!("{number}: {error}"));
        assert_eq!(buffer[..length], number.to_be_bytes(), "after {again} installations");
    }
    assert!(again > 100, "{again} installations during the stream");
}

pub(crate) fn denied_packets_are_dropped_though_others_allow_them() {
    let mut guarded = Guarded::new();
    let sockets = [6_000, 6_001].map(|port| socket(&guarded.line.sender, (SENDER, port)));
    let [one, two] = &sockets;
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    guarded.install(allow(packets_to(Some(SENDER.into()), RECEIVER, 0)));
    assert_passes(one, &outside, true, "allowed");
    assert_passes(two, &outside, true, "allowed");
    let denial = rule(udp_pinhole(6_000, PORT).packets, FilterAction::Deny);
    guarded.install(denial);
    assert_passes(one, &outside, false, "denied, though the connection runs");
    assert_passes(&outside, one, false, "a reply");
    assert_passes(two, &outside, true, "others are not denied");
    guarded.install(udp_pinhole(6_000, PORT));
    assert_passes(one, &outside, true, "a rule replaces that of the same packets");
    guarded.install(denial);
    assert_passes(one, &outside, false, "in both directions");
    guarded.remove(denial);
    assert_passes(one, &outside, true, "the wider one is left");
}

/// Rules of every shape that UDP has.
pub(crate) fn rule_matches_only_the_fields_that_it_gives() {
    let mut guarded = Guarded::new();
    let [chosen, other] = [6_000, 6_001].map(|p| socket(&guarded.line.sender, (SENDER, p)));
    let to = [PORT, PORT + 1].map(|p| socket(&guarded.line.receiver, (RECEIVER, p)));
    let sender = Some(IpAddr::from(SENDER));
    for (source, protocol, source_port, port) in [
        (sender, 17, 6_000, PORT),
        (sender, 17, 0, PORT),
        (sender, 17, 6_000, 0),
        (sender, 17, 0, 0),
        (sender, 0, 0, 0),
        (None, 17, 6_000, PORT),
        (None, 17, 0, PORT),
        (None, 17, 6_000, 0),
        (None, 17, 0, 0),
        (None, 0, 0, 0),
    ] {
        let mut packets = packets_to(source, RECEIVER, protocol);
        (packets.flow.source_port, packets.flow.destination_port) = (source_port, port);
        guarded.install(allow(packets));
        for (from, from_port) in [(&chosen, 6_000), (&other, 6_001)] {
            for (at, to_port) in to.iter().zip([PORT, PORT + 1]) {
                let expected = (source_port == 0 || source_port == from_port)
                    && (port == 0 || port == to_port);
                assert_passes(from, at, expected, &format!("{packets:?} {from_port} {to_port}"));
            }
        }
        guarded.remove(allow(packets));
        let mut elsewhere = packets;
        elsewhere.flow.destination = "10.77.2.9".parse().expect("an address");
        guarded.install(allow(elsewhere));
        assert_passes(&chosen, &to[0], false, "another destination");
        guarded.remove(allow(elsewhere));
        if source.is_some() {
            elsewhere = packets;
            elsewhere.flow.source = "10.77.1.9".parse().ok();
            guarded.install(allow(elsewhere));
            assert_passes(&chosen, &to[0], false, "another source");
            guarded.remove(allow(elsewhere));
        }
    }
}

/// Echoes by type, in both families; an ICMP error belongs to the packets that it reports.
pub(crate) fn icmp_is_matched_by_type_and_errors_by_their_connection() {
    let mut guarded = Guarded::new();
    for (family, request) in packets::FAMILIES.into_iter().zip([8, 128]) {
        let [sender, receiver, _] = packets::addresses(family);
        let mut ping = packets_to(Some(sender), receiver, packets::icmp(receiver));
        let namespace = &guarded.line.sender;
        let pings = |expected| {
            let wait = if expected { PATIENCE } else { SILENCE };
            let mut pinger = Pinger::open(namespace, sender.is_ipv4()).waiting(wait);
            pinger.ping(sender, receiver, b"hello")
        };
        assert!(!pings(false), "closed at first");
        for (icmp_type, expected) in
            [(Some(request + 1), false), (Some(request), true), (None, true)]
        {
            ping.icmp_type = icmp_type;
            let until = guarded.clock.now() + PATIENCE * 10;
            let refused = guarded.filter.change(&[FilterChange::Install(allow(ping), until)]);
            assert!(refused.is_empty(), "{refused:?}");
            assert_eq!(pings(expected), expected, "{icmp_type:?}");
            guarded.filter.change(&[FilterChange::Remove(ping)]);
            assert!(!pings(false), "closed again");
        }
        // Nobody listens: the receiver reports that in an ICMP error.
        let inside = socket(namespace, (sender, 6_000));
        inside.connect((receiver, 9_999)).expect("connected");
        inside.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut packets = packets_to(Some(sender), receiver, 17);
        packets.flow.destination_port = 9_999;
        guarded.install(allow(packets));
        inside.send(b"hello").expect("sent");
        let error = inside.recv(&mut [0; 8]).expect_err("nobody listens");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused, "{error}");
    }
}

/// ESP and AH by SPI. An SPI is of one direction; an ICMP error belongs to the packet that it quotes.
pub(crate) fn packet_with_an_spi_is_matched_by_it() {
    let mut guarded = Guarded::new();
    for (family, protocol) in
        [(packets::FAMILIES[0], 50), (packets::FAMILIES[0], 51), (packets::FAMILIES[1], 50)]
    {
        let [sender, receiver, _] = packets::addresses(family);
        let open = |namespace, protocol| raw_socket(namespace, sender, protocol);
        let inside = open(&guarded.line.sender, protocol);
        let outside = open(&guarded.line.receiver, protocol);
        let passes = |from: &Socket, at: &Socket, to: IpAddr, spi: u32, expected: bool| {
            let mut packet = if protocol == 51 { vec![59, 4, 0, 0] } else { Vec::new() };
            packet.extend(spi.to_be_bytes());
            packet.extend([0; 16]);
            from.send_to(&packet, &SocketAddr::new(to, 0).into()).expect("sent");
            raw_arrives(at, sender, &packet, expected)
        };
        let [spi, other] = [0x0102_0304, 0x0102_0305];
        assert!(!passes(&inside, &outside, receiver, spi, false), "closed");
        let mut packets = packets_to(Some(sender), receiver, protocol);
        packets.flow.spi = spi;
        guarded.install(allow(packets));
        assert!(passes(&inside, &outside, receiver, spi, true), "open");
        assert!(!passes(&inside, &outside, receiver, other, false), "another SPI");
        assert!(!passes(&outside, &inside, sender, spi, false), "the other direction");
        let mut back = packets_to(Some(receiver), sender, protocol);
        back.flow.spi = other;
        guarded.install(allow(back));
        assert!(passes(&outside, &inside, sender, other, true), "it has its own");
        let reports = |quoted: u32, expected| {
            let error = icmp_error([sender, receiver], protocol, quoted);
            let icmp = packets::icmp(sender);
            let from = raw_socket(&guarded.line.receiver, sender, icmp);
            let at = raw_socket(&guarded.line.sender, sender, icmp);
            from.send_to(&error, &SocketAddr::new(sender, 0).into()).expect("sent");
            raw_arrives(&at, sender, &error, expected)
        };
        assert!(reports(spi, true), "an error about a packet of the rule");
        assert!(!reports(other, false), "about another one");
        guarded.remove(allow(packets));
        guarded.remove(allow(back));
        assert!(!passes(&inside, &outside, receiver, spi, false), "closed again");
    }
    let header = guarded.filter.change(&[FilterChange::Install(
        allow(packets_to(None, "2001:db8:2::1".parse::<IpAddr>().expect("an address"), 51)),
        guarded.hour(),
    )]);
    assert!(matches!(header[..], [(_, PacketFilterError::AuthenticationHeader)]), "{header:?}");
}

/// Opens a raw socket of the family of an address.
fn raw_socket(namespace: &Namespace, family: IpAddr, protocol: u8) -> Socket {
    let domain = if family.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    let protocol = Some(i32::from(protocol).into());
    let open = || Socket::new(domain, Type::RAW, protocol);
    namespace.run_in(open).expect("inside").expect("a socket")
}

/// Whether a packet with this payload arrives; skips others. The kernel computes checksums of ICMPv6 anew.
fn raw_arrives(mut at: &Socket, family: IpAddr, payload: &[u8], expected: bool) -> bool {
    at.set_read_timeout(Some(if expected { PATIENCE } else { SILENCE })).expect("a timeout");
    let header = if family.is_ipv4() { 20 } else { 0 };
    let mut room = [0; 2_048];
    while let Ok(length) = at.read(&mut room) {
        let found = room[..length].get(header..).unwrap_or_default();
        if found.len() == payload.len() && found.get(4..) == payload.get(4..) {
            return true;
        }
    }
    false
}

/// Returns an ICMP error (unreachable) of the receiver about a packet of the sender with an SPI.
fn icmp_error([sender, receiver]: [IpAddr; 2], protocol: u8, spi: u32) -> Vec<u8> {
    let mut message = vec![if sender.is_ipv4() { 3 } else { 1 }, 0, 0, 0, 0, 0, 0, 0];
    match (sender, receiver) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut header = vec![0x45, 0, 0, 44, 0, 0, 0, 0, 64, protocol, 0, 0];
            header.extend(source.octets());
            header.extend(destination.octets());
            let sum = earmark_wire::checksum::checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            message.extend(header);
        }
        (IpAddr::V6(source), IpAddr::V6(destination)) => {
            message.extend([0x60, 0, 0, 0, 0, 24, protocol, 64]);
            message.extend(source.octets());
            message.extend(destination.octets());
        }
        _ => unreachable!("one family"),
    }
    if protocol == 51 {
        message.extend([59, 4, 0, 0]);
    }
    message.extend(spi.to_be_bytes());
    message.extend([0; 16]);
    let sum = packets::icmp_checksum(&message, receiver, sender);
    message[2..4].copy_from_slice(&sum);
    message
}

/// Datagrams of several fragments have ports only when they are reassembled.
pub(crate) fn fragments_pass_their_pinhole() {
    let mut guarded = Guarded::new();
    for family in packets::FAMILIES {
        let [sender, receiver, _] = packets::addresses(family);
        let inside = socket(&guarded.line.sender, (sender, 6_000));
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        let text = "x".repeat(1_900);
        inside.send_to(text.as_bytes(), (receiver, PORT)).expect("sent");
        assert_eq!(arrives(&outside, &text, false), None, "closed");
        let mut packets = packets_to(Some(sender), receiver, 17);
        packets.flow.destination_port = PORT;
        guarded.install(allow(packets));
        inside.send_to(text.as_bytes(), (receiver, PORT)).expect("sent");
        assert_eq!(arrives(&outside, &text, true), inside.local_addr().ok());
    }
}

/// Counters of a rule are those of its packets in both directions, also after it was installed again.
pub(crate) fn packets_of_a_rule_are_counted() {
    let mut guarded = Guarded::new();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let pinhole = udp_pinhole(6_000, PORT);
    assert_eq!(guarded.filter.statistics(&pinhole.packets).expect("an answer"), None);
    guarded.install(pinhole);
    for _ in 0..3 {
        inside.send_to(&[0; 72], (RECEIVER, PORT)).expect("sent");
        outside.recv(&mut [0; 100]).expect("received");
    }
    guarded.install_for(pinhole, Duration::from_secs(7_200));
    outside.send_to(&[0; 72], (SENDER, 6_000)).expect("sent");
    inside.recv(&mut [0; 100]).expect("received");
    let counted = guarded.filter.statistics(&pinhole.packets).expect("an answer").expect("there");
    // Before Linux 6.12 a rule that is installed again counts from zero.
    assert!(matches!((counted.packets, counted.octets), (4, 400) | (1, 100)), "{counted:?}");
}

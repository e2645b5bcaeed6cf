//! Address translation by the packet filter, with real packets: source and destination, both families.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use earmark_core::{Endpoint, FilterChange, FilterRule, FilteredPackets};
use earmark_linux::{PacketFilterError, link};

use crate::guarded::{Guarded, PORT, allow, arrives, assert_passes, packets_to, passes, socket};
use crate::packets::{self, Pinger};
use crate::support::{RECEIVER, SENDER, eventually};

/// External addresses of the router, one of each family, which it does not have itself.
const EXTERNAL: [&str; 2] = ["10.77.2.100", "2001:db8:2::100"];

fn endpoint(address: impl Into<IpAddr>, port: u16) -> Option<Endpoint> {
    Some(Endpoint { address: address.into(), port })
}

/// Gives the router an external address of each family, so that the receiver finds its link address.
fn guarded() -> Guarded {
    let guarded = Guarded::new();
    for (address, length) in EXTERNAL.into_iter().zip([24, 64]) {
        let address = address.parse().expect("an address");
        link::add_address(&guarded.line.router, "right", address, length).expect("added");
    }
    // An IPv6 address is used once no other host was found to have it.
    let [external, receiver] =
        [EXTERNAL[1], packets::FAMILIES[1][1]].map(|a| a.parse().expect("an address"));
    eventually("the address is there", || {
        let wait = Duration::from_millis(50);
        Pinger::open(&guarded.line.receiver, false).waiting(wait).ping(receiver, external, b"hello")
    });
    guarded
}

fn udp(
    source: Option<IpAddr>,
    source_port: u16,
    destination: IpAddr,
    port: u16,
) -> FilteredPackets {
    let mut packets = packets_to(source, destination, 17);
    (packets.flow.source_port, packets.flow.destination_port) = (source_port, port);
    packets
}

fn families() -> impl Iterator<Item = [IpAddr; 3]> {
    packets::FAMILIES.into_iter().zip(EXTERNAL).map(|(family, external)| {
        let [sender, receiver, _] = packets::addresses(family);
        [sender, receiver, external.parse().expect("an address")]
    })
}

/// The receiver sees the external address and port; its replies return; both end with the binding.
pub(crate) fn source_is_translated_both_ways_until_its_rule_is_removed() {
    let mut guarded = guarded();
    for [sender, receiver, external] in families() {
        let inside = socket(&guarded.line.sender, (sender, 6_000));
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        for to in [endpoint(external, 40_000), endpoint(external, 0)] {
            let packets = udp(Some(sender), 6_000, receiver, PORT);
            let binding = FilterRule { source: to, ..allow(packets) };
            guarded.install(binding);
            inside.send_to(b"out", (receiver, PORT)).expect("sent");
            let seen = arrives(&outside, "out", true).expect("it passes");
            let port = if to.is_some_and(|to| to.port == 0) { 6_000 } else { 40_000 };
            assert_eq!(seen, SocketAddr::new(external, port));
            assert!(passes(&outside, &inside, seen, true), "the reply");
            guarded.remove(binding);
            assert!(!passes(&outside, &inside, seen, false), "no reply");
            assert_passes(&inside, &outside, false, "nor another packet");
            // Untranslated, by a pinhole alone: the connection was forgotten.
            guarded.install(allow(packets));
            inside.send_to(b"plain", (receiver, PORT)).expect("sent");
            assert_eq!(arrives(&outside, "plain", true), inside.local_addr().ok());
            guarded.remove(allow(packets));
        }
    }
}

/// A connection that began before its binding is translated from then on, and a changed binding changes a running stream.
pub(crate) fn changed_translation_applies_to_a_running_stream() {
    let mut guarded = guarded();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let packets = udp(Some(SENDER.into()), 6_000, RECEIVER.into(), PORT);
    let external: IpAddr = EXTERNAL[0].parse().expect("an address");
    for (source, expected) in [
        (None, SocketAddr::from((SENDER, 6_000))),
        (endpoint(external, 40_000), SocketAddr::new(external, 40_000)),
        (endpoint(external, 40_000), SocketAddr::new(external, 40_000)),
        (endpoint(external, 40_001), SocketAddr::new(external, 40_001)),
        (endpoint(external, 0), SocketAddr::new(external, 6_000)),
        (None, SocketAddr::from((SENDER, 6_000))),
    ] {
        guarded.install(FilterRule { source, ..allow(packets) });
        inside.send_to(b"out", (RECEIVER, PORT)).expect("sent");
        assert_eq!(arrives(&outside, "out", true), Some(expected));
    }
}

/// Packets from anywhere to an external address and port reach a host behind the translator, here the receiver: a guarded sender
/// sends to an address that nobody has.
pub(crate) fn destination_is_translated_from_one_source_and_from_any() {
    let mut guarded = guarded();
    for [sender, receiver, external] in families() {
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        let to = endpoint(receiver, PORT);
        // A port of its own each: the reply that comes too late is a connection that the next one would collide with.
        for (port, source, source_port) in
            [(6_000, Some(sender), 6_000), (6_001, Some(sender), 0), (6_002, None, 0)]
        {
            let inside = socket(&guarded.line.sender, (sender, port));
            let packets = udp(source, source_port, external, 80);
            let binding = FilterRule { destination: to, ..allow(packets) };
            let address = SocketAddr::new(external, 80);
            assert!(!passes(&inside, &outside, address, false), "closed");
            guarded.install(binding);
            inside.send_to(b"in", address).expect("sent");
            assert_eq!(arrives(&outside, "in", true), inside.local_addr().ok());
            outside.send_to(b"back", (sender, port)).expect("sent");
            assert_eq!(arrives(&inside, "back", true), Some(address), "the reply");
            guarded.remove(binding);
            assert!(!passes(&inside, &outside, address, false), "closed again");
            outside.send_to(b"late", (sender, port)).expect("sent");
            // A packet of its own now: the connection was forgotten, and nothing guards that side.
            assert_eq!(arrives(&inside, "late", true), outside.local_addr().ok());
        }
        // The address alone: every protocol and port.
        let binding = FilterRule {
            destination: endpoint(receiver, 0),
            ..allow(packets_to(None, external, 0))
        };
        guarded.install(binding);
        let inside = socket(&guarded.line.sender, (sender, 6_003));
        assert!(passes(&inside, &outside, SocketAddr::new(external, PORT), true));
        let mut pinger = Pinger::open(&guarded.line.sender, sender.is_ipv4());
        assert!(pinger.ping(sender, external, b"hello"), "a ping as well");
        guarded.remove(binding);
    }
}

/// One rule translates both addresses.
pub(crate) fn both_addresses_are_translated_by_one_rule() {
    let mut guarded = guarded();
    for [sender, receiver, external] in families() {
        let inside = socket(&guarded.line.sender, (sender, 6_000));
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        let binding = FilterRule {
            source: endpoint(external, 40_000),
            destination: endpoint(receiver, PORT),
            ..allow(udp(Some(sender), 6_000, external, 80))
        };
        guarded.install(binding);
        inside.send_to(b"in", (external, 80)).expect("sent");
        assert_eq!(arrives(&outside, "in", true), Some((external, 40_000).into()));
        outside.send_to(b"back", (external, 40_000)).expect("sent");
        assert_eq!(arrives(&inside, "back", true), Some((external, 80).into()));
    }
}

/// The narrowest of several translations applies.
pub(crate) fn narrowest_translation_applies() {
    let mut guarded = guarded();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = [PORT, PORT + 1].map(|p| socket(&guarded.line.receiver, (RECEIVER, p)));
    let external: IpAddr = EXTERNAL[0].parse().expect("an address");
    let to = |port| endpoint(RECEIVER, port);
    // The wide one first, so that the order of installation would choose it.
    for (source, port) in [(None, PORT), (Some(SENDER.into()), PORT + 1)] {
        let packets = udp(source, 0, external, 80);
        guarded.install(FilterRule { destination: to(port), ..allow(packets) });
    }
    inside.send_to(b"in", (external, 80)).expect("sent");
    assert!(arrives(&outside[1], "in", true).is_some());
    assert!(arrives(&outside[0], "in", false).is_none());
}

/// Bindings of several shapes and both families that are removed in one call.
pub(crate) fn bindings_removed_together_forget_only_their_connections() {
    let mut guarded = guarded();
    let mut streams = Vec::new();
    for [sender, receiver, external] in families() {
        let outside = socket(&guarded.line.receiver, (receiver, PORT));
        let to = endpoint(receiver, PORT);
        for (port, source, source_port) in
            [(6_000, Some(sender), 6_000), (6_001, Some(sender), 0), (6_002, None, 6_002)]
        {
            let packets = udp(source, source_port, external, port);
            let binding = FilterRule { destination: to, ..allow(packets) };
            guarded.install(binding);
            let inside = socket(&guarded.line.sender, (sender, port));
            inside.send_to(b"in", (external, port)).expect("sent");
            assert!(arrives(&outside, "in", true).is_some(), "{port}");
            streams.push((binding, inside, SocketAddr::new(external, port)));
        }
        let kept = udp(None, 0, external, 6_003);
        guarded.install(FilterRule { destination: to, ..allow(kept) });
        let inside = socket(&guarded.line.sender, (sender, 6_003));
        inside.send_to(b"in", (external, 6_003)).expect("sent");
        assert!(arrives(&outside, "in", true).is_some(), "the one that is kept");
        let address = SocketAddr::new(external, 6_003);
        let removals: Vec<FilterChange> =
            streams.iter().map(|(binding, ..)| FilterChange::Remove(binding.packets)).collect();
        guarded.change(&removals);
        // Untranslated replies would pass, because nothing guards that side: the source tells them apart.
        for (inside, from, expected) in streams
            .iter()
            .map(|(_, inside, _)| (inside, SocketAddr::new(receiver, PORT)))
            .chain([(&inside, address)])
            .map(|(inside, from)| (inside, from, inside.local_addr().expect("bound")))
        {
            outside.send_to(b"back", expected).expect("sent");
            assert_eq!(arrives(inside, "back", true), Some(from));
        }
        streams.clear();
    }
}

/// A binding that ends by itself takes its connections along at the next call.
pub(crate) fn translation_that_ends_forgets_its_connections() {
    let mut guarded = guarded();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let external: IpAddr = EXTERNAL[0].parse().expect("an address");
    let packets = udp(Some(SENDER.into()), 6_000, RECEIVER.into(), PORT);
    let binding = FilterRule { source: endpoint(external, 40_000), ..allow(packets) };
    guarded.install_for(binding, Duration::from_millis(300));
    inside.send_to(b"out", (RECEIVER, PORT)).expect("sent");
    assert_eq!(arrives(&outside, "out", true), Some(SocketAddr::new(external, 40_000)));
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(guarded.filter.len(), 1);
    guarded.filter.reconcile().expect("compared");
    assert!(guarded.filter.is_empty());
    guarded.install(allow(packets));
    inside.send_to(b"plain", (RECEIVER, PORT)).expect("sent");
    assert_eq!(arrives(&outside, "plain", true), inside.local_addr().ok());
}

/// What no packet filter can do is refused with the reason, and the other changes of the call are made.
pub(crate) fn impossible_rule_is_refused_and_others_are_installed() {
    let mut guarded = guarded();
    let inside = socket(&guarded.line.sender, (SENDER, 6_000));
    let outside = socket(&guarded.line.receiver, (RECEIVER, PORT));
    let possible = allow(udp(Some(SENDER.into()), 6_000, RECEIVER.into(), PORT));
    let any_source = FilterRule { source: endpoint([10, 77, 2, 100], 0), ..possible };
    let mut any_source = any_source;
    any_source.packets.flow.source = None;
    let mut spi = possible;
    (spi.packets.flow.protocol, spi.packets.flow.spi) = (50, 7);
    (spi.packets.flow.source_port, spi.packets.flow.destination_port) = (0, 0);
    spi.source = endpoint([10, 77, 2, 100], 0);
    let hour = guarded.hour();
    let changes = [any_source, possible, spi].map(|rule| FilterChange::Install(rule, hour));
    let refused = guarded.filter.change(&changes);
    let [(one, rule_error), (two, spi_error)] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((*one, *two), (any_source.packets, spi.packets));
    assert!(matches!(rule_error, PacketFilterError::Rule(_)), "{rule_error}");
    assert!(matches!(spi_error, PacketFilterError::TranslatedSpi), "{spi_error}");
    assert_passes(&inside, &outside, true, "installed");
}

//! Deviations of other implementations that are accepted: flows with prefix length 0 beside the address of a host (RFC 5971
//! A.3.1.1). The first node of a line writes them so; the others are exact.

use std::time::Duration;

use earmark_core::admission::LinkCapacity;
use earmark_core::{Flow, Rate};
use earmark_nsis::gist::machine::State;
use earmark_nsis::qos::{Application, Command, Request, RequestedQos};
use earmark_nsis::{Config, Tolerated};
use earmark_wire::gist::{Body, Direction, Mri};
use earmark_wire::udp;

use crate::common::application::Handle;
use crate::common::{Network, Place, Seen, line_of, session, states};

const SECOND: Duration = Duration::from_secs(1);

/// Prefix lengths that the first node writes as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zero {
    Destination,
    Both,
}

/// Offset of the two prefix lengths in a packet: behind UDP, magic number, common header, header of the MRI, its first word
/// and the addresses.
fn prefixes_at(octets: &[u8]) -> usize {
    let version_at = udp::HEADER + 4 + 8 + 4 + 2;
    let addresses = if octets[version_at] >> 4 == 4 { 8 } else { 32 };
    version_at + 2 + addresses
}

fn flow(seen: &Seen) -> Option<earmark_wire::gist::PathCoupled> {
    let mri = match seen.packet.message()?.body {
        Body::Query(query) => query.mri,
        Body::Response(response) => response.mri,
        Body::Confirm(confirm) => confirm.mri,
        Body::Data(data) => data.mri,
        Body::Error(_) | Body::Hello(_) => return None,
    };
    match mri {
        Mri::PathCoupled(flow) => Some(flow),
        Mri::LooseEnd(_) => None,
    }
}

/// Writes the prefix lengths of the first node as a foreign engine does, and reads those that it receives as that engine: it
/// knows only what it has written.
fn make_foreign(network: &mut Network, zero: Zero) {
    network.tamper = Some(Box::new(move |seen| {
        let Some(flow) = flow(seen) else { return };
        let whole = if flow.source.is_ipv4() { 32 } else { 128 };
        let written = match zero {
            Zero::Destination => [whole, 0],
            Zero::Both => [0, 0],
        };
        let at = prefixes_at(&seen.packet.octets);
        let read = [seen.packet.octets[at], seen.packet.octets[at + 1]];
        let is_to_first = seen.node == 1 && seen.interface.0 == 1;
        let new = match (seen.node, is_to_first) {
            (0, _) => written,
            (_, true) if read == written => [whole, whole],
            // The foreign engine does not find its state.
            (_, true) => [whole, whole - 1],
            _ => return assert_eq!(read, [whole, whole], "messages to others are exact"),
        };
        seen.packet.octets[at..at + 2].copy_from_slice(&new);
        let how = seen.packet.how;
        let packet = udp::Packet::parse(&seen.packet.octets).expect("UDP");
        let header = udp::Repr {
            source: how.source,
            destination: how.destination,
            source_port: packet.source_port,
            destination_port: packet.destination_port,
        };
        header.emit(&mut seen.packet.octets).expect("room");
    }));
}

fn line(strict: bool, shortest_prefix: u8) -> (Network, Vec<Handle>) {
    let mut config = Config::default();
    (config.gist.strict, config.qos.strict) = (strict, strict);
    config.gist.shortest_prefix = shortest_prefix;
    line_of(&[Config::default(), config.clone(), config])
}

fn tolerated(network: &Network, node: usize) -> Vec<(Tolerated, u32)> {
    let peers = network.engine(node).gist().peers();
    peers.into_iter().flat_map(|peer| peer.tolerated).collect()
}

#[test]
fn flow_with_prefix_length_zero_is_that_of_the_host() {
    for zero in [Zero::Destination, Zero::Both] {
        for is_ipv4 in [true, false] {
            let what = format!("{zero:?} {is_ipv4}");
            let (mut network, apps) = line(false, 8);
            make_foreign(&mut network, zero);
            let mri = if is_ipv4 { network.flow() } else { network.flow_six() };
            apps[0].send(mri, session(1), b"one.");
            network.run(SECOND);
            assert_eq!(apps[1].received(), [b"one."], "{what}");
            // Data in both directions, and on to the next node.
            apps[0].send(mri, session(1), b"two.");
            apps[1].send(mri.inverted(), session(1), b"back");
            apps[1].send(mri, session(1), b"on..");
            network.run(SECOND);
            assert_eq!(apps[1].received(), [b"two."], "{what}");
            assert_eq!(apps[0].received(), [b"back"], "{what}");
            assert_eq!(apps[2].received(), [b"on.."], "{what}");
            // One routing state with both halves.
            assert_eq!(network.engine(1).gist().routing_state_count(), 1, "{what}");
            let both = [State::EstablishedDownstream, State::EstablishedUpstream];
            assert_eq!(states(&network, 1), both, "{what}");
            let (_, view) = network.engine(1).gist().routing_states(0).next().expect("one");
            assert_eq!(view.mri, mri, "{what}");
            let counted = tolerated(&network, 1);
            assert!(matches!(counted[..], [(Tolerated::PrefixLength, 1)]), "{what} {counted:?}");
            assert_eq!(tolerated(&network, 2), [], "{what}");
            // Refreshes keep it.
            network.run(100 * SECOND);
            assert_eq!(states(&network, 1), both, "{what}");
        }
    }
}

#[test]
fn strict_node_refuses_prefix_length_zero() {
    for zero in [Zero::Destination, Zero::Both] {
        for is_ipv4 in [true, false] {
            let (mut network, apps) = line(true, 8);
            make_foreign(&mut network, zero);
            let mri = if is_ipv4 { network.flow() } else { network.flow_six() };
            apps[0].send(mri, session(1), b"one.");
            network.run(SECOND);
            assert!(apps[1].received().is_empty());
            assert_eq!(network.engine(1).gist().routing_state_count(), 0);
        }
    }
}

/// A prefix length of 0 beside an unspecified address is a wildcard, and too wild; so is a short prefix. If the settings accept
/// wildcards, a prefix length of 0 is one.
#[test]
fn wildcards_are_what_they_are() {
    use earmark_wire::gist::PathCoupled;
    let Mri::PathCoupled(flow) =
        crate::common::flow(crate::common::address("10.0.0.1"), crate::common::address("10.0.1.2"))
    else {
        panic!("no flow")
    };
    let host = flow.destination;
    let unspecified = crate::common::address("0.0.0.0");
    for (destination, length, shortest, accepted) in [
        (host, 32, 8, true),
        (host, 8, 8, true),
        (host, 7, 8, false),
        (host, 7, 7, true),
        (unspecified, 0, 8, false),
    ] {
        let (mut network, _) = line(false, shortest);
        let mri = Mri::PathCoupled(PathCoupled {
            destination,
            destination_prefix: length,
            direction: Direction::Downstream,
            ..flow
        });
        let query = earmark_wire::gist::Query {
            nat_traversal: None,
            mri,
            session: session(1),
            nli: earmark_wire::gist::NetworkLayerInformation {
                peer_identity: b"n0..",
                ip_ttl: 255,
                interface_address: crate::common::address("10.0.0.1"),
                routing_state_validity: 30_000,
            },
            query_cookie: &[7; 8],
            stack: None,
            nslp_data: None,
        };
        let message = earmark_wire::gist::Message {
            hops: 10,
            nslpid: crate::common::application::TEST,
            source_is_peer: true,
            body: Body::Query(query),
            extensions: earmark_wire::gist::Extensions::NONE,
        };
        let packet =
            crate::common::forged::packet(crate::common::address("10.0.0.1"), host, 255, &message);
        network.inject(1, 1, packet);
        let sent = network.engine(1).gist().counters().response.sent;
        assert_eq!(sent == 1, accepted, "{destination}/{length}, shortest {shortest}");
    }
}

/// A reservation whose messages have such flows: set up, refreshed, released.
#[test]
fn reservation_of_a_flow_with_prefix_length_zero() {
    for zero in [Zero::Destination, Zero::Both] {
        for (source, end) in [("10.0.0.1", "10.0.2.2"), ("fd00:0::1", "fd00:2::2")] {
            let mut network = Network::line(&vec![Place::Aware(Config::default()); 4]);
            for node in &mut network.nodes {
                for link in node.interfaces.iter() {
                    let (bandwidth, reservable, mtu) = (link.bandwidth, link.reservable, link.mtu);
                    let capacity = LinkCapacity { bandwidth, reservable, mtu };
                    node.ledger.set_link(link.id, capacity);
                }
            }
            make_foreign(&mut network, zero);
            let flow = Flow {
                destination: crate::common::address(end),
                source: Some(crate::common::address(source)),
                protocol: 17,
                destination_port: 5_000,
                source_port: 6_000,
                flow_label: 0,
                spi: 0,
                destination_open: 0,
                source_open: 0,
                dscp: 0,
            };
            let application = Application(1);
            let request = Request::new(flow, RequestedQos::of(Rate::from_mbps(2)));
            let reserve = Command::Reserve { application, request };
            network.command(0, earmark_nsis::Command::Qos(reserve));
            network.run(400 * SECOND);
            let held = |network: &Network| -> Vec<u64> {
                let of_node = |node: &crate::common::Node| {
                    node.ledger.links().map(|(_, link)| link.held.as_bps() / 1_000_000).sum()
                };
                network.nodes.iter().map(of_node).collect()
            };
            assert_eq!(held(&network), [2, 2, 2, 0], "{zero:?} {end}");
            assert!(!tolerated(&network, 1).is_empty());
            let release = Command::Release { application };
            network.command(0, earmark_nsis::Command::Qos(release));
            network.run(3 * SECOND);
            assert_eq!(held(&network), [0; 4], "{zero:?} {end}");
            assert_eq!(network.engine(1).gist().routing_state_count(), 0);
        }
    }
}

//! Bundles between engines (RFC 2961 section 3): simultaneous messages need few packets, and state does not change.

use std::collections::BTreeSet;

use earmark_core::{Interface, InterfaceId, MulticastRoute, Neighbor, Outgoing, Rate};
use earmark_rsvp::integrity::Algorithm;
use earmark_rsvp::{Config, Timing};
use earmark_wire::rsvp::{Body, Bundle, Message, MessageType, Path, Session};
use proptest::prelude::*;

use crate::chain::*;
use crate::common::{
    Bench, DOWNSTREAM, ETH1, ETH2, Outcome, RECEIVER, UPSTREAM, flow, ip, path, path_tear, resv,
    router,
};
use crate::message_ids::*;
use crate::signing::{KEY, key, settings};

/// A chain whose nodes know each other's capabilities, because one session is up.
fn warm(config: Config) -> Chain {
    let mut chain = Chain::new(config);
    chain.open(1);
    chain.pass(SECOND);
    assert_eq!(chain.population(), [(1, 1); 3]);
    chain
}

/// Packets of `chain` since `mark`: messages, with each Bundle counted once.
fn packets(chain: &Chain, mark: usize) -> usize {
    let in_bundles: u64 =
        chain.nodes.iter().map(|node| node.engine.counters().reduction.bundled).sum();
    chain.seen.len() - mark - in_bundles as usize
}

/// A hundred sessions at once: a Bundle holds eight or more messages of each type.
#[test]
fn simultaneous_setups_need_few_packets() {
    let mut chain = warm(Config::default());
    let mark = chain.seen.len();
    chain.open_together(2..=101);
    chain.pass(100 * MS);
    assert_eq!(chain.confirmed.len(), 101);
    assert_eq!(chain.population(), [(101, 101); 3]);
    let packets = packets(&chain, mark);
    assert!(packets <= 600 / 8 + 8, "{packets} packets for 600 messages and acknowledgements");
    let counters = chain.nodes[MIDDLE].engine.counters();
    assert!(counters.reduction.bundled >= 300, "{:?}", counters.reduction);
    assert!(counters.reduction.unbundled >= 300, "{:?}", counters.reduction);

    let mark = chain.seen.len() - chain.nodes.iter().map(bundled).sum::<usize>();
    chain.close_together(RIGHT, 2..=51);
    chain.close_together(LEFT, 52..=101);
    chain.pass(100 * MS);
    assert_eq!(chain.population(), [(51, 1); 3]);
    let packets = chain.seen.len() - chain.nodes.iter().map(bundled).sum::<usize>() - mark;
    assert!(packets <= 200 / 8 + 8, "{packets} packets for 200 tears and acknowledgements");
}

fn bundled(node: &Node) -> usize {
    node.engine.counters().reduction.bundled as usize
}

/// If Bundles are disabled, or the neighbour does not support refresh reduction, each message is a packet.
#[test]
fn message_without_bundling_is_one_packet() {
    let mut off = Config::default();
    off.reduction.bundle = false;
    let mut apart = Config::default();
    apart.reduction.enabled = false;
    for config in [off, apart] {
        let mut chain = warm(config);
        chain.open_together(2..=20);
        chain.pass(100 * MS);
        assert_eq!(chain.confirmed.len(), 20);
        assert!(chain.seen.iter().all(|sight| sight.kind != MessageType::Bundle));
    }
}

/// Each message of a Bundle has its INTEGRITY, and the peer verifies them in the order of signing.
#[test]
fn signed_messages_are_bundled() {
    let mut settings = settings(vec![key(KEY, Algorithm::HmacSha256)]);
    settings.window = 1; // no reordering
    let mut chain = warm(Config { integrity: settings, ..Config::default() });
    chain.open_together(2..=101);
    chain.pass(100 * MS);
    assert_eq!(chain.confirmed.len(), 101);
    for node in &chain.nodes {
        let counters = node.engine.counters();
        assert_eq!(counters.dropped.iter().sum::<u64>(), 0, "{counters:?}");
        assert!(counters.reduction.bundled >= 90, "{:?}", counters.reduction);
    }
}

/// A lost Bundle loses all its messages, which are retransmitted.
#[test]
fn lost_bundle_is_retransmitted() {
    for from in [LEFT, MIDDLE, RIGHT] {
        let mut chain = warm(Config::default());
        let mut lost = false;
        chain.fate = Box::new(move |sight| {
            if (sight.from, sight.kind) == (from, MessageType::Bundle) && !lost {
                lost = true;
                return Fate::IsLost;
            }
            Fate::Arrives
        });
        chain.open_together(2..=20);
        chain.pass(400 * MS);
        assert!(chain.confirmed.len() < 20, "something is missing");
        chain.pass(200 * MS);
        assert_eq!(chain.confirmed.len(), 20);
        assert_eq!(chain.population(), [(20, 20); 3]);
    }
}

/// Neighbours that the messages of `outcomes` may be bundled for.
fn bundle_neighbors(outcomes: &[Outcome]) -> Vec<(MessageType, Option<Neighbor>)> {
    let sent = crate::common::sent(outcomes);
    sent.iter().map(|(how, message)| (message.body.message_type(), how.neighbor)).collect()
}

fn at(interface: InterfaceId, address: &str) -> Option<Neighbor> {
    Some(Neighbor { interface, address: ip(address) })
}

/// One of several sessions to the receiver.
fn session_of(port: u16) -> Session {
    Session { port, ..crate::common::session() }
}

/// Only messages that a peer receives may be bundled for it.
#[test]
fn messages_to_unknown_hop_group_and_udp_are_not_bundled() {
    let (mut router, ..) = acknowledged_router();
    let other = Path { session: session_of(9), ..path() };
    let outcomes = receive_path_with_id(&mut router, other, message_id(7));
    assert_eq!(bundle_neighbors(&outcomes), [(MessageType::Path, at(ETH2, DOWNSTREAM))]);
    let outcomes = receive_resv_with_id(&mut router, 1, Some(message_id(101)));
    assert_eq!(bundle_neighbors(&outcomes), [(MessageType::Resv, at(ETH1, UPSTREAM))]);

    // The next hop is still unknown.
    let mut fresh = crate::common::router();
    let outcomes = receive_path_with_id(&mut fresh, path(), message_id(1));
    assert_eq!(bundle_neighbors(&outcomes), [(MessageType::Path, None)]);
    let mut group = crate::common::router();
    introduce(&mut group);
    let outcomes = group_path(&mut group);
    assert_eq!(bundle_neighbors(&outcomes), [(MessageType::Path, None)]);
}

fn group_path(router: &mut Bench) -> Vec<Outcome> {
    let group = ip("239.1.2.3");
    router.routes.insert_multicast(MulticastRoute {
        source: None,
        group,
        incoming: Some(ETH1),
        outgoing: vec![ETH2],
    });
    let session = Session { destination: group, ..crate::common::session() };
    receive_path_with_id(router, Path { session, ..path() }, message_id(1))
}

fn bundle_of(messages: &[Message<'_>]) -> Vec<u8> {
    let octets: Vec<u8> = messages.iter().flat_map(bytes).collect();
    bytes(&capable_message(Body::Bundle(Bundle::new(&octets).expect("messages")), None))
}

/// A message of a Bundle that this router does not handle is forwarded as if received alone: from its sender to its
/// destination, with router alert.
#[test]
fn bundled_message_for_other_node_is_relayed() {
    let mut router = router();
    let plain = Interface {
        bandwidth: Rate::ZERO,
        ..router.interfaces.by_id(ETH2).expect("known").clone()
    };
    router.interfaces.set(plain);
    let messages = [Body::Path(path()), Body::PathTear(path_tear())];
    let bundle = bundle_of(&messages.map(|body| capable_message(body, None)));
    let outcomes = router.receive_octets(ETH1, ip("10.0.1.2"), 64, &bundle);
    let hows: Vec<Outgoing> = crate::common::sent(&outcomes).iter().map(|(how, _)| *how).collect();
    assert_eq!(hows.len(), 2);
    for how in hows {
        assert_eq!((how.source, how.destination), (path().sender.template.source, ip(RECEIVER)));
        assert_eq!((how.ttl, how.router_alert), (63, true));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Many sessions start and end, with losses: the final state is the same with and without Bundles.
    #[test]
    fn states_with_and_without_bundles_are_equal(
        seed: u64,
        percent in 0..15_u64,
        steps in proptest::collection::vec((0..4_u8, 0..6_u16, 1..2_000_u32), 1..15),
    ) {
        const CROWD: u16 = 20;
        let crowd = |number: u16| 1 + number * CROWD..1 + (number + 1) * CROWD;
        let timing = Timing { refresh: 5 * SECOND, ..Timing::default() };
        let config = Config { timing, ..Config::default() };
        let mut together = Chain::new(config.clone());
        together.set_random_faults(seed, percent);
        let mut apart = Chain::new(config);
        apart.bundles = false;
        for chain in [&mut together, &mut apart] {
            let mut open = BTreeSet::new();
            for &(step, number, wait) in &steps {
                match step {
                    0 if open.remove(&number) => chain.close_together(LEFT, crowd(number)),
                    1 if open.remove(&number) => chain.close_together(RIGHT, crowd(number)),
                    2 | 3 if open.insert(number) => {
                        // The end that still has sessions open must close them first.
                        chain.close_together(LEFT, crowd(number));
                        chain.close_together(RIGHT, crowd(number));
                        chain.pass(60 * SECOND);
                        chain.open_together(crowd(number));
                    }
                    _ => {}
                }
                chain.pass(wait * MS);
            }
            chain.pass(120 * SECOND);
        }
        // Lost messages are repaired meanwhile.
        for _ in 0..60 {
            if together.population() != apart.population() {
                together.pass(SECOND);
            }
        }
        prop_assert_eq!(together.population(), apart.population());
        prop_assert_eq!(&together.reserved, &apart.reserved);
        prop_assert_eq!(bundled(&apart.nodes[LEFT]), 0);
    }
}

/// A reservation requested in a Bundle is confirmed in one.
#[test]
fn reservation_and_acknowledgement_share_a_bundle() {
    let mut router = router();
    introduce(&mut router);
    let paths: Vec<_> = (1..=5)
        .map(|n| {
            capable_message(
                Body::Path(Path { session: session_of(n), ..path() }),
                Some(message_id(n.into())),
            )
        })
        .collect();
    router.receive_octets(ETH1, ip("10.0.1.2"), 64, &bundle_of(&paths));
    let flows = [flow(1)];
    let resvs: Vec<_> = (1..=5)
        .map(|n| {
            let mut resv = resv(&flows);
            resv.session = session_of(n);
            resv.hop.lih = router.engine.lih(ETH2);
            capable_message(Body::Resv(resv), Some(message_id(100 + u32::from(n))))
        })
        .collect();
    let outcomes = router.receive_octets(ETH2, ip("10.0.2.1"), 255, &bundle_of(&resvs));
    let neighbors = bundle_neighbors(&outcomes);
    assert_eq!(neighbors, [(MessageType::Resv, at(ETH1, UPSTREAM)); 5]);
    assert_eq!(acknowledged(&outcomes).len(), 5, "all Paths, with the first Resv");
    let outcomes = router.pass(10 * MS);
    assert_eq!(bundle_neighbors(&outcomes), [(MessageType::Ack, at(ETH2, DOWNSTREAM))]);
    assert_eq!(acknowledged(&outcomes).len(), 5, "all Resvs, in one message");
}

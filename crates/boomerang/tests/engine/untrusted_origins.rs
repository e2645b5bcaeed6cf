//! Messages of origins that must not touch a session: other nodes, other interfaces, other nonces.
//!
//! Behind eth1 is the network of the initiating node, behind eth2 that of the far end, behind eth3 that of a stranger;
//! all are access interfaces unless a test says otherwise.

use std::net::IpAddr;
use std::time::Duration;

use earmark_boomerang::{
    Boomerang, Command, Config, DropReason, Event, Limits, RefusalReason, Request, RequestedRates,
    Settled, Settlement,
};
use earmark_core::random::RandomStreams;
use earmark_core::{InterfaceId, MulticastRoute, Rate, Trust};
use earmark_wire::boomerang::iana::aggregation_flag::LEAVES;
use earmark_wire::boomerang::{Aggregation, OptionFlags, OptionItem, Rates};
use earmark_wire::icmp::Kind;

use crate::common::*;

const GROUP: &str = "239.1.1.1";

/// Initiating node, far end, neighbours of both, and a stranger: addresses of one family.
#[derive(Clone, Copy)]
struct Nodes {
    near: IpAddr,
    near_neighbor: IpAddr,
    far: IpAddr,
    far_neighbor: IpAddr,
    stranger: IpAddr,
}

fn families() -> [Nodes; 2] {
    [
        [NEAR, "10.0.1.77", FAR, "10.0.9.77", "10.0.3.9"],
        ["2001:db8:1::1", "2001:db8:1::77", "2001:db8:9::9", "2001:db8:9::77", "2001:db8:3::9"],
    ]
    .map(|names| {
        let [near, near_neighbor, far, far_neighbor, stranger] = names.map(ip);
        Nodes { near, near_neighbor, far, far_neighbor, stranger }
    })
}

fn edge_with(config: Config) -> Bench {
    let mut router = with_config(config);
    router.add_route("2001:db8:3::/64", ETH3, None);
    for id in [ETH1, ETH2, ETH3] {
        trust(&mut router, id, Trust::ACCESS);
    }
    router
}

fn edge() -> Bench {
    edge_with(Config::default())
}

fn trust(router: &mut Bench, id: InterfaceId, trust: Trust) {
    let interface = router.interfaces.by_id(id).expect("an interface").clone();
    router.interfaces.set(earmark_core::Interface { trust, ..interface });
}

fn about(nodes: &Nodes, rates: Rates) -> Message {
    let mut message = message(4_000, rates);
    message.classifier.source = nodes.near;
    message.classifier.destination = nodes.far;
    if nodes.near.is_ipv6() {
        (message.mask.source, message.mask.destination) = (128, 128);
    }
    message
}

/// Sets up a session of 2 Mbit/s there and 500 kbit/s back.
fn set_up(router: &mut Bench, nodes: &Nodes) -> Message {
    let loop_ = about(nodes, kbit(2_000, 500));
    router.arrives(ETH1, nodes.near, nodes.far, &loop_);
    router.arrives(ETH2, nodes.far, nodes.near, &loop_.back());
    assert_eq!(router.held_both(), (2_000, 500));
    loop_
}

/// Returns the reason of the drop, after checking that nothing else happened.
#[track_caller]
fn dropped(outcomes: &[Outcome]) -> DropReason {
    match outcomes {
        [Outcome::Event(Event::Dropped { reason, .. })] => *reason,
        _ => panic!("a drop is expected: {outcomes:?}"),
    }
}

/// Messages that would release, shrink, grow, refuse or extend the session.
fn forgeries(nodes: &Nodes) -> Vec<Message> {
    let refused = Message { flags: 1, ..about(nodes, Rates::ZERO) };
    let others = [Rates::ZERO, kbit(1, 1), kbit(2_000, 400), kbit(3_000, 600), kbit(2_000, 500)];
    others.into_iter().map(|rates| about(nodes, rates)).chain([refused]).collect()
}

#[test]
fn reply_of_another_origin_changes_nothing() {
    use DropReason::{SourceNotBehind, WrongFarEnd};
    for nodes in families() {
        for (source, interface, reason) in [
            (nodes.stranger, ETH3, WrongFarEnd),
            (nodes.near_neighbor, ETH1, WrongFarEnd),
            (nodes.far_neighbor, ETH2, WrongFarEnd),
            (nodes.far, ETH3, SourceNotBehind),
            (nodes.far, ETH1, SourceNotBehind),
        ] {
            let mut router = edge();
            let loop_ = set_up(&mut router, &nodes);
            router.pass(Duration::from_secs(80));
            for message in forgeries(&nodes) {
                let outcomes = router.arrives(interface, source, nodes.near, &message.back());
                assert_eq!(dropped(&outcomes), reason, "{source} {interface:?} {message:?}");
                assert_eq!(router.held_both(), (2_000, 500));
            }
            let counted = router.engine.counters().dropped[reason as usize];
            assert_eq!(counted, forgeries(&nodes).len() as u64);
            // None of them was a refresh; the far end's own reply is.
            router.arrives(ETH2, nodes.far, nodes.near, &loop_.back());
            router.pass(Duration::from_secs(20));
            assert_eq!(router.held_both(), (0, 500));
        }
    }
}

#[test]
fn request_of_another_origin_changes_nothing() {
    for nodes in families() {
        for interface in [ETH2, ETH3] {
            let mut router = edge();
            set_up(&mut router, &nodes);
            router.pass(Duration::from_secs(80));
            for message in forgeries(&nodes) {
                let outcomes = router.arrives(interface, nodes.near, nodes.far, &message);
                assert_eq!(dropped(&outcomes), DropReason::SourceNotBehind);
                assert_eq!(router.held_both(), (2_000, 500));
            }
            let own = router.interfaces.by_id(ETH1).expect("there").addresses.clone();
            let own = own.into_iter().find(|a| a.is_ipv4() == nodes.near.is_ipv4());
            let message = about(&nodes, kbit(1, 1));
            let outcomes = router.arrives(interface, own.expect("one"), nodes.far, &message);
            assert_eq!(dropped(&outcomes), DropReason::BadSource);
            // Through the core, from where any source may come.
            trust(&mut router, interface, Trust::CORE);
            for message in forgeries(&nodes) {
                let outcomes = router.arrives(interface, nodes.near, nodes.far, &message);
                assert_eq!(dropped(&outcomes), DropReason::WrongArrival);
                assert_eq!(router.held_both(), (2_000, 500));
            }
            router.pass(Duration::from_secs(10));
            assert_eq!(router.held_both(), (0, 0), "none of them was a refresh");
        }
    }
}

/// Another node behind the same interface is refused, so that it knows, and changes nothing.
#[test]
fn other_initiating_node_is_refused() {
    for nodes in families() {
        let mut router = edge();
        set_up(&mut router, &nodes);
        for message in [about(&nodes, kbit(1, 1)), about(&nodes, Rates::ZERO)] {
            let outcomes = router.arrives(ETH1, nodes.near_neighbor, nodes.far, &message);
            assert!(one(&outcomes).is_nack());
            assert_eq!(router.held_both(), (2_000, 500));
        }
        assert_eq!(router.engine.counters().refused[RefusalReason::Foreign as usize], 2);
    }
}

/// Between core routers messages may change their path; between a core and an access interface they may not.
#[test]
fn path_of_messages_may_change_in_the_core_only() {
    let [nodes, _] = families();
    let mut router = edge();
    for id in [ETH2, ETH3] {
        trust(&mut router, id, Trust::CORE);
    }
    set_up(&mut router, &nodes);
    let less = about(&nodes, kbit(1_000, 400));
    router.arrives(ETH3, nodes.far, nodes.near, &less.back());
    assert_eq!(router.held_both(), (2_000, 400));
    trust(&mut router, ETH2, Trust::ACCESS);
    let least = about(&nodes, kbit(1_000, 300));
    router.arrives(ETH2, nodes.far, nodes.near, &least.back());
    assert_eq!(router.held_both(), (2_000, 400), "the far end is behind the core now");
}

/// A reply whose request has not passed makes no state, whoever sends it. A refusal and a release go on: they ask for
/// nothing.
#[test]
fn unsolicited_reply_reserves_nothing() {
    for nodes in families() {
        let mut router = edge();
        for (interface, source) in [(ETH3, nodes.stranger), (ETH2, nodes.far)] {
            let reply = about(&nodes, kbit(2_000, 500)).back();
            let outcomes = router.arrives(interface, source, nodes.near, &reply);
            assert_eq!(dropped(&outcomes), DropReason::UnsolicitedReply);
        }
        for reply in [Message { flags: 1, ..about(&nodes, kbit(1, 1)) }, about(&nodes, Rates::ZERO)]
        {
            let outcomes = router.arrives(ETH2, nodes.far, nodes.near, &reply.back());
            assert_eq!(one(&outcomes), reply.back());
        }
        assert_eq!(router.engine.population(), (0, 0));
        // Core routers may see one of the two passes only.
        trust(&mut router, ETH2, Trust::CORE);
        let reply = about(&nodes, kbit(2_000, 500)).back();
        router.arrives(ETH2, nodes.far, nodes.near, &reply);
        assert_eq!(router.held_both(), (0, 500));
        let outcomes =
            router.arrives(ETH2, nodes.stranger, nodes.near, &about(&nodes, Rates::ZERO).back());
        assert_eq!(dropped(&outcomes), DropReason::WrongFarEnd);
    }
}

/// A request that reserves nothing here lets its reply pass for a short time.
#[test]
fn reverse_rate_alone_is_reserved_by_the_expected_reply() {
    for nodes in families() {
        let mut router = edge();
        let loop_ = about(&nodes, kbit(0, 500));
        assert!(!one(&router.arrives(ETH1, nodes.near, nodes.far, &loop_)).is_nack());
        let foreign = router.arrives(ETH3, nodes.stranger, nodes.near, &loop_.back());
        assert_eq!(dropped(&foreign), DropReason::WrongFarEnd);
        router.arrives(ETH2, nodes.far, nodes.near, &loop_.back());
        assert_eq!(router.held_both(), (0, 500));
        router.arrives(ETH1, nodes.near, nodes.far, &about(&nodes, Rates::ZERO));
        assert_eq!((router.held_both(), router.engine.population()), ((0, 0), (0, 0)));

        router.arrives(ETH1, nodes.near, nodes.far, &loop_);
        router.pass(Duration::from_secs(11));
        assert_eq!(router.engine.population(), (0, 0), "no reply");
        let late = router.arrives(ETH2, nodes.far, nodes.near, &loop_.back());
        assert_eq!(dropped(&late), DropReason::UnsolicitedReply);
    }
}

/// After a restart the engine knows no session: the next request and its reply restore it, and no stranger can.
#[test]
fn session_is_restored_by_its_own_ends_after_restart() {
    for nodes in families() {
        let mut router = edge();
        let loop_ = set_up(&mut router, &nodes);
        router.engine = Boomerang::new(Config::default(), &RandomStreams::new(8));
        router.ledger = earmark_core::admission::Ledger::new();
        for id in [ETH1, ETH2, ETH3] {
            let trust_before = router.interfaces.by_id(id).expect("there").trust.clone();
            router.add_interface(id, &[]);
            trust(&mut router, id, trust_before);
        }
        let reply = router.arrives(ETH3, nodes.stranger, nodes.near, &loop_.back());
        assert_eq!(dropped(&reply), DropReason::UnsolicitedReply);
        let spoofed = router.arrives(ETH3, nodes.near, nodes.far, &loop_);
        assert_eq!(dropped(&spoofed), DropReason::SourceNotBehind);
        assert_eq!(router.held_both(), (0, 0));
        set_up(&mut router, &nodes);
    }
}

/// One request holds for ten seconds, at any interval it asks for. A repetition and the far end's reply prove that the
/// initiating node continues; then a session holds three intervals of a minute at most.
#[test]
fn one_request_holds_bandwidth_for_a_short_time() {
    for nodes in families() {
        for access in [true, false] {
            let mut router = edge();
            if !access {
                [ETH1, ETH2].into_iter().for_each(|id| trust(&mut router, id, Trust::CORE));
            }
            let ping = Message { interval: 255, ..about(&nodes, kbit(5_400, 0)) };
            router.arrives(ETH1, nodes.near, nodes.far, &ping);
            router.pass(Duration::from_millis(9_999));
            assert_eq!(router.held_both().0, 5_400);
            router.pass(Duration::from_millis(2));
            assert_eq!((router.held_both().0, router.engine.population().0), (0, 0));

            for by_reply in [true, false] {
                let again = router.arrives(ETH1, nodes.near, nodes.far, &ping);
                assert_eq!(one(&again).interval, 60, "lowered");
                match by_reply {
                    true => router.arrives(ETH2, nodes.far, nodes.near, &ping.back()),
                    false => router.arrives(ETH1, nodes.near, nodes.far, &ping),
                };
                router.pass(Duration::from_secs(179));
                assert_eq!(router.held_both().0, 5_400, "{by_reply}");
                router.pass(Duration::from_secs(2));
                assert_eq!(router.held_both().0, 0);
            }
        }
    }
}

/// The packets must come from behind the interface, too: nobody reserves for the flow of others.
#[test]
fn flow_of_others_is_refused() {
    for nodes in families() {
        let mut router = edge();
        let message = about(&nodes, kbit(1_000, 500));
        let outcomes = router.arrives(ETH3, nodes.stranger, nodes.far, &message);
        assert!(one(&outcomes).is_nack());
        let mut wide = message.clone();
        wide.mask.source = 0;
        wide.mask.source_port = false;
        wide.classifier.source = if nodes.near.is_ipv6() { ip("::") } else { ip("0.0.0.0") };
        let outcomes = router.arrives(ETH1, nodes.near, nodes.far, &wide);
        assert!(one(&outcomes).is_nack(), "everybody's flows");
        let counters = router.engine.counters();
        assert_eq!(counters.refused[RefusalReason::FlowNotBehind as usize], 2);
        assert_eq!((router.held_both(), router.engine.population()), ((0, 0), (0, 0)));
        // The owner is not kept from it.
        set_up(&mut router, &nodes);
    }
}

/// Whoever is behind an access interface chooses among its addresses, so they share one limit.
#[test]
fn limits_count_an_access_interface_as_one() {
    let limits = Limits { sessions_per_source: 3, ..Limits::default() };
    let mut router = edge_with(Config { limits, ..Config::default() });
    let mut ping = |interface, host: &str, port| {
        let mut message = message(port, kbit(10, 0));
        message.classifier.source = ip(host);
        one(&router.arrives(interface, ip(host), ip(FAR), &message)).is_nack()
    };
    let refused: Vec<bool> =
        (1..=5).map(|host| ping(ETH1, &format!("10.0.1.{}", 10 + host), host)).collect();
    assert_eq!(refused, [false, false, false, true, true]);
    assert!(!ping(ETH3, "10.0.3.9", 6), "others are not affected");
}

/// A port that takes whatever it gets leaves another one its part of the table.
#[test]
fn port_that_floods_leaves_another_its_part() {
    let limits = Limits { sessions: 60, ..Limits::default() };
    let mut router = edge_with(Config { limits, ..Config::default() });
    let others = router.interfaces.count();
    let part = 60 / 4 / (others + 1);
    let mut granted = |interface, host: &str, ports: std::ops::Range<u16>| {
        let is_granted = |port: &u16| {
            let mut message = message(*port, kbit(1, 0));
            message.classifier.source = ip(host);
            !one(&router.arrives(interface, ip(host), ip(FAR), &message)).is_nack()
        };
        ports.filter(is_granted).count()
    };
    assert_eq!(granted(ETH1, "10.0.1.11", 1..100), 60 - part * others);
    assert_eq!(granted(ETH3, "10.0.3.9", 101..200), part);
}

/// New and changed requests of one port take at most half of the signalling class of a link; refreshes and releases are not
/// limited, and neither are requests from core interfaces.
#[test]
fn flood_of_one_port_leaves_others_their_share_of_signalling() {
    for (flooding, is_limited) in [(Trust::ACCESS, true), (Trust::CORE, false)] {
        let mut router = edge();
        trust(&mut router, ETH1, flooding);
        let share = router.interfaces.by_id(ETH2).expect("the link").requests_per_second();
        let share = u16::try_from(share).expect("a slow link");
        let pings = |router: &mut Bench, interface, host: &str, ports: Vec<u16>, kilobits| {
            let passes = |port: &u16| {
                let mut message = message(*port, kbit(kilobits, 0));
                message.classifier.source = ip(host);
                !sent(&router.arrives(interface, ip(host), ip(FAR), &message)).is_empty()
            };
            ports.iter().copied().filter(passes).count()
        };
        let flood = pings(&mut router, ETH1, "10.0.1.11", (1..=1_000).collect(), 1);
        assert_eq!(flood, if is_limited { share.into() } else { 1_000 });
        let dropped = router.engine.counters().dropped[DropReason::Limit as usize];
        assert_eq!(dropped, 1_000 - flood as u64);
        assert_eq!(pings(&mut router, ETH3, "10.0.3.9", (2_001..=2_100).collect(), 1), 100);
        // Refreshes, changes and releases of a session, releases of none, and of one of another node.
        let same = |port| vec![port; 500];
        assert_eq!(pings(&mut router, ETH1, "10.0.1.11", same(1), 1), 500);
        assert_eq!(
            pings(&mut router, ETH1, "10.0.1.11", same(2), 2),
            if is_limited { 0 } else { 500 }
        );
        assert_eq!(pings(&mut router, ETH1, "10.0.1.11", vec![3], 0), 1);
        let of_none = pings(&mut router, ETH1, "10.0.1.11", same(1_999), 0);
        assert_eq!(of_none, if is_limited { 0 } else { 500 });
        let mut foreign = message(4, Rates::ZERO);
        foreign.classifier.source = ip("10.0.1.11");
        let mut passes = || sent(&router.arrives(ETH1, ip("10.0.1.12"), ip(FAR), &foreign)).len();
        let count: usize = (0..500).map(|_| passes()).sum();
        assert_eq!(count, if is_limited { 0 } else { 500 });
        let whole = foreign.octets(ip("10.0.1.12"), ip(FAR));
        let mut cut = || {
            let outcomes = router.octets_arrive(ETH1, ip("10.0.1.12"), ip(FAR), &whole[..50]);
            outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Sent(..))).count()
        };
        let count: usize = (0..500).map(|_| cut()).sum();
        assert_eq!(count, if is_limited { 0 } else { 500 }, "malformed");
    }
}

#[test]
fn group_is_released_by_its_sender_only() {
    let [nodes, _] = families();
    let mut router = edge();
    router.routes.insert_multicast(MulticastRoute {
        source: None,
        group: ip(GROUP),
        incoming: None,
        outgoing: vec![ETH2],
    });
    let to_group = |rates| {
        let mut message = Message { flags: 2, ..about(&nodes, rates) };
        message.classifier.destination = ip(GROUP);
        message
    };
    router.arrives(ETH1, nodes.near, ip(GROUP), &to_group(kbit(1_000, 0)));
    for rates in [Rates::ZERO, kbit(10, 0)] {
        let spoofed = router.arrives(ETH3, nodes.near, ip(GROUP), &to_group(rates));
        assert_eq!(dropped(&spoofed), DropReason::SourceNotBehind);
        let other = router.arrives(ETH3, nodes.stranger, ip(GROUP), &to_group(rates));
        assert!(one(&other).is_nack());
        assert_eq!(router.held_both().0, 1_000);
    }
    router.arrives(ETH1, nodes.near, ip(GROUP), &to_group(Rates::ZERO));
    assert_eq!(router.held_both().0, 0);
}

/// Only core routers make aggregates: a note that arrives through an access interface shrinks and releases none.
#[test]
fn note_of_an_aggregate_counts_from_the_core_only() {
    let [nodes, _] = families();
    let mut keeper = edge_with(Config { aggregate_only: true, ..Config::default() });
    let node = ip("10.0.1.9");
    let note = |rate, flags| {
        OptionItem::Aggregation(Aggregation {
            flags: OptionFlags(flags),
            node,
            transaction_id: 1,
            classifier: crate::common::classifier("10.0.1.0", FAR, 0),
            mask: earmark_wire::boomerang::Keys {
                source: ip("255.255.255.0"),
                destination: ip("255.255.255.255"),
                source_port: 0,
                destination_port: 0,
                protocol: 0,
                tos: 0,
                flags: 0,
            },
            rate,
        })
    };
    let flow = |rate, flags| {
        let message = about(&nodes, kbit(500, 0));
        Message { options: vec![note(rate, flags)], ..message }
    };
    trust(&mut keeper, ETH1, Trust::CORE);
    keeper.arrives(ETH1, nodes.near, nodes.far, &flow(3_000_000, 0));
    assert_eq!((keeper.held_both().0, keeper.engine.population().0), (3_000, 2));
    let mut theirs = flow(0, LEAVES);
    theirs.classifier.source = nodes.stranger;
    keeper.arrives(ETH3, nodes.stranger, nodes.far, &theirs);
    assert_eq!(keeper.held_both().0, 3_500, "the aggregate, and the stranger's flow by itself");
}

/// The far end's answer must come from behind the interface and repeat the nonce of an outstanding request.
#[test]
fn reply_without_the_nonce_is_not_taken() {
    let own = ip("10.0.2.1");
    for (what, source, interface, change, reason) in [
        ("stranger", ip("10.0.3.9"), ETH3, 0, DropReason::WrongFarEnd),
        ("spoofed", ip(FAR), ETH3, 0, DropReason::SourceNotBehind),
        ("nonce", ip(FAR), ETH2, 1, DropReason::UnknownNonce),
    ] {
        for rates in [Rates::ZERO, kbit(2_000, 500)] {
            let mut host = edge();
            let out = one(&host.reserve(request(&[kbit(2_000, 500)])));
            let sequence = out.sequence.wrapping_add(change);
            let forged = Message { sequence, rates: vec![rates], ..out.clone() };
            let outcomes = host.arrives(interface, source, own, &forged.back());
            assert_eq!(dropped(&outcomes), reason, "{what}");
            let honest = events(&host.arrives(ETH2, ip(FAR), own, &out.back()));
            assert!(matches!(honest[..], [Event::Established { .. }]), "{what} {honest:?}");
            let replayed = host.arrives(ETH2, ip(FAR), own, &forged.back());
            assert_eq!(dropped(&replayed), DropReason::UnknownNonce, "{what}");
        }
    }
}

/// A credential covers the rates and the session, and each pass of a message counts once; two secrets of a user are
/// valid while one replaces the other.
#[test]
fn credential_covers_rates_and_is_used_once() {
    let credentials = required(&[("alice", "old"), ("alice", "new")]);
    let mut router = with_config(Config { credentials, ..Config::default() });
    router.add_interface(ETH2, &["10.0.2.254"]);
    let mut host = edge();
    let asks = Request { user: user("alice", "new"), ..request(&[kbit(2_000, 500)]) };
    let out = one(&host.reserve(asks));
    let own = out.classifier.source;
    let mut passes = |message: &Message| {
        let outcomes = router.arrives(ETH1, own, ip(FAR), message);
        (one(&outcomes).is_nack(), router.held(ETH2), router.engine.counters().refused)
    };
    for rates in [kbit(2_001, 500), kbit(1, 500), kbit(2_000, 1)] {
        let (is_refused, held, counters) = passes(&Message { rates: vec![rates], ..out.clone() });
        assert_eq!((is_refused, held), (true, 0), "{rates:?}");
        assert!(counters[RefusalReason::Credential as usize] > 0);
    }
    let mut moved = out.clone();
    moved.classifier.source_port += 1;
    assert_eq!(passes(&moved).1, 0, "another flow");
    assert_eq!(passes(&out).1, 2_000);
    assert_eq!(passes(&Message { rates: vec![Rates::ZERO], ..out.clone() }).1, 2_000);

    let rates = vec![RequestedRates { forward: Rate::from_mbps(3), reverse: Rate::from_bps(0) }];
    let more = one(&host.command(Command::Modify { application: APP, rates }));
    assert_eq!(passes(&more).1, 3_000);
    let (is_refused, held, counters) = passes(&out);
    assert_eq!((is_refused, held), (true, 3_000), "replayed");
    assert_eq!(counters[RefusalReason::Replayed as usize], 1);
    let end = one(&host.command(Command::Release { application: APP }));
    assert_eq!(passes(&end).1, 0);
}

/// Each transmission has a nonce of its own, which does not follow from those before.
#[test]
fn nonces_do_not_count_up() {
    let mut host = edge();
    let mut nonces = vec![one(&host.reserve(request(&[kbit(10, 0)]))).sequence];
    while nonces.len() < 8 {
        nonces.extend(sent(&host.wait()).iter().map(|(_, message)| message.sequence));
    }
    let counts_up = |pair: &[u16]| pair[1].wrapping_sub(pair[0]) < 16;
    assert!(!nonces.windows(2).any(counts_up), "{nonces:?}");
}

/// The engine withdraws what an offload has processed for another origin.
#[test]
fn offload_cannot_settle_for_another_origin() {
    let [nodes, _] = families();
    for (interface, source, kind) in
        [(ETH3, nodes.stranger, Kind::Reply), (ETH3, nodes.near, Kind::Request)]
    {
        let mut router = edge_with(Config { offload: true, ..Config::default() });
        set_up(&mut router, &nodes);
        let release = Message { kind, ..about(&nodes, Rates::ZERO) };
        let destination = if kind == Kind::Reply { nodes.near } else { nodes.far };
        let outcomes = router.command(Command::Settled(Settled {
            interface,
            source,
            destination,
            message: release.octets(source, destination),
            outcome: Settlement::Released([None; 2]),
        }));
        assert!(matches!(events(&outcomes)[..], [Event::Withhold { .. }]), "{outcomes:?}");
        assert_eq!(router.held_both(), (2_000, 500));
    }
}

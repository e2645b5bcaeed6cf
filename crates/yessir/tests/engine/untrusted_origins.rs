//! Reports and answers of origins that must not touch a stream: other sources, other SSRCs, other interfaces.
//!
//! Behind eth1 is the network of the sender, behind eth2 that of the receiver, behind eth3 that of a stranger; all are
//! access interfaces unless a test says otherwise.

use std::collections::BTreeMap;
use std::net::IpAddr;

use earmark_core::keys::Directions;
use earmark_core::random::RandomStreams;
use earmark_core::{InterfaceId, MulticastRoute, Trust};
use earmark_wire::yessir::{Command as Wire, Generic};
use earmark_yessir::auth::{Key, Settings};
use earmark_yessir::{
    Application, Attachment, Command, Config, DropReason, Event, Limits, Measuring, Yessir,
};

use crate::common::*;

fn edge_with(config: Config) -> Node {
    let mut node = Node::with(config);
    node.set_route("10.8.0.0/16", SIDE, 10);
    node.set_route("fd08::/16", SIDE, 10);
    for id in [UP, DOWN, SIDE] {
        trust(&mut node, id, Trust::ACCESS);
    }
    node
}

fn edge() -> Node {
    edge_with(Config::default())
}

fn trust(node: &mut Node, id: InterfaceId, trust: Trust) {
    let interface = node.interfaces.by_id(id).expect("an interface").clone();
    node.interfaces.set(earmark_core::Interface { trust, ..interface });
}

/// A stream of each family.
fn streams() -> [Ask; 2] {
    let four = Ask::new(1);
    let six = Ask { source: address("fd00::7"), destination: address("fd09::7"), ..four.clone() };
    [four, six]
}

fn ignored(node: &Node, reason: DropReason) -> u64 {
    node.engine.counters().ignored.get(&reason).copied().unwrap_or(0)
}

/// Reports that would release, shrink, grow, or change the style of a stream.
fn forgeries(ask: &Ask) -> Vec<Ask> {
    let query = Generic { command: Wire::Active, interval: 60, ..ask.generic };
    vec![
        ask.release(),
        Ask { goodbye: true, ..ask.clone() },
        Ask { flowspec: Some(mbps(0.1)), ..ask.clone() },
        Ask { flowspec: Some(mbps(4.0)), ..ask.clone() },
        Ask { generic: query, ..ask.clone() },
    ]
}

/// Another SSRC changes nothing, refreshes nothing, and its BYE releases nothing.
#[test]
fn other_ssrc_does_not_take_over_stream() {
    for ask in streams() {
        let mut node = edge();
        node.pass(&ask.arrival());
        node.advance(100.0);
        let other = Ask { ssrc: 0xbad, ..ask.clone() };
        for forged in forgeries(&other) {
            let sent = node.pass(&forged.arrival());
            assert_eq!(sent.octets, forged.arrival().octets, "it goes on without effect");
            assert_eq!(node.held(DOWN), 1_000_000, "{forged:?}");
        }
        assert_eq!(ignored(&node, DropReason::ForeignSsrc), forgeries(&other).len() as u64);
        node.advance(20.0);
        assert_eq!(node.held(DOWN), 0, "no refresh");
        node.pass(&other.arrival());
        assert_eq!(node.held(DOWN), 1_000_000, "the first reporter now");
    }
}

/// A spoofed source is dropped at the access interface; through a core interface it changes nothing.
#[test]
fn report_through_another_interface_changes_nothing() {
    for ask in streams() {
        for interface in [DOWN, SIDE] {
            let mut node = edge();
            node.pass(&ask.arrival());
            node.advance(100.0);
            for forged in forgeries(&ask) {
                node.arrive(&Arrival { interface, ..forged.arrival() });
                assert_eq!((node.held(DOWN), node.sent.len()), (1_000_000, 0), "{forged:?}");
            }
            assert_eq!(ignored(&node, DropReason::SourceNotBehind), 5);
            trust(&mut node, interface, Trust::CORE);
            for forged in forgeries(&ask) {
                node.pass(&Arrival { interface, ..forged.arrival() });
                assert_eq!(node.held(DOWN), 1_000_000, "{forged:?}");
            }
            assert_eq!(ignored(&node, DropReason::WrongArrival), 5);
            node.advance(20.0);
            assert_eq!(node.held(DOWN), 0, "no refresh");
        }
    }
}

/// Nobody makes state for a source that is not behind the interface, and this node's own addresses are nowhere.
#[test]
fn spoofed_source_makes_no_state() {
    for ask in streams() {
        let mut node = edge();
        let own = node.interfaces.by_id(UP).expect("there").addresses.clone();
        let own = own.into_iter().find(|own| own.is_ipv4() == ask.source.is_ipv4());
        let of_own = Ask { source: own.expect("one"), ..ask.clone() };
        node.arrive(&Arrival { interface: SIDE, ..ask.arrival() });
        node.arrive(&of_own.arrival());
        assert_eq!((node.engine.session_count(), node.sent.len()), (0, 0));
        assert_eq!(ignored(&node, DropReason::SourceNotBehind), 2);
    }
}

/// Between core routers the path may change.
#[test]
fn stream_may_change_its_path_in_the_core() {
    for ask in streams() {
        let mut node = edge();
        [UP, SIDE].into_iter().for_each(|id| trust(&mut node, id, Trust::CORE));
        node.pass(&ask.arrival());
        node.pass(&Arrival {
            interface: SIDE,
            ..Ask { flowspec: Some(mbps(2.0)), ..ask }.arrival()
        });
        assert_eq!(node.held(DOWN), 2_000_000);
    }
}

#[test]
fn stream_is_restored_by_its_sender_after_restart() {
    for ask in streams() {
        let mut node = edge();
        node.pass(&ask.arrival());
        node.engine = Yessir::new(Config::default(), &RandomStreams::new(2));
        node.installed.clear();
        node.ledger = earmark_core::admission::Ledger::new();
        for id in [UP, DOWN, SIDE] {
            let before = node.interfaces.by_id(id).expect("there").clone();
            node.set_link(id, &[], 5);
            node.interfaces.set(before);
        }
        node.arrive(&Arrival { interface: SIDE, ..ask.arrival() });
        assert_eq!(node.held(DOWN), 0);
        node.pass(&ask.arrival());
        assert_eq!(node.held(DOWN), 1_000_000);
    }
}

/// Streams of senders without YESSIR are protected likewise.
#[test]
fn foreign_report_of_another_origin_changes_nothing() {
    let measuring = Measuring { window: 20, ..Measuring::default() };
    let names = ["eth1", "eth3"];
    let measured: BTreeMap<_, _> = names.map(|name| (name.to_owned(), measuring)).into();
    for ask in streams() {
        let mut node = edge_with(Config { measured: measured.clone(), ..Config::default() });
        let report = |second: u64| {
            let mut ask = ask.clone();
            ask.sent.ntp = (1_000 + second) << 32;
            (ask.sent.packets, ask.sent.octets) = (second as u32 * 50, second as u32 * 40_000);
            ask
        };
        [0, 5].into_iter().for_each(|second| node.arrive(&report(second).plain()));
        let held = node.held(DOWN);
        assert!(held > 0);
        let bye = Ask { goodbye: true, ..report(6) };
        node.arrive(&Ask { ssrc: 0xbad, ..bye.clone() }.plain());
        node.arrive(&Arrival { interface: SIDE, ..bye.plain() });
        assert_eq!(node.held(DOWN), held);
        assert_eq!(ignored(&node, DropReason::ForeignSsrc), 1);
        assert_eq!(ignored(&node, DropReason::SourceNotBehind), 1);
        node.arrive(&bye.plain());
        assert_eq!(node.held(DOWN), 0);
    }
}

#[test]
fn group_is_released_by_its_sender_only() {
    let mut node = edge();
    let ask = Ask { destination: address("239.1.1.1"), ..Ask::new(1) };
    node.routes.insert_multicast(MulticastRoute {
        source: None,
        group: ask.destination,
        incoming: None,
        outgoing: vec![DOWN],
    });
    node.pass(&ask.arrival());
    node.pass(&Ask { ssrc: 0xbad, ..ask.release() }.arrival());
    node.arrive(&Arrival { interface: SIDE, ..ask.release().arrival() });
    assert_eq!(node.held(DOWN), 1_000_000);
    node.pass(&ask.release().arrival());
    assert_eq!(node.held(DOWN), 0);
}

/// What signed reports have reserved, unsigned ones do not change, also where none are required.
#[test]
fn unsigned_report_does_not_touch_a_signed_stream() {
    let key = Key::new(3, earmark_core::Secret::new(vec![7; 32]));
    let auth = Settings {
        keys: vec![key.clone()],
        interfaces: [("eth1".to_owned(), Directions::Accept)].into(),
        ..Settings::default()
    };
    for ask in streams() {
        let mut node = edge_with(Config { auth: auth.clone(), ..Config::default() });
        [UP, SIDE].into_iter().for_each(|id| trust(&mut node, id, Trust::CORE));
        node.pass(&Ask { sign: Some((key.clone(), 9)), ..ask.clone() }.arrival());
        for interface in [UP, SIDE] {
            node.pass(&Arrival { interface, ..ask.release().arrival() });
            assert_eq!(node.held(DOWN), 1_000_000);
        }
        let replayed = Ask { sign: Some((key.clone(), 9)), ..ask.release() };
        node.pass(&replayed.arrival());
        assert_eq!(node.held(DOWN), 1_000_000);
        assert_eq!(ignored(&node, DropReason::MissingAuth), 2);
        assert_eq!(ignored(&node, DropReason::Replayed), 1);
        node.pass(&Ask { sign: Some((key.clone(), 10)), ..ask.release() }.arrival());
        assert_eq!(node.held(DOWN), 0);
    }
}

/// Whoever is behind an access interface chooses among its addresses, so they share one limit.
#[test]
fn limits_count_an_access_interface_as_one() {
    let limits = Limits { sessions_per_source: 2, ..Limits::default() };
    let mut node = edge_with(Config { limits, ..Config::default() });
    let mut count = |number| {
        node.pass(&Ask::rate(number, 0.1).arrival());
        node.engine.session_count()
    };
    assert_eq!([1, 2, 3, 4].map(&mut count), [1, 2, 2, 2]);
    let from_side = Ask { source: address("10.8.0.1"), ..Ask::rate(5, 0.1) };
    node.pass(&Arrival { interface: SIDE, ..from_side.arrival() });
    assert_eq!(node.engine.session_count(), 3);
    node.pass(&Ask::rate(1, 0.1).release().arrival());
    node.pass(&Ask::rate(3, 0.1).arrival());
    assert_eq!(node.engine.session_count(), 3);
}

/// A port that takes whatever it gets leaves another one its part of the table.
#[test]
fn port_that_floods_leaves_another_its_part() {
    let limits = Limits { sessions: 60, ..Limits::default() };
    let mut node = edge_with(Config { limits, ..Config::default() });
    let part = 60 / 4 / (node.interfaces.count() + 1);
    (1..100).for_each(|number| drop(node.pass(&Ask::rate(number, 0.001).arrival())));
    let taken = node.engine.session_count();
    assert_eq!(taken, 60 - part * node.interfaces.count());
    for number in 101..120 {
        let ask = Ask { source: address("10.8.0.1"), ..Ask::rate(number, 0.001) };
        node.pass(&Arrival { interface: SIDE, ..ask.arrival() });
    }
    assert_eq!(node.engine.session_count(), taken + part);
}

/// New and changed requests and queries of one port take at most half of the signalling class of a link; refreshes are not
/// limited, and neither are requests from core interfaces.
#[test]
fn flood_of_one_port_leaves_others_their_share_of_signalling() {
    for (flooding, is_limited) in [(Trust::ACCESS, true), (Trust::CORE, false)] {
        let mut node = edge();
        trust(&mut node, UP, flooding);
        let share = node.interfaces.by_id(DOWN).expect("the link").requests_per_second();
        let share = usize::try_from(share).expect("a slow link");
        let passes = |node: &mut Node, arrival: &Arrival| {
            let before = node.sent.len();
            node.arrive(arrival);
            node.sent.drain(before..).count()
        };
        let ask = |number| Ask::rate(number, 0.001);
        let flood: usize = (1..=1_000).map(|n| passes(&mut node, &ask(n).arrival())).sum();
        assert_eq!(flood, if is_limited { share } else { 1_000 });
        assert_eq!(ignored(&node, DropReason::Limit), 1_000 - flood as u64);
        let others = (2_001..=2_100).map(|number| {
            let ask = Ask { source: address("10.8.0.1"), ..ask(number) };
            passes(&mut node, &Arrival { interface: SIDE, ..ask.arrival() })
        });
        assert_eq!(others.sum::<usize>(), 100, "others");
        let mut repeat =
            |ask: &Ask| (0..500).map(|_| passes(&mut node, &ask.arrival())).sum::<usize>();
        assert_eq!(repeat(&ask(1)), 500, "refreshes");
        let query = Generic { command: Wire::Passive, ..ask(1).generic };
        let left = if is_limited { 0 } else { 500 };
        assert_eq!(repeat(&Ask { generic: query, ..ask(1) }), left, "queries");
        assert_eq!(repeat(&Ask { flowspec: Some(mbps(0.002)), ..ask(2) }), left, "changes");
        assert_eq!(repeat(&ask(1_999).release()), left, "releases of nothing");
        let unknown = Generic { command: Wire::Unknown(9), ..ask(1).generic };
        assert_eq!(repeat(&Ask { generic: unknown, ..ask(1) }), left, "malformed messages");
        assert_eq!(repeat(&ask(1).release()), if is_limited { 1 } else { 500 }, "a release");
    }
}

/// An application that listens keeps the first announcer of a stream.
#[test]
fn announcement_of_another_origin_is_not_taken() {
    let own = address("10.0.9.1");
    let mut node = edge();
    node.command(Command::Listen {
        application: Application(1),
        destination: own,
        port: 5_000,
        cname: "here".into(),
    });
    let ask = Ask { destination: own, ..Ask::new(1) };
    node.arrive(&ask.arrival());
    node.take_events();
    node.arrive(&Ask { ssrc: 0xbad, goodbye: true, ..ask.clone() }.arrival());
    node.arrive(&Arrival { interface: SIDE, ..ask.release().arrival() });
    let gone = |event: &Event| matches!(event, Event::AnnouncementGone { .. });
    assert!(!node.take_events().iter().any(gone));
    assert_eq!(ignored(&node, DropReason::ForeignSsrc), 1);
    assert_eq!(ignored(&node, DropReason::SourceNotBehind), 1);
    node.arrive(&Ask { goodbye: true, ..ask }.arrival());
    assert!(node.take_events().iter().any(gone));
}

/// A sender believes the receiver that its stream goes to, through the interface that the receiver is behind.
#[test]
fn answer_of_another_receiver_is_not_believed() {
    let receiver: IpAddr = address("10.9.0.1");
    let mut sender = edge();
    let mut host = Node::new();
    host.set_link(SIDE, &["10.9.0.1"], 5);
    [UP, DOWN].into_iter().for_each(|id| host.set_link(id, &[], 5));
    host.command(Command::Listen {
        application: Application(1),
        destination: receiver,
        port: 5_000,
        cname: "there".into(),
    });
    let stream = earmark_yessir::Stream {
        source: address("0.0.0.0"),
        destination: receiver,
        source_port: 4_000,
        destination_port: 5_000,
    };
    let attachment = Attachment { stream, ..attachment() };
    sender.command(Command::Attach { application: Application(2), attachment });
    let report = sender.sent.pop().expect("a report");
    host.arrive(&report.arrival(UP));
    let answer = host.sent.pop().expect("an answer").arrival(DOWN);
    sender.take_events();
    let answered = |node: &mut Node| {
        node.take_events().iter().any(|event| matches!(event, Event::Answered { .. }))
    };
    // The UDP checksum covers the addresses; zero is none.
    let mut forged = Arrival { source: address("10.8.0.1"), interface: SIDE, ..answer.clone() };
    forged.octets[6..8].fill(0);
    sender.arrive(&forged);
    sender.arrive(&Arrival { interface: SIDE, ..answer.clone() });
    assert!(!answered(&mut sender));
    assert_eq!(ignored(&sender, DropReason::ForeignReceiver), 1);
    assert_eq!(ignored(&sender, DropReason::SourceNotBehind), 1);
    sender.arrive(&answer);
    assert!(answered(&mut sender));
}

fn attachment() -> Attachment {
    Attachment {
        stream: Ask::new(1).stream(),
        multiplexed: false,
        ssrc: None,
        cname: "somebody".into(),
        flowspec: mbps(1.0),
        style: earmark_wire::yessir::Style::Individual,
        interval: 0,
        passive: false,
        token: None,
        ttl: 64,
    }
}

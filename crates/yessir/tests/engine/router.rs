//! A router in transit: effects of messages, and what is forwarded.

use earmark_core::{Engine, HostEvent, Rate};
use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::yessir::{
    Command as Wire, FailureNote, FailureReason, Flowspec, Generic, LinkInfo, OctetRate,
};
use earmark_yessir::{Change, Event};

use crate::common::{Ask, DOWN, Node, SIDE, UP, address, mbps};

#[test]
fn request_reserves_and_is_forwarded() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    let sent = node.pass(&ask.arrival());
    assert_eq!(node.rate_of(&ask.stream().flow()), Some(1_000_000));
    assert_eq!((sent.how.ttl, sent.how.interface, sent.how.router_alert), (63, Some(DOWN), true));
    assert_eq!((sent.how.source, sent.how.destination), (ask.source, ask.destination));
    let info = LinkInfo {
        send_ttl: 64,
        hops: 1,
        other_hops: false,
        path_mtu: 1_500,
        available: OctetRate(500_000.0),
        latency_us: 100,
    };
    assert_eq!(sent.message().link_info, Some(info));
    assert_eq!(sent.notes(), []);
    let events = node.take_events();
    assert!(
        matches!(events[..], [Event::Reservation { change: Change::Created, .. }]),
        "{events:?}"
    );
    assert_eq!(sent.octets.len(), ask.arrival().octets.len());
}

#[test]
fn every_flowspec_reserves() {
    let bucket = TokenBucket {
        rate: 50_000.0,
        depth: 5_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_000,
    };
    let guaranteed = FlowSpec::Guaranteed(bucket, Rspec { rate: 100_000.0, slack_us: 0 });
    for (flowspec, rate) in [
        (Flowspec::Intserv(FlowSpec::ControlledLoad(bucket)), 400_000),
        (Flowspec::Intserv(guaranteed), 800_000),
        (Flowspec::Codec { payload_type: 0, frames: 1 }, 80_000),
        (Flowspec::Class { dscp: 46, rate: OctetRate(125_000.0) }, 1_000_000),
    ] {
        let mut node = Node::new();
        let ask = Ask { flowspec: Some(flowspec), ..Ask::new(1) };
        node.pass(&ask.arrival());
        assert_eq!(node.rate_of(&ask.stream().flow()), Some(rate), "{flowspec:?}");
    }
}

#[test]
fn ipv6_request_reserves() {
    let mut node = Node::new();
    let (source, destination) = (address("fd00::7"), address("fd09::7"));
    let ask = Ask { source, destination, ..Ask::new(1) };
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.message().link_info.map(|info| info.hops), Some(1));
    assert_eq!(node.held(DOWN), 1_000_000);
    let large = Ask { flowspec: Some(mbps(5.0)), ssrc: 9, ports: (6_000, 6_000), ..ask };
    let sent = node.pass(&large.arrival());
    assert_eq!(sent.notes()[0].node, address("fd00:9::1"));
}

/// rtcp-mux: the ports of the reports are those of the data.
#[test]
fn multiplexed_reports_name_the_ports_of_the_data() {
    let mut node = Node::new();
    let mut ask = Ask { ports: (4_001, 5_003), ..Ask::new(1) };
    ask.generic.multiplexed = true;
    node.pass(&ask.arrival());
    assert_eq!(node.rate_of(&ask.stream().flow()), Some(1_000_000));
}

/// A sender with reports from an even port follows no convention: packets from any port of the source match.
#[test]
fn even_source_port_matches_any_data_port() {
    let mut node = Node::new();
    let ask = Ask { ports: (4_001, 5_000), ..Ask::new(1) };
    node.pass(&ask.arrival());
    let flow = earmark_core::Flow { source_port: 0, ..ask.stream().flow() };
    assert_eq!(node.rate_of(&flow), Some(1_000_000));
}

#[test]
fn session_without_refresh_expires() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    node.pass(&ask.arrival());
    node.take_events();
    for _ in 0..10 {
        node.advance(116.0);
        let sent = node.pass(&ask.arrival());
        assert_eq!(sent.notes(), []);
    }
    assert_eq!(node.engine.counters().refreshed, 10);
    assert_eq!(node.take_events(), [], "nothing is worth telling");
    node.advance(116.9);
    assert_eq!(node.held(DOWN), 1_000_000);
    node.advance(0.2);
    assert_eq!(node.held(DOWN), 0);
    assert!(matches!(node.take_events()[..], [Event::Reservation { change: Change::Expired, .. }]));
    assert_eq!((node.engine.session_count(), node.engine.counters().expired), (0, 1));
}

/// The lifetime follows the interval of the last message.
#[test]
fn shorter_interval_applies_at_once() {
    let mut node = Node::new();
    let mut ask = Ask::new(1);
    ask.generic.interval = 3_000;
    node.pass(&ask.arrival());
    ask.generic.interval = 1;
    node.pass(&ask.arrival());
    node.advance(4.0);
    assert_eq!(node.held(DOWN), 0);
    ask.generic.interval = 0;
    node.pass(&ask.arrival());
    node.advance(116.0);
    assert_eq!(node.held(DOWN), 1_000_000, "0 is the node's own, 30 s");
}

#[test]
fn bye_or_release_of_own_ssrc_ends_session() {
    for by_command in [false, true] {
        let mut node = Node::new();
        let ask = Ask::new(1);
        node.pass(&ask.arrival());
        let last = if by_command { ask.release() } else { Ask { goodbye: true, ..ask.clone() } };
        let stranger = Ask { ssrc: 0xbad, ..last.clone() };
        node.pass(&stranger.arrival());
        assert_eq!(node.held(DOWN), 1_000_000, "of another source");
        let sent = node.pass(&last.arrival());
        assert_eq!(node.held(DOWN), 0);
        assert_eq!(node.engine.session_count(), 0);
        assert_eq!(sent.octets, last.arrival().octets, "it goes on as it came");
        assert_eq!(node.engine.next_deadline(), None);
    }
}

#[test]
fn refused_increase_keeps_old_reservation() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    let stream = ask.stream().flow();
    let rate = |node: &mut Node, rate| {
        let changed = Ask { flowspec: Some(mbps(rate)), ..ask.clone() };
        node.pass(&changed.arrival()).notes()
    };
    assert_eq!(rate(&mut node, 1.0), []);
    assert_eq!(rate(&mut node, 4.0), []);
    assert_eq!(node.rate_of(&stream), Some(4_000_000));
    let notes = rate(&mut node, 6.0);
    assert_eq!(node.rate_of(&stream), Some(4_000_000));
    let expected = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 1,
        available: OctetRate(625_000.0),
        node: address("10.0.9.1"),
    };
    assert_eq!(notes, [expected]);
    assert_eq!(rate(&mut node, 2.0), []);
    assert_eq!(node.rate_of(&stream), Some(2_000_000));
    assert_eq!(node.installed.len(), 1);
}

/// The note of a full link, and the message that carries it.
#[test]
fn over_capacity_is_noted_and_forwarded() {
    let mut node = Node::new();
    node.pass(&Ask::rate(1, 4.0).arrival());
    node.take_events();
    let ask = Ask::rate(2, 2.0);
    let sent = node.pass(&ask.arrival());
    let note = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 1,
        available: OctetRate(125_000.0),
        node: address("10.0.9.1"),
    };
    assert_eq!(sent.notes(), [note]);
    assert_eq!(sent.message().link_info.map(|info| info.available), Some(OctetRate(125_000.0)));
    assert_eq!(node.held(DOWN), 4_000_000);
    let events = node.take_events();
    let [Event::Refused { reason, available, waits: true, .. }] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((reason, available), (FailureReason::Bandwidth, Rate::from_mbps(1)));
    // The next router has no room either, and adds its own note.
    let mut next = Node::new();
    next.pass(&Ask::rate(1, 5.0).arrival());
    let sent = next.pass(&sent.arrival(UP));
    let hops: Vec<u16> = sent.notes().iter().map(|note| note.hop).collect();
    assert_eq!(hops, [1, 2]);
}

#[test]
fn refresh_retries_refused_request() {
    let mut node = Node::new();
    node.set_retries(0);
    let (first, second) = (Ask::rate(1, 4.0), Ask::rate(2, 2.0));
    node.pass(&first.arrival());
    node.pass(&second.arrival());
    assert_eq!(node.pass(&second.arrival()).notes().len(), 1);
    node.pass(&first.release().arrival());
    assert_eq!(node.held(DOWN), 0, "nobody grabs");
    assert_eq!(node.pass(&second.arrival()).notes(), []);
    assert_eq!(node.held(DOWN), 2_000_000);
    let counters = node.engine.counters();
    assert_eq!((counters.retried, counters.grabbed, counters.refused), (1, 0, 2));
}

#[test]
fn large_packet_and_closed_link_are_noted() {
    let mut node = Node::new();
    node.set_link(SIDE, &["10.0.8.1"], 0);
    node.set_route("10.9.0.7/32", SIDE, 0);
    let closed = node.pass(&Ask::new(7).arrival()).notes();
    assert_eq!(closed[0].reason, FailureReason::NotReservable);
    let bucket = TokenBucket {
        rate: 1e4,
        depth: 5e3,
        peak: f32::INFINITY,
        min_policed_unit: 1,
        max_packet_size: 1_501,
    };
    let flowspec = Some(Flowspec::Intserv(FlowSpec::ControlledLoad(bucket)));
    let large = node.pass(&Ask { flowspec, ..Ask::new(1) }.arrival()).notes();
    assert_eq!(large[0].reason, FailureReason::PacketSize);
    let video = Some(Flowspec::Codec { payload_type: 31, frames: 1 });
    let unknown = node.pass(&Ask { flowspec: video, ..Ask::new(2) }.arrival()).notes();
    assert_eq!(
        (unknown[0].reason, unknown[0].available),
        (FailureReason::Flowspec, OctetRate(0.0))
    );
    assert_eq!((node.held(DOWN), node.held(SIDE)), (0, 0));
}

#[test]
fn query_reports_available_without_reserving() {
    let mut node = Node::new();
    node.pass(&Ask::rate(1, 3.0).arrival());
    let mut ask = Ask::rate(2, 4.0);
    ask.generic.command = Wire::Passive;
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.message().link_info.map(|info| info.available), Some(OctetRate(250_000.0)));
    assert_eq!(sent.notes(), []);
    assert_eq!((node.held(DOWN), node.engine.session_count()), (3_000_000, 1));
    assert_eq!(node.engine.counters().passive, 1);
}

/// LINK_INFO along a path of three routers, of which the second has no YESSIR.
#[test]
fn routers_without_yessir_are_found_by_the_ttl() {
    let mut first = Node::new();
    let mut third = Node::new();
    third.set_link(DOWN, &["10.0.9.1"], 2);
    let mut sent = first.pass(&Ask::rate(1, 0.5).arrival());
    assert_eq!(sent.message().link_info.map(|info| info.other_hops), Some(false));
    sent.how.ttl -= 1;
    let sent = third.pass(&sent.arrival(UP));
    let info = sent.message().link_info.expect("it was there");
    assert_eq!((info.hops, info.other_hops, info.latency_us), (2, true, 200));
    assert_eq!(info.available, OctetRate(187_500.0), "the least");
    // Without the initial TTL nothing is detected.
    let mut node = Node::new();
    let ask = Ask { link_info: Some(LinkInfo::unknown(0)), ttl: 3, ..Ask::new(1) };
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.message().link_info.map(|info| info.other_hops), Some(false));
}

#[test]
fn message_without_link_info_stays_without() {
    let mut node = Node::new();
    let ask = Ask { link_info: None, flowspec: Some(mbps(6.0)), ..Ask::new(1) };
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.message().link_info, None);
    assert_eq!(sent.notes()[0].hop, u16::MAX, "nobody counts");
}

#[test]
fn refresh_after_route_change_moves_reservation() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    node.pass(&ask.arrival());
    node.set_route("10.9.0.0/16", SIDE, 1);
    let prefix = "10.9.0.0/16".parse().expect("a prefix");
    node.host(HostEvent::RouteChanged(prefix));
    assert_eq!((node.held(DOWN), node.held(SIDE)), (1_000_000, 0));
    node.take_events();
    let sent = node.pass(&ask.arrival());
    assert_eq!(sent.how.interface, Some(SIDE));
    assert_eq!((node.held(DOWN), node.held(SIDE)), (0, 1_000_000));
    let changes: Vec<Change> = node
        .take_events()
        .iter()
        .map(|event| match event {
            Event::Reservation { change, .. } => *change,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(changes, [Change::Moved, Change::Created]);
}

#[test]
fn traffic_control_failure_is_noted_once_and_retried() {
    let mut node = Node::new();
    let ask = Ask::new(1);
    node.pass(&ask.arrival());
    let (&claim, _) = node.installed.first_key_value().expect("one");
    let owner = node.ledger.owner(claim).expect("ours");
    node.host(HostEvent::TrafficControlRefused { claim, owner, errno: 28 });
    assert_eq!(node.held(DOWN), 0);
    let notes = node.pass(&ask.arrival()).notes();
    assert_eq!(notes[0].reason, FailureReason::TrafficControl);
    assert_eq!(node.pass(&ask.arrival()).notes(), []);
    assert_eq!(node.held(DOWN), 1_000_000);
    // A refusal for a removed claim has no effect.
    node.host(HostEvent::TrafficControlRefused { claim, owner, errno: 28 });
    assert_eq!(node.held(DOWN), 1_000_000);
}

#[test]
fn preempted_reservation_returns_when_there_is_room() {
    use earmark_core::Flow;
    use earmark_core::admission::{Demand, Owner, PreemptionPolicy, Priority, Protocol, Service};
    let mut node = Node::new();
    node.ledger.set_preemption(Some(PreemptionPolicy { partial: true }));
    let ask = Ask::rate(1, 4.0);
    node.pass(&ask.arrival());
    let demand = Demand {
        service: Service::Guaranteed,
        rate: Rate::from_mbps(3),
        burst: 1_500,
        max_packet: 0,
        min_packet: 0,
    };
    let owner = Owner { protocol: Protocol::new(1), block: 0 };
    let flow = Flow { source: None, ..ask.stream().flow() };
    let priority = Priority::new(5, 5);
    let claim = node.ledger.claim_with_priority(DOWN, owner, &flow, demand, priority);
    let claim = claim.expect("it is more important");
    node.give_displaced();
    let installed = node.out.iter().find_map(|effect| match effect {
        earmark_core::Effect::Install(installation) => Some(installation.demand.rate),
        _ => None,
    });
    assert_eq!(installed, Some(Rate::from_mbps(2)), "it keeps what is left");
    node.ledger.release(claim);
    let view = node.session(&ask).expect("it is there");
    assert!(!view.legs[0].full);
    node.installed.clear();
    node.arrive(&ask.arrival());
    assert_eq!(node.held(DOWN), 4_000_000);
    assert_eq!(node.sent.pop().expect("it went on").notes(), []);
}

#[test]
fn adopted_claim_is_taken_over_by_its_stream() {
    let mut node = Node::new();
    let ask = Ask::rate(1, 4.0);
    let adopted = node.ledger.adopt(DOWN, ask.stream().flow(), Rate::from_mbps(4), None);
    assert_eq!(adopted, Ok(()));
    assert_eq!(node.pass(&Ask::rate(2, 4.0).arrival()).notes().len(), 1);
    assert_eq!(node.pass(&ask.arrival()).notes(), []);
    assert_eq!(node.held(DOWN), 4_000_000);
}

/// Notes do not make a message larger than the link's MTU.
#[test]
fn note_over_mtu_is_left_out() {
    let mut node = Node::new();
    let ask = Ask::rate(1, 6.0);
    let mut down = node.interfaces.by_id(DOWN).expect("known").clone();
    down.mtu = (ask.arrival().octets.len() + 48 + 19) as u32;
    node.interfaces.set(down.clone());
    assert_eq!(node.pass(&ask.arrival()).notes(), []);
    assert_eq!(node.engine.counters().notes_left_out, 1);
    down.mtu += 1;
    node.interfaces.set(down);
    assert_eq!(node.pass(&ask.arrival()).notes().len(), 1);
}

/// A restarted sender comes with another SSRC on the same ports. The new one owns the stream once the state of the old
/// one has ended.
#[test]
fn new_ssrc_owns_stream_after_the_end_of_the_old_one() {
    let mut node = Node::new();
    let old = Ask::new(1);
    let new = Ask { ssrc: 5, ..old.clone() };
    node.pass(&old.arrival());
    for _ in 0..4 {
        node.pass(&new.arrival());
        assert_eq!(node.engine.session_count(), 1);
        node.advance(30.0);
    }
    node.pass(&new.arrival());
    node.pass(&old.release().arrival());
    assert_eq!(node.held(DOWN), 1_000_000);
    node.pass(&new.release().arrival());
    assert_eq!(node.held(DOWN), 0);
}

#[test]
fn equal_inputs_give_equal_effects() {
    let run = || {
        let mut node = Node::new();
        for number in 1..20 {
            node.arrive(&Ask::rate(number, 0.7).arrival());
            node.advance(7.0);
        }
        node.advance(200.0);
        (node.sent, node.events)
    };
    assert_eq!(run(), run());
}

/// An interval is at most an hour, whatever a sender requests.
#[test]
fn interval_is_capped_at_an_hour() {
    let mut node = Node::new();
    let generic = Generic { interval: u16::MAX, ..Ask::new(1).generic };
    node.pass(&Ask { generic, ..Ask::new(1) }.arrival());
    node.advance(3_600.0 * 3.9 + 1.0);
    assert_eq!(node.held(DOWN), 0);
}

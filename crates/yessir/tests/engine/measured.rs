//! Measurement mode: the rate of a stream by its own reports, with and without YESSIR.

use std::collections::BTreeMap;

use earmark_core::{Flow, Rate, Trust};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::{FailureReason, Flowspec};
use earmark_yessir::{Change, Config, Event, Measuring};

use crate::common::{Ask, DOWN, Node};

/// Returns a report, `seconds` after the start, of a stream of 50 packets of 960 octets of payload per second: 400
/// kbit/s with headers.
fn report(ask: &Ask, seconds: u32) -> Ask {
    let (packets, octets) = (50 * seconds, 50 * 960 * seconds);
    let ntp = u64::from(1_000 + seconds) << 32;
    Ask { sent: SenderInfo { ntp, rtp_timestamp: 0, packets, octets }, ..ask.clone() }
}

fn measured(number: u16) -> Ask {
    Ask { flowspec: Some(Flowspec::Measured { window: 20, headroom: 25 }), ..Ask::new(number) }
}

#[test]
fn second_report_gives_rate() {
    let mut node = Node::new();
    let ask = measured(1);
    assert_eq!(node.pass(&report(&ask, 0).arrival()).notes(), []);
    assert_eq!(node.held(DOWN), 0, "nothing is known yet");
    assert!(node.session(&ask).is_some_and(|view| view.measured && view.asked.rate == Rate::ZERO));
    node.advance(5.0);
    node.pass(&report(&ask, 5).arrival());
    // 400 kbit/s and a quarter, rounded up to five binary digits.
    assert_eq!(node.held(DOWN), 507_904);
    for second in [10, 15, 20] {
        node.advance(5.0);
        node.pass(&report(&ask, second).arrival());
    }
    assert_eq!(node.take_events().len(), 1, "it stays as it is");
}

#[test]
fn request_without_flowspec_uses_node_settings() {
    let mut node = Node::new();
    let ask = Ask { flowspec: None, ..Ask::new(1) };
    for second in [0, 5] {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
    }
    assert_eq!(node.held(DOWN), 491_520, "400 kbit/s and 20 percent, rounded up");
}

#[test]
fn silent_stream_releases_after_window_and_reserves_again() {
    let mut node = Node::new();
    let ask = measured(1);
    let mut second = 0;
    for _ in 0..3 {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
        second += 5;
    }
    assert_eq!(node.held(DOWN), 507_904);
    // The sender reports on, and sends no data.
    let pause = report(&ask, 10);
    for step in 1..=6 {
        let mut silent = pause.clone();
        silent.sent.ntp += (5 * step) << 32;
        node.pass(&silent.arrival());
        node.advance(5.0);
    }
    assert_eq!(node.held(DOWN), 0);
    assert!(node.session(&ask).is_some(), "it is there still");
    let events = node.take_events();
    assert!(
        matches!(events.last(), Some(Event::Reservation { change: Change::Released, .. })),
        "{events:?}"
    );
    let mut loud = report(&ask, 15);
    loud.sent.ntp += 30 << 32;
    node.pass(&loud.arrival());
    assert!(node.held(DOWN) > 0);
}

#[test]
fn measured_rate_over_capacity_is_refused() {
    let mut node = Node::new();
    node.pass(&Ask::rate(9, 4.75).arrival());
    let ask = measured(1);
    node.pass(&report(&ask, 0).arrival());
    let notes = node.pass(&report(&ask, 5).arrival()).notes();
    assert_eq!(notes[0].reason, FailureReason::Bandwidth);
    node.pass(&Ask::rate(9, 4.75).release().arrival());
    assert_eq!(node.held(DOWN), 507_904, "it waited");
}

#[test]
fn new_source_restarts_measurement() {
    let mut node = Node::new();
    let ask = measured(1);
    node.pass(&report(&ask, 0).arrival());
    let other = Ask { ssrc: 5, ..ask.clone() };
    node.pass(&Ask { goodbye: true, ..report(&ask, 5) }.arrival());
    node.pass(&report(&other, 1_000).arrival());
    assert_eq!(node.held(DOWN), 0, "two sources have no rate together");
    node.pass(&report(&other, 1_005).arrival());
    assert_eq!(node.held(DOWN), 507_904);
}

fn foreign() -> Config {
    let measuring = Measuring { window: 20, headroom: 25, largest: Some(Rate::from_mbps(2)) };
    Config { measured: BTreeMap::from([("eth1".into(), measuring)]), ..Config::default() }
}

/// Reports of senders without YESSIR are copies, so nothing is forwarded.
#[test]
fn foreign_stream_is_measured_if_enabled() {
    let ask = Ask::new(1);
    for (config, held) in [(Config::default(), 0), (foreign(), 507_904)] {
        let mut node = Node::with(config);
        for second in [0, 5] {
            node.arrive(&report(&ask, second).plain());
            node.advance(5.0);
        }
        assert_eq!((node.held(DOWN), node.sent.len()), (held, 0));
    }
    let mut node = Node::with(foreign());
    for second in [0, 5] {
        let mut arrival = report(&ask, second).plain();
        arrival.interface = crate::common::SIDE;
        node.arrive(&arrival);
    }
    assert_eq!(node.engine.session_count(), 0, "not on that interface");
}

#[test]
fn foreign_stream_ends_by_bye_or_timeout() {
    let ask = Ask::new(1);
    let mut node = Node::with(foreign());
    let begin = |node: &mut Node| {
        for second in [0, 5] {
            node.arrive(&report(&ask, second).plain());
        }
        assert_eq!(node.held(DOWN), 507_904);
    };
    begin(&mut node);
    node.arrive(&Ask { goodbye: true, ..ask.clone() }.plain());
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
    begin(&mut node);
    node.advance(118.0);
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
}

/// A sender that pauses sends receiver reports, so that it leaves with one (RFC 3550 sections 6.4 and 6.6). Nobody else ends its
/// stream: not the receiver, and not another source.
#[test]
fn paused_sender_leaves_with_receiver_report() {
    let ask = Ask::new(1);
    let back = Ask { source: ask.destination, destination: ask.source, ..ask.clone() };
    for with_yessir in [false, true] {
        let mut node = Node::with(foreign());
        node.set_route("10.1.0.0/16", crate::common::UP, 10);
        let leave = |node: &mut Node, from: &Ask, ssrc, interface| {
            let from = Ask { ssrc, goodbye: true, paused: true, ..from.clone() };
            let arrival = if with_yessir { from.arrival() } else { from.plain() };
            node.arrive(&crate::common::Arrival { interface, ..arrival });
            node.engine.session_count()
        };
        for second in [0, 5] {
            let report = report(&ask, second);
            node.arrive(&if with_yessir { report.arrival() } else { report.plain() });
        }
        assert_eq!(node.engine.session_count(), 1);
        assert_eq!(leave(&mut node, &ask, ask.ssrc + 1, crate::common::UP), 1, "another source");
        assert_eq!(leave(&mut node, &back, ask.ssrc, DOWN), 1, "the receiver");
        let mut side = node.interfaces.by_id(crate::common::SIDE).expect("known").clone();
        side.trust = Trust::ACCESS;
        node.interfaces.set(side);
        assert_eq!(
            leave(&mut node, &ask, ask.ssrc, crate::common::SIDE),
            1,
            "somebody behind another port"
        );
        let sent = node.sent.len();
        assert_eq!(
            leave(&mut node, &ask, ask.ssrc, crate::common::UP),
            0,
            "with YESSIR: {with_yessir}"
        );
        assert_eq!(node.held(DOWN), 0);
        assert_eq!(node.sent.len() - sent, usize::from(with_yessir), "the next router gets it");
    }
}

/// Reports on the ports of the data (RFC 5761): ports of data are even, those of reports by themselves are odd.
#[test]
fn multiplexed_foreign_stream_is_measured() {
    let mut ask = Ask::new(1);
    ask.generic.multiplexed = true;
    let mut node = Node::with(foreign());
    for second in [0, 5, 10] {
        node.arrive(&report(&ask, second).plain());
        node.advance(5.0);
    }
    let flows: Vec<Flow> = node.installed.values().map(|installed| installed.flow).collect();
    assert_eq!(flows, [ask.stream().flow()]);
    assert_eq!(node.added, BTreeMap::new(), "reports are in the flow already");
    assert_eq!((node.held(DOWN), node.sent.len()), (507_904, 0));
    node.arrive(&Ask { goodbye: true, ..ask }.plain());
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
}

/// Reports of a foreign stream are forwarded by the kernel in the stream's class, so that downstream routers receive
/// them behind a full queue.
#[test]
fn foreign_reports_share_the_reservation() {
    let ask = Ask::new(1);
    let mut node = Node::with(foreign());
    for second in [0, 5, 10] {
        node.arrive(&report(&ask, second).plain());
        node.advance(5.0);
    }
    let (&claim, installation) = node.installed.first_key_value().expect("it is reserved");
    let data = installation.flow;
    let reports = Flow {
        source_port: data.source_port + 1,
        destination_port: data.destination_port + 1,
        ..data
    };
    assert_eq!(node.added, BTreeMap::from([(reports, claim)]));
    node.arrive(&Ask { goodbye: true, ..ask.clone() }.plain());
    assert_eq!((node.installed.len(), node.added.len()), (0, 0));
    // Reports with YESSIR are forwarded by the engine.
    let ask = measured(1);
    for second in [0, 5] {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
    }
    assert_eq!((node.installed.len(), node.added.len()), (1, 0));
}

/// A sender of unsolicited reports gets no more than the operator allows.
#[test]
fn foreign_stream_rate_is_limited() {
    let mut node = Node::with(foreign());
    let ask = Ask::new(1);
    node.arrive(&ask.plain());
    let sent = SenderInfo { ntp: 0, rtp_timestamp: 0, packets: 1, octets: 1 << 30 };
    node.arrive(&Ask { sent, ..ask }.plain());
    node.advance(1.0);
    assert_eq!(node.held(DOWN), 0, "a second has not passed by any clock");
    let ask = Ask::new(1);
    let sent = SenderInfo { ntp: 0, rtp_timestamp: 0, packets: 1, octets: 1 << 30 };
    node.arrive(&Ask { sent, ..ask }.plain());
    assert_eq!(node.held(DOWN), 2_000_000);
}

//! Measurement mode: the rate of a stream by its own reports, with YESSIR in them and without.

mod common;

use std::collections::BTreeMap;

use common::{Ask, DOWN, Node};
use earmark_core::{Flow, Rate};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::{FailureReason, Flowspec};
use earmark_yessir::{Change, Config, Event, Measuring};

/// A stream of 50 packets of 960 octets of payload a second: 400 kbit/s with headers. Its report `seconds` after it began.
fn report(ask: &Ask, seconds: u32) -> Ask {
    let (packets, octets) = (50 * seconds, 50 * 960 * seconds);
    let ntp = u64::from(1_000 + seconds) << 32;
    Ask { sent: SenderInfo { ntp, rtp_timestamp: 0, packets, octets }, ..ask.clone() }
}

fn measured(number: u16) -> Ask {
    Ask { flowspec: Some(Flowspec::Measured { window: 20, headroom: 25 }), ..Ask::new(number) }
}

#[test]
fn the_second_report_tells_the_rate() {
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
    assert_eq!(node.told().len(), 1, "it stays as it is");
}

#[test]
fn without_a_flowspec_it_is_measured_as_the_node_has_it() {
    let mut node = Node::new();
    let ask = Ask { flowspec: None, ..Ask::new(1) };
    for second in [0, 5] {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
    }
    assert_eq!(node.held(DOWN), 491_520, "400 kbit/s and 20 percent, rounded up");
}

#[test]
fn a_stream_that_falls_silent_gives_back_after_its_window_and_gets_again() {
    let mut node = Node::new();
    let ask = measured(1);
    let mut second = 0;
    for _ in 0..3 {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
        second += 5;
    }
    assert_eq!(node.held(DOWN), 507_904);
    // It reports on, and sends nothing.
    let pause = report(&ask, 10);
    for step in 1..=6 {
        let mut silent = pause.clone();
        silent.sent.ntp += (5 * step) << 32;
        node.pass(&silent.arrival());
        node.advance(5.0);
    }
    assert_eq!(node.held(DOWN), 0);
    assert!(node.session(&ask).is_some(), "it is there still");
    let told = node.told();
    assert!(
        matches!(told.last(), Some(Event::Reservation { change: Change::Released, .. })),
        "{told:?}"
    );
    let mut loud = report(&ask, 15);
    loud.sent.ntp += 30 << 32;
    node.pass(&loud.arrival());
    assert!(node.held(DOWN) > 0);
}

#[test]
fn what_is_measured_may_not_fit() {
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
fn another_source_begins_anew() {
    let mut node = Node::new();
    let ask = measured(1);
    node.pass(&report(&ask, 0).arrival());
    let other = Ask { ssrc: 5, ..ask.clone() };
    node.pass(&report(&other, 1_000).arrival());
    assert_eq!(node.held(DOWN), 0, "two sources have no rate together");
    node.pass(&report(&other, 1_005).arrival());
    assert_eq!(node.held(DOWN), 507_904);
}

fn foreign() -> Config {
    let measuring = Measuring { window: 20, headroom: 25, largest: Some(Rate::from_mbps(2)) };
    Config { measured: BTreeMap::from([("eth1".into(), measuring)]), ..Config::default() }
}

/// Senders that have never heard of YESSIR: their reports are copies, so nothing is sent on.
#[test]
fn foreign_streams_are_measured_where_that_is_switched_on() {
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
        arrival.interface = common::SIDE;
        node.arrive(&arrival);
    }
    assert_eq!(node.engine.session_count(), 0, "not on that interface");
}

#[test]
fn foreign_streams_end_by_bye_or_silence() {
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

/// Reports of a foreign stream go their own way: in its class, so that routers further on hear them behind a full queue.
#[test]
fn reports_of_foreign_streams_share_what_is_reserved() {
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
    // Reports with YESSIR in them are sent on by the engine.
    let ask = measured(1);
    for second in [0, 5] {
        node.pass(&report(&ask, second).arrival());
        node.advance(5.0);
    }
    assert_eq!((node.installed.len(), node.added.len()), (1, 0));
}

/// Nobody who sends reports that nobody asked for gets more than the operator allows.
#[test]
fn foreign_streams_are_limited_in_size() {
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

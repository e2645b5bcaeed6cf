//! Sender-initiated reservations: created, refreshed, changed, torn down, refused, expired.

use std::time::Duration;

use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{PermanentFailure, TransientFailure};

use super::*;
use crate::qos::{OnRefusal, Rejection, Rule, Source};

const NO_BANDWIDTH: Outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);

/// Returns whether an event reports this rate, and all routers on the path take part.
fn is_reserved(event: &Event, expected: Rate) -> bool {
    matches!(
        event,
        Event::Reserved { application: APP, session: SESSION, rate, breaks: false, .. } if *rate == expected
    )
}

#[test]
fn every_node_reserves_its_outgoing_link() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let events = net.events(0);
    assert!(matches!(&events[..], [event] if is_reserved(event, mbps(2))), "{events:?}");
    assert_eq!(net.all_held(), [2, 2, 2, 0], "at the destination there is no link");
    assert_eq!(net.nodes[1].control, ["install 2 2 Mbit/s"]);
    assert_eq!(net.nodes[1].qos.session(SESSION).expect("known").role, "qne");
}

/// Refreshes go from neighbor to neighbor, without the QSPEC, which was received.
#[test]
fn reduced_refreshes_keep_the_reservation() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, of_node(2), mbps(2)));
    net.lines();
    net.advance(Duration::from_secs(3_600));
    let lines = net.lines();
    assert!(lines.iter().all(|line| line.ends_with("RESERVE 0")), "{lines:?}");
    // Every 30 seconds on average, by two nodes.
    assert!((200..280).contains(&lines.len()), "{}", lines.len());
    assert_eq!(net.all_held(), [2, 2, 0]);
    assert_eq!(net.nodes[1].control.len(), 1, "nothing to do for traffic control");
}

#[test]
fn full_refreshes_are_sent_if_configured() {
    let full = Config { reduced_refresh: false, ..Config::default() };
    let mut net = Net::with(2, &|_| full.clone());
    net.reserve(0, request(0, of_node(1), mbps(2)));
    net.lines();
    net.advance(Duration::from_secs(100));
    assert!(net.lines().iter().all(|line| line == "0>1 RESERVE 0 qspec"));
}

#[test]
fn release_is_confirmed_and_leaves_no_state() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.lines();
    net.command(0, Command::Release { application: APP });
    let expected = [
        "0>1 RESERVE 1 tear rii",
        "1>2 RESERVE 1 tear rii",
        "2>3 RESERVE 1 tear rii",
        "3>2 RESPONSE teardown successful",
        "2>1 RESPONSE teardown successful",
        "1>0 RESPONSE teardown successful",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.events(0).last(), Some(&Event::Released { application: APP }));
    assert_eq!(net.nodes[1].control.last().map(String::as_str), Some("remove"));
    net.assert_nothing_left();
}

#[test]
fn unrefreshed_session_expires_along_the_path() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, of_node(2), mbps(2)));
    net.unreachable = [1].into();
    net.advance(Duration::from_secs(100));
    assert_eq!(net.all_held(), [2, 2, 0]);
    net.lines();
    net.advance(Duration::from_secs(60));
    assert_eq!(net.all_held(), [2, 0, 0]);
    assert!(net.lines().contains(&"1>2 RESERVE 1 tear rii".into()));
    assert_eq!(net.nodes[1].qos.counters().expired, 1);
    assert_eq!(net.nodes[2].qos.session_count(), 0);
    // The QNI continues, is asked for the QSPEC, and all reservations exist again.
    net.unreachable.clear();
    net.advance(Duration::from_secs(60));
    assert_eq!(net.all_held(), [2, 2, 0]);
}

/// The tear of an expired session waits for its response when the QNI is back: its next refresh reserves again.
#[test]
fn refresh_during_a_tear_of_the_node_reserves_again() {
    for reduced in [true, false] {
        let mut net = Net::with(3, &|_| Config { reduced_refresh: reduced, ..Config::default() });
        net.reserve(0, request(0, of_node(2), mbps(2)));
        net.unreachable = [1].into();
        while net.all_held() == [2, 2, 0] {
            net.advance(Duration::from_secs(1));
        }
        net.unreachable.clear();
        net.unreachable = [2].into();
        let before = net.nodes[1].qos.counters().reserves;
        while net.nodes[1].qos.counters().reserves == before {
            net.advance(Duration::from_secs(1));
        }
        assert_eq!(net.all_held(), [2, 2, 0]);
        net.unreachable.clear();
        net.advance(Duration::from_secs(60));
        assert_eq!(net.all_held(), [2, 2, 0]);
        assert_eq!(net.nodes[2].qos.session_count(), 1);
    }
}

#[test]
fn over_capacity_is_refused_with_available_rate() {
    let mut net = Net::of(4);
    let other = SessionId([9; 16]);
    net.command(
        2,
        Command::Reserve {
            application: PEER_APP,
            request: Request { session: Some(other), ..request(2, of_node(3), mbps(5)) },
        },
    );
    net.lines();
    net.reserve(0, request(0, of_node(3), mbps(4)));
    let expected = [
        "0>1 RESERVE 0 qspec rii",
        "1>2 RESERVE 0 qspec rii",
        "2>1 RESPONSE reservation failure",
        "1>0 RESPONSE reservation failure",
        "0>1 RESERVE 1 tear rii",
        "1>2 RESERVE 1 tear rii",
        "2>1 RESPONSE teardown successful",
        "1>0 RESPONSE teardown successful",
    ];
    assert_eq!(net.lines(), expected);
    let refused = Event::Refused {
        application: APP,
        outcome: NO_BANDWIDTH,
        source: Some(Source::Address(of_node(2))),
        available: Some(mbps(3)),
        reaction: OnRefusal::Release,
    };
    assert_eq!(net.events(0), [refused, Event::Released { application: APP }]);
    assert_eq!(net.all_held(), [0, 0, 5, 0]);
    assert_eq!(net.nodes[1].qos.session_count(), 0);
}

/// RFC 5975 section 4.3.1, case 3: the available rate is reserved, and nodes before release their excess.
#[test]
fn request_with_minimum_gets_the_available_rate() {
    let mut net = Net::of(4);
    let other = Request { session: Some(SessionId([9; 16])), ..request(2, of_node(3), mbps(5)) };
    net.command(2, Command::Reserve { application: PEER_APP, request: other });
    let mut wanted = request(0, of_node(3), mbps(4));
    wanted.qos.minimum = Some(mbps(1));
    net.reserve(0, wanted);
    let events = net.events(0);
    let Some(Event::Reserved { rate, .. }) = events.first() else { panic!("{events:?}") };
    assert!(rate.as_bps() > 2_999_000 && *rate <= mbps(3), "{rate}");
    let held: Vec<u64> = (0..3).map(|n| net.held(n, RIGHT).as_bps().div_ceil(1_000)).collect();
    assert_eq!(held, [3_000, 3_000, 8_000]);
    // Less than the minimum is refused.
    let mut wanted = Request { session: None, ..request(0, of_node(3), mbps(2)) };
    wanted.qos.minimum = Some(mbps(1));
    net.command(0, Command::Reserve { application: Application(3), request: wanted });
    let events = net.events(0);
    assert!(matches!(events[0], Event::Refused { outcome: NO_BANDWIDTH, .. }), "{events:?}");
}

#[test]
fn change_is_made_on_all_nodes_and_refused_change_on_none() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.command(0, Command::Modify { application: APP, qos: RequestedQos::of(mbps(5)) });
    assert_eq!(net.all_held(), [5, 5, 5, 0]);
    let events = net.events(0);
    let [first, second] = &events[..] else { panic!("{events:?}") };
    assert!(is_reserved(first, mbps(2)) && is_reserved(second, mbps(5)), "{events:?}");
    let other = Request { session: Some(SessionId([9; 16])), ..request(2, of_node(3), mbps(2)) };
    net.command(2, Command::Reserve { application: PEER_APP, request: other });
    net.command(0, Command::Modify { application: APP, qos: RequestedQos::of(mbps(7)) });
    let events = net.events(0);
    assert!(matches!(events[0], Event::Refused { outcome: NO_BANDWIDTH, .. }), "{events:?}");
    assert_eq!(net.all_held(), [5, 5, 7, 0], "the QNI has gone back to what there was");
    net.command(0, Command::Modify { application: APP, qos: RequestedQos::of(mbps(1)) });
    assert_eq!(net.all_held(), [1, 1, 3, 0]);
}

/// The receiver has no NSIS: the last node responds instead (section 3.2.12.1).
#[test]
fn last_node_is_the_qnr() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, address(FAR), mbps(2)));
    let expected = [
        "0>1 RESERVE 0 qspec rii",
        "1>2 RESERVE 0 qspec rii",
        "2>- RESERVE 0 qspec rii",
        "2>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.all_held(), [2, 2, 2], "the last link counts too");
    // The last node keeps looking for a next one (section 5.2.5.1).
    net.advance(Duration::from_secs(100));
    assert!(net.lines().iter().any(|line| line == "2>- RESERVE 0 qspec"));
    net.command(0, Command::Release { application: APP });
    net.assert_nothing_left();
}

#[test]
fn single_host_reserves_its_own_link() {
    let mut net = Net::of(1);
    net.reserve(0, request(0, address(FAR), mbps(2)));
    let events = net.events(0);
    assert!(matches!(&events[..], [event] if is_reserved(event, mbps(2))), "{events:?}");
    net.command(0, Command::Release { application: APP });
    assert_eq!(net.events(0), [Event::Released { application: APP }]);
    net.assert_nothing_left();
}

/// Section 5.2.4: after 2, 4, 8 and 16 seconds, and none after 30.
#[test]
fn unanswered_request_is_retransmitted_with_backoff() {
    let mut net = Net::of(2);
    net.unreachable = [1].into();
    net.reserve(0, request(0, of_node(1), mbps(2)));
    net.advance(Duration::from_secs(29));
    let lost = net.lines().iter().filter(|line| line.ends_with("qspec rii")).count();
    assert_eq!(lost, 4, "at 0, 2, 6 and 14 seconds");
    net.advance(Duration::from_secs(2));
    assert_eq!(net.events(0), [Event::TimedOut { application: APP }]);
    net.advance(Duration::from_secs(40));
    assert_eq!(net.events(0), [Event::Released { application: APP }]);
    net.assert_nothing_left();
}

#[test]
fn policy_limits_the_rate() {
    let rules = [
        Rule { from: Some(Prefix::host(of_node(0))), largest: Some(mbps(2)), ..Rule::default() },
        Rule { refuse: true, ..Rule::default() },
    ];
    let policy = |number| match number {
        1 => Config { policy: rules.to_vec(), ..Config::default() },
        _ => Config::default(),
    };
    let mut net = Net::with(3, &policy);
    net.reserve(0, request(0, of_node(2), mbps(3)));
    let events = net.events(0);
    let Event::Refused { outcome, available, .. } = &events[0] else { panic!("{events:?}") };
    assert_eq!((*outcome, *available), (NO_BANDWIDTH, Some(mbps(2))));
    net.advance(Duration::from_secs(60));
    net.reserve(0, request(0, of_node(2), mbps(2)));
    assert_eq!(net.all_held(), [2, 2, 0]);
    // The policy refuses everything in the other direction.
    let back = Request { session: None, ..request(2, of_node(0), mbps(1)) };
    net.command(2, Command::Reserve { application: PEER_APP, request: back });
    let events = net.events(2);
    let denied = Outcome::PermanentFailure(PermanentFailure::Authorization);
    assert!(
        events.iter().any(|e| matches!(e, Event::Refused { outcome, .. } if *outcome == denied)),
        "{events:?}"
    );
}

#[test]
fn routers_without_nsis_set_break() {
    let mut net = Net::of(4);
    net.distance[1] = 3;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Reserved { breaks: true, .. }]), "{events:?}");
    let lines = net.lines();
    assert!(lines.contains(&"2>3 RESERVE 0 qspec rii break".into()), "{lines:?}");
    assert!(lines.contains(&"1>0 RESPONSE reservation successful break".into()), "{lines:?}");
}

#[test]
fn invalid_commands_are_rejected() {
    let mut net = Net::of(2);
    let sound = request(0, of_node(1), mbps(1));
    let cases = [
        (Request { qos: RequestedQos::of(Rate::ZERO), ..sound.clone() }, Rejection::BadQos),
        (request(1, of_node(1), mbps(1)), Rejection::BadFlow),
        (request(0, address("192.0.2.1"), mbps(1)), Rejection::NoRoute),
    ];
    for (request, reason) in cases {
        net.reserve(0, request);
        assert_eq!(net.events(0), [Event::Rejected { application: APP, reason }]);
    }
    net.reserve(0, sound.clone());
    net.events(0);
    net.reserve(0, sound.clone());
    let again = Command::Reserve { application: PEER_APP, request: sound };
    net.command(0, again);
    net.command(1, Command::Release { application: APP });
    let rejected = |application, reason| Event::Rejected { application, reason };
    assert_eq!(
        net.events(0),
        [rejected(APP, Rejection::SessionOpen), rejected(PEER_APP, Rejection::SessionTaken)]
    );
    assert_eq!(net.events(1), [rejected(APP, Rejection::NoSession)]);
}

#[test]
fn sessions_of_a_peer_are_counted_in_both_roles() {
    let mut net = Net::of(3);
    for number in 0..3 {
        let session = Some(SessionId([number; 16]));
        let request = Request { session, ..request(0, of_node(2), mbps(1)) };
        let application = Application(number.into());
        net.command(0, Command::Reserve { application, request });
    }
    let of = |peer| net.nodes[1].qos.sessions_of(handle(peer));
    assert_eq!([of(0), of(1), of(2)], [(3, 0), (0, 0), (0, 3)]);
}

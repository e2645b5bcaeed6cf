//! The examples of RFC 5974 section 4, figure by figure.

use std::boxed::Box;
use std::time::Duration;

use earmark_core::outcome::{self, Kind, Outcome};
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::BindingCode;

use super::*;
use crate::qos::Scope;

/// Figure 7.
#[test]
fn sender_initiated() {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let expected = [
        "0>1 RESERVE 0 qspec rii",
        "1>2 RESERVE 0 qspec rii",
        "2>3 RESERVE 0 qspec rii",
        "3>2 RESPONSE reservation successful",
        "2>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    let incoming = Event::Incoming {
        application: PEER_APP,
        session: SESSION,
        flow: flow(0, of_node(3)),
        rate: mbps(2),
        reach: Box::new(Outcome {
            from: Some(of_node(0)),
            to: Some(of_node(3)),
            ..Outcome::reported(Kind::Whole, None, outcome::Message::new("RESERVE"))
        }),
    };
    assert_eq!(net.events(3), [incoming]);
    net.command(0, Command::Release { application: APP });
    assert_eq!(net.events(3), [Event::Gone { application: PEER_APP, session: SESSION }]);
}

/// Section 4.2: each node writes its available resources, and keeps no state.
#[test]
fn query_for_resources_collects_available_rates() {
    let mut net = Net::of(4);
    let other = Request { session: Some(SessionId([9; 16])), ..request(2, of_node(3), mbps(5)) };
    net.command(2, Command::Reserve { application: PEER_APP, request: other });
    net.lines();
    net.command(0, Command::Query { application: APP, request: request(0, of_node(3), mbps(6)) });
    let expected = [
        "0>1 QUERY rii",
        "1>2 QUERY rii",
        "2>3 QUERY rii",
        "3>2 RESPONSE reservation successful",
        "2>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    let events = net.events(0);
    let [Event::Offered { application: APP, rate, latency_us: Some(300), breaks: false, .. }] =
        events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(rate, mbps(3));
    assert_eq!(net.all_held(), [0, 0, 5, 0]);
    // Where the receiver has no NSIS, the last node responds.
    net.command(0, Command::Query { application: APP, request: request(0, address(FAR), mbps(6)) });
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Offered { latency_us: Some(400), .. }]), "{events:?}");
}

/// Figure 8.
#[test]
fn receiver_initiated() {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
    let expected = [
        "0>1 QUERY reserve",
        "1>2 QUERY reserve",
        "2>3 QUERY reserve",
        "3>2 RESERVE 0 qspec rii",
        "2>1 RESERVE 0 qspec rii",
        "1>0 RESERVE 0 qspec rii",
        "0>1 RESPONSE reservation successful",
        "1>2 RESPONSE reservation successful",
        "2>3 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    // The reservation equals that of a sender-initiated session.
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    assert!(matches!(net.events(0)[..], [Event::Incoming { application: APP, .. }]));
    let events = net.events(3);
    assert!(matches!(events[..], [Event::Reserved { application: PEER_APP, .. }]), "{events:?}");
    net.advance(Duration::from_secs(600));
    assert!(net.lines().iter().all(|line| line.ends_with("RESERVE 0")));
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    net.command(3, Command::Release { application: PEER_APP });
    assert_eq!(net.events(0), [Event::Gone { application: APP, session: SESSION }]);
    net.assert_nothing_left();
}

/// Only a QUERY of the sender shows the receiver's messages the way upstream. If the reservation expires at the sender, it asks
/// again, until it is told otherwise or gives up.
#[test]
fn sender_asks_again_for_what_has_expired() {
    // The messages of node 1 or 2 towards the sender are lost until the reservation expires at the next node.
    for lost_at in [0, 1] {
        let mut net = Net::of(4);
        net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
        let invite = Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) };
        net.command(0, invite);
        net.events(0);
        net.unreachable.push(lost_at);
        while net.all_held()[lost_at] > 0 {
            net.advance(Duration::from_secs(1));
        }
        net.unreachable.clear();
        net.advance(Duration::from_secs(5));
        assert_eq!(net.all_held(), [2, 2, 2, 0]);
        let events = net.events(0);
        assert!(matches!(events[..], [Event::Gone { .. }, Event::Incoming { .. }]), "{events:?}");
        // Nobody listens any more: the sender is told.
        net.command(3, Command::Release { application: PEER_APP });
        net.advance(Duration::from_secs(60));
        let events = net.events(0);
        assert!(matches!(events[..], [Event::Gone { .. }, Event::Refused { .. }]), "{events:?}");
        net.assert_nothing_left();
    }
    // The other end does not listen, and nothing answers: the sender gives up.
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
    net.unreachable.push(1);
    net.advance(Duration::from_secs(300));
    net.unreachable.push(0);
    net.advance(Duration::from_secs(300));
    let events = net.events(0);
    assert!(matches!(events.last(), Some(Event::TimedOut { application: APP })), "{events:?}");
}
/// The sender asks again while the receiver still waits for the answer to its tear: the receiver reserves anew, with a number
/// that is newer than that of the tear, and refreshes.
#[test]
fn request_during_a_tear_is_reserved_anew() {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
    net.events(0);
    // The answer is lost.
    net.unreachable.push(3);
    net.command(3, Command::Release { application: PEER_APP });
    assert_eq!(net.all_held(), [0, 0, 0, 0]);
    net.unreachable.clear();
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.events(3);
    net.lines();
    net.advance(Duration::from_secs(5));
    let lines = net.lines();
    assert!(lines.contains(&"3>2 RESERVE 2 qspec rii".into()), "{lines:?}");
    assert!(matches!(net.events(3)[..], [Event::Reserved { application: PEER_APP, .. }]));
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Gone { .. }, Event::Incoming { .. }]), "{events:?}");
    net.advance(Duration::from_secs(600));
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    assert!(net.events(0).is_empty() && net.events(3).is_empty());
    net.command(3, Command::Release { application: PEER_APP });
    net.assert_nothing_left();
}

/// Section 5.4.2: no listener accepts it.
#[test]
fn query_with_reserve_init_without_listener_is_refused() {
    let mut net = Net::of(3);
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(2), mbps(2)) });
    assert_eq!(
        net.lines()[2..],
        ["2>1 NOTIFY reservation failure", "1>0 NOTIFY reservation failure"]
    );
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Refused { application: APP, .. }]), "{events:?}");
    net.assert_nothing_left();
}

/// The receiver limits the rate, and the sender accepts less.
#[test]
fn receiver_limits_the_rate() {
    let mut net = Net::of(3);
    let listen = Listen { most: Some(mbps(1)), ..listen() };
    net.command(2, Command::Listen { application: PEER_APP, listen });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(2), mbps(2)) });
    assert_eq!(net.all_held(), [1, 1, 0]);
}

const REVERSE_SESSION: SessionId = SessionId(*b"session number 2");

/// Figure 9: two senders; the far end creates the second session, with the identifier from the first one.
#[test]
fn bidirectional_by_two_senders() {
    let mut net = Net::of(4);
    let listen = Listen { reverse: Some(RequestedQos::of(mbps(1))), ..listen() };
    net.command(3, Command::Listen { application: PEER_APP, listen });
    let binding = BindingCode::Bidirectional;
    let bound = BoundSessionId { binding, session: REVERSE_SESSION };
    net.reserve(0, Request { bound: [bound].into(), ..request(0, of_node(3), mbps(2)) });
    let lines = net.lines();
    for line in ["2>3 RESERVE 0 qspec rii bound", "3>2 RESERVE 0 qspec rii bound"] {
        assert!(lines.contains(&line.into()), "{lines:?}");
    }
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    let back: Vec<Rate> = (0..4).map(|number| net.held(number, LEFT)).collect();
    assert_eq!(back, [Rate::ZERO, mbps(1), mbps(1), mbps(1)]);
    let session = net.nodes[1].qos.session(REVERSE_SESSION).expect("the way back");
    assert_eq!(session.bound, [BoundSessionId { binding, session: SESSION }]);
    // Both sessions end together.
    net.command(0, Command::Release { application: APP });
    net.assert_nothing_left();
}

/// An application that stops listening takes its session of the reverse direction with it. The incoming session stays, and
/// belongs to whoever listens next.
#[test]
fn session_of_the_reverse_direction_ends_with_its_listener() {
    let mut net = Net::of(3);
    let listen = || Listen { reverse: Some(RequestedQos::of(mbps(1))), ..listen() };
    net.command(2, Command::Listen { application: PEER_APP, listen: listen() });
    net.reserve(0, request(0, of_node(2), mbps(2)));
    assert_eq!(net.all_held(), [2, 2, 0]);
    let back = |net: &Net| [1, 2].map(|number| net.held(number, LEFT));
    assert_eq!(back(&net), [mbps(1); 2]);
    net.command(2, Command::Release { application: PEER_APP });
    assert_eq!((net.all_held(), back(&net)), ([2, 2, 0].into(), [Rate::ZERO; 2]));
    net.command(2, Command::Listen { application: PEER_APP, listen: listen() });
    let changed = Command::Modify { application: APP, qos: RequestedQos::of(mbps(3)) };
    net.command(0, changed);
    assert_eq!((net.all_held(), back(&net)), ([3, 3, 0].into(), [mbps(1); 2]));
    net.command(0, Command::Release { application: APP });
    net.assert_nothing_left();
}

/// Figure 10: node 0 reserves both directions, the reverse one after a QUERY of the far end.
#[test]
fn bidirectional_by_sender_and_receiver() {
    let mut net = Net::of(4);
    let both = |session| [BoundSessionId { binding: BindingCode::Bidirectional, session }].into();
    net.command(
        0,
        Command::Listen {
            application: Application(9),
            listen: Listen { protocol: None, port: None, ..listen() },
        },
    );
    net.reserve(0, Request { bound: both(REVERSE_SESSION), ..request(0, of_node(3), mbps(2)) });
    let back = Request {
        session: Some(REVERSE_SESSION),
        bound: both(SESSION),
        ..request(3, of_node(0), mbps(1))
    };
    net.lines();
    net.command(3, Command::Invite { application: PEER_APP, request: back });
    let lines = net.lines();
    assert_eq!(
        lines[2..5],
        ["1>0 QUERY reserve", "0>1 RESERVE 0 qspec rii bound", "1>2 RESERVE 0 qspec rii bound"]
    );
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    assert_eq!(net.held(2, LEFT), mbps(1));
}

/// Section 4.8: messages with the PROXY scope end at the proxy.
#[test]
fn proxy_responds_for_its_domain() {
    let config = |number| Config { proxy: number == 2, ..Config::default() };
    let mut net = Net::with(4, &config);
    net.reserve(0, Request { scope: Scope::Proxy, ..request(0, of_node(3), mbps(2)) });
    let expected = [
        "0>1 RESERVE 0 qspec rii proxy",
        "1>2 RESERVE 0 qspec rii proxy",
        "2>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    net.advance(Duration::from_secs(60));
    assert!(net.lines().iter().all(|line| line.ends_with(" proxy")), "in all messages");
}

/// Section 3.2.7.
#[test]
fn scoped_reservation_ends_at_the_next_node() {
    let mut net = Net::of(3);
    net.reserve(0, Request { scope: Scope::NextHop, ..request(0, of_node(2), mbps(2)) });
    let expected = ["0>1 RESERVE 0 qspec rii", "1>0 RESPONSE reservation successful"];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.all_held(), [2, 2, 0]);
    net.advance(Duration::from_secs(600));
    assert!(net.lines().iter().all(|line| line == "0>1 RESERVE 0"));
}

/// A session that depends on another ends with it (section 3.2.8).
#[test]
fn dependent_sessions_end_together() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, of_node(2), mbps(2)));
    let dependent = SessionId([5; 16]);
    let bound = BoundSessionId { binding: BindingCode::Dependent, session: SESSION };
    let request = Request {
        session: Some(dependent),
        bound: [bound].into(),
        ..request(0, of_node(2), mbps(1))
    };
    net.command(0, Command::Reserve { application: PEER_APP, request });
    assert_eq!(net.all_held(), [3, 3, 0]);
    net.command(0, Command::Release { application: APP });
    net.advance(Duration::ZERO);
    let events = net.events(0);
    assert!(events.contains(&Event::Released { application: PEER_APP }), "{events:?}");
    net.assert_nothing_left();
}

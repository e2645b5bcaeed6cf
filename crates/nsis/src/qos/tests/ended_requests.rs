//! Requests to the receiver of a flow that have ended at the sender: refused, unanswered or released. What the receiver
//! reserves for them later is refused, so that the last event of the sender's application stays true.

use std::time::Duration;

use earmark_wire::qos_nslp::iana::TransientFailure;
use earmark_wire::qos_nslp::{Extra, GenericFlags, InfoSpec, Notify, Outcome};

use super::*;

/// Creates four nodes, and a listener at the last one.
fn network_with_listener() -> Net {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net
}

fn invite(net: &mut Net) {
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
}

/// Returns whether the sender's application is told nothing; the refused messages are only reported for monitoring.
fn is_told_nothing(net: &mut Net) -> bool {
    net.events(0).iter().all(|event| matches!(event, Event::Denied { .. }))
}

/// Returns a NOTIFY that a QUERY was refused.
fn refusal() -> Vec<u8> {
    let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
    let (flags, info) = (GenericFlags::default(), InfoSpec::new(outcome));
    emit(&Message::Notify(Notify { flags, info, qspec: None, extra: Extra::NONE }))
}

/// Returns whether the receiver's application is told of a refusal, and of no reservation after it.
fn is_refused_last(net: &mut Net) -> bool {
    let events = net.events(3);
    let refused = |event: &Event| matches!(event, Event::Refused { application: PEER_APP, .. });
    events.iter().any(refused) && !matches!(events.last(), Some(Event::Reserved { .. }))
}

/// Nothing reaches the sender until the reservation expires there, and no node answers when it asks again.
#[test]
fn reservation_after_timeout_is_refused() {
    let mut net = network_with_listener();
    invite(&mut net);
    net.events(0);
    net.unreachable.push(0);
    while net.all_held()[0] > 0 {
        net.advance(Duration::from_secs(1));
    }
    net.right[0] = None;
    net.advance(Duration::from_secs(3));
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Gone { .. }, Event::TimedOut { .. }]), "{events:?}");
    net.right[0] = Some(1);
    net.unreachable.clear();
    assert_eq!(net.all_held(), [0, 2, 2, 0]);
    net.advance(Duration::from_secs(120));
    assert_eq!(net.all_held(), [0, 0, 0, 0]);
    assert!(is_told_nothing(&mut net));
    assert!(is_refused_last(&mut net));
    net.advance(Duration::from_secs(60));
    net.assert_nothing_left();
}

/// A refusal of the first QUERY arrives late, when another QUERY has already been granted.
#[test]
fn reservation_after_refusal_is_refused() {
    let mut net = network_with_listener();
    net.unreachable.push(0);
    invite(&mut net);
    assert_eq!(net.all_held(), [0, 2, 2, 0]);
    let upstream = mri(0, of_node(3), Direction::Upstream);
    net.deliver_from(1, 0, upstream, &refusal());
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Refused { application: APP, .. }]), "{events:?}");
    net.unreachable.clear();
    net.advance(Duration::from_secs(120));
    assert_eq!(net.all_held(), [0, 0, 0, 0]);
    assert!(is_told_nothing(&mut net));
    assert!(is_refused_last(&mut net));
    net.advance(Duration::from_secs(60));
    net.assert_nothing_left();
}

/// The application releases its request before the RESERVE arrives.
#[test]
fn reservation_after_release_is_refused() {
    let mut net = network_with_listener();
    net.unreachable.push(0);
    invite(&mut net);
    net.command(0, Command::Release { application: APP });
    assert_eq!(net.events(0), [Event::Released { application: APP }]);
    net.unreachable.clear();
    net.advance(Duration::from_secs(120));
    assert_eq!(net.all_held(), [0, 0, 0, 0]);
    assert!(is_refused_last(&mut net));
    net.advance(Duration::from_secs(60));
    net.assert_nothing_left();
}

/// The application asks again for a session that it has given up: the RESERVE is accepted.
#[test]
fn session_that_is_requested_again_is_reserved() {
    let mut net = network_with_listener();
    net.unreachable.push(0);
    invite(&mut net);
    net.advance(Duration::from_secs(40));
    net.unreachable.clear();
    net.events(0);
    invite(&mut net);
    net.advance(Duration::from_secs(120));
    assert_eq!(net.all_held(), [2, 2, 2, 0]);
    assert!(matches!(net.events(0)[..], [Event::Incoming { application: APP, .. }]));
}

/// A restarted sender does not know what it has asked for: the receiver keeps the reservation.
#[test]
fn reservation_for_unknown_request_is_accepted() {
    let mut net = network_with_listener();
    invite(&mut net);
    net.nodes[0].qos = QosNslp::new(Config::default(), &RandomStreams::new(9));
    net.nodes[0]
        .ledger
        .set_link(RIGHT, LinkCapacity { bandwidth: mbps(10), reservable: mbps(8), mtu: 1_500 });
    net.advance(Duration::from_secs(120));
    assert!(net.nodes[0].qos.session(SESSION).is_some());
    assert_eq!(net.all_held()[1..], [2, 2, 0]);
}

/// Sessions that have ended are remembered up to a limit; requests for resources alone are not remembered.
#[test]
fn number_of_ended_requests_is_limited() {
    let mut net = Net::of(2);
    for number in 0..2_000_u32 {
        let mut request = request(0, of_node(1), mbps(2));
        let mut session = [0; 16];
        session[..4].copy_from_slice(&number.to_be_bytes());
        request.session = Some(SessionId(session));
        net.command(0, Command::Invite { application: APP, request });
        net.lines();
        net.events(0);
    }
    let ended = &net.nodes[0].qos.ended_requests;
    assert_eq!(ended.count(), crate::qos::ended_requests::MAX_ENDED_REQUESTS);
    let query = request(0, of_node(1), mbps(2));
    let mut net = Net::of(2);
    net.command(0, Command::Query { application: APP, request: query });
    assert_eq!(net.nodes[0].qos.ended_requests.count(), 0);
}

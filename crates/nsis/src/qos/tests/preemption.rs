//! Lost reservations: preempted, or refused by traffic control.

use std::time::Duration;

use earmark_core::admission::{Owner, PreemptionPolicy, Priority, Protocol};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{PermanentFailure, TransientFailure};

use super::*;
use crate::qos::OnRefusal;

const PREEMPTED: Outcome = Outcome::TransientFailure(TransientFailure::Preempted);

/// Creates a reservation of 5 Mbit/s from end to end, and one from 1 to 2 with higher priority and the same rate.
fn preempted(on_refusal: OnRefusal, partial: bool) -> Net {
    let mut net = Net::of(4);
    net.nodes[1].ledger.set_preemption(Some(PreemptionPolicy { partial }));
    net.reserve(0, Request { on_refusal, ..request(0, of_node(3), mbps(5)) });
    net.lines();
    net.events(0);
    let mut urgent = Request { session: None, ..request(1, of_node(2), mbps(5)) };
    urgent.qos.priority = Some(Priority::new(3, 3));
    net.command(1, Command::Reserve { application: PEER_APP, request: urgent });
    net
}

fn is_lost(events: &[Event], expected: Outcome) -> bool {
    matches!(&events[0], Event::Lost { outcome, .. } if *outcome == expected)
}

/// RFC 5975 section 4.3.5: a NOTIFY to the QNI, which tears down.
#[test]
fn higher_priority_preempts() {
    let mut net = preempted(OnRefusal::Release, false);
    let lines = net.lines();
    assert!(lines.contains(&"1>0 NOTIFY reservation preempted".into()), "{lines:?}");
    assert!(lines.contains(&"2>3 RESERVE 1 tear rii".into()), "{lines:?}");
    let events = net.events(0);
    assert!(is_lost(&events, PREEMPTED), "{events:?}");
    assert_eq!(events[1], Event::Released { application: APP });
    assert_eq!(net.nodes[1].qos.counters().preempted, 1);
    assert_eq!(net.all_held(), [0, 5, 0, 0]);
}

/// A QNI that does not tear down gets no response to refreshes (section 5.4.1), and may request less.
#[test]
fn preempted_session_may_request_less() {
    let mut net = preempted(OnRefusal::Retry, false);
    net.advance(Duration::from_secs(100));
    assert_eq!(net.all_held(), [5, 5, 5, 0], "nothing at node 1 but the more important one");
    net.command(0, Command::Modify { application: APP, qos: RequestedQos::of(mbps(3)) });
    assert_eq!(net.all_held(), [3, 8, 3, 0]);
    let events = net.events(0);
    assert!(matches!(events.last(), Some(Event::Reserved { .. })), "{events:?}");
}

/// RFC 4495: the reservation keeps the part that the one of higher priority does not need.
#[test]
fn partial_preemption_keeps_a_part() {
    let net = preempted(OnRefusal::Retry, true);
    assert_eq!(net.held(1, RIGHT), mbps(8));
    assert_eq!(net.nodes[1].control[2], "install 2 3 Mbit/s");
}

#[test]
fn traffic_control_failure_loses_the_reservation() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, of_node(2), mbps(2)));
    net.events(0);
    let claim = net.nodes[1].qos.session(SESSION).and_then(|s| s.claim).expect("a claim");
    let owner = Owner { protocol: Protocol::new(4), block: 0 };
    net.host(1, HostEvent::TrafficControlRefused { claim, owner, errno: 12 });
    net.run();
    let events = net.events(0);
    let system = Outcome::PermanentFailure(PermanentFailure::System);
    assert!(is_lost(&events, system), "{events:?}");
    net.assert_nothing_left();
    // Claims of other protocols, and those that are gone, are ignored.
    let owner = Owner { protocol: Protocol::new(1), block: 0 };
    net.host(1, HostEvent::TrafficControlRefused { claim, owner, errno: 12 });
    assert!(net.lines().iter().all(|line| !line.starts_with("1>0 NOTIFY reservation")));
}

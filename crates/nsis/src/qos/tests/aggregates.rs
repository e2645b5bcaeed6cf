//! Flows that cross a domain in one reservation (RFC 5974 section 4.5, figures 11 and 12).
//!
//! ```text
//! QNI 0 ---- aggregator 1 ==== 2 ==== 3 ==== deaggregator 4 ---- QNR 5 ... 10.8.0.0/16
//! ```

use std::time::Duration;

use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::BindingCode;

use super::*;
use crate::qos::{AggregateRule, AggregateView};

/// A host behind the last node.
const THERE: &str = "10.8.0.9";

fn domain() -> Net {
    let rule =
        AggregateRule { to: BEHIND.parse().expect("a range"), step: mbps(2), highest: mbps(6) };
    let config = |number| match number {
        1 => Config {
            inner: ["right".into()].into(),
            aggregates: [rule].into(),
            ..Config::default()
        },
        4 => Config { inner: ["left".into()].into(), ..Config::default() },
        _ => Config::default(),
    };
    Net::with(6, &config)
}

/// Reserves a session with this number, for an application with the same number.
fn reserve(net: &mut Net, number: u8, rate: Rate) {
    let session = Some(SessionId([number; 16]));
    let mut request = Request { session, ..request(0, address(THERE), rate) };
    request.flow.source_port = number.into();
    net.command(0, Command::Reserve { application: Application(number.into()), request });
}

fn release(net: &mut Net, number: u8) {
    net.command(0, Command::Release { application: Application(number.into()) });
}

fn aggregate(net: &Net) -> AggregateView {
    let node = &net.nodes[1];
    node.qos.aggregates(&node.ledger).next().expect("one")
}

fn is_reserved(events: &[Event], rate: Rate) -> bool {
    matches!(events, [Event::Reserved { rate: reported, breaks: false, .. }] if *reported == rate)
}

/// Figure 11, except that the aggregate comes first (section 4.6).
#[test]
fn flows_cross_a_domain_in_one_reservation() {
    let mut net = domain();
    reserve(&mut net, 1, mbps(1));
    let expected = [
        "0>1 RESERVE 0 qspec rii",
        "1>2 RESERVE 0 qspec rii",
        "2>3 RESERVE 0 qspec rii",
        "3>4 RESERVE 0 qspec rii",
        "4>3 RESPONSE reservation successful",
        "3>2 RESPONSE reservation successful",
        "2>1 RESPONSE reservation successful",
        "1>4 RESERVE 0 qspec rii bound",
        "4>5 RESERVE 0 qspec rii bound",
        "5>- RESERVE 0 qspec rii bound",
        "5>4 RESPONSE reservation successful",
        "4>1 RESPONSE reservation successful",
        "1>0 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    assert!(is_reserved(&net.events(0), mbps(1)));
    // The second flow fits, so interior nodes get no message.
    reserve(&mut net, 2, mbps(1));
    let lines = net.lines();
    assert_eq!(lines[..2], ["0>1 RESERVE 0 qspec rii", "1>4 RESERVE 0 qspec rii bound"]);
    assert!(is_reserved(&net.events(0), mbps(1)));
    assert_eq!(net.all_held(), [2, 2, 2, 2, 2, 2]);
    for inside in [2, 3] {
        assert_eq!(net.nodes[inside].qos.session_count(), 1);
    }
    let view = aggregate(&net);
    assert_eq!((view.members, view.held, view.granted), (2, mbps(2), mbps(2)));
    let bound = BoundSessionId {
        binding: BindingCode::Aggregate,
        session: view.session.expect("a session"),
    };
    for edge in [1, 4] {
        let flow = net.nodes[edge].qos.session(SessionId([1; 16])).expect("the flow");
        assert_eq!(flow.bound, [bound]);
    }
    // At the aggregator traffic control has the flows and not the aggregate; at interior nodes it has the aggregate.
    assert_eq!(net.nodes[1].control, ["install 2 1 Mbit/s", "install 2 1 Mbit/s"]);
    assert_eq!(net.nodes[2].control, ["install 2 2 Mbit/s"]);
}

/// The aggregate grows by whole steps, shrinks when a step was unused for some time, and ends with its last flow.
#[test]
fn aggregate_grows_and_shrinks_by_steps() {
    let mut net = domain();
    for number in 1..=5 {
        reserve(&mut net, number, mbps(1));
    }
    assert_eq!(net.all_held(), [5, 6, 6, 6, 5, 5]);
    release(&mut net, 5);
    net.advance(Duration::from_secs(5));
    assert_eq!(aggregate(&net).granted, mbps(6), "not at once");
    net.advance(Duration::from_secs(6));
    assert_eq!(net.all_held(), [4, 4, 4, 4, 4, 4]);
    // A flow that replaces another one in time changes nothing.
    release(&mut net, 4);
    release(&mut net, 3);
    net.advance(Duration::from_secs(5));
    reserve(&mut net, 6, mbps(1));
    net.advance(Duration::from_secs(60));
    assert_eq!(net.all_held(), [3, 4, 4, 4, 3, 3]);
    for number in [1, 2, 6] {
        release(&mut net, number);
    }
    assert_eq!(net.nodes[2].qos.session_count(), 1);
    net.advance(Duration::from_secs(11));
    net.assert_nothing_left();
    assert_eq!(aggregate(&net).session, None);
}

/// The aggregate is refreshed by messages of its own, independently of its flows.
#[test]
fn flows_and_aggregates_are_refreshed_separately() {
    let mut net = domain();
    reserve(&mut net, 1, mbps(1));
    reserve(&mut net, 2, mbps(1));
    net.lines();
    net.advance(Duration::from_secs(600));
    let lines = net.lines();
    let count = |hop: &str| lines.iter().filter(|line| line.starts_with(hop)).count();
    assert!((15..=25).contains(&count("2>3 RESERVE")), "{}", count("2>3 RESERVE"));
    assert!(count("1>4 RESERVE") >= 30);
    assert_eq!(net.all_held(), [2, 2, 2, 2, 2, 2]);
    assert!(net.nodes.iter().all(|node| node.qos.counters().expired == 0));
}

/// A flow beyond the limit of the aggregate is refused, and the others keep their reservations.
#[test]
fn flow_above_the_aggregate_limit_is_refused() {
    let mut net = domain();
    reserve(&mut net, 1, mbps(5));
    assert!(is_reserved(&net.events(0), mbps(5)));
    reserve(&mut net, 2, mbps(2));
    let events = net.events(0);
    let [Event::Refused { available, .. }, Event::Released { .. }] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(*available, Some(mbps(1)));
    assert_eq!(net.all_held(), [5, 6, 6, 6, 5, 5]);
}

/// An interior node has no bandwidth left: the aggregate keeps its rate.
#[test]
fn refusal_by_interior_node_keeps_the_aggregate() {
    let mut net = domain();
    let other = Request { session: None, ..request(2, of_node(3), mbps(5)) };
    net.command(2, Command::Reserve { application: PEER_APP, request: other });
    reserve(&mut net, 1, mbps(2));
    assert!(is_reserved(&net.events(0), mbps(2)));
    reserve(&mut net, 2, mbps(2));
    let events = net.events(0);
    let is_refused = matches!(events[..], [Event::Refused { .. }, Event::Released { .. }]);
    assert!(is_refused, "{events:?}");
    assert_eq!(net.all_held(), [2, 2, 7, 2, 2, 2]);
    assert_eq!(aggregate(&net).granted, mbps(2));
    // A refused first flow leaves no state.
    release(&mut net, 1);
    net.advance(Duration::from_secs(11));
    reserve(&mut net, 3, mbps(4));
    assert_eq!(net.all_held(), [0, 0, 5, 0, 0, 0]);
    assert_eq!(aggregate(&net).session, None);
}

/// An interior node preempts the aggregate: the QNIs of its flows are notified.
#[test]
fn lost_aggregate_notifies_the_qnis_of_its_flows() {
    let mut net = domain();
    net.nodes[2]
        .ledger
        .set_preemption(Some(earmark_core::admission::PreemptionPolicy { partial: false }));
    reserve(&mut net, 1, mbps(1));
    reserve(&mut net, 2, mbps(1));
    net.events(0);
    let mut urgent = Request { session: None, ..request(2, of_node(3), mbps(7)) };
    urgent.qos.priority = Some(earmark_core::admission::Priority::new(3, 3));
    net.command(2, Command::Reserve { application: PEER_APP, request: urgent });
    net.advance(Duration::ZERO);
    let events = net.events(0);
    let lost = events.iter().filter(|event| matches!(event, Event::Lost { .. })).count();
    assert_eq!(lost, 2, "{events:?}");
    assert_eq!(net.all_held(), [0, 0, 7, 0, 0, 0]);
    assert_eq!(aggregate(&net).members, 0);
}

/// Flows to another prefix, or in the other direction, are not aggregated.
#[test]
fn other_flows_are_not_aggregated() {
    let mut net = domain();
    net.reserve(0, request(0, of_node(5), mbps(1)));
    assert!(net.lines().contains(&"1>2 RESERVE 0 qspec rii".into()));
    assert_eq!(net.nodes[2].qos.session_count(), 1);
    assert_eq!(aggregate(&net).session, None);
    net.command(0, Command::Release { application: APP });
    net.assert_nothing_left();
}

/// Returns whether a node becomes a peer for a Query about a flow to [`THERE`].
fn accepts(net: &mut Net, number: usize, is_next_level: bool, interface: InterfaceId) -> bool {
    let id = net.nodes[number].qos.nslpid_of_level(is_next_level);
    let query = Received {
        data: &[],
        session: SESSION,
        mri: mri(0, address(THERE), Direction::Downstream),
        upstream: None,
        origin: Origin::datagram(None, interface),
        explicitly_routed: false,
        ip_distance: None,
        hops: 10,
        interface,
    };
    let mut peering = None;
    net.call_as(number, id, |qos, cx| peering = Some(qos.may_peer(cx, &query, &mut Vec::new())));
    peering == Some(crate::nslp::Peering::Accept)
}

/// Interior nodes leave the messages of the next level to the egress (RFC 5974 section 4.7.1), which is one only for what arrives from
/// its domain and leaves it.
#[test]
fn query_of_the_next_level_is_accepted_at_the_egress_only() {
    let mut net = domain();
    for (number, interface, is_next_level, expected) in [
        (4, LEFT, true, true),
        (4, RIGHT, true, false),
        (1, LEFT, true, false),
        (1, RIGHT, true, false),
        (4, LEFT, false, true),
        (4, RIGHT, false, true),
        (1, LEFT, false, true),
    ] {
        let accepted = accepts(&mut net, number, is_next_level, interface);
        assert_eq!(accepted, expected, "node {number}, {interface:?}, next level: {is_next_level}");
    }
}

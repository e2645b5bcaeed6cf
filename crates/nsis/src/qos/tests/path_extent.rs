//! Extent of a reservation: reported by the last node, by a received RESERVE, or by this node alone.

use std::vec;

use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};

use super::*;
use crate::qos::Source;

/// Returns the extent in the last event.
fn extent(net: &mut Net, node: usize) -> Outcome {
    match net.events(node).pop() {
        Some(
            Event::Reserved { reach, .. }
            | Event::Offered { reach, .. }
            | Event::Incoming { reach, .. },
        ) => *reach,
        other => panic!("{other:?}"),
    }
}

/// Returns the address of a router on its right link.
fn right_of(node: usize) -> IpAddr {
    address(&format!("10.1.0.{}", node + 1))
}

fn response(of: IpAddr) -> Option<OutcomeSource> {
    Some(OutcomeSource { node: Some(NodeName::Address(of)), message: Message::new("RESPONSE") })
}

#[test]
fn destination_that_answers_is_the_whole_path() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let outcome = extent(&mut net, 0);
    assert_eq!(outcome.kind, Kind::Whole);
    assert_eq!((outcome.from, outcome.to), (Some(of_node(0)), Some(of_node(3))));
    assert_eq!(outcome.by, response(of_node(3)));
}

/// h1 - r1 - r2 - h2, where h2 has no NSIS but is on a link of r2.
#[test]
fn last_router_on_the_link_of_the_destination_is_the_whole_path() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, address(FAR), mbps(2)));
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.by), (Kind::Whole, response(right_of(2))));
}

/// h1 - r1 - r2 - h2, where only the first router has NSIS.
#[test]
fn last_router_with_more_routers_behind_it_is_part_of_the_path() {
    let mut net = Net::of(4);
    net.right[1] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.by), (Kind::Part, response(right_of(1))));
    assert_eq!((outcome.from, outcome.to), (Some(of_node(0)), Some(right_of(1))));
    assert_eq!(outcome.hops_without, None, "unknown number");
    assert!(net.lines().contains(&"1>0 RESPONSE reservation successful break".into()));
}

#[test]
fn routers_without_nsis_between_make_it_part_of_the_path() {
    let mut net = Net::of(4);
    net.distance[1] = 3;
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.by), (Kind::Part, response(of_node(3))));
    let at_receiver = extent(&mut net, 3);
    assert_eq!(at_receiver.kind, Kind::Part, "{at_receiver:?}");
}

/// Regression: eight Queries of GIST, no answer, and "reserved on the whole path".
#[test]
fn node_without_response_is_the_only_one() {
    let mut net = Net::of(4);
    net.right[0] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.nodes), (Kind::OnlyHere, Some(0)));
    assert_eq!(outcome.by, Some(OutcomeSource { node: None, message: Message::THIS_NODE }));

    // The link of a node is the whole path to a neighbor.
    let mut net = Net::of(2);
    net.right[0] = None;
    net.reserve(0, request(0, of_node(1), mbps(2)));
    assert_eq!(extent(&mut net, 0).kind, Kind::Whole);
}

#[test]
fn query_without_response_offers_this_node_only() {
    let mut net = Net::of(4);
    net.right[0] = None;
    net.command(0, Command::Query { application: APP, request: request(0, of_node(3), mbps(6)) });
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.offer), (Kind::OnlyHere, true));

    let mut net = Net::of(4);
    net.right[1] = None;
    net.command(0, Command::Query { application: APP, request: request(0, of_node(3), mbps(6)) });
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.offer, outcome.by), (Kind::Part, true, response(of_node(1))));
}

/// A reservation on the whole path covers less of it after the loss of the next node.
#[test]
fn application_gets_path_truncation() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    assert_eq!(extent(&mut net, 0).kind, Kind::Whole);
    net.notify(0, mri(0, of_node(3), Direction::Downstream), Notification::LastNode);
    let outcome = extent(&mut net, 0);
    assert_eq!((outcome.kind, outcome.nodes), (Kind::OnlyHere, Some(0)));
}

#[test]
fn application_gets_path_truncation_of_another_node() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.events(0);
    net.lines();
    net.notify(1, mri(0, of_node(3), Direction::Downstream), Notification::LastNode);
    let events = net.events(0);
    let [Event::Lost { application: APP, source: Some(Source::Address(source)), .. }] = events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(source, right_of(1));
    assert!(net.lines().iter().any(|line| line.starts_with("1>0 NOTIFY")), "the QNI is notified");
    assert_eq!(net.held(0, RIGHT), mbps(2), "what is left stays");
}

#[test]
fn receiver_initiated_reservation_has_extent_from_the_sender() {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
    let outcome = extent(&mut net, 3);
    assert_eq!((outcome.kind, outcome.by), (Kind::Whole, response(right_of(0))));
    assert_eq!((outcome.from, outcome.to), (Some(right_of(0)), Some(of_node(3))));
    let at_sender = extent(&mut net, 0);
    assert_eq!(at_sender.by, Some(OutcomeSource { node: None, message: Message::new("RESERVE") }));
}

/// GIST creates no routing state behind a translator, and reports why to the requesting or the listening application.
#[test]
fn address_translation_is_reported_to_requester_and_listener() {
    let translation = Translation { named: of_node(0), seen: Some(address("192.0.2.1")) };
    let flow = (SESSION, mri(0, of_node(3), Direction::Downstream));
    let outcome = |net: &mut Net, node: usize| {
        net.call(node, |qos, cx| qos.translated(cx, flow, translation));
        net.events(node)
    };
    let expected = |application| [Event::Translated { application, session: SESSION, translation }];
    let mut net = Net::of(4);
    net.unreachable = vec![1];
    net.reserve(0, request(0, of_node(3), mbps(2)));
    assert_eq!(outcome(&mut net, 0), expected(Some(APP)));
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    assert_eq!(outcome(&mut net, 3), expected(Some(PEER_APP)));
    assert_eq!(outcome(&mut net, 2), expected(None), "a router reports it as an event");

    // The requesting application finally gets a timeout.
    net.advance(Duration::from_secs(60));
    let events = net.events(0);
    assert!(events.contains(&Event::TimedOut { application: APP }), "{events:?}");
}

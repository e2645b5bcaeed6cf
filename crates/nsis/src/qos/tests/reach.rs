//! How far a reservation reaches is told with it: by the last node, by a RESERVE that has come, or by this node alone.

use std::vec;

use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};

use super::*;
use crate::qos::Source;

/// What the last event says of the reach.
fn reach(net: &mut Net, node: usize) -> Outcome {
    match net.events(node).pop() {
        Some(
            Event::Reserved { reach, .. }
            | Event::Offered { reach, .. }
            | Event::Incoming { reach, .. },
        ) => *reach,
        other => panic!("{other:?}"),
    }
}

/// The address that a router has on its right.
fn right_of(node: usize) -> IpAddr {
    address(&format!("10.1.0.{}", node + 1))
}

fn response(of: IpAddr) -> Option<OutcomeSource> {
    Some(OutcomeSource { node: Some(NodeName::Address(of)), message: Message::Response })
}

#[test]
fn destination_that_answers_is_the_whole_path() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let told = reach(&mut net, 0);
    assert_eq!(told.kind, Kind::Whole);
    assert_eq!((told.from, told.to), (Some(of_node(0)), Some(of_node(3))));
    assert_eq!(told.by, response(of_node(3)));
}

/// h1 - r1 - r2 - h2, where h2 speaks no NSIS but is on a link of r2.
#[test]
fn last_router_on_the_link_of_the_destination_is_the_whole_path() {
    let mut net = Net::of(3);
    net.reserve(0, request(0, address(FAR), mbps(2)));
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.by), (Kind::Whole, response(right_of(2))));
}

/// h1 - r1 - r2 - h2, where the first router only speaks NSIS.
#[test]
fn last_router_with_more_routers_behind_it_is_part_of_the_path() {
    let mut net = Net::of(4);
    net.right[1] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.by), (Kind::Part, response(right_of(1))));
    assert_eq!((told.from, told.to), (Some(of_node(0)), Some(right_of(1))));
    assert_eq!(told.hops_without, None, "nobody counts them");
    assert!(net.lines().contains(&"1>0 RESPONSE reservation successful break".into()));
}

#[test]
fn routers_between_that_take_no_part_are_part_of_the_path() {
    let mut net = Net::of(4);
    net.distance[1] = 3;
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.by), (Kind::Part, response(of_node(3))));
    let at_receiver = reach(&mut net, 3);
    assert_eq!(at_receiver.kind, Kind::Part, "{at_receiver:?}");
}

/// The found fault: eight Queries of GIST, no answer, and "reserved on the whole path".
#[test]
fn node_that_nobody_answers_is_the_only_one() {
    let mut net = Net::of(4);
    net.right[0] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.nodes), (Kind::OnlyHere, Some(0)));
    assert_eq!(told.by, Some(OutcomeSource { node: None, message: Message::ThisNode }));

    // Its own link is all of the path to a neighbour.
    let mut net = Net::of(2);
    net.right[0] = None;
    net.reserve(0, request(0, of_node(1), mbps(2)));
    assert_eq!(reach(&mut net, 0).kind, Kind::Whole);
}

#[test]
fn query_that_nobody_answers_offers_this_node_only() {
    let mut net = Net::of(4);
    net.right[0] = None;
    net.command(0, Command::Query { application: APP, request: request(0, of_node(3), mbps(6)) });
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.offer), (Kind::OnlyHere, true));

    let mut net = Net::of(4);
    net.right[1] = None;
    net.command(0, Command::Query { application: APP, request: request(0, of_node(3), mbps(6)) });
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.offer, told.by), (Kind::Part, true, response(of_node(1))));
}

/// What stood on the whole path stands on less of it when the next node is gone for good.
#[test]
fn application_hears_that_its_path_is_truncated() {
    let mut net = Net::of(4);
    net.reserve(0, request(0, of_node(3), mbps(2)));
    assert_eq!(reach(&mut net, 0).kind, Kind::Whole);
    net.notify(0, mri(0, of_node(3), Direction::Downstream), Notification::LastNode);
    let told = reach(&mut net, 0);
    assert_eq!((told.kind, told.nodes), (Kind::OnlyHere, Some(0)));
}

#[test]
fn application_hears_of_a_node_further_on_that_has_lost_its_next_one() {
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
    assert!(net.lines().iter().any(|line| line.starts_with("1>0 NOTIFY")), "the QNI is told");
    assert_eq!(net.held(0, RIGHT), mbps(2), "what is left stays");
}

#[test]
fn receiver_that_reserves_hears_from_the_sender() {
    let mut net = Net::of(4);
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    net.command(0, Command::Invite { application: APP, request: request(0, of_node(3), mbps(2)) });
    let told = reach(&mut net, 3);
    assert_eq!((told.kind, told.by), (Kind::Whole, response(right_of(0))));
    assert_eq!((told.from, told.to), (Some(right_of(0)), Some(of_node(3))));
    let at_sender = reach(&mut net, 0);
    assert_eq!(at_sender.by, Some(OutcomeSource { node: None, message: Message::Reserve }));
}

/// GIST makes no routing state behind a translator, and says why: to who has asked, or to who waits there.
#[test]
fn address_translation_is_told_to_whoever_it_concerns() {
    let translation = Translation { named: of_node(0), seen: Some(address("192.0.2.1")) };
    let flow = (SESSION, mri(0, of_node(3), Direction::Downstream));
    let told = |net: &mut Net, node: usize| {
        net.call(node, |qos, cx| qos.translated(cx, flow, translation));
        net.events(node)
    };
    let expected = |application| [Event::Translated { application, session: SESSION, translation }];
    let mut net = Net::of(4);
    net.deaf = vec![1];
    net.reserve(0, request(0, of_node(3), mbps(2)));
    assert_eq!(told(&mut net, 0), expected(Some(APP)));
    net.command(3, Command::Listen { application: PEER_APP, listen: listen() });
    assert_eq!(told(&mut net, 3), expected(Some(PEER_APP)));
    assert_eq!(told(&mut net, 2), expected(None), "a router tells its watchers");

    // The application that asks hears in the end that nobody has answered.
    net.pass(Duration::from_secs(60));
    let events = net.events(0);
    assert!(events.contains(&Event::TimedOut { application: APP }), "{events:?}");
}

//! NOTIFY and changed routes, as RFC 5973 sections 3.2.8, 3.7.5 and 3.9 tell them.

use earmark_wire::natfw_nslp::{Extra, Notify};

use super::*;
use crate::natfw::DropReason;

/// Returns a NOTIFY about the client's session, as a message in one direction of the usual flow.
fn notify(net: &Net, event: Informational, direction: Direction) -> (SendMessage, Vec<u8>) {
    let session = net.session(0);
    let (mut message, _) = net.create_of(session, 5_000, 60);
    if let Mri::PathCoupled(flow) = &mut message.mri {
        flow.direction = direction;
    }
    let notify = Notify { msn: None, info: info_of(event), extra: Extra::NONE };
    (message, emit(&Message::Notify(notify)))
}

fn opened() -> Net {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    net.log();
    net
}

/// "NFs MUST mark the signaling session as 'Dead'", and events travel on to the initiator.
#[test]
fn terminated_session_ends_on_the_way_to_the_initiator() {
    for event in [Informational::Terminated, Informational::LifetimeExpired] {
        let mut net = opened();
        let (message, data) = notify(&net, event, Direction::Upstream);
        net.deliver_as(2, 1, &message, &data);
        net.run();
        assert_eq!(net.log(), [format!("1>0 NOTIFY 1/{:#04x}", event.code())]);
        assert_eq!(net.rules(1), [""; 0]);
        let ended = Event::Ended { application: APP, info: Some(info_of(event)) };
        assert_eq!(net.nodes[0].events.last(), Some(&ended));
    }
}

/// "Outbound messages MUST be forwarded further outbound."
#[test]
fn terminated_session_ends_on_the_way_to_the_responder() {
    let mut net = opened();
    let (message, data) = notify(&net, Informational::Terminated, Direction::Downstream);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), ["1>2 NOTIFY 1/0x05", "2>3 NOTIFY 1/0x05"]);
    for number in [1, 2, 3] {
        assert_eq!(net.nodes[number].natfw.session_count(), 0, "node {number}");
    }
}

/// "NFs MUST silently discard NOTIFY messages that have been received outbound but are only allowed to be sent inbound, e.g.,
/// 'Re-authentication required' (0x02)."
#[test]
fn reauthentication_is_asked_of_the_initiator_only() {
    let mut net = opened();
    let event = Informational::ReauthenticationRequired;
    let (message, data) = notify(&net, event, Direction::Downstream);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), [""; 0]);
    let (message, data) = notify(&net, event, Direction::Upstream);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    let log = net.log();
    assert_eq!(log[..2], ["1>0 NOTIFY 1/0x02", "0>1 CREATE lt=60 msn=1"], "it asks again");
    assert_eq!(log.last().unwrap(), "1>0 RESPONSE 2/0x01 lt=60 msn=1");
}

/// The initiator hears that a node goes down soon, and nothing ends yet.
#[test]
fn end_of_a_node_is_announced() {
    let mut net = opened();
    let (message, data) = notify(&net, Informational::GoingDown, Direction::Upstream);
    net.deliver_as(2, 1, &message, &data);
    net.run();
    let info = info_of(Informational::GoingDown);
    assert_eq!(net.nodes[0].events.last(), Some(&Event::Notified { application: APP, info }));
    assert_eq!(net.rules(1).len(), 1);
}

/// "NATFW nodes MUST only accept NOTIFY messages through already established NTLP messaging associations."
#[test]
fn notification_in_a_datagram_is_dropped() {
    let mut net = opened();
    let (mut message, data) = notify(&net, Informational::Terminated, Direction::Upstream);
    message.attributes = Attributes::default();
    net.deliver_as(2, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), [""; 0]);
    assert_eq!(net.nodes[1].natfw.counters().dropped[&DropReason::NotOverAssociation], 1);
    assert_eq!(net.rules(1).len(), 1);
}

/// Only the peers of a session may report about it.
#[test]
fn notification_of_a_stranger_is_dropped() {
    let mut net = opened();
    let (message, data) = notify(&net, Informational::Terminated, Direction::Upstream);
    net.deliver_as(3, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), [""; 0]);
    assert_eq!(net.rules(1).len(), 1);
}

/// Section 3.9: the node before the change reports it to both sides; "the outbound NOTIFY message MUST be sent with explicit
/// routing". The initiator asks again, which reaches the new node.
#[test]
fn changed_route_is_reported_and_followed() {
    let mut net = opened();
    let session = net.session(0);
    let (message, _) = net.create_of(session, 5_000, 60);
    // Node 1 has node 3, the server itself, behind it now.
    net.reroute(1, session, message.mri, 3);
    assert_eq!(
        net.log(),
        [
            "1>2 NOTIFY 1/0x01",
            "1>0 NOTIFY 1/0x01",
            "2>3 NOTIFY 1/0x01",
            "0>1 CREATE lt=60 msn=1",
            "1>3 CREATE lt=60 msn=1",
            "3>1 RESPONSE 2/0x01 lt=60 msn=1",
            "1>0 RESPONSE 2/0x01 lt=60 msn=1",
        ]
    );
    assert_eq!(net.rules(1).len(), 1);
    assert_eq!(net.rules(2).len(), 1, "a transitory session is held");
    net.advance(Duration::from_secs(29));
    assert_eq!(
        net.rules(2).len(),
        1,
        "SHOULD NOT be deleted before a minimum hold time of 30 seconds"
    );
    net.advance(Duration::from_secs(2));
    assert_eq!(net.rules(2), [""; 0], "it is on no path any more");
    assert_eq!(net.nodes[2].natfw.session_count(), 0);
    assert_eq!(net.rules(1).len(), 1, "the session itself lives on");
}

/// "The outbound NOTIFY message MUST be sent with explicit routing", by every node on the old path; other events follow the
/// routing state.
#[test]
fn changed_route_is_forwarded_outbound_with_explicit_routing() {
    for (event, to) in [
        (Informational::RouteChange, Some(handle(2))),
        (Informational::GoingDown, None),
        (Informational::Terminated, None),
    ] {
        let mut net = opened();
        let (message, data) = notify(&net, event, Direction::Downstream);
        net.deliver_as(0, 1, &message, &data);
        let sent = net.wire.front().expect("a NOTIFY");
        assert_eq!(sent.message.to, to, "{event:?}");
    }
}

/// "The NOTIFY message for signaling sessions in state Transitory MUST be discarded, as the signaling session is anyhow
/// Transitory."
#[test]
fn transitory_session_ignores_further_changes_of_the_route() {
    let mut net = opened();
    net.unreachable = vec![0];
    let (message, data) = notify(&net, Informational::RouteChange, Direction::Upstream);
    for expected in [1, 0] {
        net.deliver_as(2, 1, &message, &data);
        net.run();
        assert_eq!(net.log().len(), expected);
    }
    assert_eq!(net.nodes[1].natfw.counters().dropped[&DropReason::Transitory], 1);
}

/// Section 3.7.5: a NOTIFY with the session identifier zero voids all sessions of its sender, and only those whose path leads
/// through it.
#[test]
fn sessions_of_a_node_that_goes_down_end_together() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    for number in 0..200 {
        let application = Application(number);
        let request = to_server(5_000 + number as u16);
        net.command(0, Command::Open { application, request });
    }
    net.log();
    let (message, data) = notify(&net, Informational::Terminated, Direction::Upstream);
    let all = SendMessage { session: SessionId([0; 16]), ..message };
    net.deliver_as(0, 1, &all, &data);
    net.run();
    net.advance(Duration::ZERO);
    assert_eq!(net.nodes[1].natfw.session_count(), 200, "the side of the initiator has no say");
    net.deliver_as(2, 1, &all, &data);
    net.run();
    let first = net.nodes[1].natfw.session_count();
    assert!((100..200).contains(&first), "a bounded number in one call, {first} are left");
    net.advance(Duration::ZERO);
    assert_eq!(net.nodes[1].natfw.session_count(), 0);
    assert_eq!(net.log().iter().filter(|line| *line == "1>0 NOTIFY 1/0x05").count(), 200);
    assert_eq!(net.nodes[0].natfw.session_count(), 0);
}

/// The next node keeps its say while a changed request waits for its answer.
#[test]
fn next_node_of_a_changed_session_may_end_it() {
    let mut net = opened();
    net.unreachable = vec![3];
    let session = net.session(0);
    let msn = net.first[&session].wrapping_add(1);
    let (mut message, data) = net.create_with(session, |create| create.msn = msn);
    if let Mri::PathCoupled(flow) = &mut message.mri {
        flow.source_port = Some(701);
    }
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.rules(1), [""; 0], "the changed rule waits");
    let notify = Notify { msn: None, info: info_of(Informational::Terminated), extra: Extra::NONE };
    if let Mri::PathCoupled(flow) = &mut message.mri {
        flow.direction = Direction::Upstream;
    }
    net.deliver_as(2, 1, &message, &emit(&Message::Notify(notify)));
    net.run();
    assert_eq!(net.nodes[1].natfw.session_count(), 0);
}

//! Who may touch a session: RFC 5973 section 5.2.1, and the trust in interfaces.

use earmark_testkit::messages::natfw_nslp::RESPONSE;

use super::*;
use crate::natfw::DropReason;

/// A CREATE for a session that somebody else has opened changes nothing.
#[test]
fn stranger_cannot_touch_a_session() {
    for lifetime in [0, 60] {
        let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host, Place::Host]);
        net.open(0, to_server(5_000));
        let session = net.session(0);
        let before = net.rules(1);
        net.log();
        // It knows the identifier, and comes through the other interface.
        let (message, data) = net.create_of(session, 6_000, lifetime);
        net.deliver_as(2, 1, &message, &data);
        net.run();
        assert_eq!(net.log(), [""; 0]);
        assert_eq!(net.rules(1), before);
        assert_eq!(net.nodes[1].natfw.counters().dropped[&DropReason::WrongInterface], 1);
    }
}

/// "A NATFW session that was secured is changed only by who secured it."
#[test]
fn secured_session_ignores_messages_in_the_clear() {
    for (secure, reliable, reason) in
        [(true, true, DropReason::NotSecured), (false, true, DropReason::NotOverAssociation)]
    {
        let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
        let attributes = Some(Attributes { reliable, secure });
        net.open(0, OpenRequest { attributes, ..to_server(5_000) });
        let session = net.session(0);
        net.log();
        let (mut message, data) = net.create_of(session, 5_000, 0);
        message.attributes = Attributes { reliable: secure, secure: false };
        net.deliver_as(0, 1, &message, &data);
        net.run();
        assert_eq!(net.log(), [""; 0], "{reason:?}");
        assert_eq!(net.nodes[1].natfw.counters().dropped[&reason], 1);
        assert_eq!(net.rules(1).len(), 1);
    }
}

/// A host may open the path of its own packets only, and expose its own ports only.
#[test]
fn request_for_packets_of_another_network_is_refused() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let (mut message, data) = net.create_with(SessionId([9; 16]), |_| {});
    if let Mri::PathCoupled(flow) = &mut message.mri {
        flow.source = address("192.0.2.77");
    }
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), ["1>0 RESPONSE 5/0x02 msn=0"]);
    net.assert_nothing_is_left();
}

/// A RESPONSE counts from the side of the responder only.
#[test]
fn response_of_the_wrong_side_is_dropped() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    let session = net.session(0);
    net.log();
    let response = earmark_wire::natfw_nslp::Response {
        lifetime: Some(60),
        msn: net.first_msn(session),
        ..RESPONSE
    };
    let data = emit(&Message::Response(response));
    let (message, _) = net.create_of(session, 5_000, 60);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.rules(1), [""; 0]);
    assert_eq!(net.nodes[1].natfw.counters().dropped[&DropReason::WrongDirection], 1);
}

/// "The NR should never receive RESPONSE messages and MUST silently drop any such messages received."
#[test]
fn responder_drops_responses() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    let session = net.session(0);
    net.log();
    let (message, _) = net.create_of(session, 5_000, 60);
    let response = earmark_wire::natfw_nslp::Response {
        lifetime: None,
        msn: net.first_msn(session),
        info: Info::new(Outcome::from_codes(5, 1)),
        ..RESPONSE
    };
    let back = SendMessage { mri: message.mri.inverted(), ..message };
    net.deliver_as(1, 2, &back, &emit(&Message::Response(response)));
    net.run();
    assert_eq!(net.log(), [""; 0]);
    assert_eq!(net.nodes[2].natfw.session_count(), 1);
    assert_eq!(net.nodes[2].natfw.counters().dropped[&DropReason::OtherRole], 1);
}

/// A node without NATFW NSLP lets its messages pass, and its applications hear why nothing happens.
#[test]
fn node_that_is_off_takes_no_part() {
    let mut net = Net::with(&[Place::Host, Place::Host], |_, c| Config { enabled: false, ..c });
    net.open(0, to_server(5_000));
    let reason = crate::natfw::Rejection::Off;
    assert_eq!(net.nodes[0].events, [Event::Rejected { application: APP, reason }]);
    assert!(!net.nodes[0].natfw.serves(NSLPID));
}

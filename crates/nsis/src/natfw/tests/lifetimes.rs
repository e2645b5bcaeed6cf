//! Lifetimes, refreshes and sequence numbers, as RFC 5973 sections 3.4, 3.5 and 3.7.3 tell them.

use earmark_testkit::messages::natfw_nslp::RESPONSE;
use earmark_wire::natfw_nslp::Response;

use super::*;
use crate::natfw::Refusal;

fn limited(longest: u64) -> impl Fn(usize, Config) -> Config {
    move |number, config| match number {
        1 => Config { longest_lifetime: Duration::from_secs(20), ..config },
        2 => Config { longest_lifetime: Duration::from_secs(longest), ..config },
        _ => config,
    }
}

/// Figure 13: the forwarder lowers 60 s to 20 s, the responder to 15 s.
#[test]
fn lifetime_is_lowered_along_the_path() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], limited(15));
    net.open(0, to_server(5_000));
    assert_eq!(
        net.log(),
        [
            "0>1 CREATE lt=60 msn=0",
            "1>2 CREATE lt=20 msn=0",
            "2>1 RESPONSE 2/0x01 lt=15 msn=0",
            "1>0 RESPONSE 2/0x01 lt=15 msn=0",
        ]
    );
    assert_eq!(net.ends(1), [15], "the rule ends with the session");
}

/// "NFs or the NR MUST NOT increase the NATFW NSLP signaling session lifetime value."
#[test]
fn lifetime_is_never_raised() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], limited(15));
    net.open(0, OpenRequest { lifetime: Some(Duration::from_secs(5)), ..to_server(5_000) });
    assert_eq!(net.log()[3], "1>0 RESPONSE 2/0x01 lt=5 msn=0");
}

/// "Requested lifetime is too small" (7/0x10).
#[test]
fn too_short_a_lifetime_is_refused() {
    let mut net =
        Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, c| match number {
            1 => Config { shortest_lifetime: Duration::from_secs(61), ..c },
            _ => c,
        });
    net.open(0, to_server(5_000));
    assert_eq!(net.log()[1..], ["1>0 RESPONSE 7/0x10 msn=0"]);
    net.assert_nothing_is_left();
}

/// Answers the pending CREATE of the client at node 1 as if node 2 had granted another lifetime.
fn answer(net: &mut Net, lifetime: u32) {
    answer_at(net, 1, lifetime);
}

/// Answers the pending CREATE of the client at a node as if the next one had granted another lifetime.
fn answer_at(net: &mut Net, number: usize, lifetime: u32) {
    let session = net.session(0);
    let (message, _) = net.create_of(session, 5_000, 60);
    let response = Response { lifetime: Some(lifetime), msn: net.first_msn(session), ..RESPONSE };
    let data = emit(&Message::Response(response));
    let back = SendMessage { mri: message.mri.inverted(), ..message };
    net.deliver_as(number + 1, number, &back, &data);
    net.run();
}

/// "NIs MUST NOT generate NOTIFY messages" (section 3.7.5): an initiator that does not accept the granted lifetime deletes
/// what the other nodes have granted.
#[test]
fn initiator_deletes_a_session_with_too_long_a_lifetime() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.unreachable = vec![1];
    net.open(0, to_server(5_000));
    net.log();
    answer_at(&mut net, 0, 61);
    assert_eq!(net.log(), ["0>1 lost CREATE lt=0 msn=1"]);
    let refused = net.nodes[0].events.last();
    let expected = matches!(refused, Some(Event::Refused { refusal: Refusal::Answered(info), .. })
        if code(info) == "7/0x11");
    assert!(expected, "{refused:?}");
    net.assert_nothing_is_left();
}

/// "For received values greater than the acceptable value, NSLP forwarders MUST generate a RESPONSE message ... 'Modified
/// lifetime is too big' (0x11), including a Signaling Session Lifetime object that carries the maximum acceptable", and
/// "MUST generate a NOTIFY message and send it outbound" with 1/0x05.
#[test]
fn granted_lifetime_above_the_accepted_one_ends_the_session() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], limited(15));
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    net.log();
    answer(&mut net, 21);
    assert_eq!(net.log(), ["1>2 lost NOTIFY 1/0x05", "1>0 RESPONSE 7/0x11 lt=20 msn=0"]);
    net.assert_nothing_is_left();
}

/// "For received values lower than the values acceptable by the node local policy ... 'Modified lifetime is too small'
/// (0x12)".
#[test]
fn granted_lifetime_below_the_shortest_one_ends_the_session() {
    let mut net =
        Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, c| match number {
            1 => Config { shortest_lifetime: Duration::from_secs(10), ..c },
            _ => c,
        });
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    net.log();
    answer(&mut net, 9);
    assert_eq!(net.log(), ["1>2 lost NOTIFY 1/0x05", "1>0 RESPONSE 7/0x12 lt=10 msn=0"]);
    net.assert_nothing_is_left();
    net.open(0, to_server(5_000));
    net.log();
    answer(&mut net, 10);
    assert_eq!(net.log(), ["1>0 RESPONSE 2/0x01 lt=10 msn=0"]);
}

/// The lifetime counts from the refresh, however late its answer is.
#[test]
fn late_answer_extends_nothing() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    assert_eq!(net.ends(1), [60]);
    net.unreachable = vec![2];
    let session = net.session(0);
    let msn = net.first_msn(session).wrapping_add(5);
    let (message, data) = net.create_of(session, 5_000, 60);
    net.advance(Duration::from_secs(1));
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.ends(1), [60]);
    net.advance(Duration::from_secs(3));
    let response = Response { lifetime: Some(60), msn, ..RESPONSE };
    let back = SendMessage { mri: message.mri.inverted(), ..message };
    net.deliver_as(2, 1, &back, &emit(&Message::Response(response)));
    net.run();
    assert_eq!(net.ends(1), [57]);
}

/// A RESPONSE whose sequence number is not that of the request answers nothing (section 3.5).
#[test]
fn response_to_another_message_is_dropped() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    net.advance(Duration::from_secs(6));
    net.log();
    answer(&mut net, 60);
    assert_eq!(net.log(), [""; 0], "the request was sent again since");
    assert_eq!(net.rules(1), [""; 0]);
}

/// Figure 16. "Every refresh ... MUST be acknowledged by an appropriate response message generated by the NR."
#[test]
fn refreshes_keep_the_session_and_its_rules() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host]);
    net.open(0, to_server(5_000));
    net.log();
    net.advance(Duration::from_secs(600));
    let log = net.log();
    assert_eq!(log.len() % 6, 0, "{log:?}");
    assert_eq!(
        log[..6],
        [
            "0>1 CREATE lt=60 msn=1",
            "1>2 CREATE lt=60 msn=1",
            "2>3 CREATE lt=60 msn=1",
            "3>2 RESPONSE 2/0x01 lt=60 msn=1",
            "2>1 RESPONSE 2/0x01 lt=60 msn=1",
            "1>0 RESPONSE 2/0x01 lt=60 msn=1",
        ]
    );
    // 60 s are (K + 0.5) 1.5 R with K = 3 and R = 11.4 s; each interval is in [0.5 R, 1.5 R].
    let refreshes = log.len() / 6;
    assert!((36..=105).contains(&refreshes), "{refreshes}");
    for number in [1, 2] {
        assert_eq!(net.rules(number).len(), 1, "node {number}");
        assert!(net.ends(number)[0] >= 42, "a refresh extends the rule at node {number}");
    }
    let granted = |event: &&Event| matches!(event, Event::Granted { .. });
    let told = net.nodes[0].events.iter().filter(granted).count();
    assert_eq!(told, 1, "refreshes are no news");
    net.release(0);
    net.assert_nothing_is_left();
}

/// "Signaling sessions and policy rules MUST be removed automatically and resources bound to them MUST be freed" (section
/// 3.4).
#[test]
fn session_ends_with_its_lifetime() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host]);
    net.open(0, to_server(5_000));
    net.nodes[0].natfw = Node::new(0, &[Place::Host, Place::Host], Place::Host.config()).natfw;
    net.advance(Duration::from_secs(59));
    assert_eq!(net.rules(1).len(), 1);
    net.advance(Duration::from_secs(2));
    net.assert_nothing_is_left();
}

/// "A NATFW NSLP signaling session in state 'Pending' MUST be marked as 'Dead' if no corresponding RESPONSE message has been
/// received within the time of the locally granted NATFW NSLP signaling session lifetime" (section 3.2.8).
#[test]
fn pending_session_ends_with_its_lifetime() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host]);
    net.unreachable = vec![2];
    net.open(0, to_server(5_000));
    assert_eq!(net.nodes[1].natfw.session_count(), 1);
    net.nodes[0].natfw = Node::new(0, &[Place::Host, Place::Host], Place::Host.config()).natfw;
    net.advance(Duration::from_secs(61));
    net.assert_nothing_is_left();
}

/// "The message MUST be discarded if the received MSN value is equal to or lower than the stored MSN value" (section 3.5).
#[test]
fn old_and_repeated_requests_are_discarded() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    let session = net.session(0);
    let first = net.first_msn(session);
    net.log();
    for (msn, is_new) in
        [(first, false), (first.wrapping_sub(1), false), (first.wrapping_add(1), true)]
    {
        let (message, data) = net.create_with(session, |create| create.msn = msn);
        net.deliver_as(0, 1, &message, &data);
        net.run();
        assert_eq!(net.log().is_empty(), !is_new, "{}", msn.wrapping_sub(first));
    }
}

/// Without an answer the request is sent again, as a new message, and given up after the last attempt.
#[test]
fn unanswered_request_is_repeated_and_given_up() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.unreachable = vec![1];
    net.open(0, to_server(5_000));
    net.advance(Duration::from_secs(30));
    assert_eq!(
        net.log(),
        [
            "0>1 lost CREATE lt=60 msn=0",
            "0>1 lost CREATE lt=60 msn=1",
            "0>1 lost CREATE lt=60 msn=2",
            "0>1 lost CREATE lt=0 msn=3",
        ]
    );
    let refusal = Refusal::Unanswered;
    assert_eq!(net.nodes[0].events, [Event::Refused { application: APP, refusal }]);
    net.assert_nothing_is_left();
}

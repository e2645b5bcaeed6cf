//! CREATE, as RFC 5973 section 3.7.1 tells it.

use earmark_core::HostEvent;
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure;

use super::*;
use crate::natfw::DropReason;
use crate::natfw::{Change, Refusal, RuleChange};

/// Figure 14, with a firewall and a translator between the ends.
#[test]
fn create_opens_the_path_when_the_responder_has_answered() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host]);
    net.open(0, to_server(5_000));
    assert_eq!(
        net.log(),
        [
            "0>1 CREATE lt=60 msn=0",
            "1>2 CREATE lt=60 msn=0",
            "2>3 CREATE lt=60 msn=0",
            "3>2 RESPONSE 2/0x01 lt=60 msn=0",
            "2>1 RESPONSE 2/0x01 lt=60 msn=0",
            "1>0 RESPONSE 2/0x01 lt=60 msn=0",
        ]
    );
    assert_eq!(net.rules(1), ["allow 10.0.0.1:700 to 198.51.100.9:5000"]);
    // "The NSLP message is forwarded towards the NR with source IP address set to the NAT's external address".
    let rules = net.rules(2);
    assert_eq!(rules.len(), 1);
    let start = "allow 10.0.0.1:700 to 198.51.100.9:5000 as 203.0.113.1:";
    assert!(rules[0].starts_with(start), "{rules:?}");
    assert_eq!(net.rules(3), [""; 0], "a host has no rules for its own data");
    let granted =
        Event::Granted { application: APP, external: None, bindings: Vec::new(), lifetime: 60 };
    assert_eq!(net.nodes[0].events, [granted]);
    let admitted = net.nodes[3].events.first();
    let expected = matches!(admitted, Some(Event::Admitted { from: Some(from), port: 5_000, .. })
        if *from == address(PUBLIC));
    assert!(expected, "the responder sees the translated source: {admitted:?}");
}

/// "Remembered policy rules at middleboxes MUST be only installed upon receiving a corresponding successful RESPONSE".
#[test]
fn rules_are_only_remembered_until_the_response() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host]);
    net.unreachable = vec![3];
    net.open(0, to_server(5_000));
    for number in [1, 2] {
        assert_eq!(net.rules(number), [""; 0], "node {number}");
        assert_eq!(net.nodes[number].natfw.pinholes().count(), 1, "node {number} remembers it");
    }
}

/// Sections 3.7.4 and 3.2.8: a request with lifetime 0 ends the session everywhere, and nobody answers it (figure 17).
#[test]
fn lifetime_of_zero_deletes_the_session_without_a_response() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::EdgeTranslator, Place::Host]);
    net.open(0, to_server(5_000));
    net.log();
    net.release(0);
    assert_eq!(
        net.log(),
        ["0>1 CREATE lt=0 msn=1", "1>2 CREATE lt=0 msn=1", "2>3 CREATE lt=0 msn=1"]
    );
    net.assert_nothing_is_left();
    let removed = |event: &Event| {
        matches!(event, Event::Rule { change: RuleChange::Removed(Change::Released), .. })
    };
    assert!(net.nodes[1].events.iter().any(removed));
    assert_eq!(net.nodes[0].events.last(), Some(&Event::Ended { application: APP, info: None }));
}

/// "NFs that are unable to forward the CREATE message to the next hop MUST generate an error RESPONSE of class 'Permanent
/// failure' (5) with response code 'Did not reach the NR' (0x07)."
#[test]
fn create_that_reaches_nobody_is_refused_by_the_last_node() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host]);
    net.last = vec![2];
    net.open(0, to_server(5_000));
    let log = net.log();
    assert_eq!(log[2..4], ["2>- CREATE lt=60 msn=0", "2>1 RESPONSE 5/0x07 msn=0"]);
    net.assert_nothing_is_left();
    let refused = net.nodes[0].events.last();
    let expected = matches!(refused, Some(Event::Refused { refusal: Refusal::Answered(info), .. })
        if code(info) == "5/0x07");
    assert!(expected, "{refused:?}");
}

/// The last node may be the initiator itself.
#[test]
fn create_without_any_next_node_fails_at_once() {
    let mut net = Net::of(&[Place::Host, Place::Host]);
    net.last = vec![0];
    net.open(0, to_server(5_000));
    let refusal = Refusal::Unsent(SendFailure::NoNextNode);
    assert_eq!(net.nodes[0].events, [Event::Refused { application: APP, refusal }]);
    net.assert_nothing_is_left();
}

/// "If an ERROR RESPONSE message with matching SID is received, the NATFW NSLP session is marked as 'Dead', no policy rule is
/// installed and the remembered rule is discarded."
#[test]
fn error_response_ends_the_session_at_every_node() {
    let mut net =
        Net::with(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host], |n, c| {
            if n == 2 { Config { rules: Vec::new(), ..c } } else { c }
        });
    net.open(0, to_server(5_000));
    assert_eq!(net.log()[2..], ["2>1 RESPONSE 5/0x02 msn=0", "1>0 RESPONSE 5/0x02 msn=0"]);
    net.assert_nothing_is_left();
}

/// The responder refuses what no application has exposed.
#[test]
fn responder_accepts_only_exposed_ports_by_default() {
    let mut net = Net::with(&[Place::Host, Place::Firewall, Place::Host], |n, c| {
        if n == 2 { Config { responder: Responder::Exposed, ..c } } else { c }
    });
    net.open(0, to_server(5_000));
    assert_eq!(net.log()[2..], ["2>1 RESPONSE 5/0x02 msn=0", "1>0 RESPONSE 5/0x02 msn=0"]);
    net.assert_nothing_is_left();
}

/// "An NI only generates CREATE messages ... The NI should never receive CREATE messages and MUST discard them."
#[test]
fn initiator_discards_requests_of_its_own_session() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    let session = net.session(0);
    net.log();
    let forged = net.create_of(session, 9_999, 30);
    net.deliver_as(1, 0, &forged.0, &forged.1);
    net.run();
    assert_eq!(net.log(), [""; 0]);
    assert_eq!(net.nodes[0].natfw.session_count(), 1);
}

/// The second of two sessions with different rules for the same packets is a policy conflict (0x04); the same rule is
/// shared until the last session with it ends.
#[test]
fn same_packets_have_one_rule() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    let longer = OpenRequest { lifetime: Some(Duration::from_secs(600)), ..to_server(5_000) };
    net.command(0, Command::Open { application: OTHER_APP, request: longer });
    assert_eq!(net.ends(1), [600], "the longer one counts");
    net.command(0, Command::Release { application: OTHER_APP });
    assert_eq!(net.rules(1).len(), 1, "the other session needs it");
    assert_eq!(net.ends(1), [60], "until its own end");
    net.release(0);
    net.assert_nothing_is_left();
}

/// The contiguous port of legacy equipment (sub_ports, section 4.2.4).
#[test]
fn next_port_gets_a_rule_of_its_own() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.open(0, OpenRequest { next_port: true, source_port: Some(700), ..to_server(5_000) });
    let rules = net.rules(1);
    assert_eq!(rules.len(), 2);
    assert!(rules[0].starts_with("allow 10.0.0.1:700 to 198.51.100.9:5000 as 203.0.113.1:"));
    assert!(rules[1].starts_with("allow 10.0.0.1:701 to 198.51.100.9:5001 as 203.0.113.1:"));
    let port = |rule: &str| -> u16 { rule.rsplit(':').next().unwrap().parse().unwrap() };
    assert_eq!(port(&rules[1]), port(&rules[0]) + 1);
    assert_eq!(port(&rules[0]) % 2, 0, "RTP keeps its even port");
    net.release(0);
    net.assert_nothing_is_left();
}

/// ICMP types are rules of their own (section 4.2.9).
#[test]
fn icmp_types_are_rules_of_their_own() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let echo = OpenRequest {
        protocol: Some(1),
        source_port: None,
        destination_port: None,
        icmp_types: vec![8, 13],
        ..to_server(0)
    };
    net.open(0, echo.clone());
    assert_eq!(
        net.rules(1),
        ["allow 10.0.0.1 to 198.51.100.9 type 8", "allow 10.0.0.1 to 198.51.100.9 type 13"]
    );
    net.release(0);
    net.log();
    net.open(0, OpenRequest { icmp_types: (0..9).collect(), ..echo });
    assert_eq!(net.log()[1], "1>0 RESPONSE 7/0x0b msn=0", "one more than the limit");
    net.assert_nothing_is_left();
}

/// Firewalls of IPv6 are asked in the same way; a translator of IPv4 leaves IPv6 packets as they are.
#[test]
fn ipv6_passes_without_translation() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.open(0, OpenRequest { destination: address("2001:db8:2::9"), ..to_server(5_000) });
    assert_eq!(net.rules(1), ["allow [2001:db8:1::1]:700 to [2001:db8:2::9]:5000"]);
    net.release(0);
    net.assert_nothing_is_left();
}

/// Public sources are not translated.
#[test]
fn only_private_sources_are_translated() {
    let mut net = Net::with(&[Place::Host, Place::EdgeTranslator, Place::Host], |_, mut c| {
        if let Some(translator) = &mut c.translator {
            translator.sources = vec!["10.7.0.0/16".parse().expect("a range")];
        }
        c
    });
    net.open(0, to_server(5_000));
    assert_eq!(net.rules(1), ["allow 10.0.0.1:700 to 198.51.100.9:5000"]);
}

/// A source port that is not known yet is chosen by the kernel for each connection.
#[test]
fn unknown_source_port_is_left_to_the_kernel() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.open(0, OpenRequest { source_port: None, ..to_server(5_000) });
    assert_eq!(net.rules(1), ["allow 10.0.0.1 to 198.51.100.9:5000 as 203.0.113.1"]);
    net.release(0);
    net.assert_nothing_is_left();
}

/// All ports of a translator are taken.
#[test]
fn translator_without_a_free_port_refuses_for_now() {
    let mut net = Net::with(&[Place::Host, Place::EdgeTranslator, Place::Host], |_, mut c| {
        if let Some(translator) = &mut c.translator {
            (translator.first_port, translator.last_port) = (4_000, 4_000);
        }
        c
    });
    net.open(0, to_server(5_000));
    net.log();
    let other = OpenRequest { source_port: Some(701), ..to_server(5_001) };
    net.command(0, Command::Open { application: OTHER_APP, request: other });
    assert_eq!(net.log()[1], "1>0 RESPONSE 4/0x01 msn=0");
    net.release(0);
    net.assert_nothing_is_left();
}

/// The packet filter may refuse a rule: both sides hear that the session has ended.
#[test]
fn refused_rule_ends_the_session_on_both_sides() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.nodes[1].refuse = Some(28);
    net.open(0, to_server(5_000));
    let log = net.log();
    assert!(log.contains(&"1>0 NOTIFY 1/0x05".to_string()), "{log:?}");
    assert!(log.contains(&"1>2 NOTIFY 1/0x05".to_string()), "{log:?}");
    let refused = net.nodes[1]
        .events
        .iter()
        .any(|event| matches!(event, Event::Rule { change: RuleChange::Refused(28), .. }));
    assert!(refused);
    let ended = Event::Ended { application: APP, info: Some(info_of(Informational::Terminated)) };
    assert_eq!(net.nodes[0].events.last(), Some(&ended));
    net.nodes[1].filter.clear();
    net.assert_nothing_is_left();
}

/// What an earlier run of the translator has promised is given to the same host again.
#[test]
fn translator_keeps_the_port_of_an_adopted_rule() {
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    net.open(0, to_server(5_000));
    let before = net.rules(1);
    let (rule, until) = *net.nodes[1].filter.values().next().expect("a rule");
    let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
    let other = Endpoint { port: 50_000, ..rule.source.expect("a translated source") };
    let rule = FilterRule { source: Some(other), ..rule };
    net.host(1, HostEvent::Filter(FilterEvent::Adopted(rule, until)));
    net.open(0, to_server(5_000));
    let after = net.rules(1);
    assert_eq!(after, ["allow 10.0.0.1:700 to 198.51.100.9:5000 as 203.0.113.1:50000"]);
    assert_ne!(before, after, "without the promise it is another port");
}

/// RFC 5973 section 3.10: a changed flow replaces the rules of the session.
#[test]
fn update_replaces_the_rules() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    net.open(0, to_server(5_000));
    net.log();
    let session = net.session(0);
    let (message, data) = net.create_of(session, 6_000, 60);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(
        net.log(),
        [
            "1>2 CREATE lt=60 msn=5",
            "2>1 RESPONSE 2/0x01 lt=60 msn=5",
            "1>0 RESPONSE 2/0x01 lt=60 msn=5"
        ]
    );
    assert_eq!(net.rules(1), ["allow 10.0.0.1:700 to 198.51.100.9:6000"]);
}

/// The action deny is for data receivers (section 3.2.4).
#[test]
fn create_that_denies_is_not_applicable() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let (message, data) = net.create_with(SessionId([9; 16]), |create| {
        create.extended_flow.action = earmark_wire::natfw_nslp::RuleAction::Deny;
    });
    net.deliver_as(0, 1, &message, &data);
    net.run();
    let expected = SignalingSessionFailure::RuleActionNotApplicable.code();
    assert_eq!(net.log(), [format!("1>0 RESPONSE 7/{expected:#04x} msn=0")]);
}

/// "A RESPONSE message with an appropriate error of class 'Protocol error' (3) code is generated if a non-recoverable syntax error
/// is detected ... The message is not further forwarded" (section 3.3).
#[test]
fn malformed_request_is_answered_and_goes_no_further() {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
    let (message, mut data) = net.create_with(SessionId([9; 16]), |_| {});
    // Another type than any that is assigned, with A and B both zero: the object must be understood.
    data.extend_from_slice(&[0x07, 0xff, 0x00, 0x00]);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    assert_eq!(net.log(), ["1>0 RESPONSE 3/0x06 msn=0"]);
    net.assert_nothing_is_left();
    let counters = net.nodes[1].natfw.counters();
    assert_eq!(counters.malformed.values().sum::<u64>(), 1);
    assert_eq!(counters.dropped[&DropReason::Malformed], 1);
}

/// Section 3.10: "any node along in the NATFW NSLP signaling session can reject the update with an error RESPONSE message".
#[test]
fn refused_update_leaves_the_rules_as_they_are() {
    let mut net =
        Net::with(&[Place::Host, Place::Firewall, Place::Host], |number, c| match number {
            1 => Config { rules: vec![Rule::default()], ..c },
            _ => c,
        });
    net.open(0, to_server(5_000));
    net.log();
    let session = net.session(0);
    let before = net.rules(1);
    let (message, data) = net.create_of(session, 22, 60);
    net.deliver_as(0, 1, &message, &data);
    net.run();
    let log = net.log();
    assert_eq!(log[0], "1>0 RESPONSE 5/0x02 msn=5");
    assert_eq!(net.rules(1), before);
}

/// A path leads to another host.
#[test]
fn path_to_no_other_host_is_rejected() {
    for destination in ["224.0.0.5", "0.0.0.0", CLIENT] {
        let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Host]);
        net.open(0, OpenRequest { destination: address(destination), ..to_server(5_000) });
        let reason = crate::natfw::Rejection::Destination;
        assert_eq!(net.nodes[0].events, [Event::Rejected { application: APP, reason }]);
        assert!(net.log().is_empty());
    }
}

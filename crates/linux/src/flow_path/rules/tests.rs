use super::*;
use crate::netlink::Messages;

const TO_TABLE: u8 = 1;

/// An IPv4 rule as the kernel reports it.
fn rule(
    (priority, table, action): (u32, u8, u8),
    lengths: [u8; 2],
    flags: u32,
    build: impl FnOnce(Message) -> Message,
) -> Rule {
    let mut fixed = [0; RULE_HEADER];
    fixed[0] = libc::AF_INET as u8;
    fixed[1..3].copy_from_slice(&lengths);
    (fixed[4], fixed[7]) = (table, action);
    fixed[8..].copy_from_slice(&flags.to_ne_bytes());
    let message = Message::new(libc::RTM_NEWRULE, 0).fixed(&fixed).u32(PRIORITY, priority);
    let octets = build(message.u32(SUPPRESS_LENGTH, NONE)).finish(0);
    let message = Messages::new(&octets).next().expect("one").expect("a message");
    Rule::decode(&message).expect("well-formed")
}

fn ports(first: u16, last: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (first.to_ne_bytes(), last.to_ne_bytes());
    [a, b, c, d]
}

fn flow() -> Flow {
    Flow {
        source: Some([10, 0, 1, 5].into()),
        protocol: UDP,
        destination_port: 5_001,
        source_port: 4_000,
        ..Flow::to_range(Prefix::host([10, 0, 9, 1].into()))
    }
}

fn packet(flow: &Flow) -> Packet<'_> {
    Packet { flow, incoming: Some("eth0".into()), is_own: false, mark: 7, user: 0 }
}

/// The rules of every new namespace, with these before `main`.
fn list(more: impl IntoIterator<Item = Rule>) -> RuleList {
    let default_rule = |priority, table| rule((priority, table, TO_TABLE), [0; 2], 0, |m| m);
    let mut rules = vec![default_rule(0, libc::RT_TABLE_LOCAL)];
    rules.extend(more);
    rules.extend([
        default_rule(32_766, libc::RT_TABLE_MAIN),
        default_rule(32_767, libc::RT_TABLE_DEFAULT),
    ]);
    RuleList(rules)
}

fn table_200(build: impl FnOnce(Message) -> Message) -> Rule {
    rule((100, 200, TO_TABLE), [0; 2], 0, build)
}

fn found(rules: &RuleList, packet: &Packet<'_>, table: u32) -> Option<(u32, bool)> {
    let found = rules.find(packet, |rule| rule.leads_to(table, Some(24)));
    found.map(|rule| (rule.priority, rule.is_certain))
}

#[test]
fn rule_text_equals_that_of_ip_rule() {
    let full = rule((100, 200, TO_TABLE), [24, 30], 2, |m| {
        m.attribute(SOURCE, &[10, 0, 1, 4])
            .attribute(DESTINATION, &[10, 0, 9, 0])
            .text(INCOMING, "eth0")
            .u32(MARK, 7)
            .u32(MARK_MASK, u32::MAX)
            .u8(IP_PROTOCOL, UDP)
            .attribute(DESTINATION_PORTS, &ports(5_000, 6_000))
            .attribute(SOURCE_PORTS, &ports(4_000, 4_000))
    });
    assert_eq!(
        full.text(),
        "not from 10.0.1.4/30 to 10.0.9.0/24 fwmark 0x7 iif eth0 ipproto udp dport 5000-6000 sport 4000"
    );
    assert_eq!(full.action_text(), "lookup 200");
    let main = rule((5, libc::RT_TABLE_MAIN, TO_TABLE), [0; 2], 0, |m| m.u32(SUPPRESS_LENGTH, 0));
    assert_eq!(main.text(), "from all");
    assert_eq!(main.action_text(), "lookup main suppress_prefixlength 0");
    let host =
        rule((5, 0, libc::RTN_PROHIBIT), [0, 32], 0, |m| m.attribute(SOURCE, &[10, 0, 1, 9]));
    assert_eq!((host.text(), host.action_text()), ("from 10.0.1.9".into(), "prohibit".into()));
}

#[test]
fn rule_matches_what_it_selects() {
    let flow = flow();
    let prefix = |lengths, kind, address: [u8; 4]| {
        rule((100, 200, TO_TABLE), lengths, 0, |m| m.attribute(kind, &address))
    };
    for (name, rule, fits) in [
        ("source", prefix([0, 30], SOURCE, [10, 0, 1, 4]), true),
        ("another source", prefix([0, 30], SOURCE, [10, 0, 1, 8]), false),
        ("destination", prefix([24, 0], DESTINATION, [10, 0, 9, 0]), true),
        ("another destination", prefix([24, 0], DESTINATION, [10, 0, 8, 0]), false),
        ("interface", table_200(|m| m.text(INCOMING, "eth0")), true),
        ("another interface", table_200(|m| m.text(INCOMING, "eth1")), false),
        ("outgoing interface", table_200(|m| m.text(OUTGOING, "eth0")), false),
        ("mark", table_200(|m| m.u32(MARK, 7).u32(MARK_MASK, u32::MAX)), true),
        ("another mark", table_200(|m| m.u32(MARK, 8).u32(MARK_MASK, u32::MAX)), false),
        ("mark under a mask", table_200(|m| m.u32(MARK, 3).u32(MARK_MASK, 3)), true),
        ("protocol", table_200(|m| m.u8(IP_PROTOCOL, UDP)), true),
        ("another protocol", table_200(|m| m.u8(IP_PROTOCOL, TCP)), false),
        ("ports", table_200(|m| m.attribute(DESTINATION_PORTS, &ports(5_001, 5_001))), true),
        ("other ports", table_200(|m| m.attribute(DESTINATION_PORTS, &ports(1, 5_000))), false),
        ("source port", table_200(|m| m.attribute(SOURCE_PORTS, &ports(4_000, 4_001))), true),
        (
            "port under a mask",
            table_200(|m| {
                let mask = 1_u16.to_ne_bytes();
                m.attribute(SOURCE_PORTS, &ports(2, 2)).attribute(SOURCE_PORT_MASK, &mask)
            }),
            true,
        ),
        ("user, of a forwarded packet", table_200(|m| m.attribute(USERS, &[0; 8])), false),
    ] {
        assert_eq!(rule.fits(&packet(&flow)) == Fit::Yes, fits, "{name}");
        let inverted = Rule { is_inverted: true, ..rule };
        assert_eq!(inverted.fits(&packet(&flow)) == Fit::Yes, !fits, "not {name}");
    }
    let own = Packet { is_own: true, incoming: Some("lo".into()), ..packet(&flow) };
    assert_eq!(table_200(|m| m.attribute(USERS, &[0; 8])).fits(&own), Fit::Yes);
    assert_eq!(table_200(|m| m.text(INCOMING, "lo")).fits(&own), Fit::Yes);
}

/// The kernel accepts ports only for TCP and UDP: its answer for other protocols is without ports.
#[test]
fn protocol_absent_from_the_query_matches_no_rule() {
    let flow = Flow { protocol: 132, ..flow() };
    let rule = table_200(|m| m.u8(IP_PROTOCOL, 132));
    assert_eq!(rule.fits(&packet(&flow)), Fit::No);
    assert!(list([rule]).match_ports() && !list([]).match_ports());
}

#[test]
fn first_matching_rule_with_the_table_is_found() {
    let flow = flow();
    let packet = packet(&flow);
    let rules = list([
        table_200(|m| m.u32(MARK, 8).u32(MARK_MASK, u32::MAX)),
        rule((101, 200, TO_TABLE), [0; 2], 0, |m| m.u32(MARK, 7).u32(MARK_MASK, u32::MAX)),
        rule((102, 200, TO_TABLE), [0; 2], 0, |m| m),
    ]);
    assert_eq!(found(&rules, &packet, 200), Some((101, true)));
    assert_eq!(found(&rules, &packet, 254), Some((32_766, true)));
    assert_eq!(found(&rules, &packet, 201), None);
}

#[test]
fn rule_after_an_unknown_selector_is_uncertain() {
    let flow = flow();
    let unknown = || table_200(|m| m.u32(99, 1));
    let plain = rule((102, 200, TO_TABLE), [0; 2], 0, |m| m);
    let rules = list([unknown(), plain]);
    assert_eq!(found(&rules, &packet(&flow), 200), Some((102, false)));
    assert_eq!(found(&rules, &packet(&flow), 254), Some((32_766, true)), "it leads elsewhere");
    assert_eq!(found(&list([unknown()]), &packet(&flow), 200), Some((100, false)));
}

#[test]
fn goto_skips_the_rules_between() {
    let flow = flow();
    let jump = |target| rule((50, 0, 2), [0; 2], 0, |m| m.u32(GOTO, target));
    let through = || [table_200(|m| m), rule((300, 200, TO_TABLE), [0; 2], 0, |m| m)];
    let rules = list([jump(300)].into_iter().chain(through()));
    assert_eq!(found(&rules, &packet(&flow), 200), Some((300, true)));
    // The kernel refuses a backward goto; if one exists, the walk must still end.
    let rules = list([jump(0)].into_iter().chain(through()));
    assert_eq!(found(&rules, &packet(&flow), 200), Some((100, true)));
}

/// `ip rule add lookup main suppress_prefixlength 0`: all but the default route.
#[test]
fn rule_that_suppresses_the_route_is_skipped() {
    let flow = flow();
    let suppressing = |length| {
        let main = libc::RT_TABLE_MAIN;
        rule((100, main, TO_TABLE), [0; 2], 0, |m| m.u32(SUPPRESS_LENGTH, length))
    };
    assert_eq!(found(&list([suppressing(24)]), &packet(&flow), 254), Some((32_766, true)));
    assert_eq!(found(&list([suppressing(23)]), &packet(&flow), 254), Some((100, true)));
}

#[test]
fn refusing_rule_is_found_by_its_verdict() {
    let flow = flow();
    let prohibit = rule((100, 0, libc::RTN_PROHIBIT), [0; 2], 0, |m| m);
    let rules = list([prohibit]);
    let find = |verdict| rules.find(&packet(&flow), |rule| rule.refuses_with(verdict));
    assert_eq!(find(Verdict::Prohibited).map(|rule| rule.priority), Some(100));
    assert_eq!(find(Verdict::Unreachable), None);
    assert_eq!(find(Verdict::NoRoute), None);
}

use earmark_control::EnforcementRow;

use super::*;
use earmark_control::{HashPolicyRow, RuleRow, TableRow};

fn hop(interface: &str, next_hop: [u8; 4], chosen: bool) -> NextHopRow {
    let next_hop = Some(next_hop.into());
    NextHopRow { interface: interface.into(), next_hop, weight: 1, usable: true, chosen }
}

fn answer() -> PathAnswer {
    PathAnswer {
        flow: PathFlow {
            destination: [10, 0, 9, 1].into(),
            destination_port: 5_001,
            ip_protocol: 17,
            source: Some([10, 0, 1, 5].into()),
            source_port: 4_000,
            flow_label: None,
            incoming: Some("eth0".into()),
            incoming_assumed: true,
            mark: Some(7),
            mark_of_settings: true,
        },
        outcome: PathOutcome::Forwarded,
        interface: Some("eth2".into()),
        next_hop: Some([10, 0, 3, 2].into()),
        rule: Some(RuleRow {
            priority: 100,
            selector: "from 10.0.1.4/30 iif eth0".into(),
            action: "lookup 200".into(),
            certain: true,
        }),
        table: Some(TableRow { number: 200, name: "200".into() }),
        route: Some(RouteRow {
            prefix: "10.0.9.0/29".parse().expect("a prefix"),
            metric: 0,
            next_hops: vec![
                hop("eth1", [10, 0, 2, 2], false),
                NextHopRow { weight: 3, ..hop("eth2", [10, 0, 3, 2], true) },
            ],
            nexthop_object: Some(10),
            nexthop_kind: Some("group".into()),
            hash_policy: Some(HashPolicyRow { number: 1, looks_at: "ports".into() }),
        }),
        claims: Vec::new(),
        claim_count: 0,
        elsewhere: Vec::new(),
        packets: Some(PacketsRow {
            get: "best_effort".into(),
            class: Some("ea4d:2".into()),
            priority: None,
            bucket_bps: None,
            classifier: Some("bpf".into()),
            queues: Some("per-flow".into()),
            enforcement: None,
        }),
        warnings: Vec::new(),
    }
}

fn claim(precedence: &'static str, protocol: &'static str, rate_bps: u64) -> ClaimRow {
    ClaimRow {
        precedence: precedence.into(),
        protocol: Some(protocol.into()),
        rate_bps,
        matches: MatchRow {
            destination: "10.0.9.1/32".parse().expect("a prefix"),
            source: Some("10.0.1.5/32".parse().expect("a prefix")),
            ip_protocol: Some(17),
            destination_port: Some(5_001),
            source_port: Some(4_000),
            flow_label: None,
        },
        shared: false,
        adopted: true,
        reservation: None,
    }
}

#[test]
fn flow_without_reservation_gets_best_effort() {
    assert_eq!(
        text(&answer()),
        "10.0.1.5:4000 -> 10.0.9.1:5001, udp, in through eth0 (as routes to its source lead), mark 0x7 (by [[mark]] of \
         the settings)\n\
         leaves through eth2, next hop 10.0.3.2\n  \
           rule      100: from 10.0.1.4/30 iif eth0 lookup 200\n  \
           route     10.0.9.0/29 by nexthop 10 (group) in table 200\n  \
           next hops 10.0.2.2 (eth1), 10.0.3.2 (eth2) weight 3 chosen\n  \
           chosen by hash policy 1: ports\n\
         nothing is reserved for it on eth2\n\
         packets get best effort, class ea4d:2 on eth2: nothing is reserved for them"
    );
}

#[test]
fn governing_claim_is_what_packets_get() {
    let mut answer = answer();
    answer.claims = vec![claim("governs", "rsvp", 2_000_000), claim("standby", "boomerang", 8_000)];
    answer.claim_count = 1_000;
    let enforcement = EnforcementRow { state: "enforced".into(), reason: None, claims: 1_000 };
    answer.packets = answer.packets.map(|packets| PacketsRow {
        get: "reserved".into(),
        class: Some("ea4d:10".into()),
        bucket_bps: Some(2_000_000),
        enforcement: Some(enforcement),
        ..packets
    });
    let text = text(&answer);
    for words in [
        "reserved on eth2:\n",
        "governs",
        "stands by",
        "this flow",
        "left by an earlier daemon",
        "and 998 more; --limit N shows them",
        "packets get 2 Mbit/s by rsvp, class ea4d:10, token bucket of 2 Mbit/s on eth2; enforced",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn unenforced_reservation_is_printed_with_reason() {
    let mut answer = answer();
    answer.claims = vec![claim("governs", "rsvp", 2_000_000)];
    answer.claim_count = 1;
    let reason = Some("the class is missing".to_owned());
    let enforcement = EnforcementRow { state: "unenforced".into(), reason, claims: 1 };
    answer.packets =
        answer.packets.map(|packets| PacketsRow { enforcement: Some(enforcement), ..packets });
    answer.warnings = vec!["look".into()];
    let text = text(&answer);
    let expected = "packets get best effort on eth2, and not what is reserved: the class is missing\nwarning: look";
    assert!(text.ends_with(expected), "{text}");
}

#[test]
fn refusal_is_printed_with_reason() {
    for (outcome, words) in [
        (PathOutcome::NoRoute, "there is no route"),
        (PathOutcome::Unreachable, "unreachable"),
        (PathOutcome::Prohibited, "prohibit"),
        (PathOutcome::Blackhole, "blackhole"),
        (PathOutcome::WrongInterface, "rp_filter"),
        (PathOutcome::NotForwarded, "does not forward"),
        (PathOutcome::Local, "for this host itself"),
    ] {
        let (interface, next_hop, route, table, rule, packets) = Default::default();
        let answer =
            PathAnswer { outcome, interface, next_hop, route, table, rule, packets, ..answer() };
        let text = text(&answer);
        assert!(text.lines().nth(1).is_some_and(|line| line.contains(words)), "{words}: {text}");
        assert!(text.ends_with("nothing is queued for it here"), "{text}");
    }
}

#[test]
fn match_is_printed_as_packets_of_claim() {
    let exact = claim("next", "nsis", 1).matches;
    let prefix = |text: &str| text.parse().expect("a prefix");
    for (row, shared, words) in [
        (exact.clone(), false, "this flow"),
        (MatchRow { source_port: None, ..exact.clone() }, true, "this flow, port 5001, shared"),
        (
            MatchRow { source: None, source_port: None, ..exact.clone() },
            false,
            "all senders, port 5001",
        ),
        (
            MatchRow {
                destination: prefix("10.0.9.0/24"),
                source: None,
                ip_protocol: None,
                destination_port: None,
                source_port: None,
                flow_label: None,
            },
            false,
            "all to 10.0.9.0/24, any port, any protocol",
        ),
        (
            MatchRow { source: Some(prefix("10.0.0.0/8")), ..exact },
            false,
            "10.0.0.0/8 to 10.0.9.1/32",
        ),
    ] {
        assert_eq!(matches(&row, shared), words);
    }
}

use std::collections::BTreeMap;

use earmark_control::ClaimRow;
use serde_json::json;

use super::*;
use crate::cli::routers::names::RouterNames;

/// Routers r1 and r2 with a link between them, and one to each side.
fn nodes() -> Vec<Node> {
    let names = RouterNames::parse("r1,r2").expect("names");
    let link = |interface: &str, address: &str| -> LinkRow {
        serde_json::from_value(json!({
            "interface": interface, "index": 1, "up": true, "addresses": [address], "bandwidth_bps": 0, "reservable_bps": 0,
            "held_bps": 0, "claims": 0, "adopted": 0,
        }))
        .expect("a link")
    };
    let links = [
        [("eth0", "10.0.1.1"), ("eth1", "10.0.2.1")],
        [("eth0", "10.0.2.2"), ("eth1", "10.0.3.1")],
    ];
    let node = |(name, links): (&RouterName, [(&str, &str); 2])| Node {
        name: name.clone(),
        links: links.into_iter().map(|(interface, address)| link(interface, address)).collect(),
    };
    names.as_slice().iter().zip(links).map(node).collect()
}

fn name(number: usize) -> RouterName {
    nodes().swap_remove(number).name
}

/// The answer of a router that sends through eth1.
fn answer(outcome: &str, next_hop: Option<&str>) -> PathAnswer {
    let packets = json!({
        "get": "best_effort", "class": null, "priority": null, "bucket_bps": null, "classifier": "bpf", "queues": "per-flow",
        "enforcement": null,
    });
    serde_json::from_value(json!({
        "flow": {
            "destination": "10.0.3.9", "destination_port": 5001, "ip_protocol": 17, "source": "10.0.1.9", "source_port": 4000,
            "incoming": "eth0", "incoming_assumed": true, "mark": null, "mark_of_settings": false,
        },
        "outcome": outcome, "interface": "eth1", "next_hop": next_hop, "rule": null, "table": null, "route": null,
        "claims": [], "claim_count": 0, "elsewhere": [], "packets": packets, "warnings": [],
    }))
    .expect("an answer")
}

fn flow(from: Option<&str>) -> PathRequest {
    let from = from.map(|from| from.parse().expect("a source"));
    PathRequest { from, ..PathRequest::new("10.0.3.9:5001".parse().expect("a destination")) }
}

/// Routers in the order of the requests, each with the incoming interface; the number of hops, and the end.
type Followed = (Vec<(usize, Option<String>)>, usize, End);

/// Follows a flow with these answers, by the number of the router.
fn followed(from: &str, max_hops: u8, answers: &BTreeMap<usize, PathAnswer>) -> Followed {
    let mut requests = Vec::new();
    let (hops, end) = follow(&nodes(), flow(Some(from)), max_hops, |at, request| {
        requests.push((at, request.incoming));
        answers.get(&at).cloned().ok_or(false)
    });
    (requests, hops.len(), end)
}

const SOURCE: &str = "10.0.1.9:4000";

#[test]
fn flow_is_followed_until_its_destination_is_on_a_link() {
    let answers = BTreeMap::from([
        (0, answer("forwarded", Some("10.0.2.2"))),
        (1, answer("forwarded", None)),
    ]);
    let (requests, count, end) = followed(SOURCE, 0, &answers);
    assert_eq!(requests, [(0, None), (1, Some("eth0".to_owned()))]);
    assert_eq!((count, end), (2, End::Arrived { router: name(1) }));
    let (_, count, end) = followed(SOURCE, 1, &answers);
    assert_eq!((count, end), (1, End::HopLimit));
}

#[test]
fn trace_begins_at_the_router_with_the_source() {
    let answers = BTreeMap::from([(1, answer("local", None))]);
    let (requests, _, end) = followed("10.0.3.1:4000", 0, &answers);
    assert_eq!((requests, end), (vec![(1, None)], End::Arrived { router: name(1) }));
}

#[test]
fn source_that_the_first_router_selects_is_that_of_the_flow() {
    let mut sources = Vec::new();
    let answers = [answer("forwarded", Some("10.0.2.2")), answer("local", None)];
    follow(&nodes(), flow(None), 0, |at, request| {
        sources.push(request.from.map(|from| from.to_string()));
        Ok(answers[at].clone())
    });
    assert_eq!(sources, [None, Some(SOURCE.to_owned())]);
}

#[test]
fn trace_ends_where_the_packets_or_the_names_end() {
    let not_named = End::NotNamed { router: name(1), next_hop: [10, 0, 3, 7].into() };
    let no_route = End::Stopped { router: name(1), outcome: PathOutcome::NoRoute };
    let unanswered = End::Unanswered { router: name(1), is_timeout: false };
    for (second, expected) in [
        (Some(answer("forwarded", Some("10.0.3.7"))), not_named),
        (Some(answer("no_route", None)), no_route),
        (None, unanswered),
    ] {
        let mut answers = BTreeMap::from([(0, answer("forwarded", Some("10.0.2.2")))]);
        answers.extend(second.map(|answer| (1, answer)));
        assert_eq!(followed(SOURCE, 0, &answers).2, expected);
    }
}

#[test]
fn packets_that_come_back_are_a_loop() {
    let answers = BTreeMap::from([
        (0, answer("forwarded", Some("10.0.2.2"))),
        (1, answer("forwarded", Some("10.0.2.1"))),
    ]);
    let (requests, _, end) = followed(SOURCE, 0, &answers);
    assert_eq!(end, End::Loop { router: name(1) });
    assert_eq!(requests.len(), 3, "r1 again by another interface: {requests:?}");
}

#[test]
fn address_of_several_routers_is_ambiguous() {
    let mut nodes = nodes();
    let twin = Node { name: nodes[0].name.clone(), links: nodes[1].links.clone() };
    nodes.push(twin);
    let (_, end) = follow(&nodes, flow(None), 0, |_, _| Ok(answer("forwarded", Some("10.0.2.2"))));
    let address = [10, 0, 2, 2].into();
    assert_eq!(end, End::Ambiguous { address, owners: vec![name(1), name(0)] });
}

#[test]
fn hops_have_reservation_and_service() {
    use clap::Parser;

    use crate::cli::arguments::{Arguments, Command};

    let line = ["earmark", "trace", "--on", "r1,r2", "10.0.3.9:5001", "--from", SOURCE];
    let Command::Trace(options) = Arguments::parse_from(line).command else { panic!("not trace") };
    let claim: ClaimRow = serde_json::from_value(json!({
        "precedence": "governs", "protocol": "tickets", "rate_bps": 2_000_000, "shared": false, "adopted": false,
        "matches": { "destination": { "address": "10.0.3.9", "length": 32 } }, "reservation": null,
    }))
    .expect("a claim");
    let with_claim = |get: &'static str, reason: Option<&str>| {
        let mut answer = answer("forwarded", Some("10.0.2.2"));
        answer.claims = vec![claim.clone()];
        answer.claim_count = 3;
        let packets = answer.packets.as_mut().expect("packets");
        packets.get = get.into();
        let enforcement = json!({ "state": "enforced", "reason": reason, "claims": 3 });
        packets.enforcement = serde_json::from_value(enforcement).expect("enforcement");
        answer
    };
    let hops = [
        Hop { router: name(0), answer: with_claim("reserved", None) },
        Hop { router: name(1), answer: with_claim("best_effort", Some("the class is missing")) },
    ];
    let end = End::NotNamed { router: name(1), next_hop: [10, 0, 3, 7].into() };
    let report = Report { options: &options, hops: &hops, end: &end };
    let text = report.text();
    for words in [
        "10.0.1.9:4000 -> 10.0.3.9:5001\n",
        "┆ tickets 2 Mbit/s, 2 more ┆ enforced ",
        "┆ best effort: the class is missing │",
        "\nr2 sends to 10.0.3.7, which is not an address of the routers named\n  help: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(report.outcome(), Outcome::Part);
    let shown = report.json();
    assert_eq!((&shown["end"], &shown["source"]), (&json!("not_named"), &json!("10.0.1.9")));
    assert_eq!(shown["hops"][0]["protocol"], "tickets");
    assert_eq!(shown["hops"][1]["reason"], "the class is missing");
}

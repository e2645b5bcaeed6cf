//! Outcomes over the control socket, in events and in the rows of applications, for all protocols.

use earmark_core::{Datagram, Interface, InterfaceId, Rate, Time};
use earmark_node::{HostUpdate, Input};
use earmark_wire::icmp::{self, PROTOCOL_V4, PseudoHeader};
use serde_json::{Value, json};

use crate::host::{Host, Peer};
use crate::trace::{ask, pass};

/// The row of the only application in `show applications`.
fn listed(host: &mut Host, peer: &mut Peer) -> Value {
    let (answer, _) = ask(host, peer, r#"{"show":{"what":"applications"}}"#);
    let rows = answer["ok"]["rows"].as_array().expect("rows").clone();
    let [row] = &rows[..] else { panic!("{rows:?}") };
    row["outcome"].clone()
}

/// Name and outcome of each event that has arrived.
fn told(peer: &mut Peer) -> Vec<(Value, Value)> {
    let events = peer.lines().into_iter().filter_map(|line| line.get("event").cloned());
    let of_ours = events.filter(|event| event.get("application").is_some());
    of_ours.map(|event| (event["event"].clone(), event["outcome"]["kind"].clone())).collect()
}

#[test]
fn unanswered_request_is_pending() {
    for request in [
        r#"{"reserve":{"to":"10.0.9.9:5001","rate_bps":2000000}}"#,
        r#"{"reserve":{"protocol":"boomerang","to":"10.0.9.9:5001","options":{"rates":[{"forward":2000000,"reverse":0}]}}}"#,
        r#"{"reserve":{"protocol":"yessir","from":"10.0.1.1:5000","to":"10.0.9.9:5000","rate_bps":8000,"options":{"class":46}}}"#,
        r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":2000000}}"#,
    ] {
        let mut host = Host::new();
        let mut peer = host.connect();
        let (answer, _) = ask(&mut host, &mut peer, request);
        assert!(answer["ok"]["application"].is_u64(), "{request}: {answer}");
        assert_eq!(listed(&mut host, &mut peer)["kind"], "pending", "{request}");
    }
}

/// A limit of one reservation on a link holds for every protocol.
#[test]
fn reservation_over_the_limit_of_a_link_is_refused() {
    let protocols = [
        r#""protocol":"nsis","to":"10.0.9.9:5001""#,
        r#""protocol":"boomerang","to":"10.0.9.9:5001""#,
        r#""protocol":"yessir","from":"10.0.1.1:5000","to":"10.0.9.9:5000""#,
    ];
    for (protocol, rate, is_refused) in
        protocols.into_iter().flat_map(|p| [(p, 2_000_001, true), (p, 2_000_000, false)])
    {
        let mut host = Host::new();
        let limited = Interface { largest: Some(Rate::from_mbps(2)), ..host.interface.clone() };
        host.driver.handle(Time::ZERO, Input::Host(HostUpdate::Interface(limited)));
        let mut peer = host.connect();
        ask(&mut host, &mut peer, &format!(r#"{{"reserve":{{{protocol},"rate_bps":{rate}}}}}"#));
        let claims =
            |host: &Host| host.driver.node().ledger().link(host.interface.id).unwrap().claims;
        assert_eq!(claims(&host), u32::from(!is_refused), "{protocol} {rate}");
    }
}

#[test]
fn nsis_without_another_node_is_only_here() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let request =
        r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":2000000,"follow":true}}"#;
    ask(&mut host, &mut peer, request);
    pass(&mut host, &peer, 30);
    assert_eq!(told(&mut peer), [(json!("reserved"), json!("only_here"))]);
    let outcome = listed(&mut host, &mut peer);
    assert_eq!(outcome["kind"], "only_here");
    assert_eq!(outcome["by"], json!({ "node": null, "message": "this node" }));
}

/// The far end is an unmodified host that answers each ping; no node on the path takes part.
#[test]
fn boomerang_with_a_stock_host_is_only_here() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let request = r#"{"reserve":{"protocol":"boomerang","to":"10.0.9.9:5001","options":{"rates":[{"forward":2000000,"reverse":0}]},"follow":true}}"#;
    let (_, events) = ask(&mut host, &mut peer, request);
    for _ in 0..2 {
        let (how, mut message) = host.driver.kernel().sent.pop_front().expect("a loop");
        icmp::make_reply(&mut message, PseudoHeader::V4);
        let datagram = Datagram {
            interface: InterfaceId(2),
            source: how.destination,
            destination: how.source,
            ttl: 61,
            router_alert: false,
            encapsulated: false,
            payload: &message,
        };
        host.driver.handle(host.now, Input::Datagram(PROTOCOL_V4, datagram));
    }
    host.serve(&peer);
    host.serve(&peer);
    let all = told(&mut peer);
    let expected =
        [(json!("established"), json!("unverified")), (json!("reached"), json!("only_here"))];
    assert_eq!(all, expected, "{events:?}");
    let outcome = listed(&mut host, &mut peer);
    assert_eq!((&outcome["kind"], &outcome["nodes"]), (&json!("only_here"), &json!(0)));
    assert_eq!(outcome["by"], json!({ "node": "10.0.9.9", "message": "echo reply" }));
}

#[test]
fn refusal_of_this_node_has_available_rate() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let request =
        r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":20000000,"follow":true}}"#;
    let (_, events) = ask(&mut host, &mut peer, request);
    let refused = events.iter().find(|event| event["event"]["event"] == "refused");
    let outcome = &refused.expect("a refusal")["event"]["outcome"];
    assert_eq!(
        (&outcome["kind"], &outcome["available_bps"]),
        (&json!("refused"), &json!(7_000_000))
    );
    assert!(refused.expect("a refusal")["event"]["answer"].is_object(), "{events:?}");
}

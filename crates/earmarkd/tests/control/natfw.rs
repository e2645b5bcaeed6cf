//! Requests of NATFW NSLP: `open` and `expose` round trips, their rejections with advice, and what is listed.

use std::time::Duration;

use earmark_node::NodeConfig;
use serde_json::{Value, json};

use crate::host::{Host, Peer};

/// UDP port of GIST.
const GIST: [u8; 2] = 270_u16.to_be_bytes();

fn host(change: impl FnOnce(&mut earmark_nsis::natfw::Config)) -> Host {
    let mut config = NodeConfig { name: "h1".into(), seed: 1, ..NodeConfig::default() };
    config.nsis.gist.associations.tcp_port = Some(30_270);
    config.nsis.natfw.enabled = true;
    change(&mut config.nsis.natfw);
    Host::with(config, None)
}

fn show(host: &mut Host, peer: &mut Peer, what: &str) -> Value {
    host.ask(peer, &json!({ "show": { "what": what } }).to_string())["ok"]["rows"].take()
}

#[test]
fn path_is_opened_listed_and_released() {
    let mut host = host(|_| {});
    let mut peer = host.connect();
    let request = json!({ "open": {
        "to": "10.0.9.9:5001", "from": "0.0.0.0:4000", "next_port": true, "lifetime_s": 600, "transport": "datagrams",
        "token": "dG9rZW4tb2YtYWxpY2U"
    } });
    let opened = host.ask(&mut peer, &request.to_string());
    assert_eq!(opened["ok"]["role"], "sender", "{opened}");
    let id = opened["ok"]["application"].clone();
    let (how, message) = host.driver.kernel().sent.pop_front().expect("a Query");
    assert_eq!((how.protocol, how.destination), (17, "10.0.9.9".parse().unwrap()));
    assert_eq!(message[2..4], GIST);

    let rows = show(&mut host, &mut peer, "applications");
    let row = &rows[0];
    assert_eq!(
        (&row["application"], &row["protocol"], &row["role"]),
        (&id, &json!("natfw"), &json!("sender"))
    );
    assert_eq!(
        (&row["destination"], &row["destination_port"]),
        (&json!("10.0.9.9"), &json!(5_001))
    );
    assert_eq!(row["outcome"]["kind"], "pending");
    let counters = show(&mut host, &mut peer, "counters");
    assert_eq!(counters[0]["natfw_nslp"]["sessions"]["created"], 1, "{counters}");

    let released = host.ask(&mut peer, &json!({ "release": { "application": id } }).to_string());
    assert_eq!(released["ok"]["applications"], json!([id]));
    assert_eq!(show(&mut host, &mut peer, "applications"), json!([]));
    let counters = show(&mut host, &mut peer, "counters");
    assert_eq!(counters[0]["natfw_nslp"]["sessions"]["released"], 1, "{counters}");
}

#[test]
fn port_is_exposed_listed_and_released_with_its_client() {
    let mut host =
        host(|natfw| natfw.signaling_destination = Some("198.51.100.1".parse().unwrap()));
    let (mut holder, mut peer) = (host.connect(), host.connect());
    let request = json!({ "expose": { "port": 5_001, "hold": true, "follow": true } });
    let opened = host.ask(&mut holder, &request.to_string());
    assert_eq!(opened["ok"]["role"], "receiver", "{opened}");
    let rows = show(&mut host, &mut peer, "translations");
    let row = &rows[0];
    let internal = json!({ "address": "10.0.1.1", "port": 5_001 });
    assert_eq!((&row["internal"], &row["ip_protocol"]), (&internal, &json!(17)), "{row}");
    assert_eq!((&row["role"], &row["stage"]), (&json!("initiator"), &json!("pending")), "{row}");
    assert_eq!((&row["application"], &row["from"]), (&opened["ok"]["application"], &Value::Null));
    assert_eq!(show(&mut host, &mut peer, "pinholes"), json!([]), "a reservation opens nothing");

    drop(holder.stream.shutdown(std::net::Shutdown::Both));
    host.serve(&holder);
    assert_eq!(show(&mut host, &mut peer, "translations"), json!([]));
    assert_eq!(show(&mut host, &mut peer, "applications"), json!([]));
}

/// The requests that this host cannot carry out, with words of the error and of the advice.
const REJECTED: &[(&str, &str, &str)] = &[
    (r#"{"open":{"to":"10.0.1.1:5"}}"#, "not another host", "another host"),
    (r#"{"open":{"to":"239.1.2.3:5"}}"#, "not another host", "another host"),
    (r#"{"open":{"to":"0.0.0.0:5"}}"#, "not a destination", "name the address"),
    (r#"{"open":{"to":"[2001:db8::9]:5"}}"#, "IPv6 is disabled", "IPv4"),
    (r#"{"open":{"to":"10.0.9.9:5","from":"[::1]:5"}}"#, "different IP versions", "both"),
    (r#"{"open":{"to":"10.0.9.9:5","from":"10.0.9.8:5"}}"#, "not one of this node", "ip address"),
    (r#"{"open":{"to":"10.0.9.9:5","ip_protocol":0}}"#, "cannot be matched", "UDP, TCP"),
    (r#"{"open":{"to":"10.0.9.9:5","spi":7}}"#, "cannot be matched", "SPI needs ESP"),
    (r#"{"open":{"to":"10.0.9.9:5","lifetime_s":0}}"#, "lifetime", "shortest_lifetime"),
    (r#"{"open":{"to":"10.0.9.9:5","lifetime_s":90000}}"#, "lifetime", "longest_lifetime"),
    (r#"{"open":{"to":"10.0.9.9:5","transport":"secure"}}"#, "secured associations", "[nsis.tls]"),
    (r#"{"open":{"to":"10.0.9.9:5","token":"?"}}"#, "", "earmark token"),
    (r#"{"expose":{"port":5}}"#, "say who sends", "--from"),
    (
        r#"{"expose":{"port":5,"address":"10.0.9.9","from":"10.0.9.8"}}"#,
        "not an address of this host",
        "this host",
    ),
    (
        r#"{"expose":{"port":5,"address":"10.0.1.1","from":"2001:db8::1"}}"#,
        "different IP versions",
        "both",
    ),
    (
        r#"{"reserve":{"protocol":"natfw","to":"10.0.9.9:5","rate_bps":1}}"#,
        "no bandwidth",
        "earmark open",
    ),
    (r#"{"listen":{"protocol":"natfw","on":"10.0.1.1:5"}}"#, "no bandwidth", "earmark open"),
];

#[test]
fn rejected_requests_say_what_to_do() {
    let mut host = host(|natfw| natfw.longest_lifetime = Duration::from_secs(3_600));
    let mut peer = host.connect();
    for (request, message, hint) in REJECTED {
        let answer = host.ask(&mut peer, request);
        let error = &answer["error"];
        assert_eq!(error["code"], "rejected", "{request}: {answer}");
        assert!(error["message"].as_str().unwrap().contains(message), "{request}: {answer}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{request}: {answer}");
    }
    assert_eq!(show(&mut host, &mut peer, "applications"), json!([]), "nothing stays open");
    for request in [
        r#"{"open":{}}"#,
        r#"{"open":{"to":"10.0.9.9"}}"#,
        r#"{"open":{"to":"10.0.9.9:5","proxy":"always"}}"#,
        r#"{"expose":{"port":65536}}"#,
        r#"{"expose":{"port":5,"colour":1}}"#,
    ] {
        assert_eq!(host.ask(&mut peer, request)["error"]["code"], "bad_request", "{request}");
    }
}

#[test]
fn host_without_natfw_says_how_to_enable_it() {
    let mut host = host(|natfw| natfw.enabled = false);
    let mut peer = host.connect();
    let answer = host.ask(&mut peer, r#"{"open":{"to":"10.0.9.9:5"}}"#);
    assert!(answer["error"]["message"].as_str().unwrap().contains("enabled = true"), "{answer}");
    assert!(answer["error"]["hint"].as_str().unwrap().contains("restart"), "{answer}");
}

/// A host alone: the engine finds no next node, and the row of the application says so until it is released.
#[test]
fn refused_session_is_listed_with_reason() {
    let mut host = host(|_| {});
    let mut peer = host.connect();
    let request = r#"{"open":{"to":"10.0.9.9:5001","transport":"datagrams","follow":true}}"#;
    let id = host.ask(&mut peer, request)["ok"]["application"].clone();
    let mut events = Vec::new();
    for _ in 0..1_000 {
        let Some(at) = host.driver.next_deadline() else { break };
        host.now = at.max(host.now);
        host.driver.expire(host.now);
        host.hub.publish(host.now, &mut host.driver);
        host.serve(&peer);
        events.extend(peer.lines());
        if events.iter().any(|event| event["event"]["event"] == "refused") {
            break;
        }
    }
    let refused = events.iter().find(|event| event["event"]["event"] == "refused");
    let refused = &refused.expect("an event")["event"];
    assert_eq!((&refused["application"], &refused["part"]), (&id, &json!("natfw")), "{refused}");
    let rows = show(&mut host, &mut peer, "applications");
    assert_eq!(rows[0]["outcome"]["kind"], "unanswered", "{rows}");
    assert!(rows[0]["last"].as_str().unwrap().contains("could not be sent"), "{rows}");
    let released = host.ask(&mut peer, &json!({ "release": { "application": id } }).to_string());
    assert_eq!(released["ok"]["applications"], json!([id]));
}

//! Changes of applications over the control socket, on one host.

use serde_json::{Value, json};

use crate::host::{Host, Peer};
use crate::trace::{ask, pass};

/// Opens an application, and returns its number.
fn opened(host: &mut Host, peer: &mut Peer, request: &str) -> u64 {
    let (answer, _) = ask(host, peer, request);
    answer["ok"]["application"].as_u64().unwrap_or_else(|| panic!("{request}: {answer}"))
}

/// Rates of the reservations on this node, bits per second.
fn reserved(host: &mut Host, peer: &mut Peer) -> Vec<u64> {
    let (answer, _) = ask(host, peer, r#"{"show":{"what":"reservations"}}"#);
    let rows = answer["ok"]["rows"].as_array().expect("rows").clone();
    rows.iter().map(|row| row["rate_bps"].as_u64().expect("a rate")).collect()
}

/// What cannot be changed is named, and nothing changes.
#[test]
fn impossible_changes_are_refused_with_advice() {
    let listen = r#"{"listen":{"on":"10.0.1.1:5001","rate_bps":1000000}}"#;
    let yessir = r#"{"listen":{"protocol":"yessir","on":"10.0.1.1:5000"}}"#;
    let ping = r#"{"ping":{"to":"10.0.9.9"}}"#;
    let query =
        r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":2000000,"query":true}}"#;
    let invited = r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":2000000,"options":{"by_receiver":true}}}"#;
    let send = r#"{"reserve":{"to":"10.0.9.9:5001","rate_bps":2000000}}"#;
    let [boomerang, nsis] = ["boomerang", "nsis"].map(|protocol| {
        let to = json!({ "protocol": protocol, "to": "10.0.9.9:5001", "rate_bps": 2_000_000 });
        json!({ "reserve": to }).to_string()
    });
    let (boomerang, nsis) = (boomerang.as_str(), nsis.as_str());
    let stream = r#"{"reserve":{"protocol":"yessir","to":"10.0.9.9:5000","from":"10.0.1.1:5000","rate_bps":8000}}"#;
    for (open, change, code, part) in [
        (listen, json!({ "burst_octets": 9 }), "rejected", "bucket depth"),
        (listen, json!({ "peak_bps": 9 }), "rejected", "peak rate"),
        (listen, json!({ "token": "x" }), "rejected", "token"),
        (yessir, json!({ "rate_bps": 9000 }), "rejected", "nothing to change"),
        (ping, json!({ "rate_bps": 9000 }), "rejected", "cannot be changed"),
        (query, json!({ "rate_bps": 9000 }), "rejected", "a query cannot be changed"),
        (invited, json!({ "rate_bps": 9000 }), "rejected", "the receiver reserves"),
        (send, json!({ "rate_bps": 0 }), "rejected", "a rate of 0"),
        (send, json!({ "options": { "speed": 9 } }), "bad_request", "speed"),
        (send, json!({ "to": "10.0.9.9:1" }), "bad_request", "unknown field `to`"),
        (boomerang, json!({ "options": { "interval_s": 9 } }), "rejected", "interval_s"),
        (nsis, json!({ "options": { "secure": true } }), "rejected", "secure"),
        (stream, json!({ "options": { "interval_s": "soon" } }), "bad_request", "soon"),
    ] {
        let mut host = Host::new();
        let mut peer = host.connect();
        let application = opened(&mut host, &mut peer, open);
        let mut members = change.clone();
        members["application"] = application.into();
        let (answer, _) = ask(&mut host, &mut peer, &json!({ "change": members }).to_string());
        let error = &answer["error"];
        let text = error["message"].as_str().unwrap_or_default();
        assert!(error["code"] == code && text.contains(part), "{open} {change}: {answer}");
        let (listed, _) = ask(&mut host, &mut peer, r#"{"show":{"what":"applications"}}"#);
        assert_eq!(listed["ok"]["rows"].as_array().map(Vec::len), Some(1), "{listed}");
    }
    let mut host = Host::new();
    let mut peer = host.connect();
    let (answer, _) = ask(&mut host, &mut peer, r#"{"change":{"application":7,"rate_bps":9000}}"#);
    assert_eq!(answer["error"]["code"], "no_such_application");
}

/// The events of a change go to the client that asked for them, until the outcome. A refusal leaves what was reserved, in the
/// ledger and in the listing, and the next change starts from there.
#[test]
fn refused_change_leaves_the_reservation() {
    let mut host = Host::new();
    let mut owner = host.connect();
    let open = r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:5001","rate_bps":2000000}}"#;
    let application = opened(&mut host, &mut owner, open);
    pass(&mut host, &owner, 30);
    let mut peer = host.connect();
    let mut change = |host: &mut Host, rate: u64| {
        let change = json!({ "application": application, "rate_bps": rate, "follow": true });
        let (answer, events) = ask(host, &mut peer, &json!({ "change": change }).to_string());
        let kind = answer["ok"]["before"]["outcome"]["kind"].clone();
        let is_refusal = |event: &Value| event["event"]["outcome"]["kind"] == "refused";
        (answer["ok"]["rate_bps"].clone(), kind, events.iter().any(is_refusal))
    };
    let (rate, kind, is_refused) = change(&mut host, 4_000_000);
    assert_eq!((rate, kind, is_refused), (json!(2_000_000), json!("only_here"), false));
    pass(&mut host, &owner, 60);
    assert_eq!(reserved(&mut host, &mut owner), [4_000_000]);

    // 7 Mbit/s of the link may be reserved.
    let (rate, _, is_refused) = change(&mut host, 8_000_000);
    assert_eq!((rate, is_refused), (json!(4_000_000), true));
    pass(&mut host, &owner, 90);
    assert_eq!(reserved(&mut host, &mut owner), [4_000_000]);
    let (listed, _) = ask(&mut host, &mut owner, r#"{"show":{"what":"applications"}}"#);
    assert_eq!(listed["ok"]["rows"][0]["outcome"]["kind"], "only_here");
    let (rate, ..) = change(&mut host, 1_000_000);
    assert_eq!(rate, json!(4_000_000), "what was refused is forgotten");
    pass(&mut host, &owner, 120);
    assert_eq!(reserved(&mut host, &mut owner), [1_000_000]);
    assert_eq!(owner.lines(), Vec::<Value>::new(), "the owner follows nothing");
}

/// Options that set the rate end with another rate; others stay.
#[test]
fn rate_replaces_the_options_that_set_it() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let open = r#"{"reserve":{"protocol":"yessir","to":"10.0.9.9:5000","from":"10.0.1.1:5000","options":{"codec":{"payload_type":0,"frames":1},"shared":true}}}"#;
    let application = opened(&mut host, &mut peer, open);
    let before = reserved(&mut host, &mut peer);
    assert!(before[0] < 200_000, "{before:?}");
    let change = json!({ "change": { "application": application, "rate_bps": 3_000_000 } });
    let (answer, _) = ask(&mut host, &mut peer, &change.to_string());
    assert!(answer["ok"].is_object(), "{answer}");
    assert_eq!(reserved(&mut host, &mut peer), [3_000_000]);
}

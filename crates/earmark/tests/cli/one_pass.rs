//! `earmark reserve` with Boomerang and YESSIR, against a scripted daemon.

use serde_json::{Value, json};

use earmark_testkit::command_line::{status, stderr, stdout};

use super::{ScriptedDaemon, earmark, event_of, opened};

const LOOP: [&str; 9] = [
    "reserve",
    "--protocol",
    "boomerang",
    "--to",
    "10.0.2.2:5001",
    "--forward",
    "2Mbit",
    "--reverse",
    "500kbit",
];
const STREAM: [&str; 9] = [
    "reserve",
    "--protocol",
    "yessir",
    "--from",
    "10.0.1.2:5000",
    "--to",
    "10.0.2.2:5000",
    "--rate",
    "2Mbit",
];

fn event(protocol: &str, kind: &str, more: &Value) -> Value {
    let mut members = more.clone();
    members["event"] = json!(kind);
    event_of(protocol, &members)
}

/// The answer of a receiver, with the offer of the path and the failures of hops.
fn answered(failures: &Value) -> Value {
    let path = json!({
        "send_ttl": 64, "hops": 3, "other_hops": false, "path_mtu": 1_500, "available": 562_500.0, "latency_us": 30
    });
    let answer = json!({ "path": path, "failures": failures });
    let kind = if failures == &json!([]) { "whole" } else { "part" };
    let outcome = json!({ "kind": kind, "hops_without": 0, "nodes": 3 });
    let more = json!({ "receiver": "10.0.2.2", "answer": answer, "outcome": outcome });
    event("yessir", "answered", &more)
}

/// The event with the count of nodes that take part in a loop.
fn reached(outcome: &Value) -> Value {
    event("boomerang", "reached", &json!({ "reach": outcome, "outcome": outcome }))
}

fn kept() -> Vec<Value> {
    vec![json!({ "ok": { "application": 7 } })]
}

fn released() -> Vec<Value> {
    vec![json!({ "ok": { "applications": [7] } })]
}

/// Runs a command. Returns its exit status, its output, and its requests.
fn run(name: &str, script: Vec<Vec<Value>>, arguments: &[&[&str]]) -> (i32, String, Vec<Value>) {
    let (output, requests) = ScriptedDaemon::start(name, script).run(&arguments.concat());
    assert_eq!(stderr(&output), "");
    (status(&output), stdout(&output), requests)
}

#[test]
fn returned_loop_is_kept() {
    let rates = json!({ "forward": 2_000_000, "reverse": 500_000 });
    let more = json!({ "rates": rates, "interval": 30, "confirmed": true });
    let established = event("boomerang", "established", &more);
    let whole = reached(&json!({ "kind": "whole", "nodes": 2 }));
    let script = vec![vec![opened("sender"), established, whole], kept()];
    let (status, text, requests) = run("loop", script, &[&LOOP]);
    assert_eq!(status, 0);
    assert_eq!(
        text,
        "reserved 2 Mbit/s there and 500 kbit/s back for 10.0.2.2:5001 in 25.0 ms; `earmark release 7` ends it\n  \
         reserved on the whole path, with 2 other nodes\n"
    );
    assert_eq!(requests[0]["reserve"]["hold"], true, "until it stands it hangs on the connection");
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));
}

#[test]
fn refused_loop_is_status_3_with_available_rates() {
    let offer = json!({ "forward": 1_000_000, "reverse": 0 });
    let refused = event("boomerang", "refused", &json!({ "offer": offer, "reaction": "release" }));
    let script = vec![vec![opened("sender"), refused], released()];
    let (status, text, requests) = run("loop-refused", script.clone(), &[&LOOP]);
    assert_eq!(status, 3);
    assert!(text.contains("help: 1 Mbit/s there and 0 bit/s back is available"), "{text}");
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }), "nothing is left behind");
    let (status, text, _) = run("loop-refused-json", script, &[&LOOP, &["--json"]]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &answer["outcome"]["kind"]), (3, &json!("refused")));
    assert_eq!(answer["offer"], json!({ "forward_bps": 1_000_000, "reverse_bps": 0 }));
}

#[test]
fn answered_stream_is_kept() {
    let script = vec![vec![opened("sender"), answered(&json!([]))], kept()];
    let (status, text, requests) = run("stream", script, &[&STREAM, &["--class", "ef"]]);
    assert_eq!(status, 0);
    assert_eq!(
        text,
        "reserved 2 Mbit/s for 10.0.2.2:5000 in 25.0 ms; `earmark release 7` ends it\n  reserved on the whole path, with 3 \
         other nodes\n"
    );
    let asked = &requests[0]["reserve"];
    assert_eq!((&asked["protocol"], &asked["rate_bps"]), (&json!("yessir"), &json!(2_000_000)));
    assert_eq!(asked["options"]["class"], 46);
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));
}

#[test]
fn stream_refused_by_a_hop_is_refused_or_partial() {
    let failure =
        json!({ "reason": "Bandwidth", "hop": 1, "available": 125_000.0, "node": "10.0.1.1" });
    let script = |then| vec![vec![opened("sender"), answered(&json!([failure]))], then];
    let (status, text, requests) = run("stream-refused", script(released()), &[&STREAM]);
    assert_eq!(status, 3);
    assert!(text.contains("10.0.1.1 refused: "), "{text}");
    assert!(text.contains("; 1 Mbit/s available there\n  help: "), "{text}");
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }), "nothing is left behind");

    let (status, text, requests) = run("stream-part", script(kept()), &[&STREAM, &["--partial"]]);
    assert_eq!(status, 0);
    assert!(
        text.starts_with(
            "reserved 2 Mbit/s for 10.0.2.2:5000, but not everywhere (10.0.1.1 refused"
        ),
        "{text}"
    );
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));
}

/// A query leaves nothing behind: its application is tied to the connection, which ends with the command.
#[test]
fn query_reports_available_rates_and_keeps_nothing() {
    let rates = json!({ "forward": 5_500_000, "reverse": 500_000 });
    let offer = json!({ "offer": rates, "outcome": { "kind": "whole", "offer": true } });
    let script = vec![vec![opened("sender"), event("boomerang", "offered", &offer)]];
    let (status, text, requests) = run("loop-query", script, &[&LOOP, &["--query"]]);
    assert_eq!(status, 0);
    assert_eq!(
        text,
        "5.5 Mbit/s there and 500 kbit/s back available to 10.0.2.2:5001\n  offered on the whole path\n"
    );
    assert_eq!(requests.len(), 1);

    let script = vec![vec![opened("sender"), answered(&json!([]))]];
    let (status, text, requests) = run("stream-query", script.clone(), &[&STREAM, &["--query"]]);
    assert_eq!(status, 0);
    assert_eq!(
        text,
        "4.5 Mbit/s available over 3 nodes with YESSIR (packets of 1500 octets, latency 30 us) to 10.0.2.2:5000\n  \
         reserved on the whole path, with 3 other nodes\n"
    );
    assert_eq!((requests.len(), &requests[0]["reserve"]["query"]), (1, &json!(true)));
    let (_, text, _) = run("stream-query-json", script, &[&STREAM, &["--query", "--json"]]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&answer["outcome"]["kind"], &answer["offer"]["hops"]),
        (&json!("whole"), &json!(3))
    );
}

#[test]
fn options_of_another_protocol_are_wrong_usage() {
    for (line, more) in [
        (&LOOP, ["--codec", "0"]),
        (&LOOP, ["--rate", "1Mbit"]),
        (&STREAM, ["--forward", "1Mbit"]),
        (&STREAM, ["--secret", "file"]),
    ] {
        let output = earmark(&[&line[..], &more].concat());
        assert_eq!(status(&output), 2, "{}", stderr(&output));
    }
    let rsvp = ["reserve", "--to", "10.0.2.2:5000", "--rate", "1Mbit", "--class", "ef"];
    assert_eq!(status(&earmark(&rsvp)), 2);
}

//! Reach of a reservation, with a scripted daemon: texts, members and exit statuses are common to all protocols.

use serde_json::{Value, json};

use earmark_testkit::command_line::{status, stderr, stdout};

use super::{ScriptedDaemon, event_of, opened};

/// A protocol: its name, the command, and the events that report the reach of the reservation.
type Case = (&'static str, &'static [&'static str], fn(&Value) -> Vec<Value>);

const CASES: [Case; 4] = [
    ("rsvp", &["reserve", "--to", "10.0.2.2:5000", "--rate", "2Mbit"], rsvp),
    (
        "boomerang",
        &["reserve", "--protocol", "boomerang", "--to", "10.0.2.2:5000", "--forward", "2Mbit"],
        boomerang,
    ),
    (
        "yessir",
        &[
            "reserve",
            "--protocol",
            "yessir",
            "--from",
            "10.0.1.2:5000",
            "--to",
            "10.0.2.2:5000",
            "--rate",
            "2Mbit",
        ],
        yessir,
    ),
    ("nsis", &["reserve", "--protocol", "nsis", "--to", "10.0.2.2:5000", "--rate", "2Mbit"], nsis),
];

fn event(protocol: &str, outcome: &Value, mut more: Value) -> Value {
    more["outcome"] = outcome.clone();
    event_of(protocol, &more)
}

fn rsvp(outcome: &Value) -> Vec<Value> {
    let filter = json!({ "source": "10.0.1.1", "selector": { "Port": 0 } });
    let bucket = json!({
        "rate": 250_000.0, "depth": 10_000.0, "peak": "infinity", "min_policed_unit": 64, "max_packet_size": 1_500
    });
    let session = json!({ "destination": "10.0.2.2", "protocol": 17, "flags": 0, "port": 5_000 });
    vec![event(
        "rsvp",
        outcome,
        json!({
            "event": "resv", "session": session, "filter": filter, "style": "FixedFilter",
            "flowspec": { "ControlledLoad": bucket },
        }),
    )]
}

fn boomerang(outcome: &Value) -> Vec<Value> {
    let rates = json!({ "forward": 2_000_000, "reverse": 0 });
    let established =
        json!({ "event": "established", "rates": rates, "interval": 30, "confirmed": true });
    let open = json!({ "kind": "unverified" });
    vec![
        event("boomerang", &open, established),
        event("boomerang", outcome, json!({ "event": "reached", "reach": outcome })),
    ]
}

fn yessir(outcome: &Value) -> Vec<Value> {
    let answer = json!({ "path": null, "failures": [] });
    let more = json!({ "event": "answered", "receiver": "10.0.2.2", "answer": answer });
    vec![event("yessir", outcome, more)]
}

fn nsis(outcome: &Value) -> Vec<Value> {
    let session = "0".repeat(32);
    let more = json!({
        "event": "reserved", "part": "qos", "session": session, "rate": 2_000_000, "breaks": false
    });
    vec![event("nsis", outcome, more)]
}

fn outcome(kind: &str) -> Value {
    let mut outcome = json!({ "kind": kind, "by": { "node": "10.0.2.2", "message": "RESPONSE" } });
    if kind == "part" {
        let more = json!({ "from": "10.0.1.1", "to": "10.0.1.2", "hops_without": 1 });
        outcome.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    outcome
}

/// Runs a command whose reservation has this kind of outcome. Returns status, output, and the last request.
fn run((name, command, events): Case, kind: &str, more: &[&str]) -> (i32, String, Value) {
    let mut first = vec![opened("sender")];
    first.extend(events(&outcome(kind)));
    // If the node rejects the trace, the known outcome stays.
    let busy = json!({ "error": { "code": "rejected", "message": "busy", "hint": "" } });
    let is_kept = more.contains(&"--partial") || matches!(kind, "whole" | "unverified");
    let done = match is_kept {
        true => json!({ "ok": { "application": 7 } }),
        false => json!({ "ok": { "applications": [7] } }),
    };
    let script = match (name, kind) {
        ("rsvp", "whole") => vec![first, vec![done]],
        ("rsvp", _) => vec![first, vec![busy], vec![done]],
        _ => vec![first, vec![done]],
    };
    let daemon = ScriptedDaemon::start(&format!("outcome-{name}-{kind}-{}", more.len()), script);
    let (output, requests) = daemon.run(&[command, more, &["--timeout", "2s"]].concat());
    assert_eq!(stderr(&output), "", "{name} {kind}");
    (status(&output), stdout(&output), requests.last().unwrap().clone())
}

#[test]
fn each_kind_has_its_exit_status_for_every_protocol() {
    let released = json!({ "release": { "application": 7 } });
    let kept = json!({ "keep": { "application": 7 } });
    for case in CASES {
        for (kind, expected) in [("whole", 0), ("unverified", 0), ("part", 5), ("only_here", 6)] {
            let (status, text, last) = run(case, kind, &[]);
            assert_eq!(status, expected, "{} {kind}: {text}", case.0);
            assert_eq!(last, if status == 0 { kept.clone() } else { released.clone() }, "{kind}");
            let begins =
                if status == 0 { "reserved 2 Mbit/s" } else { "not reserved on the whole" };
            assert!(text.starts_with(begins), "{} {kind}: {text}", case.0);
            assert_eq!(text.contains("help: "), status != 0, "{text}");
        }
    }
}

#[test]
fn partial_reservation_succeeds_with_partial_option() {
    for case in CASES {
        for kind in ["part", "only_here"] {
            let (status, text, last) = run(case, kind, &["--partial"]);
            assert_eq!(status, 0, "{} {kind}: {text}", case.0);
            assert_eq!(last, json!({ "keep": { "application": 7 } }));
            assert!(text.starts_with("reserved 2 Mbit/s"), "{text}");
        }
    }
}

#[test]
fn text_names_reach_and_reporting_node() {
    for case in CASES {
        let (_, text, _) = run(case, "part", &[]);
        let expected = "\n  reserved on part of the path from 10.0.1.1 to 10.0.1.2; 1 hop takes no part, says \
                        10.0.2.2 (RESPONSE)\n";
        assert!(text.contains(expected), "{text}");
        let (_, text, _) = run(case, "only_here", &[]);
        assert!(text.contains("\n  reserved on this node only; no router further on"), "{text}");
    }
}

#[test]
fn json_has_the_same_members_for_every_protocol() {
    for case in CASES {
        for (kind, status) in [("whole", 0), ("part", 5)] {
            let (got, text, _) = run(case, kind, &["--json"]);
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(got, status, "{answer}");
            let output = &answer["outcome"];
            assert_eq!(
                (&output["kind"], &output["by"]["node"]),
                (&json!(kind), &json!("10.0.2.2"))
            );
            let members: Vec<&str> =
                output.as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(
                members,
                [
                    "kind",
                    "offer",
                    "by",
                    "from",
                    "to",
                    "hops_without",
                    "nodes",
                    "refused_by",
                    "available_bps",
                    "translation"
                ]
            );
            let application = if status == 0 { json!(7) } else { Value::Null };
            assert_eq!(answer["application"], application, "what was released is no more");
        }
    }
}

//! `earmark trace`: tables and JSON from the answers of nodes, and an exit status for each kind of end.

use earmark_testkit::command_line::{status, stderr, stdout};
use serde_json::{Value, json};

use super::{ScriptedDaemon, event};

fn begun() -> Value {
    let sender = json!({ "address": "10.0.0.1", "port": 4000 });
    json!({ "ok": { "trace": 7, "sender": sender, "at_s": 1.0 } })
}

/// A node with 2 Mbit/s reserved, `hops` IP hops from the node before.
fn hop(incoming: Option<&str>, previous: Option<&str>, hops: u8) -> Value {
    let bucket = json!({
        "rate": 250_000.0, "depth": 10_000.0, "peak": "infinity", "min_policed_unit": 64, "max_packet_size": 1_500
    });
    json!({
        "incoming": incoming, "outgoing": "10.0.9.1", "previous_hop": previous, "arrival": 65_536, "ip_hops": hops,
        "no_path_state": false, "merged": hops == 3, "refresh_s": 30, "refresh_multiple": 3, "tspec": bucket,
        "style": "FixedFilter", "flowspec": { "ControlledLoad": bucket },
        "filters": [{ "source": "10.0.0.1", "selector": { "Port": 4000 } }],
    })
}

fn traced(hops: &[Value], end: &Value) -> Value {
    let sender = json!({ "source": "10.0.0.1", "selector": { "Port": 4000 } });
    event("traced", &json!({ "sender": sender, "last_hop": "10.0.2.2", "hops": hops, "end": end }))
}

fn run(name: &str, script: Vec<Value>, arguments: &[&str]) -> (std::process::Output, Vec<Value>) {
    let daemon = ScriptedDaemon::start(&format!("trace-{name}"), vec![script]);
    daemon.run(&[&["trace", "10.0.2.2:5001"], arguments].concat())
}

#[test]
fn answered_trace_is_printed_hop_by_hop() {
    let hops = [
        hop(Some("10.0.2.2"), Some("10.0.2.1"), 0),
        hop(Some("10.0.1.2"), Some("10.0.0.1"), 3),
        hop(None, None, 1),
    ];
    let script = vec![begun(), traced(&hops, &json!("sender"))];
    let (output, requests) =
        run("way", script, &["--from", "10.0.0.1:4000", "--max-hops", "9", "--timeout", "3s"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let request = json!({
        "to": "10.0.2.2:5001", "from": { "address": "10.0.0.1", "port": 4000 }, "ip_protocol": 17,
        "max_hops": 9, "timeout_ms": 3_000,
    });
    assert_eq!(requests, [json!({ "trace": request })]);
    let text = stdout(&output);
    for part in [
        "10.0.0.1:4000 -> 10.0.2.2:5001",
        "2 Mbit/s controlled-load",
        "this sender (FF)",
        "2 routers without RSVP",
        "merged with other branches",
        "30 s, K 3",
        "reached the sender",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let names: Vec<_> = ["10.0.2.2", "10.0.1.2", "10.0.0.1"].map(|name| text.rfind(name)).into();
    assert!(names.is_sorted() && !names.contains(&None), "from the receiver to the sender: {text}");
}

#[test]
fn trace_is_printed_as_json() {
    let hops =
        [hop(Some("10.0.2.2"), Some("10.0.1.2"), 4), hop(Some("10.0.1.2"), Some("10.0.0.1"), 2)];
    let end = json!({ "silent": { "node": "10.0.0.1" } });
    let (output, _) = run("json", vec![begun(), traced(&hops, &end)], &["--json"]);
    assert_eq!(status(&output), 4);
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&report["end"], &report["silent"]), (&json!("silent"), &json!("10.0.0.1")));
    assert!(report["hint"].as_str().is_some_and(|hint| hint.contains("--last-hop")), "{report}");
    assert!((report["after_ms"].as_f64().unwrap() - 25.0).abs() < 1e-6);
    let second = &report["hops"][1];
    assert_eq!((&second["node"], &second["reserved_bps"]), (&json!("10.0.1.2"), &json!(2_000_000)));
    assert_eq!(second["routers_without_rsvp"], 1);
    assert_eq!(report["hops"][0]["routers_without_rsvp"], 0, "the way to it is not the data's");
    assert_eq!(second["senders"], json!([{ "address": "10.0.0.1", "port": 4000 }]));
}

#[test]
fn every_end_has_exit_status_and_advice() {
    let lost = json!({
        "incoming": null, "outgoing": null, "previous_hop": null, "arrival": 0, "ip_hops": 1, "no_path_state": true,
        "merged": false, "refresh_s": 0, "refresh_multiple": 0, "tspec": null, "style": null, "flowspec": null,
        "filters": [],
    });
    let first = hop(Some("10.0.2.2"), Some("10.0.1.2"), 0);
    for (name, hops, end, code, says) in [
        (
            "none",
            vec![lost.clone()],
            json!("no_path_state"),
            1,
            "10.0.2.2 has no path state of this sender",
        ),
        (
            "lost",
            vec![first.clone(), lost],
            json!("no_path_state"),
            1,
            "10.0.1.2 has no path state of this sender, but",
        ),
        ("limit", vec![first.clone()], json!("hop_limit"), 0, "ended at 10.0.2.2"),
        (
            "gave-up",
            vec![first.clone()],
            json!("gave_up"),
            1,
            "10.0.2.2 could not forward the request",
        ),
        ("silence", vec![], json!({ "silent": { "node": "10.0.2.2" } }), 4, "from 10.0.2.2"),
        ("parts", vec![first], json!("incomplete"), 4, "parts of the answer were lost"),
    ] {
        let (output, _) = run(name, vec![begun(), traced(&hops, &end)], &[]);
        assert_eq!(status(&output), code, "{name}");
        let text = stdout(&output);
        assert!(text.contains(says), "{says}: {text}");
        assert_eq!(text.contains("help: "), name != "limit", "{text}");
    }
}

/// While a trace waits for an answer, text output shows the attempts; JSON output does not.
#[test]
fn the_search_for_a_silent_node_shows_progress() {
    let trying = |attempt: u8, reach: u8| {
        event(
            "tracing",
            &json!({ "last_hop": "10.0.2.2", "known": 1, "attempt": attempt, "reach": reach }),
        )
    };
    let end = traced(
        &[hop(Some("10.0.2.2"), Some("10.0.1.2"), 0)],
        &json!({ "silent": { "node": "10.0.1.2" } }),
    );
    let script = || vec![begun(), trying(1, 0), trying(2, 0), trying(1, 2), end.clone()];
    let (output, _) = run("progress", script(), &[]);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.contains("again") && said.contains("1 answer, asking 2"), "{said}");
    let (output, _) = run("no-progress", script(), &["--json"]);
    assert_eq!(stderr(&output), "");
}

#[test]
fn rejected_trace_is_printed_with_hint() {
    let problem = json!({ "error": { "code": "rejected", "message": "several senders", "hint": "choose one with --from" } });
    let (output, _) = run("rejected", vec![problem], &[]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("help: choose one with --from"), "{}", stderr(&output));
}

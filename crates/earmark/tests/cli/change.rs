//! `earmark change`, with a scripted daemon.

use earmark_testkit::command_line::{status, stderr, stdout};
use serde_json::{Value, json};

use super::{ScriptedDaemon, earmark, event_of, whole};

const CHANGE: [&str; 5] = ["change", "7", "--rate", "4Mbit", "--timeout=300ms"];

/// Answer to a change of an application of this protocol, of 2 Mbit/s so far.
fn begun(protocol: &str, kind: &str) -> Value {
    let before = json!({
        "application": 7, "protocol": protocol, "role": "sender", "destination": "10.0.2.2",
        "destination_port": 5_001, "ip_protocol": 17, "style": null, "senders": [], "held": false,
        "outcome": { "kind": kind }, "last": null,
    });
    json!({ "ok": { "before": before, "rate_bps": 2_000_000, "at_s": 1.0 } })
}

/// Event of NSIS with this outcome.
fn outcome(name: &str, outcome: &Value) -> Value {
    let members = json!({ "event": name, "text": "10.0.1.1 refuses", "rate": 4_000_000, "breaks": false, "outcome": outcome });
    event_of("nsis", &members)
}

#[test]
fn change_reports_the_granted_rate() {
    let reserved = outcome("reserved", &whole("RESPONSE"));
    let script = vec![vec![begun("nsis", "whole"), reserved]];
    let (output, requests) = ScriptedDaemon::start("change", script.clone()).run(&CHANGE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("changed to 4 Mbit/s to 10.0.2.2:5001 in 25.0 ms\n"), "{text}");
    let change = json!({ "application": 7, "rate_bps": 4_000_000, "follow": true });
    assert_eq!(requests, [json!({ "change": change })]);

    let daemon = ScriptedDaemon::start("change-json", script);
    let (output, _) = daemon.run(&[&CHANGE[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&answer["rate_bps"], &answer["application"]), (&json!(4_000_000), &json!(7)));
    assert_eq!(answer["outcome"]["kind"], "whole");
}

/// The first grant of Boomerang does not tell who takes part; the count of nodes does.
#[test]
fn change_waits_for_the_count_of_nodes() {
    let rates = json!({ "forward": 4_000_000, "reverse": 0 });
    let unverified = json!({ "kind": "unverified" });
    let changed = json!({ "event": "changed", "text": "", "rates": rates, "outcome": unverified });
    let reached = json!({ "event": "reached", "text": "", "outcome": whole("echo reply") });
    let events = [changed, reached].map(|event| event_of("boomerang", &event));
    let script = vec![[&[begun("boomerang", "whole")][..], &events[..]].concat()];
    let (output, _) = ScriptedDaemon::start("change-count", script).run(&CHANGE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("reserved on the whole path"), "{}", stdout(&output));
}

#[test]
fn refused_change_says_what_stays() {
    let refusal = json!({ "kind": "refused", "available_bps": 3_000_000 });
    let script = vec![vec![begun("nsis", "whole"), outcome("refused", &refusal)]];
    let (output, _) = ScriptedDaemon::start("change-refused", script.clone()).run(&CHANGE);
    assert_eq!(status(&output), 3);
    let expected = "refused after 25.0 ms: 10.0.1.1 refuses\n  2 Mbit/s to 10.0.2.2:5001 stays reserved\n  help: 3 Mbit/s is available there\n";
    assert_eq!(stdout(&output), expected);
    let daemon = ScriptedDaemon::start("change-refused-json", script);
    let (output, _) = daemon.run(&[&CHANGE[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&answer["rate_bps"], &answer["reason"]),
        (&json!(2_000_000), &json!("10.0.1.1 refuses"))
    );
    assert_eq!(answer["outcome"]["kind"], "whole");
}

/// A part of the stream that was reserved everywhere is refused somewhere: this is a refusal, too.
#[test]
fn partial_answer_to_a_change_is_a_refusal() {
    let part = json!({ "kind": "part", "refused_by": "10.0.1.1", "available_bps": 1_000_000 });
    let answered = event_of("yessir", &json!({ "event": "answered", "text": "", "outcome": part }));
    let script = vec![vec![begun("yessir", "whole"), answered.clone()]];
    let (output, _) = ScriptedDaemon::start("change-part", script).run(&CHANGE);
    assert_eq!(status(&output), 3, "{}", stdout(&output));
}

#[test]
fn unanswered_change_says_what_stays() {
    let script = vec![vec![begun("rsvp", "whole")]];
    let (output, _) = ScriptedDaemon::start("change-silence", script).run(&CHANGE);
    assert_eq!(status(&output), 4);
    let text = stdout(&output);
    assert!(text.contains("\n  2 Mbit/s to 10.0.2.2:5001 stays reserved\n"), "{text}");
    assert!(
        text.contains("a router has refused it, which RSVP reports to the receiver only"),
        "{text}"
    );
}

/// Nothing is awaited if nothing was reserved.
#[test]
fn change_of_a_pending_request_is_not_awaited() {
    let script = vec![vec![begun("rsvp", "pending")]];
    let (output, _) = ScriptedDaemon::start("change-pending", script).run(&CHANGE);
    assert_eq!(status(&output), 0);
    let expected =
        "application 7 requests 4 Mbit/s to 10.0.2.2:5001 now; nothing was reserved before\n";
    assert_eq!(stdout(&output), expected);
}

#[test]
fn change_without_a_change_is_wrong_usage() {
    for arguments in [&["change", "7"][..], &["change", "7", "--reverse", "1Mbit"], &["change"]] {
        let output = earmark(arguments);
        assert_eq!(status(&output), 2, "{}", stderr(&output));
    }
}

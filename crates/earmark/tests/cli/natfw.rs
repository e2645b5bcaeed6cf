//! `earmark open`, `earmark expose` and their listings, against a scripted daemon.

use serde_json::{Value, json};

use earmark_testkit::command_line::{status, stderr, stdout};

use super::{ScriptedDaemon, earmark, event_of, opened};

const OPEN: [&str; 5] = ["open", "--to", "198.51.100.7:5001", "--timeout", "300ms"];
const EXPOSE: [&str; 4] = ["expose", "5001", "--timeout", "300ms"];

fn event(kind: &str, more: &Value) -> Value {
    let mut members = more.clone();
    members["event"] = json!(kind);
    members["part"] = json!("natfw");
    event_of("nsis", &members)
}

fn granted(external: &Value) -> Value {
    let outcome = json!({ "kind": "unverified", "by": { "node": null, "message": "RESPONSE" } });
    let more = json!({
        "external": external, "bindings": [], "lifetime": 1_575, "outcome": outcome, "text": "granted"
    });
    event("granted", &more)
}

fn refused(refusal: &Value) -> Value {
    event("refused", &json!({ "refusal": refusal, "outcome": { "kind": "refused" } }))
}

fn released() -> Vec<Value> {
    vec![json!({ "ok": { "applications": [7] } })]
}

fn kept() -> Vec<Value> {
    vec![json!({ "ok": { "application": 7 } })]
}

#[test]
fn opened_path_is_kept_until_release() {
    let script = vec![vec![opened("sender"), granted(&Value::Null)], kept()];
    let daemon = ScriptedDaemon::start("natfw-open", script.clone());
    let more = ["--from", ":4000", "--next-port", "--lifetime", "30min", "--secure"];
    let (output, requests) = daemon.run(&[&OPEN[..], &more].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "opened the path to 198.51.100.7:5001 in 25.0 ms; `earmark release 7` ends it\n  granted for 1575 s, and refreshed\n"
    );
    let expected = json!({
        "to": "198.51.100.7:5001", "from": "0.0.0.0:4000", "ip_protocol": 17, "next_port": true, "proxy": "off",
        "lifetime_s": 1_800, "transport": "secure", "hold": true, "follow": true
    });
    assert_eq!(requests[0]["open"], expected);
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));

    let daemon = ScriptedDaemon::start("natfw-open-json", script);
    let (output, _) = daemon.run(&[&OPEN[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&answer["lifetime_s"], &answer["application"]), (&json!(1_575), &json!(7)));
    assert_eq!(answer["outcome"]["kind"], "unverified");
}

#[test]
fn exposed_port_is_printed_with_its_external_address() {
    let external = json!({ "address": "203.0.113.1", "port": 40_000 });
    let script = vec![vec![opened("receiver"), granted(&external)], kept()];
    let daemon = ScriptedDaemon::start("natfw-expose", script.clone());
    let (output, requests) = daemon.run(&EXPOSE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "port 5001 may be reached at 203.0.113.1:40000 from any host in 25.0 ms; `earmark release 7` ends it\n  \
         granted for 1575 s, and refreshed\n  data passes once its sender has opened the path: `earmark open --to \
         203.0.113.1:40000`\n"
    );
    assert_eq!(
        (&requests[0]["expose"]["port"], &requests[0]["expose"]["deny"]),
        (&json!(5_001), &json!(false))
    );

    let daemon = ScriptedDaemon::start("natfw-expose-json", script.clone());
    let (output, _) = daemon.run(&[&EXPOSE[..], &["--json"]].concat());
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["external"], external);

    let daemon = ScriptedDaemon::start("natfw-deny", script);
    let (output, requests) =
        daemon.run(&[&EXPOSE[..], &["--deny", "--from", "192.0.2.9"]].concat());
    assert!(
        stdout(&output).starts_with("blocked for data from 192.0.2.9: port 5001"),
        "{}",
        stdout(&output)
    );
    assert_eq!(
        (&requests[0]["expose"]["from"], &requests[0]["expose"]["deny"]),
        (&json!("192.0.2.9"), &json!(true))
    );
}

#[test]
fn refusal_is_reported_with_advice_and_released() {
    let authorization = json!({ "answered": { "severity": "permanent failure", "outcome": "authorization failed", "code": 2 } });
    for (refusal, expected, reason, advice) in [
        (authorization, 3, "authorization failed", "[[natfw.rule]]"),
        (json!({ "unsent": "no_next_node" }), 4, "could not be sent: no next node", "--proxy"),
        (json!("unanswered"), 4, "no node has answered", "`earmark ping`"),
    ] {
        let daemon = ScriptedDaemon::start(
            "natfw-refused",
            vec![vec![opened("sender"), refused(&refusal)], released()],
        );
        let (output, requests) = daemon.run(&OPEN);
        let text = stdout(&output);
        assert_eq!(status(&output), expected, "{text}");
        assert!(text.starts_with("refused after 25.0 ms: ") && text.contains(reason), "{text}");
        assert!(text.contains("\n  help: ") && text.contains(advice), "{text}");
        assert_eq!(
            requests[1],
            json!({ "release": { "application": 7 } }),
            "nothing is left behind"
        );
    }
    let daemon = ScriptedDaemon::start("natfw-silence", vec![vec![opened("sender")], released()]);
    let (output, requests) = daemon.run(&OPEN);
    assert_eq!(status(&output), 4);
    assert!(stdout(&output).starts_with("no answer within 300.0 ms"), "{}", stdout(&output));
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }));
}

#[test]
fn held_session_ends_with_its_events() {
    let ended = event(
        "ended",
        &json!({
            "info": { "severity": "informational", "outcome": "NATFW signaling session terminated", "code": 5 },
            "text": "ended by a node on the path"
        }),
    );
    let script = vec![vec![opened("sender"), granted(&Value::Null), ended], released()];
    let daemon = ScriptedDaemon::start("natfw-hold", script);
    let (output, requests) = daemon.run(&[&OPEN[..], &["--hold"]].concat());
    assert_eq!(status(&output), 3);
    let text = stdout(&output);
    assert!(text.contains("it ends with this command"), "{text}");
    assert!(text.ends_with("ended by a node on the path\n"), "{text}");
    assert!(stderr(&output).contains("help: request it again"), "{}", stderr(&output));
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }));
}

#[test]
fn contradictory_options_are_wrong_usage() {
    for (arguments, reason) in [
        (&["open", "--to", "192.0.2.1:5", "--spi", "7"][..], "--ip-protocol esp or ah"),
        (&["open", "--to", "192.0.2.1", "--next-port"], "requires a port"),
        (
            &["open", "--to", "192.0.2.1", "--icmp-type", "8", "--ip-protocol", "udp"],
            "--ip-protocol icmp",
        ),
        (&["open", "--to", "192.0.2.1:5", "--proxy", "--probe"], "cannot be used with"),
        (&["open", "--to", "192.0.2.1:5", "--secure", "--datagrams"], "cannot be used with"),
        (&["open", "--to", "192.0.2.1:5", "--ip-protocol", "ospf"], "an IP protocol is udp"),
        (&["expose", "5", "--deny", "--proxy"], "cannot be used with"),
        (&["expose", "65536"], "65536"),
        (&["expose"], "PORT"),
    ] {
        let output = earmark(arguments);
        assert_eq!(status(&output), 2, "{arguments:?}");
        assert!(stderr(&output).contains(reason), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn pinholes_say_what_they_wait_for() {
    let session = "0".repeat(32);
    let pending = json!({
        "session": session, "message": "CREATE", "role": "forwarder", "stage": "pending", "expires_in_s": 12.0,
        "action": "allow", "ip_protocol": 17, "source": "10.0.0.1", "source_port": 0, "destination": "198.51.100.7",
        "destination_port": 5_001, "new_source": { "address": "203.0.113.1", "port": 40_000 }, "installed": false,
        "reason": "waits for the responder"
    });
    let installed = json!({
        "session": session, "message": "CREATE", "role": "initiator", "stage": "established", "application": 7,
        "user": "alice@example.org", "expires_in_s": null, "action": "deny", "ip_protocol": 1, "source": null,
        "source_port": 0, "destination": "198.51.100.8", "destination_port": 0, "icmp_type": 8, "installed": true
    });
    let rows = json!([pending, installed]);
    let answer = json!({ "ok": { "rows": rows, "more": false } });
    let daemon = ScriptedDaemon::start("pinholes", vec![vec![answer.clone()]]);
    let (output, requests) = daemon.run(&["show", "pinholes", "--limit", "2"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(requests, [json!({ "show": { "what": "pinholes", "limit": 2, "after": "start" } })]);
    let table = stdout(&output);
    for text in [
        "pending: waits for the responder",
        "198.51.100.7:5001",
        "from 203.0.113.1:40000",
        "icmp type 8",
        "installed",
        "alice@example.org",
        "any",
        "in 12.0 s",
    ] {
        assert!(table.contains(text), "{text}\n{table}");
    }
    let daemon = ScriptedDaemon::start("pinholes-json", vec![vec![answer]]);
    let (output, _) = daemon.run(&["show", "pinholes", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(shown, rows, "nothing is lost between daemon and terminal");
}

#[test]
fn translations_are_listed() {
    let row = json!({
        "session": "0".repeat(32), "message": "EXTERNAL", "role": "responder", "stage": "established",
        "expires_in_s": 1_500.0, "action": "allow", "ip_protocol": 6,
        "internal": { "address": "10.0.0.1", "port": 22 }, "external": { "address": "203.0.113.1", "port": 40_000 },
        "from": null
    });
    let answer = json!({ "ok": { "rows": [row], "more": false } });
    let daemon = ScriptedDaemon::start("translations", vec![vec![answer]]);
    let (output, _) = daemon.run(&["show", "translations"]);
    let table = stdout(&output);
    for text in ["tcp", "10.0.0.1:22", "203.0.113.1:40000", "any", "responder", "established"] {
        assert!(table.contains(text), "{text}\n{table}");
    }
    let nothing = json!({ "ok": { "rows": [], "more": false } });
    for (what, text) in [("pinholes", "`earmark open`"), ("translations", "`earmark expose`")] {
        let daemon = ScriptedDaemon::start("natfw-nothing", vec![vec![nothing.clone()]]);
        let (output, _) = daemon.run(&["show", what]);
        assert!(stdout(&output).contains(text), "{}", stdout(&output));
    }
}

//! Levels of the log: readers see them, operators change them, and each error says what to do.

use serde_json::{Value, json};

use crate::host::Host;

fn level(answer: &Value, target: &str) -> Value {
    let rows = answer["ok"]["targets"].as_array().expect("targets");
    rows.iter().find(|row| row["target"] == target).expect(target)["level"].clone()
}

#[test]
fn levels_are_set_shown_and_reset() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let shown = host.ask(&mut peer, r#"{"log":{}}"#);
    assert_eq!(shown["ok"]["format"], "text", "{shown}");
    assert_eq!(level(&shown, "ledger"), "off", "the log of this test is nobody's");
    let set = r#"{"log":{"set":{"all":"warn","ledger":"debug"},"for_ms":60000}}"#;
    let set = host.ask(&mut peer, set);
    assert_eq!((level(&set, "ledger"), level(&set, "audit")), (json!("debug"), json!("warn")));
    let row = &set["ok"]["targets"][0];
    assert!(row["for_ms"].as_u64().is_some_and(|left| left <= 60_000), "{row}");
    let reset = host.ask(&mut peer, r#"{"log":{"reset":true}}"#);
    assert_eq!(level(&reset, "ledger"), "off");
    assert_eq!(reset["ok"]["targets"][0]["for_ms"], Value::Null);
}

#[test]
fn invalid_levels_change_nothing_and_say_why() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for (line, words) in [
        (r#"{"log":{"set":{"nothing":"debug"}}}"#, "the targets are all, daemon, ledger"),
        (r#"{"log":{"set":{"ledger":"debug","nothing":"debug"}}}"#, "unknown target \"nothing\""),
        (r#"{"log":{"set":{"ledger":"loud"}}}"#, "unknown variant `loud`"),
        (r#"{"log":{"for_ms":1000}}"#, "for_ms without levels"),
        (r#"{"log":{"set":{"ledger":"debug"},"for_ms":-1}}"#, "invalid value"),
        (r#"{"log":{"level":"debug"}}"#, "unknown field `level`"),
    ] {
        let answer = host.ask(&mut peer, line);
        assert_eq!(answer["error"]["code"], "bad_request", "{line}: {answer}");
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(words), "{line}: {message}");
    }
    assert_eq!(level(&host.ask(&mut peer, r#"{"log":{}}"#), "ledger"), "off");
}

#[test]
fn longest_time_is_no_error() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let line = format!(r#"{{"log":{{"set":{{"ledger":"info"}},"for_ms":{}}}}}"#, u64::MAX);
    assert_eq!(level(&host.ask(&mut peer, &line), "ledger"), "info");
    let counters = host.ask(&mut peer, r#"{"show":{"what":"counters"}}"#);
    assert_eq!(counters["ok"]["rows"][0]["log"]["lost"], 0, "{counters}");
}

//! `trace` over the control socket: messages sent, recipients of the events, and rejected requests.

use earmark_core::Time;
use serde_json::{Value, json};

use crate::SEND;
use crate::host::{Host, Peer};

const TRACE: &str = r#"{"trace":{"to":"10.0.9.9:5001"}}"#;

/// Sends a request. Returns the answer and the events that arrived with it.
pub(crate) fn ask(host: &mut Host, peer: &mut Peer, line: &str) -> (Value, Vec<Value>) {
    peer.say(line.as_bytes());
    peer.say(b"\n");
    host.serve(peer);
    let (events, answers): (Vec<Value>, Vec<Value>) =
        peer.lines().into_iter().partition(|line| line.get("event").is_some());
    let [answer] = answers.as_slice() else { panic!("{line}: {answers:?}") };
    (answer.clone(), events)
}

/// Serves the daemon's timers until `seconds`.
pub(crate) fn pass(host: &mut Host, peer: &Peer, seconds: u64) {
    let end = Time::from_secs(seconds);
    while let Some(deadline) = host.driver.next_deadline().filter(|&deadline| deadline <= end) {
        host.now = deadline;
        host.driver.expire(deadline);
    }
    host.now = end;
    // The first call queues the events, the second sends them.
    host.serve(peer);
    host.serve(peer);
}

/// The receiver does not exist: the trace queries it, searches for the silent node, and ends.
#[test]
fn trace_reports_attempts_and_end_to_its_client() {
    let mut host = Host::new();
    let (mut peer, mut other) = (host.connect(), host.connect());
    ask(&mut host, &mut peer, SEND);
    host.driver.kernel().sent.clear();
    let (answer, events) = ask(&mut host, &mut peer, TRACE);
    let begun = &answer["ok"];
    assert_eq!(begun["sender"], json!({ "address": "10.0.1.1", "port": 0 }));
    let (how, message) = host.driver.kernel().sent.pop_front().expect("a question");
    assert_eq!((how.destination, message[1]), ("10.0.9.9".parse().unwrap(), 8));
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(events[0]["event"]["event"], "tracing");
    pass(&mut host, &peer, 30);
    let all = peer.lines();
    let last = &all.last().expect("more events")["event"];
    assert_eq!((&last["event"], &last["application"]), (&json!("traced"), &begun["trace"]));
    assert_eq!(
        (&last["hops"], &last["end"]),
        (&json!([]), &json!({ "silent": { "node": "10.0.9.9" } }))
    );
    host.serve(&other);
    host.serve(&other);
    assert_eq!(other.lines(), Vec::<Value>::new(), "nobody else is told");
    // A trace is not an application: it cannot be released and is not listed.
    let release = format!(r#"{{"release":{{"application":{}}}}}"#, begun["trace"]);
    let (answer, _) = ask(&mut host, &mut peer, &release);
    assert_eq!(answer["error"]["code"], "no_such_application");
}

#[test]
fn impossible_trace_is_rejected_with_advice() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for (line, says) in [
        (TRACE, "--from"),
        (r#"{"trace":{"to":"10.0.9.9:5001","from":{"address":"::1"}}}"#, "all IPv4 or all IPv6"),
        (
            r#"{"trace":{"to":"10.0.9.9:5001","from":{"address":"10.0.1.1"},"last_hop":"239.1.1.1"}}"#,
            "single nodes",
        ),
    ] {
        let (answer, _) = ask(&mut host, &mut peer, line);
        assert_eq!(answer["error"]["code"], "rejected", "{line}: {answer}");
        assert!(answer["error"]["hint"].as_str().unwrap().contains(says), "{answer}");
    }
    for port in [4_000, 4_001] {
        let from = format!(r#""from":"10.0.1.1:{port}","to""#);
        ask(&mut host, &mut peer, &SEND.replace("\"to\"", &from));
    }
    for (named, ambiguous) in [
        ("", true),
        (r#","from":{"address":"10.0.1.1"}"#, true),
        (r#","from":{"address":"10.0.1.1","port":4001}"#, false),
    ] {
        let line = TRACE.replace("5001\"", &format!("5001\"{named}"));
        let (answer, _) = ask(&mut host, &mut peer, &line);
        assert_eq!(answer.get("error").is_some(), ambiguous, "{line}: {answer}");
        if ambiguous {
            let hint = answer["error"]["hint"].as_str().unwrap();
            assert!(hint.contains("10.0.1.1:4000") && hint.contains("10.0.1.1:4001"), "{hint}");
        } else {
            assert_eq!(answer["ok"]["sender"]["port"], 4_001);
        }
    }
}

/// A client that disconnects before the end of its trace leaves no state behind.
#[test]
fn trace_of_disconnected_client_leaves_no_state() {
    let mut host = Host::new();
    let mut peer = host.connect();
    ask(&mut host, &mut peer, SEND);
    ask(&mut host, &mut peer, TRACE);
    drop(peer.stream.shutdown(std::net::Shutdown::Both));
    host.serve(&peer);
    assert!(!host.is_connected(&peer));
    let mut other = host.connect();
    pass(&mut host, &other, 30);
    assert_eq!(other.lines(), Vec::<Value>::new());
    let (answer, _) = ask(&mut host, &mut other, TRACE);
    assert!(answer["ok"]["trace"].is_u64(), "{answer}");
}

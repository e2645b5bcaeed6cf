//! The `earmark` command as seen by users and scripts: output, its stream, and exit status.
//!
//! If a command needs a daemon, the test replaces it: it listens on a socket of its own and answers with scripted messages of
//! the control protocol. Real daemons are tested elsewhere; these tests cover how the command handles their answers.

#[path = "cli/change.rs"]
mod change;
#[path = "cli/listing.rs"]
mod listing;
#[path = "cli/natfw.rs"]
mod natfw;
#[path = "cli/one_pass.rs"]
mod one_pass;
#[path = "cli/outcome.rs"]
mod outcome;
#[path = "cli/token.rs"]
mod token;
#[path = "cli/trace.rs"]
mod trace;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::process::{Command, Output};
use std::thread::JoinHandle;

use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use serde_json::{Value, json};

fn earmark(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_earmark")).args(arguments).output().unwrap()
}

/// A scripted daemon: answers each request with the next lines of its script, and returns the requests at the end.
struct ScriptedDaemon {
    socket: String,
    thread: JoinHandle<Vec<Value>>,
    _directory: TemporaryDirectory,
}

impl ScriptedDaemon {
    fn start(name: &str, script: Vec<Vec<Value>>) -> ScriptedDaemon {
        let directory = TemporaryDirectory::new(name);
        let path = directory.0.join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut requests = Vec::new();
            let mut script = script.into_iter();
            for line in BufReader::new(stream.try_clone().unwrap()).lines() {
                let Ok(line) = line else { break };
                requests.push(serde_json::from_str(&line).unwrap());
                for answer in script.next().unwrap_or_default() {
                    // The command may have ended already.
                    let _ = writeln!(stream, "{answer}");
                }
            }
            requests
        });
        ScriptedDaemon { socket: path.to_str().unwrap().to_owned(), thread, _directory: directory }
    }

    /// Runs the command against the scripted daemon. Returns its output and its requests.
    fn run(self, arguments: &[&str]) -> (Output, Vec<Value>) {
        let mut all = vec!["--control", &self.socket];
        all.extend(arguments);
        let output = earmark(&all);
        (output, self.thread.join().unwrap())
    }
}

#[test]
fn log_levels_are_requested_and_an_unknown_target_is_an_error() {
    let row = json!({
        "target": "ledger", "level": "debug", "started_with": "info", "for_ms": 600_000,
        "about": "reservations",
    });
    let answer = json!({ "ok": { "format": "text", "targets": [row] } });
    let daemon = ScriptedDaemon::start("log-set", vec![vec![answer]]);
    let (output, requests) = daemon.run(&["log", "set", "ledger=debug", "10m"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("600 s"), "{}", stdout(&output));
    assert_eq!(requests, [json!({"log": {"set": {"ledger": "debug"}, "for_ms": 600_000}})]);

    let problem = json!({ "code": "bad_request", "message": "unknown target", "hint": "one of" });
    let daemon = ScriptedDaemon::start("log-unknown", vec![vec![json!({ "error": problem })]]);
    let (output, _) = daemon.run(&["log", "set", "nothing=debug"]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("unknown target"), "{}", stderr(&output));
}

#[test]
fn configuration_is_compared_applied_and_confirmed() {
    let answer = json!({ "ok": {
        "files": ["earmark.toml"], "more": false, "links": [],
        "differences": [{ "key": "rsvp.refresh", "running": null, "file": "\"9s\"", "effect": "reload" }],
        "pending": { "left_ms": 60_000, "by": "user olga (uid 7)" },
    }});
    let empty = json!({ "compare": {} });
    for (arguments, asked, told) in [
        (&["diff"][..], empty.clone(), "rsvp.refresh"),
        (&["apply", "--dry-run"], empty, "\"9s\""),
        (&["apply"], json!({ "apply": {} }), "reload"),
        (
            &["apply", "--confirm-within", "60s"],
            json!({ "apply": { "confirm_within_ms": 60_000 } }),
            "settings of user olga (uid 7) await `earmark config confirm`",
        ),
        (&["confirm"], json!({ "confirm": {} }), "the settings stay"),
        (&["rollback"], json!({ "roll_back": {} }), "the earlier settings run again"),
    ] {
        let daemon = ScriptedDaemon::start("config", vec![vec![answer.clone()]]);
        let (output, requests) = daemon.run(&[&["config"], arguments].concat());
        assert_eq!(status(&output), 0, "{arguments:?}: {}", stderr(&output));
        assert!(stdout(&output).contains(told), "{arguments:?}: {}", stdout(&output));
        assert_eq!(requests, [json!({ "config": asked })], "{arguments:?}");
    }
    let daemon = ScriptedDaemon::start("config-json", vec![vec![answer.clone()]]);
    let (output, _) = daemon.run(&["config", "diff", "--json"]);
    let printed: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    assert_eq!(printed, answer["ok"]);

    let problem = json!({ "code": "rejected", "message": "a.toml:3: one", "hint": "two" });
    let daemon = ScriptedDaemon::start("config-refused", vec![vec![json!({ "error": problem })]]);
    let (output, _) = daemon.run(&["config", "apply", "--dry-run"]);
    assert_eq!(
        (status(&output), stderr(&output)),
        (1, "earmark: a.toml:3: one\n  help: two\n".to_owned())
    );

    for arguments in [&["--dry-run", "--confirm-within", "9s"][..], &["--confirm-within", "x"]] {
        let output = earmark(&[&["config", "apply"], arguments].concat());
        assert_eq!(status(&output), 2, "{arguments:?}");
    }
}

/// The environment names the socket, unless an argument does.
#[test]
fn control_socket_may_come_from_the_environment() {
    let answer = || vec![vec![json!({ "ok": { "rows": [], "more": false } })]];
    let (first, second) =
        (ScriptedDaemon::start("first", answer()), ScriptedDaemon::start("second", answer()));
    for (arguments, asked) in [(vec![], &first), (vec!["--control", &second.socket], &second)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_earmark"));
        command.env("EARMARK_CONTROL", &first.socket).args(["show", "links"]).args(arguments);
        let output = command.output().unwrap();
        assert_eq!(status(&output), 0, "{}: {}", asked.socket, stderr(&output));
    }
    for daemon in [first, second] {
        assert_eq!(daemon.thread.join().unwrap().len(), 1, "one request each");
    }
}

const RESERVE: [&str; 7] =
    ["reserve", "--to", "10.0.2.2:5001", "--rate", "2Mbit", "--timeout", "300ms"];

fn opened(role: &str) -> Value {
    json!({ "ok": { "application": 7, "role": role, "at_s": 1.0 } })
}

/// The outcome of a reservation on the whole path, as reported by the receiver.
fn whole(message: &str) -> Value {
    json!({ "kind": "whole", "by": { "node": "10.0.2.2", "message": message } })
}

fn event(kind: &str, more: &Value) -> Value {
    let mut members = json!({
        "event": kind,
        "session": { "destination": "10.0.2.2", "protocol": 17, "flags": 0, "port": 5001 },
        "style": "FixedFilter",
        "filter": { "source": "10.0.1.1", "selector": { "Port": 0 } },
        "filters": [{ "source": "10.0.1.1", "selector": { "Port": 0 } }],
    });
    let more = more.as_object().unwrap().clone();
    members.as_object_mut().unwrap().extend(more);
    event_of("rsvp", &members)
}

/// An event of a protocol about the application, with these members.
fn event_of(protocol: &str, members: &Value) -> Value {
    let mut event = json!({ "at_s": 1.025, "protocol": protocol, "application": 7 });
    event.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    json!({ "event": event })
}

#[test]
fn confirmed_reservation_succeeds_and_is_kept() {
    let bucket = json!({
        "rate": 250_000.0, "depth": 10_000.0, "peak": "infinity", "min_policed_unit": 64, "max_packet_size": 1_500
    });
    let flowspec = json!({ "ControlledLoad": bucket });
    let resv = event("resv", &json!({ "flowspec": flowspec, "outcome": whole("Resv") }));
    let kept = json!({ "ok": { "application": 7 } });
    let daemon = ScriptedDaemon::start("success", vec![vec![opened("sender"), resv], vec![kept]]);
    let (output, requests) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "reserved 2 Mbit/s to 10.0.2.2:5001 in 25.0 ms; `earmark release 7` ends it\n  reserved on the whole path, says \
         10.0.2.2 (Resv)\n"
    );
    assert_eq!(requests[0]["reserve"]["hold"], true, "until it stands it hangs on the connection");
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));
}

#[test]
fn refused_reservation_is_status_3_with_reason() {
    let error =
        json!({ "node": "10.0.12.1", "flags": 0, "code": "AdmissionControlFailure", "value": 2 });
    let refused = event("resv_error", &json!({ "error": error, "flowspec": null }));
    let released = json!({ "ok": { "applications": [7] } });
    let script = vec![vec![opened("receiver"), refused], vec![released]];
    let daemon = ScriptedDaemon::start("refused", script.clone());
    let (output, requests) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 3);
    let text = stdout(&output);
    assert!(text.starts_with("refused after 25.0 ms: admission control failure"), "{text}");
    assert!(text.contains("(requested bandwidth unavailable), found by 10.0.12.1"), "{text}");
    assert!(text.contains("\n  help: request less"), "{text}");
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }), "nothing is left behind");

    let daemon = ScriptedDaemon::start("refused-json", script);
    let (output, _) = daemon.run(&[&RESERVE[..], &["--json"]].concat());
    assert_eq!(status(&output), 3);
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["outcome"]["kind"], "refused");
    assert_eq!((&answer["error"]["code"], &answer["error"]["value"]), (&json!(1), &json!(2)));
}

#[test]
fn timeout_is_status_4_with_advice() {
    let released = json!({ "ok": { "applications": [7] } });
    let daemon = ScriptedDaemon::start("silence", vec![vec![opened("sender")], vec![released]]);
    let (output, requests) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 4);
    let text = stdout(&output);
    assert!(text.starts_with("no answer within 300.0 ms: "), "{text}");
    assert!(text.contains("is `earmark listen` running on the receiver"), "{text}");
    assert!(text.contains("`earmark show applications` there shows it"), "{text}");
    assert_eq!(requests[1], json!({ "release": { "application": 7 } }));
}

#[test]
fn rejected_request_is_status_1_with_hint() {
    let problem = json!({ "error": { "code": "rejected", "message": "there is no route", "hint": "add one" } });
    let daemon = ScriptedDaemon::start("rejected", vec![vec![problem]]);
    let (output, _) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 1);
    assert_eq!(stderr(&output), "earmark: there is no route\n  help: add one\n");
}

#[test]
fn malformed_response_or_lost_connection_is_status_1() {
    // An unexpected answer is followed by a request for the version; one daemon is too old to know it.
    let bad =
        json!({ "error": { "code": "bad_request", "message": "unknown variant", "hint": "" } });
    let newer = json!({ "ok": { "protocol": 77, "earmark": "9.0.0" } });
    for (name, answer, said) in [
        ("garbled", bad.clone(), "the daemon speaks an older version of the control protocol"),
        ("newer", newer, "the daemon speaks version 77 of the control protocol"),
    ] {
        for odd in [json!("what?"), bad.clone()] {
            let daemon = ScriptedDaemon::start(name, vec![vec![odd], vec![answer.clone()]]);
            let (output, requests) = daemon.run(&["show", "links"]);
            assert_eq!(status(&output), 1);
            assert!(stderr(&output).contains(said), "{}", stderr(&output));
            assert_eq!(requests[1], json!({ "version": {} }));
        }
    }

    let stopping = json!({ "error": { "code": "stopping", "message": "the daemon stops", "hint": "start it" } });
    let daemon = ScriptedDaemon::start("stopping", vec![vec![opened("sender"), stopping]]);
    let (output, _) = daemon.run(&RESERVE);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("the daemon stops"));
}

/// `listen --wait` ties its application to the connection until the reservation is confirmed, and then detaches it.
#[test]
fn listen_waits_for_confirmation() {
    let filter = json!({ "source": "10.0.1.1", "selector": { "Port": 4_000 } });
    let more = json!({ "node": "10.0.1.1", "style": "SharedExplicit", "filters": [filter] });
    let kept = json!({ "ok": { "application": 7 } });
    let script = vec![vec![opened("receiver"), event("confirmed", &more)], vec![kept]];
    let daemon = ScriptedDaemon::start("wait", script);
    let listen = ["listen", "--on", "239.1.2.3:5001", "--style", "se", "--sender", "10.0.1.1:4000"];
    let (output, requests) = daemon.run(&[&listen[..], &["--wait", "300ms"]].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "reserved to 239.1.2.3:5001 in 25.0 ms; `earmark release 7` ends it\n  reserved; not known whether every hop takes \
         part\n",
        "a daemon that does not tell leaves it open"
    );
    let asked = &requests[0]["listen"];
    assert_eq!(
        (&asked["options"]["confirm"], &asked["hold"]),
        (&true.into(), &true.into()),
        "{asked}"
    );
    assert_eq!(asked["options"]["style"], "SE");
    assert_eq!(asked["options"]["senders"], json!([{ "address": "10.0.1.1", "port": 4_000 }]));
    assert_eq!(requests[1], json!({ "keep": { "application": 7 } }));
}

#[test]
fn missing_daemon_is_reported_with_advice() {
    for arguments in [&["show", "links"][..], &["watch"], &["release", "--all"], &RESERVE] {
        let output = earmark(&[&["--control", "/nonexistent/earmark.sock"], arguments].concat());
        assert_eq!(status(&output), 1);
        let text = stderr(&output);
        assert!(text.contains("is the daemon running? start it with `earmarkd"), "{text}");
        assert!(stdout(&output).is_empty());
    }
    let output = earmark(&["--json", "--control", "/nonexistent/earmark.sock", "show", "links"]);
    let error: Value = serde_json::from_str(&stderr(&output)).unwrap();
    assert_eq!(error["error"]["code"], "cannot_connect");
}

#[test]
fn wrong_usage_is_status_2() {
    for arguments in [&["shew"][..], &["show"], &["send"], &["release", "x"]] {
        assert_eq!(status(&earmark(arguments)), 2, "{arguments:?}");
    }
}

#[test]
fn listings_are_tables_for_people_and_arrays_for_programs() {
    let row = json!({
        "interface": "eth0", "index": 2, "up": true, "state": "up", "addresses": ["10.0.1.1"],
        "bandwidth_bps": 10_000_000, "reservable_bps": 7_500_000, "held_bps": 2_000_000, "claims": 1, "adopted": 0,
        "admission": { "method": "measured", "measured_bps": 600_000 }
    });
    let waiting = json!({
        "interface": "ppp0", "index": 0, "up": false, "state": "no_speed", "addresses": [], "bandwidth_bps": 0,
        "reservable_bps": 0, "held_bps": 0, "claims": 0, "adopted": 0
    });
    let answer = json!({ "ok": { "rows": [row, waiting], "more": false } });
    let daemon = ScriptedDaemon::start("table", vec![vec![answer.clone()]]);
    let (output, requests) = daemon.run(&["show", "links"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    for text in [
        "eth0",
        "up",
        "10 Mbit/s",
        "7.5 Mbit/s",
        "2 Mbit/s",
        "measured 600 kbit/s",
        "reservable",
        "no speed",
    ] {
        assert!(table.contains(text), "{table}");
    }
    assert_eq!(requests, [json!({ "show": { "what": "links" } })]);

    let daemon = ScriptedDaemon::start("array", vec![vec![answer]]);
    let (output, _) = daemon.run(&["show", "links", "--json"]);
    let rows: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(rows, json!([row, waiting]));
}

#[test]
fn reservations_show_their_traffic() {
    let row = |traffic: Value| {
        json!({
            "protocol": "rsvp", "destination": "10.0.2.2", "destination_port": 5001, "ip_protocol": 17,
            "senders": [{ "address": "10.0.1.1", "port": 0 }], "style": "FF", "service": "controlled-load",
            "interface": "eth0", "next_hop": "10.0.2.2", "rate_bps": 2_000_000, "burst_octets": 10_000,
            "age_s": 4_000.4, "expires_in_s": 157.5, "traffic": traffic
        })
    };
    let busy = json!({
        "packets": 1_234, "octets": 1_851_000, "drops": 56, "backlog_packets": 7, "backlog_octets": 10_500
    });
    let mut of_alice = row(busy);
    of_alice["user"] = json!({ "name": "alice@example.org", "proof": "verified" });
    let rows = [of_alice, row(Value::Null)];
    let answer = json!({ "ok": { "rows": rows, "more": false } });
    let daemon = ScriptedDaemon::start("traffic", vec![vec![answer.clone()]]);
    let (output, _) = daemon.run(&["show", "reservations"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let table = stdout(&output);
    for text in
        ["1234 (1851.0 kB)", "56", "7 (10.5 kB)", "alice@example.org", "verified", "1 h 6 min"]
    {
        assert!(table.contains(text), "{table}");
    }
    let last = table.lines().rfind(|line| line.contains("10.0.2.2")).unwrap();
    assert_eq!(last.matches(" - ").count(), 5, "{table}");

    let daemon = ScriptedDaemon::start("traffic-json", vec![vec![answer]]);
    let (output, _) = daemon.run(&["show", "reservations", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(shown, json!(rows), "nothing is lost between daemon and terminal");
}

#[test]
fn a_watch_ends_after_its_count_or_its_time() {
    let gone = event("resv_gone", &json!({}));
    let watching = json!({ "ok": { "node": "r1" } });
    let daemon = ScriptedDaemon::start("watch", vec![vec![watching.clone(), gone.clone(), gone]]);
    let (output, _) = daemon.run(&["watch", "--count", "1", "--json"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let lines = stdout(&output);
    assert_eq!(lines.lines().count(), 1);
    let notice: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(notice["event"], "resv_gone");

    let daemon = ScriptedDaemon::start("watch-time", vec![vec![watching]]);
    let (output, _) = daemon.run(&["watch", "--for", "50ms"]);
    assert_eq!(status(&output), 0);
    assert!(stdout(&output).is_empty());
}

#[test]
fn file_that_is_no_capture_is_refused() {
    let directory = TemporaryDirectory::new("decode");
    let none = directory.file("none.pcap", "this is not a capture file, whatever its name says");
    let output = earmark(&["decode", &none]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("neither a pcap nor a pcapng file"), "{}", stderr(&output));
    // An empty capture is the header of a little-endian pcap file of link type 101, raw IP.
    let mut header = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
    header.extend([0; 8]);
    header.extend([0xff, 0xff, 0, 0, 101, 0, 0, 0]);
    let empty = directory.0.join("empty.pcap");
    std::fs::write(&empty, header).unwrap();
    let output = earmark(&["decode", empty.to_str().unwrap()]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).starts_with("0 frames, 0 messages"), "{}", stderr(&output));
}

/// Invalid files and sockets lead to status 1 and one error that names the file and the reason.
#[test]
fn invalid_files_are_named_with_reason() {
    let directory = TemporaryDirectory::new("bad-files");
    let file = |name: &str, content: &str| directory.file(name, content);
    let root = directory.0.to_str().unwrap();
    let empty = &file("empty", "");
    let missing = &format!("{root}/none/s");
    let long = "x".repeat(200);
    // A pcap header, and the header of a missing frame of 100 octets.
    let cut = directory.0.join("cut").to_str().unwrap().to_owned();
    let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 101, 0, 0, 100, 100];
    std::fs::write(&cut, header.map(u32::to_le_bytes).concat()).unwrap();
    let table: &[(&[&str], &str)] = &[
        (&["show", "links", "--control", missing], "No such file"),
        (&["show", "links", "--control", empty], "Connection refused"),
        (&["show", "links", "--control", &long], "at most 107 octets"),
        (&["decode", missing], "No such file"),
        (&["decode", root], "Is a directory"),
        (&["decode", empty], "the file is empty"),
        (&["decode", &cut], "truncated after frame 0"),
    ];
    for (arguments, reason) in table {
        let output = earmark(arguments);
        let text = stderr(&output);
        assert_eq!(status(&output), 1, "{arguments:?}: {text}");
        assert!(text.starts_with("earmark: ") && text.contains(reason), "{arguments:?}: {text}");
        assert!(stdout(&output).is_empty(), "{arguments:?}");
        let named = arguments.iter().any(|argument| text.contains(argument));
        assert!(named, "{arguments:?}: the file is not named: {text}");

        let output = earmark(&[arguments, &["--json"][..]].concat());
        let error: Value = serde_json::from_str(&stderr(&output)).expect("errors are JSON too");
        assert!(error["error"]["code"].is_string(), "{error}");
    }
}

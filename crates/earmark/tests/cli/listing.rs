//! Listings: pages, filters, order, details.

use serde_json::{Value, json};

use super::{ScriptedDaemon, status, stderr, stdout};

/// A session to 10.0.2.2 with this port and rate.
fn session(port: u16, rate_bps: u64, expires_in_s: Option<f64>) -> Value {
    json!({
        "protocol": "rsvp", "destination": "10.0.2.2", "destination_port": port, "ip_protocol": 17,
        "source": "10.0.1.1", "source_port": 4_000, "previous_hop": null, "incoming": null, "outgoing": ["eth1"],
        "here": false, "rate_bps": rate_bps, "burst_octets": 10_000, "hops": 1, "expires_in_s": expires_in_s,
        "reserved": true
    })
}

/// An answer with a page; `next` is the position of the next one.
fn page(rows: &[Value], next: Option<&str>) -> Vec<Value> {
    let mut answer = json!({ "rows": rows, "more": next.is_some(), "examined": 512 });
    if let Some(next) = next {
        answer["next"] = next.into();
    }
    vec![json!({ "ok": answer })]
}

/// Three pages, one of them without rows.
fn pages() -> Vec<Vec<Value>> {
    vec![
        page(&[session(1, 2_500_000, None), session(2, 9_000_000, Some(3_725.0))], Some("rsvp:2")),
        page(&[], Some("rsvp:4711")),
        page(&[session(3, 1_000, Some(4.2))], None),
    ]
}

#[test]
fn pages_are_one_table_and_one_array() {
    let daemon = ScriptedDaemon::start("pages", pages());
    let (output, requests) = daemon.run(&["show", "sessions"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let after = |after: &str| json!({ "show": { "what": "sessions", "after": after } });
    assert_eq!(requests, ["start", "rsvp:2", "rsvp:4711"].map(after));
    let table = stdout(&output);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3 + 3 + 1, "{table}");
    assert_eq!(table.matches("destination").count(), 1, "{table}");
    assert!(lines[3].contains("10.0.2.2:1") && lines[5].contains("10.0.2.2:3"), "{table}");
    assert!(table.contains("in 1 h 2 min"), "{table}");
    let widths: Vec<usize> = lines.iter().map(|line| line.chars().count()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{table}");

    let daemon = ScriptedDaemon::start("pages-json", pages());
    let (output, _) = daemon.run(&["show", "sessions", "--json"]);
    let shown: Value = serde_json::from_str(&stdout(&output)).expect("one document");
    let rows = [
        session(1, 2_500_000, None),
        session(2, 9_000_000, Some(3_725.0)),
        session(3, 1_000, Some(4.2)),
    ];
    assert_eq!(shown, json!(rows));
}

#[test]
fn filters_and_limit_are_requested_from_the_daemon() {
    let answers = vec![
        page(&[session(1, 1, None)], Some("rsvp:2")),
        page(&[session(2, 1, None), session(3, 1, None)], Some("rsvp:4")),
    ];
    let daemon = ScriptedDaemon::start("filters", answers);
    let arguments = "show sessions --to 10.0.0.0/8 --from 10.0.1.1:4000 --link eth1 --protocol rsvp \
                     --state reserved --limit 2 --json";
    let (output, requests) = daemon.run(&arguments.split_whitespace().collect::<Vec<_>>());
    let filter = json!({
        "to": "10.0.0.0/8", "from": "10.0.1.1:4000", "link": "eth1", "protocol": "rsvp", "state": "reserved"
    });
    let show = |limit, after| json!({ "show": { "what": "sessions", "limit": limit, "after": after, "filter": filter } });
    assert_eq!(requests, [show(2, "start"), show(1, "rsvp:2")]);
    let shown: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(shown.as_array().map(Vec::len), Some(2), "{shown}");
    assert!(stderr(&output).contains("more rows"), "{}", stderr(&output));
    let nothing = ScriptedDaemon::start("filters-user", vec![page(&[], None)]);
    let (output, requests) = nothing.run(&["show", "reservations", "--user", "alice", "--json"]);
    assert_eq!(requests[0]["show"]["filter"], json!({ "user": "alice" }));
    assert_eq!(stdout(&output), "[]\n");
}

#[test]
fn rows_are_sorted_over_all_pages() {
    let ports = |name: &str, arguments: &[&str]| {
        let daemon = ScriptedDaemon::start(name, pages());
        let (output, requests) = daemon.run(&[&["show", "sessions", "--json"], arguments].concat());
        assert_eq!(status(&output), 0, "{}", stderr(&output));
        assert!(requests.iter().all(|request| request["show"]["limit"].is_null()), "{requests:?}");
        let shown: Vec<Value> = serde_json::from_str(&stdout(&output)).unwrap();
        let ports = shown.iter().map(|row| row["destination_port"].as_u64().unwrap());
        (ports.collect::<Vec<_>>(), stderr(&output).contains("more rows"))
    };
    assert_eq!(ports("sort-rate", &["--sort", "rate"]), (vec![3, 1, 2], false));
    assert_eq!(ports("sort-largest", &["--sort", "-rate", "--limit", "2"]), (vec![2, 1], true));
    assert_eq!(ports("sort-unknown-last", &["--sort=-expires"]), (vec![2, 3, 1], false));
    assert_eq!(ports("sort-second", &["--sort", "from,-to"]), (vec![3, 2, 1], false));
    let daemon = ScriptedDaemon::start("sort-by-nothing", vec![]);
    let (output, requests) = daemon.run(&["show", "sessions", "--sort", "colour"]);
    assert!(requests.is_empty(), "{requests:?}");
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).contains("the columns are by, to, from"), "{}", stderr(&output));
}

#[test]
fn details_are_blocks_with_units() {
    let daemon = ScriptedDaemon::start("details", pages());
    let (output, _) = daemon.run(&["show", "sessions", "--detail"]);
    let text = stdout(&output);
    let blocks: Vec<&str> = text.split("\n\n").collect();
    assert_eq!(blocks.len(), 3, "{text}");
    for line in [
        "rate                 2.5 Mbit/s",
        "burst                10.0 kB",
        "outgoing             eth1",
    ] {
        assert!(blocks[0].contains(line), "{text}");
    }
    assert!(!blocks[0].contains("expires"), "{text}");
    assert!(blocks[1].contains("expires in           1 h 2 min"), "{text}");
}

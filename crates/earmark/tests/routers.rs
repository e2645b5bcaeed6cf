//! `earmark --on`: answers of several routers in one, and failures of single ones.
//!
//! A shell script stands for `ssh`: it links the local socket to that of a fake daemon, fails, or hangs, by the name of the router.

#[path = "routers/ends.rs"]
mod ends;
#[path = "routers/fake.rs"]
mod fake;
#[path = "routers/hops.rs"]
mod hops;

use earmark_testkit::command_line::{status, stderr, stdout};
use serde_json::{Value, json};

use fake::{Network, error, ok};

/// A link of 10 Mbit/s with this reserved rate.
pub(crate) fn link(interface: &str, address: &str, held_bps: u64) -> Value {
    json!({
        "interface": interface, "index": 2, "up": true, "state": "up", "addresses": [address], "bandwidth_bps": 10_000_000,
        "reservable_bps": 7_500_000, "held_bps": held_bps, "claims": 1, "adopted": 0
    })
}

fn links(rows: &[Value]) -> Vec<Value> {
    ok(&json!({ "rows": rows, "more": false }))
}

fn two_routers() -> Network {
    let network = Network::new("two");
    network.daemon("r1", |_| {
        links(&[link("eth0", "10.0.1.1", 3_000_000), link("eth1", "10.0.2.1", 1_000_000)])
    });
    network.daemon("admin@r2", |_| links(&[link("eth0", "10.0.2.2", 2_000_000)]));
    network
}

#[test]
fn listings_of_routers_are_one_table_with_a_router_column() {
    let network = two_routers();
    let output = network.run(&["--on", "r1,admin@r2", "show", "links"]);
    assert_eq!((status(&output), stderr(&output).as_str()), (0, ""));
    let table = stdout(&output);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3 + 3 + 1, "{table}");
    assert!(lines[1].starts_with("│ router   ┆ link ┆ state"), "{table}");
    assert!(lines[3].starts_with("│ r1       ┆ eth0 ┆ up"), "{table}");
    assert!(lines[5].starts_with("│ admin@r2 ┆ eth0 ┆ up"), "{table}");

    let output = network.run(&["--on", "r1,admin@r2", "show", "links", "--json"]);
    let rows: Value = serde_json::from_str(&stdout(&output)).expect("one array");
    let routers: Vec<&Value> =
        rows.as_array().expect("an array").iter().map(|row| &row["router"]).collect();
    assert_eq!(routers, ["r1", "r1", "admin@r2"]);
    let mut expected = link("eth0", "10.0.1.1", 3_000_000);
    expected["router"] = "r1".into();
    assert_eq!(rows[0], expected);

    let output = network.run(&["--on", "r1", "show", "links", "--detail"]);
    assert!(stdout(&output).starts_with("router               r1\n"), "{}", stdout(&output));
}

#[test]
fn sort_and_limit_count_the_rows_of_all_routers() {
    let network = two_routers();
    for (arguments, expected, is_cut) in [
        (
            &["--sort=-reserved", "--limit", "2"][..],
            &[("r1", "eth0"), ("admin@r2", "eth0")][..],
            true,
        ),
        (
            &["--sort=router,-reserved"],
            &[("admin@r2", "eth0"), ("r1", "eth0"), ("r1", "eth1")],
            false,
        ),
        (&["--limit", "2"], &[("r1", "eth0"), ("r1", "eth1")], true),
        (&["--limit", "3"], &[("r1", "eth0"), ("r1", "eth1"), ("admin@r2", "eth0")], false),
        (&["--limit", "0"], &[], true),
    ] {
        let output =
            network.run(&[&["--json", "--on", "r1,admin@r2", "show", "links"], arguments].concat());
        assert_eq!(status(&output), 0, "{arguments:?}: {}", stderr(&output));
        let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).expect("one array");
        let shown: Vec<_> = rows
            .iter()
            .map(|row| {
                (row["router"].as_str().unwrap_or(""), row["interface"].as_str().unwrap_or(""))
            })
            .collect();
        assert_eq!(shown, expected, "{arguments:?}");
        assert_eq!(
            stderr(&output).contains("more rows"),
            is_cut,
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    let output = network.run(&["--on", "r1,admin@r2", "show", "links", "--sort", "colour"]);
    assert!(stderr(&output).contains("the columns are router, link"), "{}", stderr(&output));
}

#[test]
fn routers_that_fail_do_not_hide_the_others() {
    let network = two_routers();
    network.daemon("old", |_| error("bad_request", "unknown variant `version`"));
    network.daemon("strict", |_| error("forbidden", "this needs the group operators"));
    network.closing_daemon("dead");
    network.silent_daemon("silent");
    let names = "denied,r1,dead,strict,hangs,admin@r2,silent,old";
    let output = network.run(&["--connect-timeout", "700ms", "--on", names, "show", "links"]);
    assert_eq!(status(&output), 1);
    assert_eq!(stdout(&output).lines().count(), 3 + 3 + 1, "{}", stdout(&output));
    let errors = stderr(&output);
    for line in [
        "earmark: denied: no connection; ssh says: denied: Permission denied (publickey).\n  help: `ssh denied` must log in without a question",
        "earmark: dead: the daemon cannot be reached; ssh says: channel 2: open failed: connect failed: open failed\n  help: is the daemon running on dead",
        "earmark: strict: this needs the group operators\n",
        "earmark: hangs: no connection within 700.0 ms\n",
        "earmark: silent: the daemon does not answer within 700.0 ms\n",
        "earmark: old: the daemon speaks an older version of the control protocol",
    ] {
        assert!(errors.contains(line), "{line}: {errors}");
    }

    let output = network.run(&["--json", "--on", "denied,r1", "show", "links"]);
    assert_eq!(status(&output), 1);
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).expect("one array");
    assert_eq!(rows.len(), 2);
    let failure: Value = serde_json::from_str(&stderr(&output)).expect("one object");
    assert_eq!((&failure["router"], &failure["error"]["code"]), (&json!("denied"), &json!("ssh")));

    let output = network.run(&["--on", "denied", "show", "links"]);
    assert_eq!((status(&output), stdout(&output).as_str()), (1, ""));
}

#[test]
fn routers_that_have_not_answered_are_named() {
    let network = two_routers();
    let arguments = ["--connect-timeout", "2500ms", "--on", "r1,hangs", "show", "links"];
    let output = network.run(&arguments);
    let errors = stderr(&output);
    assert!(
        errors.starts_with("earmark: 1 of 2 routers connected; waiting for hangs\n"),
        "{errors}"
    );
    let output = network.run(&[&["--json"], &arguments[..]].concat());
    let failure: Value = serde_json::from_str(&stderr(&output)).expect("one object");
    assert_eq!(failure["router"], "hangs");
}

/// A router that refuses the listing itself, after it has answered who it is.
#[test]
fn refused_listing_is_the_failure_of_its_router() {
    let network = two_routers();
    network.daemon("r3", |request| match request.get("version") {
        Some(_) => ok(&json!({ "protocol": 4, "earmark": "0.1.0" })),
        None => error("forbidden", "this needs the group readers"),
    });
    for arguments in [&["show", "links"][..], &["show", "counters"], &["log", "show"]] {
        let output = network.run(&[&["--on", "r3"], arguments].concat());
        assert_eq!(status(&output), 1, "{arguments:?}");
        let errors = stderr(&output);
        assert!(
            errors.starts_with("earmark: r3: this needs the group readers\n"),
            "{arguments:?}: {errors}"
        );
    }
    let output = network.run(&["--json", "--on", "r3,r1", "show", "links"]);
    let rows: Vec<Value> = serde_json::from_str(&stdout(&output)).expect("one array");
    assert_eq!((status(&output), rows.len()), (1, 2));
}

#[test]
fn answers_bear_their_router_in_each_line() {
    let network = Network::new("answers");
    for (name, level) in [("r1", "info"), ("router2", "debug")] {
        let target = json!({ "target": "rsvp", "level": level, "started_with": "info", "for_ms": null, "about": "RSVP" });
        network.daemon(name, move |_| ok(&json!({ "format": "text", "targets": [target] })));
    }
    let output = network.run(&["--on", "r1,router2", "log", "show"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for line in [
        "│ router  ┆ target ┆",
        "│ r1      ┆ rsvp   ┆ info",
        "│ router2 ┆ rsvp   ┆ debug",
        "r1:      form: text\n",
        "router2: form: text\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let output = network.run(&["--json", "--on", "r1,router2", "log", "show"]);
    let text = stdout(&output);
    let objects: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((&objects[0]["router"], &objects[1]["router"]), (&json!("r1"), &json!("router2")));
    assert_eq!(objects[1]["targets"][0]["level"], "debug");
}

#[test]
fn events_of_all_routers_are_watched() {
    let network = Network::new("watch");
    for (name, protocol) in [("r1", "rsvp"), ("router2", "nsis")] {
        let event = json!({ "event": { "at_s": 1.0, "protocol": protocol, "event": "reservation", "text": "a flow" } });
        network.daemon(name, move |_| [ok(&json!({ "node": name })), vec![event.clone()]].concat());
    }
    let output = network.run(&["--on", "r1,router2", "watch", "--count", "2"]);
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    assert_eq!(stderr(&output), "watching 2 routers; Ctrl-C ends it\n");
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["r1:      1.000 s after the start  a flow", "router2: 1.000 s after the start  a flow"]
    );
    let arguments =
        ["--json", "--on", "r1,router2", "watch", "--protocol", "nsis", "--for", "500ms"];
    let text = stdout(&network.run(&arguments));
    let event: Value = serde_json::from_str(&text).expect("one event");
    assert_eq!((&event["router"], &event["protocol"]), (&json!("router2"), &json!("nsis")));
}

#[test]
fn command_that_changes_something_takes_one_router() {
    let network = Network::new("change");
    network.daemon("r1", |_| ok(&json!({ "applications": [7] })));
    let output = network.run(&["--on", "r1", "release", "7"]);
    assert_eq!((status(&output), stdout(&output).as_str()), (0, "r1: released 7\n"));
    let output = network.run(&["--json", "--on", "r1", "release", "7"]);
    assert_eq!(stdout(&output), "{\"router\":\"r1\",\"applications\":[7]}\n");
    let output = network.run(&["--on", "r1,r2", "release", "7"]);
    assert_eq!((status(&output), stdout(&output).as_str()), (2, ""));
    assert!(stderr(&output).contains("so it takes one router"), "{}", stderr(&output));
}

#[test]
fn names_that_ssh_would_misread_are_wrong_usage() {
    let network = Network::new("names");
    for names in ["-oProxyCommand=touch x", "r1,-v", "", "r1,", "r1,r1", "r1;x"] {
        let output = network.run(&[&format!("--on={names}"), "show", "links"]);
        assert_eq!(status(&output), 2, "{names}: {}", stderr(&output));
    }
    for socket in ["s", "/a:b", "/run/%h", "/run/${HOME}"] {
        let output = network.run(&["--control", socket, "--on", "r1", "show", "links"]);
        assert_eq!(status(&output), 1, "{socket}");
        assert!(stderr(&output).contains("cannot forward"), "{socket}: {}", stderr(&output));
    }
    assert!(!network.has_started_ssh());
}

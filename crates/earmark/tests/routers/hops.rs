//! `earmark trace --on`: a flow from router to router.

use earmark_testkit::command_line::{status, stderr, stdout};
use serde_json::{Value, json};

use super::fake::{Network, error, ok};
use super::link;

/// What a router says about a flow that leaves by eth1.
fn path(next_hop: Option<&str>, protocol: Option<&str>) -> Value {
    let claims: Vec<Value> = protocol
        .iter()
        .map(|protocol| {
            json!({
                "precedence": "governs", "protocol": protocol, "rate_bps": 2_000_000, "shared": false, "adopted": false,
                "matches": { "destination": { "address": "10.0.3.9", "length": 32 } }, "reservation": null,
            })
        })
        .collect();
    let enforcement = protocol.map(|_| json!({ "state": "enforced", "reason": null, "claims": 1 }));
    json!({
        "flow": {
            "destination": "10.0.3.9", "destination_port": 5001, "ip_protocol": 17, "source": "10.0.1.9", "source_port": 4000,
            "incoming": "eth0", "incoming_assumed": false, "mark": null, "mark_of_settings": false,
        },
        "outcome": "forwarded", "interface": "eth1", "next_hop": next_hop, "rule": null, "table": null, "route": null,
        "claims": claims, "claim_count": claims.len(), "elsewhere": [],
        "packets": {
            "get": if protocol.is_some() { "reserved" } else { "best_effort" }, "class": "ea4d:10", "priority": null,
            "bucket_bps": null, "classifier": "bpf", "queues": "per-flow", "enforcement": enforcement,
        },
        "warnings": if protocol.is_some() { json!([]) } else { json!(["look"]) },
    })
}

fn router(network: &Network, name: &str, addresses: [&'static str; 2], path: Value) {
    network.daemon(name, move |request| match request.get("path") {
        Some(_) => ok(&path),
        None => {
            let rows = [link("eth0", addresses[0], 0), link("eth1", addresses[1], 0)];
            ok(&json!({ "rows": rows, "more": false }))
        }
    });
}

fn network() -> Network {
    let network = Network::new("hops");
    router(&network, "r1", ["10.0.1.1", "10.0.2.1"], path(Some("10.0.2.2"), Some("boomerang")));
    router(&network, "r2", ["10.0.2.2", "10.0.3.1"], path(None, None));
    network
}

const FLOW: [&str; 3] = ["10.0.3.9:5001", "--from", "10.0.1.9:4000"];

#[test]
fn hops_are_rows_with_reservation_and_service() {
    let network = network();
    let output = network.run(&[&["trace", "--on", "r1,r2"], &FLOW[..]].concat());
    assert_eq!(status(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let cells = |name: &str| -> Vec<String> {
        let start = format!("│ {name} ");
        let line = text.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        let cells = line.split(['│', '┆']).map(|cell| cell.trim().to_owned());
        cells.filter(|cell| !cell.is_empty()).collect()
    };
    let first = ["r1", "eth0", "eth1", "10.0.2.2", "boomerang 2 Mbit/s", "enforced"];
    assert_eq!(cells("r1"), first, "{text}");
    assert_eq!(cells("r2"), ["r2", "eth0", "eth1", "on the link", "none", "best effort"], "{text}");
    assert!(text.starts_with("10.0.1.9:4000 -> 10.0.3.9:5001\n"), "{text}");
    let end = "r2: warning: look\narrived: 10.0.3.9 is on a link of r2\n";
    assert!(text.ends_with(end), "{text}");

    let output = network.run(&[&["--json", "--on", "r1,r2", "trace"], &FLOW[..]].concat());
    let shown: Value = serde_json::from_str(&stdout(&output)).expect("one object");
    let count = shown["hops"].as_array().map(Vec::len);
    assert_eq!((&shown["end"], count), (&json!("arrived"), Some(2)));
    let first = &shown["hops"][0];
    assert_eq!((&first["router"], &first["protocol"]), (&json!("r1"), &json!("boomerang")));
    assert_eq!((&first["get"], &first["rate_bps"]), (&json!("reserved"), &json!(2_000_000)));
}

#[test]
fn end_of_the_trace_is_the_exit_status() {
    let network = network();
    let without_links = |name: &str, answer: Vec<Value>| {
        network.daemon(name, move |request| match request.get("path") {
            Some(_) => answer.clone(),
            None => ok(&json!({ "rows": [], "more": false })),
        });
    };
    without_links("r3", error("rejected", "no such interface"));
    without_links("slow", Vec::new());
    let run = |routers: &str, more: &[&str]| {
        network.run(&[&["trace", "--on", routers], &FLOW[..], more].concat())
    };
    let output = run("r1", &[]);
    assert_eq!(status(&output), 5);
    let end = "r1 sends to 10.0.2.2, which is not an address of the routers named";
    assert!(stdout(&output).contains(end), "{}", stdout(&output));
    let output = run("r3,r1", &[]);
    assert_eq!(status(&output), 1);
    assert!(stderr(&output).starts_with("earmark: r3: no such interface"), "{}", stderr(&output));
    assert!(stdout(&output).ends_with("r3 could not be asked\n"), "{}", stdout(&output));
    let output = run("slow,r1", &["--timeout", "300ms"]);
    assert_eq!(status(&output), 4, "{}", stderr(&output));
    assert!(stderr(&output).starts_with("earmark: slow: the daemon does not answer in time\n"));
    // A router that is not on the path may fail, but the status says so.
    let output = run("r1,r2,denied", &[]);
    assert_eq!(status(&output), 1);
    assert!(stdout(&output).contains("arrived"), "{}", stdout(&output));
    for arguments in [&["--last-hop", "10.0.3.1"][..], &["--from", "10.0.1.9@7"]] {
        let output = network.run(&[&["trace", "--on", "r1", "10.0.3.9:5001"], arguments].concat());
        assert_eq!(status(&output), 2, "{arguments:?}: {}", stderr(&output));
    }
}

//! The outcome that `earmark reserve` reports is true whichever nodes take part: h1 - r1 - r2 - h2, some of which run a daemon,
//! for all four protocols.

use std::net::Ipv4Addr;
use std::process::Command;

use earmark_linux::link;
use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::host::{Host, Outcome, check, connect_in_row, until};

const NAMES: [&str; 4] = ["h1", "r1", "r2", "h2"];
/// Address of h2.
const FAR: &str = "10.0.3.2";

/// Four nodes in a row; between the nth and the next one is 10.0.n+1.0/24, with 1 on the left and 2 on the right.
struct Chain {
    nodes: Vec<Host>,
}

impl Chain {
    /// Creates the nodes, and starts daemons on some of them.
    fn new(daemons: &[&str]) -> Result<Chain, Failed> {
        let nodes = NAMES.iter().map(|name| Host::new(name)).collect::<Result<Vec<_>, _>>()?;
        for host in &nodes {
            link::sysctl(&host.namespace, "net.ipv6.conf.default.disable_ipv6", "1")?;
            link::sysctl(&host.namespace, "net.ipv4.conf.default.rp_filter", "0")?;
        }
        connect_in_row(&nodes)?;
        for (place, host) in (0_u8..).zip(&nodes) {
            link::sysctl(&host.namespace, "net.ipv4.ip_forward", "1")?;
            for net in 1..=3_u8 {
                let gateway = match net {
                    net if net < place => Ipv4Addr::new(10, 0, place, 1),
                    net if net > place + 1 => Ipv4Addr::new(10, 0, place + 1, 2),
                    _ => continue,
                };
                let prefix = format!("10.0.{net}.0/24").parse()?;
                link::add_route(&host.namespace, prefix, gateway.into())?;
            }
        }
        let mut chain = Chain { nodes };
        for (place, name) in NAMES.iter().enumerate() {
            if daemons.contains(name) {
                chain.start(place)?;
            }
        }
        Ok(chain)
    }

    fn start(&mut self, place: usize) -> Outcome {
        let mut text = String::new();
        for (name, is_there) in [("left", place > 0), ("right", place < 3)] {
            if is_there {
                text += &format!(
                    "[[interface]]\nname = \"{name}\"\nbandwidth = \"10Mbit\"\nclasses = 16\n"
                );
            }
        }
        self.nodes[place].start(&text)
    }

    /// Runs a command on a node. Returns its status and the printed object.
    fn ask(&self, node: usize, arguments: &[&str]) -> Result<(Option<i32>, Value), Failed> {
        self.nodes[node].json(arguments)
    }

    /// Reserves from h1. Checks status and kind, and that `show applications` agrees if the reservation is kept.
    fn expect(&self, arguments: &[&str], status: i32, kind: &str) -> Result<Value, Failed> {
        let all = [&["reserve", "--timeout", "15s"], arguments].concat();
        let (got, answer) = self.ask(0, &all)?;
        let what = format!("{arguments:?}: {got:?} {answer}");
        check(got == Some(status) && answer["outcome"]["kind"] == kind, &what)?;
        let (_, rows) = self.ask(0, &["show", "applications"])?;
        let rows = rows.as_array().ok_or("rows")?.clone();
        let kept = answer["application"].as_u64();
        check(kept.is_some() == (status == 0), &what)?;
        match kept {
            Some(kept) => {
                let row = rows.iter().find(|row| row["application"] == kept).ok_or("a row")?;
                check(row["outcome"]["kind"] == kind, &format!("{what}: {row}"))?;
                let output = self.nodes[0].earmark(&["show", "applications"])?;
                let table = String::from_utf8_lossy(&output.stdout).into_owned();
                check(table.contains("outcome"), &table)?;
                self.ask(0, &["release", &kept.to_string()])?;
            }
            None => check(rows.is_empty(), &format!("nothing is left behind: {rows:?}"))?,
        }
        Ok(answer["outcome"].clone())
    }

    fn listen(&self) -> Outcome {
        for protocol in ["rsvp", "yessir", "nsis"] {
            let on = format!("{FAR}:5000");
            self.ask(3, &["listen", "--protocol", protocol, "--on", &on])?;
        }
        Ok(())
    }
}

const TO: &str = "10.0.3.2:5000";
const RSVP: [&str; 4] = ["--to", TO, "--rate", "1Mbit"];
const LOOP: [&str; 6] = ["--protocol", "boomerang", "--to", TO, "--forward", "1Mbit"];
const BOTH: [&str; 8] =
    ["--protocol", "boomerang", "--to", TO, "--forward", "1Mbit", "--reverse", "1Mbit"];
const STREAM: [&str; 8] =
    ["--protocol", "yessir", "--from", "10.0.1.1:5000", "--to", TO, "--rate", "1Mbit"];
const NSIS: [&str; 6] = ["--protocol", "nsis", "--to", TO, "--rate", "1Mbit"];

fn partial<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &["--partial"]].concat()
}

/// Only the sender takes part, which was once reported as "reserved on the whole path".
pub(crate) fn only_the_sender_takes_part() -> Outcome {
    let chain = Chain::new(&["h1"])?;
    let short = |arguments: &[&'static str]| [arguments, &["--timeout", "1s"]].concat();
    let rsvp = [&["reserve"], &short(&RSVP)[..]].concat();
    let stream = [&["reserve"], &short(&STREAM)[..]].concat();
    for arguments in [rsvp, stream] {
        let (status, answer) = chain.ask(0, &arguments)?;
        check(status == Some(4) && answer["outcome"]["kind"] == "unanswered", &answer.to_string())?;
    }
    let nsis = chain.expect(&NSIS, 6, "only_here")?;
    check(nsis["by"] == json!({ "node": null, "message": "this node" }), &nsis.to_string())?;
    chain.expect(&partial(&NSIS), 0, "only_here")?;
    // The far end is an unmodified host, whose kernel answers the ping.
    let echo = chain.expect(&LOOP, 6, "only_here")?;
    check(echo["by"] == json!({ "node": FAR, "message": "echo reply" }), &echo.to_string())?;
    chain.expect(&partial(&LOOP), 0, "only_here")?;
    let output = chain.nodes[0].earmark(&[&["reserve"], &NSIS[..]].concat())?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(said.contains("reserved on this node only"), &said)?;
    check(said.contains("help: run a daemon on the routers"), &said)
}

pub(crate) fn both_ends_take_part() -> Outcome {
    let chain = Chain::new(&["h1", "h2"])?;
    chain.listen()?;
    let rsvp = chain.expect(&RSVP, 6, "only_here")?;
    check(rsvp["hops_without"] == 2 && rsvp["by"]["message"] == "trace", &rsvp.to_string())?;
    chain.expect(&partial(&RSVP), 0, "only_here")?;
    chain.expect(&STREAM, 6, "only_here")?;
    let nsis = chain.expect(&NSIS, 5, "part")?;
    check(nsis["by"] == json!({ "node": FAR, "message": "RESPONSE" }), &nsis.to_string())?;
    chain.expect(&LOOP, 6, "only_here")?;
    let both = chain.expect(&BOTH, 5, "part")?;
    check(both["hops_without"] == 4, &format!("two there, two back: {both}"))
}

pub(crate) fn one_router_takes_part() -> Outcome {
    let chain = Chain::new(&["h1", "r1", "h2"])?;
    chain.listen()?;
    let rsvp = chain.expect(&RSVP, 5, "part")?;
    check(rsvp["hops_without"] == 1 && rsvp["to"] == "10.0.2.1", &rsvp.to_string())?;
    chain.expect(&partial(&RSVP), 0, "part")?;
    let looped = chain.expect(&LOOP, 5, "part")?;
    check(looped["hops_without"] == 1 && looped["to"] == "10.0.2.1", &looped.to_string())?;
    chain.expect(&partial(&LOOP), 0, "part")?;
    let stream = chain.expect(&STREAM, 5, "part")?;
    check(stream["nodes"] == 1, &stream.to_string())?;
    chain.expect(&partial(&STREAM), 0, "part")?;
    chain.expect(&NSIS, 5, "part")?;
    chain.expect(&partial(&NSIS), 0, "part")?;

    // The receiver of RSVP detects the gap by the TTL.
    chain.ask(0, &["send", "--to", "10.0.3.2:6000", "--rate", "1Mbit"])?;
    let wait = ["listen", "--on", "10.0.3.2:6000", "--wait", "15s"];
    let (status, answer) = chain.ask(3, &wait)?;
    check(status == Some(5) && answer["outcome"]["kind"] == "part", &answer.to_string())?;
    let (status, _) = chain.ask(3, &partial(&wait))?;
    check(status == Some(0), "less will do")
}

/// The far end runs no daemon.
pub(crate) fn all_routers_take_part() -> Outcome {
    let chain = Chain::new(&["h1", "r1", "r2"])?;
    let looped = chain.expect(&LOOP, 0, "whole")?;
    check(looped["nodes"] == 2 && looped["to"] == "10.0.3.1", &looped.to_string())?;
    let both = chain.expect(&BOTH, 5, "part")?;
    check(both["hops_without"] == 1, &format!("the far end's own link: {both}"))?;
    let nsis = chain.expect(&NSIS, 0, "whole")?;
    check(nsis["by"]["node"] == "10.0.3.1", &nsis.to_string())?;
    // A router that is not the last one does not know which nodes are behind it.
    drop(chain);
    let chain = Chain::new(&["h1", "r1"])?;
    let nsis = chain.expect(&NSIS, 5, "part")?;
    check(nsis["by"]["node"] == "10.0.2.1", &nsis.to_string())?;
    let looped = chain.expect(&LOOP, 5, "part")?;
    check(looped["hops_without"].is_null(), &looped.to_string())
}

pub(crate) fn everybody_takes_part() -> Outcome {
    let chain = Chain::new(&NAMES)?;
    chain.listen()?;
    let rsvp = chain.expect(&RSVP, 0, "whole")?;
    check(rsvp["by"]["message"] == "trace" && rsvp["nodes"] == 3, &rsvp.to_string())?;
    let both = chain.expect(&BOTH, 0, "whole")?;
    check(both["nodes"] == 3, &both.to_string())?;
    let stream = chain.expect(&STREAM, 0, "whole")?;
    check(
        stream["by"] == json!({ "node": FAR, "message": "receiver report" }),
        &stream.to_string(),
    )?;
    let nsis = chain.expect(&NSIS, 0, "whole")?;
    check(nsis["by"] == json!({ "node": FAR, "message": "RESPONSE" }), &nsis.to_string())?;
    let output = chain.nodes[0].earmark(&[&["reserve"], &NSIS[..]].concat())?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(said.contains("\n  reserved on the whole path, says 10.0.3.2 (RESPONSE)"), &said)?;
    // A request beyond the capacity is refused by a node, with the available rate.
    let wide = ["--protocol", "nsis", "--to", "10.0.3.2:5002", "--rate", "7Mbit"];
    let (status, answer) = chain.ask(0, &[&["reserve"], &wide[..]].concat())?;
    let outcome = &answer["outcome"];
    check(status == Some(3) && outcome["kind"] == "refused", &answer.to_string())?;
    check(outcome["available_bps"] == 6_500_000, &answer.to_string())?;
    // The receiver of RSVP knows that the sender has confirmed.
    chain.ask(0, &["send", "--to", "10.0.3.2:6000", "--rate", "1Mbit"])?;
    let (status, answer) = chain.ask(3, &["listen", "--on", "10.0.3.2:6000", "--wait", "15s"])?;
    check(status == Some(0) && answer["outcome"]["kind"] == "whole", &answer.to_string())
}

/// The first router translates the sender's address: the translation is reported where it is detected, instead of "no answer".
pub(crate) fn address_translation_is_named() -> Outcome {
    let chain = Chain::new(&["h1", "h2"])?;
    for rule in [
        "add table ip nat",
        "add chain ip nat post { type nat hook postrouting priority 100 ; }",
        "add rule ip nat post oif right masquerade",
    ] {
        let mut nft = chain.nodes[1].namespace.command("nft")?;
        let output = nft.arg(rule).output()?;
        check(output.status.success(), &String::from_utf8_lossy(&output.stderr))?;
    }
    chain.listen()?;
    let seen = json!({ "named": "10.0.1.1", "seen": "10.0.2.1" });
    // The record of Boomerang contains the address that the far end has seen.
    let looped = chain.expect(&LOOP, 6, "only_here")?;
    check(looped["translation"] == seen, &looped.to_string())?;
    // GIST refuses messages whose addresses differ from those in their content, and both ends report it.
    let nsis = ["reserve", "--timeout", "15s", "--protocol", "nsis", "--to", TO, "--rate", "1Mbit"];
    let output = chain.nodes[0].earmark(&nsis)?;
    let said = String::from_utf8_lossy(&output.stdout);
    let expected = "address translation on the way: 10.0.1.1 arrives as another address";
    check(output.status.code() == Some(4) && said.contains(expected), &said)?;
    // RSVP reports the translation to the receiver only.
    let (status, _) = chain.ask(0, &[&["reserve", "--timeout", "2s"], &RSVP[..]].concat())?;
    check(status != Some(0), "nothing is reserved on the whole path")?;
    until("the receiver names it", || {
        let (_, rows) = chain.ask(3, &["show", "applications"])?;
        let rows = rows.as_array().ok_or("rows")?.clone();
        let told = |protocol: &str| {
            let row = rows.iter().find(|row| row["protocol"] == protocol);
            row.is_some_and(|row| row["outcome"]["translation"] == seen)
        };
        Ok((told("rsvp") && told("nsis")).then_some(()))
    })?;
    let (_, counters) = chain.ask(3, &["show", "counters"])?;
    check(counters["rsvp"]["translated"]["senders"] == 1, &counters["rsvp"].to_string())
}

/// Whether a tool for address translation is installed.
pub(crate) fn can_translate() -> bool {
    Command::new("nft").arg("--version").output().is_ok_and(|output| output.status.success())
}

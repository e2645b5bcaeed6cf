//! `earmark trace --on`: flows of all protocols from router to router, by the answers of real daemons.
//!
//! A shell script stands for `ssh`, and links the local socket to the control socket of a node.

use std::fs::Permissions;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use earmark_control::protocols::boomerang as loops;
use earmark_control::{ListenRequest, ReservationRequest};
use earmark_core::{Prefix, Rate};
use earmark_linux::link;
use earmark_scenario::topology::DEMO;
use earmark_testkit::command_line::{TemporaryDirectory, status, stderr, stdout};
use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::net::{Net, REFRESH, SLACK};
use crate::readme::COMMAND;
use crate::stream::{STREAM_PORT, announcement};
use crate::yessir::{DATA_PORT, Receiver, Sender};
use crate::{Outcome, boomerang, qos};

const SSH: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do
    [ "$1" != -L ] || forward=$2
    shift
done
ln -s "$(dirname "$0")/$2.sock" "${forward%%:*}"
exec sleep 1000
"#;
/// Links on the path from h1 to h2.
const LINKS: [(&str, &str); 3] = [("h1", "eth0"), ("r1", "eth1"), ("r2", "eth1")];
/// Address of r1 on its link to r2.
const R1: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// h1 reserves 2 Mbit/s to h2 by each protocol in turn. The trace shows it at h1, r1 and r2, enforced, and arrives at h2; after the
/// release it shows nothing. Without the hosts it begins at r1; without r2 it leaves the routers named; a route back is a loop.
pub(crate) fn flows_of_all_protocols_are_traced() -> Outcome {
    let net = Net::up(DEMO, "hops", REFRESH)?;
    let ssh = Ssh::new(&net)?;
    let [h1, h2] = ["h1", "h2"].map(|host| net.address(host, true));
    let ends = |port| (SocketAddr::new(h1, port), SocketAddr::new(h2, port));
    let rate = Rate::from_mbps(2);

    let (from, to) = ends(STREAM_PORT);
    net.client("h2")?.listen(ListenRequest::new(to))?;
    let sender = net.client("h1")?.sender(announcement(&net, "h1", h2))?;
    ssh.expect(&net, Some("rsvp"), from, to)?;
    let routers = ssh.trace("r1,r2", from, to)?;
    assert_eq!(routers["end"], "arrived", "{routers}");
    let incoming = |hop: usize| &routers["hops"][hop]["incoming"];
    assert_eq!((incoming(0), incoming(1)), (&json!("eth0"), &json!("eth0")), "{routers}");
    let part = ssh.trace("r1,h2", from, to)?;
    assert_eq!(part["end"], "not_named", "{part}");
    net.client("h1")?.release(sender.application)?;
    ssh.expect(&net, None, from, to)?;

    let request = ReservationRequest { from: Some(from), ..loops::request(to, rate, Rate::ZERO) };
    let mut pending = boomerang::PendingRequest::send(&net, request)?;
    pending.established()?;
    ssh.expect(&net, Some("boomerang"), from, to)?;
    pending.release()?;
    ssh.expect(&net, None, from, to)?;

    let mut pending = qos::PendingRequest::send(&net, rate)?;
    pending.reserved()?;
    ssh.expect(&net, Some("nsis"), from, to)?;
    pending.release()?;
    ssh.expect(&net, None, from, to)?;

    let (from, to) = ends(DATA_PORT);
    let _receiver = Receiver::listen(&net, to)?;
    let sender = Sender::attach(&net, to, rate)?;
    ssh.expect(&net, Some("yessir"), from, to)?;
    sender.release()?;
    ssh.expect(&net, None, from, to)?;

    link::add_route(net.namespace("r2"), Prefix::host(h2), R1.into())?;
    let circle = ssh.trace("h1,r1,r2,h2", from, to)?;
    assert_eq!(circle["end"], "loop", "{circle}");
    Ok(())
}

/// Script in the place of `ssh`, beside links to the control sockets.
struct Ssh(TemporaryDirectory);

impl Ssh {
    fn new(net: &Net) -> Result<Ssh, Failed> {
        let directory = TemporaryDirectory::new("hops");
        std::fs::set_permissions(directory.file("ssh", SSH), Permissions::from_mode(0o755))?;
        for node in ["h1", "r1", "r2", "h2"] {
            symlink(net.control(node), directory.0.join(format!("{node}.sock")))?;
        }
        Ok(Ssh(directory))
    }

    fn run(
        &self,
        routers: &str,
        from: SocketAddr,
        to: SocketAddr,
        more: &[&str],
    ) -> Result<Output, Failed> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(COMMAND).env("EARMARK_SSH", self.0.0.join("ssh"));
        command.args(["trace", "--on", routers, &to.to_string(), "--from", &from.to_string()]);
        Ok(command.args(more).output()?)
    }

    /// Returns the trace as JSON.
    fn trace(&self, routers: &str, from: SocketAddr, to: SocketAddr) -> Result<Value, Failed> {
        let output = self.run(routers, from, to, &["--json"])?;
        let text = stdout(&output);
        serde_json::from_str(&text)
            .map_err(|error| format!("{error}: {text}{}", stderr(&output)).into())
    }

    /// Waits until a protocol, or none, has reserved 2 Mbit/s on all links, and checks that the trace shows this.
    fn expect(
        &self,
        net: &Net,
        protocol: Option<&str>,
        from: SocketAddr,
        to: SocketAddr,
    ) -> Outcome {
        for link in LINKS {
            let rates: &[u32] = if protocol.is_some() { &[2] } else { &[] };
            net.await_reserved(link, rates, SLACK * 2)?;
        }
        let shown = self.trace("h2,r2,r1,h1", from, to)?;
        let (rate, get) = match protocol {
            Some(_) => (json!(2_000_000), "reserved"),
            None => (Value::Null, "best_effort"),
        };
        for (hop, router) in ["h1", "r1", "r2"].into_iter().enumerate() {
            let seen = &shown["hops"][hop];
            let seen = json!([seen["router"], seen["protocol"], seen["rate_bps"], seen["get"]]);
            assert_eq!(seen, json!([router, protocol, rate, get]), "{shown}");
        }
        let last = &shown["hops"][3];
        assert_eq!((&last["router"], &last["outcome"]), (&json!("h2"), &json!("local")), "{shown}");
        let output = self.run("h1,r1,r2,h2", from, to, &[])?;
        let text = stdout(&output);
        assert_eq!(status(&output), 0, "{text}{}", stderr(&output));
        assert!(text.ends_with(&format!("arrived: {} is h2\n", to.ip())), "{text}");
        Ok(())
    }
}

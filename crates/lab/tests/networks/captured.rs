//! Messages at r1 while Boomerang and YESSIR reserve, refuse and release: our decoder parses every one, and so does
//! tshark with the dissectors of this repository, without a remark.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use earmark_control::protocols::boomerang as loops;
use earmark_core::Rate;
use earmark_decode::{Format, decode};
use earmark_lab::capture::Capture;
use earmark_scenario::topology::DEMO;
use libtest_mimic::Failed;
use serde_json::Value;

use crate::Outcome;
use crate::boomerang::PendingRequest;
use crate::net::{Net, REFRESH, SLACK};
use crate::stream::STREAM_PORT;
use crate::yessir::{DATA_PORT, Receiver, Sender};

const DISSECTORS: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../dissectors/boomerang.lua"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../dissectors/yessir.lua"),
];

/// Returns the reason why captures cannot be checked, if so.
pub(crate) fn obstacle() -> Option<String> {
    let tshark = Command::new("tshark").arg("--version").output();
    let runs = tshark.is_ok_and(|output| output.status.success());
    (!runs).then(|| "tshark is not installed".to_owned())
}

pub(crate) fn messages_can_be_read_over_ipv4() -> Outcome {
    messages_can_be_read(true)
}

pub(crate) fn messages_can_be_read_over_ipv6() -> Outcome {
    messages_can_be_read(false)
}

fn messages_can_be_read(ipv4: bool) -> Outcome {
    let net = Net::up(&format!("ipv6 = {}\n{DEMO}", !ipv4), "captured", REFRESH)?;
    let name = format!("earmark-captured-{}-{}.pcap", std::process::id(), if ipv4 { 4 } else { 6 });
    let file = Removed(std::env::temp_dir().join(name));
    let capture = Capture::start(net.namespace("r1"), &file.0)?;
    play(&net, ipv4)?;
    let frames = capture.stop()?;

    let mut lines = Vec::new();
    let summary = decode(File::open(&file.0)?, &mut lines, Format::Json)?;
    assert_eq!((summary.frames, summary.messages, summary.malformed), (frames, frames, 0));
    let mut kinds = BTreeMap::new();
    for line in String::from_utf8(lines)?.lines() {
        let message: Value = serde_json::from_str(line)?;
        let text = |key: &str| message[key].as_str().unwrap_or("?").to_owned();
        *kinds.entry((text("protocol"), text("message"))).or_insert(0_u64) += 1;
    }
    // All of them pass r1, so that each is captured at least twice: on arrival and on departure.
    let expected = [
        ("boomerang", "echo", 2 * 3),
        ("boomerang", "echo reply", 2 * 3),
        ("yessir", "active", 2 * 2),
        ("yessir", "answer", 2 * 2),
        ("yessir", "release", 2 * 2),
    ];
    for (protocol, message, least) in expected {
        let count = kinds.remove(&(protocol.to_owned(), message.to_owned())).unwrap_or(0);
        assert!(count >= least, "{count} of {protocol} {message}");
    }
    assert!(kinds.is_empty(), "{kinds:?}");

    let complaints = "_ws.malformed || _ws.expert.severity >= \"Warning\" || _ws.lua";
    assert_eq!(tshark(&file.0, complaints)?, Vec::<String>::new());
    let known = tshark(&file.0, "boomerang || yessir")?;
    assert_eq!(known.len() as u64, frames, "{known:?}");
    Ok(())
}

/// Runs a granted and a refused loop, and a reserved and a refused stream; ends them all.
fn play(net: &Net, ipv4: bool) -> Outcome {
    let h2 = net.address("h2", ipv4);
    let (whole, wide) = (Rate::from_mbps(3), Rate::from_mbps(5));
    let mut granted =
        PendingRequest::send(net, loops::request(SocketAddr::new(h2, STREAM_PORT), whole, whole))?;
    granted.established()?;
    let mut refused = PendingRequest::send(
        net,
        loops::request(SocketAddr::new(h2, STREAM_PORT + 1), wide, wide),
    )?;
    refused.refused()?;
    let mut streams = Vec::new();
    for (port, rate, notes) in [(DATA_PORT, whole, 0), (DATA_PORT + 2, wide, 1)] {
        let on = SocketAddr::new(h2, port);
        let receiver = Receiver::listen(net, on)?;
        let mut sender = Sender::attach(net, on, rate)?;
        assert_eq!(sender.answered()?.len(), notes);
        streams.push((receiver, sender));
    }
    granted.release()?;
    for (receiver, sender) in streams {
        sender.release()?;
        receiver.gone()?;
    }
    net.await_reserved(("r1", "eth1"), &[], SLACK)?;
    net.await_reserved(("r1", "eth0"), &[], SLACK)
}

/// Returns one line for each frame of a capture that matches a filter.
fn tshark(file: &Path, filter: &str) -> Result<Vec<String>, Failed> {
    let mut command = Command::new("tshark");
    for dissector in DISSECTORS {
        command.args(["-X", &format!("lua_script:{dissector}")]);
    }
    let output = command.arg("-r").arg(file).args(["-Y", filter]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// A file that is removed when the value is dropped.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // The removal fails only if there is no file yet.
        let _ = std::fs::remove_file(&self.0);
    }
}

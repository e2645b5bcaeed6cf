//! What others make of the messages of real daemons: a scenario in network namespaces, captured at r1, in which all
//! seven kinds of message occur; then tshark, tcpdump, scapy and our own decoder read the capture.
//!
//! The scenario is played once, by the first test that needs it. Without the privileges for namespaces, or without the
//! tool in question, a test is shown as ignored, with the reason.

#[path = "foreign/scenario.rs"]
mod scenario;

use std::collections::BTreeMap;
use std::fs::File;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use earmark::decode::{Format, decode};
use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

use scenario::Recorded;

type Outcome = Result<(), Failed>;
type Test = fn(&Recorded) -> Outcome;
/// What is recorded, once somebody needed it.
type Once = OnceLock<Result<Recorded, String>>;

/// The interpreter that Debian's packages belong to, not one that stands before it in the search path.
const PYTHON: &str = "/usr/bin/python3";
/// The kinds of message, by their number in the common header less one.
const KINDS: [&str; 7] = ["Path", "Resv", "PathErr", "ResvErr", "PathTear", "ResvTear", "ResvConf"];

fn main() {
    let arguments = Arguments::from_args();
    let obstacle = testbed::obstacle();
    let recorded = Arc::new(Once::new());
    let trial = |name: &str, missing: Option<&str>, test: Test| {
        let reason = obstacle.as_deref().or(missing);
        let name = reason.map_or(name.to_owned(), |reason| format!("{name} ({reason})"));
        let recorded = Arc::clone(&recorded);
        Trial::test(name, move || {
            test(recorded.get_or_init(scenario::play).as_ref().map_err(Failed::from)?)
        })
        .with_ignored_flag(reason.is_some())
    };
    let scapy = runs(PYTHON, &["-c", "import scapy.contrib.rsvp"]);
    let [tshark, tcpdump] = ["tshark", "tcpdump"].map(|tool| runs(tool, &["--version"]));
    let trials = vec![
        trial("our_decoder_finds_all_seven_kinds", None, our_decoder_finds_all_seven_kinds),
        trial(
            "tshark_finds_nothing_wrong",
            (!tshark).then_some("tshark is not installed"),
            tshark_finds_nothing_wrong,
        ),
        trial(
            "tcpdump_finds_nothing_wrong",
            (!tcpdump).then_some("tcpdump is not installed"),
            tcpdump_finds_nothing_wrong,
        ),
        trial(
            "scapy_reads_every_message",
            (!scapy).then_some("python3-scapy is not installed"),
            scapy_reads_every_message,
        ),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The capture goes with the last holder; `exit` would leave it behind.
    drop(recorded);
    conclusion.exit();
}

/// One line a message, numbered like the frames, and each kind with the counterpart that it has on the other side of r1.
fn our_decoder_finds_all_seven_kinds(recorded: &Recorded) -> Outcome {
    let mut lines = Vec::new();
    let summary = decode(File::open(&recorded.file)?, &mut lines, Format::Json)?;
    assert_eq!((summary.frames, summary.messages), (recorded.frames, recorded.frames));
    assert_eq!((summary.malformed, summary.unknown_link_type), (0, 0));
    let mut kinds = BTreeMap::new();
    for (line, number) in String::from_utf8(lines)?.lines().zip(1_u64..) {
        let message: Value = serde_json::from_str(line)?;
        assert_eq!(message["frame"], number);
        *kinds.entry(message["message"].as_str().unwrap_or_default().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(kinds.values().sum::<u64>(), recorded.frames);
    for kind in KINDS {
        // What r1 passes on is there twice; the errors were made by r1, for a neighbour.
        let least = if kind.ends_with("Err") { 1 } else { 2 };
        assert!(kinds.get(kind).is_some_and(|&count| count >= least), "{kind}: {kinds:?}");
    }
    assert_eq!(kinds.len(), KINDS.len(), "{kinds:?}");
    Ok(())
}

/// Every frame is RSVP, none is malformed, nothing has an expert's remark, and all checksums are right.
fn tshark_finds_nothing_wrong(recorded: &Recorded) -> Outcome {
    let check = ["-o", "ip.check_checksum:TRUE"];
    let tshark = |more: &[&str]| run(recorded, "tshark", &[&check[..], more].concat());
    let complaints = "_ws.malformed or _ws.expert or _ws.short or not rsvp";
    let complained = tshark(&["-V", "-Y", complaints])?;
    if !complained.is_empty() {
        return Err(complained.into());
    }
    // It has no field for the outcome of RSVP's checksum, but words.
    let shown = tshark(&["-V"])?;
    for right in ["Message Checksum: ", "Header Checksum: "] {
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains(right)).collect();
        assert_eq!(lines.len() as u64, recorded.frames, "{right}");
        let wrong = lines.iter().find(|line| !line.ends_with("[correct]"));
        assert_eq!(wrong, None);
    }
    let packets: Vec<Value> = serde_json::from_str(&tshark(&["-T", "json"])?)?;
    assert_eq!(packets.len() as u64, recorded.frames);
    assert!(packets.iter().all(|packet| packet["_source"]["layers"]["rsvp"].is_object()));
    Ok(())
}

fn tcpdump_finds_nothing_wrong(recorded: &Recorded) -> Outcome {
    let text = run(recorded, "tcpdump", &["-n", "-vvv"])?;
    for bad in ["invalid", "bad ", "incorrect", "[|", "truncated", "Unknown object", "rsvp-rfc"] {
        if let Some(line) = text.lines().find(|line| line.contains(bad)) {
            return Err(format!("tcpdump: {line}").into());
        }
    }
    assert_eq!(text.matches("RSVPv1").count() as u64, recorded.frames);
    for (number, kind) in (1..).zip(KINDS) {
        assert!(text.contains(&format!("{kind} Message ({number})")), "{kind}");
    }
    Ok(())
}

/// Reads the capture; prints for each packet: kind, length in the header, octets that were read as objects, and the
/// checksum as it is and as scapy would write it.
const SCRIPT: &str = "
import sys
from scapy.utils import rdpcap
from scapy.contrib.rsvp import RSVP, RSVP_Object
for packet in rdpcap(sys.argv[1]):
    message = packet[RSVP]
    octets, layer = 8, message.getlayer(RSVP_Object)
    while layer:
        octets += layer.Length
        layer = layer.payload.getlayer(RSVP_Object)
    found = message.chksum
    message = RSVP(bytes(message))
    message.chksum = None
    print(message.Class, message.Length, octets, '%04x' % found, bytes(message)[2:4].hex())
";

fn scapy_reads_every_message(recorded: &Recorded) -> Outcome {
    let file = recorded.file.to_string_lossy();
    let output = Command::new(PYTHON).args(["-c", SCRIPT, &file]).output()?;
    let text = String::from_utf8(output.stdout)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(text.lines().count() as u64, recorded.frames);
    let mut seen = [false; KINDS.len()];
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, length, read, found, expected] = words[..] else { return Err(line.into()) };
        assert_eq!((length, found), (read, expected), "{line}");
        let kind: usize = kind.parse()?;
        *seen.get_mut(kind - 1).ok_or("an unknown kind")? = true;
    }
    assert_eq!(seen, [true; KINDS.len()]);
    Ok(())
}

/// What a tool prints of the capture.
fn run(recorded: &Recorded, tool: &str, arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(tool).arg("-r").arg(&recorded.file).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn runs(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

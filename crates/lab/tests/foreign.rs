//! Messages of real daemons, read by other programs: a scenario in network namespaces, captured at r1, with all kinds
//! of messages, over IPv4, over IPv6, and signed; tshark, tcpdump, scapy and our own decoder read the captures.
//!
//! The first test that needs a variant runs it, once. Without the privileges for namespaces, or without the tool in
//! question, a test is shown as ignored, with the reason.

#[path = "shared/engine_event.rs"]
mod engine_event;
#[path = "foreign/scenario.rs"]
mod scenario;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::iter;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use earmark_decode::{Format, decode};
use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

use scenario::{BUNDLE, Recorded, Variant};

type Outcome = Result<(), Failed>;
type Test = fn(&Recorded) -> Outcome;
/// Recording of a variant, once a test needed it.
type Once = OnceLock<Result<Recorded, String>>;

/// Interpreter of Debian's packages, regardless of another one earlier in the search path.
const PYTHON: &str = "/usr/bin/python3";

fn main() {
    let arguments = Arguments::from_args();
    let obstacle = testbed::obstacle();
    let recorded = Variant::ALL.map(|variant| (variant, Arc::new(Once::new())));
    let trial =
        |name: &str, missing: Option<&str>, (variant, once): &(Variant, Arc<Once>), test: Test| {
            let reason = obstacle.as_deref().or(missing);
            let reason_shown = reason.map_or(String::new(), |reason| format!(" ({reason})"));
            let name = format!("{name}_{}{reason_shown}", variant.name());
            let (variant, once) = (*variant, Arc::clone(once));
            Trial::test(name, move || {
                let play = || scenario::play(variant);
                test(once.get_or_init(play).as_ref().map_err(Failed::from)?)
            })
            .with_ignored_flag(reason.is_some())
        };
    let scapy = runs(PYTHON, &["-c", "import scapy.contrib.rsvp"]);
    let [tshark, tcpdump] = ["tshark", "tcpdump"].map(|tool| runs(tool, &["--version"]));
    let mut trials = Vec::new();
    for one in &recorded {
        trials.push(trial("our_decoder_finds_all_kinds", None, one, our_decoder_finds_all_kinds));
        let missing = (!tshark).then_some("tshark is not installed");
        trials.push(trial("tshark_finds_nothing_wrong", missing, one, tshark_finds_nothing_wrong));
        let missing = (!tcpdump).then_some("tcpdump is not installed");
        trials.push(trial(
            "tcpdump_finds_nothing_wrong",
            missing,
            one,
            tcpdump_finds_nothing_wrong,
        ));
        // The tool decodes RSVP over IPv4 only.
        if one.0 != Variant::Six {
            let missing = (!scapy).then_some("python3-scapy is not installed");
            trials.push(trial(
                "scapy_reads_every_message",
                missing,
                one,
                scapy_reads_every_message,
            ));
        }
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    // The capture file is removed with its last owner; `exit` would leave it behind.
    drop(recorded);
    conclusion.exit();
}

/// Returns our decoder's output for each frame.
fn decoded(recorded: &Recorded) -> Result<Vec<Value>, Failed> {
    let mut lines = Vec::new();
    decode(File::open(&recorded.file)?, &mut lines, Format::Json)?;
    Ok(String::from_utf8(lines)?.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Returns the number of Bundles, and of messages in them, from our decoder.
fn bundles(recorded: &Recorded) -> Result<(u64, u64), Failed> {
    let frames = decoded(recorded)?;
    let bundled: Vec<_> = frames.iter().filter_map(|frame| frame["messages"].as_array()).collect();
    Ok((bundled.len() as u64, bundled.iter().map(|messages| messages.len() as u64).sum()))
}

/// The decoder prints one line a message, numbered like the frames, and each kind with its counterpart on the other
/// side of r1.
fn our_decoder_finds_all_kinds(recorded: &Recorded) -> Outcome {
    let mut lines = Vec::new();
    let summary = decode(File::open(&recorded.file)?, &mut lines, Format::Json)?;
    assert_eq!((summary.frames, summary.messages), (recorded.frames, recorded.frames));
    assert_eq!((summary.malformed, summary.unknown_link_type), (0, 0));
    let (mut kinds, mut frames) = (BTreeMap::new(), 0);
    for (line, number) in String::from_utf8(lines)?.lines().zip(1_u64..) {
        let message: Value = serde_json::from_str(line)?;
        assert_eq!(message["frame"], number);
        // The grouping of messages in Bundles depends on timing.
        let within = message["messages"].as_array().into_iter().flatten();
        for message in iter::once(&message).chain(within) {
            let kind = message["message"].as_str().unwrap_or_default();
            *kinds.entry(kind.to_owned()).or_insert(0_u64) += 1;
        }
        frames += 1;
    }
    assert_eq!(frames, recorded.frames);
    let expected = recorded.variant.kinds();
    for &(number, kind) in &expected {
        // A message that r1 forwards is captured twice; its own errors and its exchanges with neighbors once.
        let least = if number > 7 || kind.ends_with("Err") { 1 } else { 2 };
        assert!(kinds.get(kind).is_some_and(|&count| count >= least), "{kind}: {kinds:?}");
    }
    assert_eq!(kinds.len(), expected.len(), "{kinds:?}");
    Ok(())
}

/// Every frame is RSVP, none is malformed, none has an expert remark, and all checksums are right.
fn tshark_finds_nothing_wrong(recorded: &Recorded) -> Outcome {
    let check = ["-o", "ip.check_checksum:TRUE"];
    let tshark = |more: &[&str]| run(recorded, "tshark", &[&check[..], more].concat());
    // tshark has no names for the handshake of RFC 2747, 25 and 26, whose checksums are checked below. It also
    // remarks that the TTL of a Hello, 20, is 1, as RFC 3209 section 5 requires; and that a Bundle, 12, has no
    // session, if all its messages need none.
    let remarked = "_ws.expert and not (rsvp.msg == 20 and ip.ttl.too_small) \
                    and not (rsvp.msg == 12 and rsvp.session_type.unknown and not rsvp.session)";
    let complaints = &format!(
        "(_ws.malformed or ({remarked}) or _ws.short or not rsvp) and not rsvp.msg in {{25, 26}}"
    );
    let complained = tshark(&["-V", "-Y", complaints])?;
    if !complained.is_empty() {
        return Err(complained.into());
    }
    // tshark has no field for the result of RSVP's checksum, only text.
    let shown = tshark(&["-V"])?;
    let ipv4 = recorded.variant != Variant::Six;
    let (bundles, within) = bundles(recorded)?;
    // In a Bundle tshark checks the checksums of the messages only.
    let messages = ("Message Checksum: ", recorded.frames + within, bundles);
    let headers = ("Header Checksum: ", recorded.frames, 0);
    for (name, count, unjudged) in [messages].into_iter().chain(ipv4.then_some(headers)) {
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains(name)).collect();
        let right = lines.iter().filter(|line| line.ends_with("[correct]")).count() as u64;
        assert_eq!((lines.len() as u64, right), (count, count - unjudged), "{name}");
        assert!(!lines.iter().any(|line| line.contains("[incorrect")), "{name}");
    }
    let packets: Vec<Value> = serde_json::from_str(&tshark(&["-T", "json"])?)?;
    assert_eq!(packets.len() as u64, recorded.frames);
    assert!(packets.iter().all(|packet| packet["_source"]["layers"]["rsvp"].is_object()));
    Ok(())
}

fn tcpdump_finds_nothing_wrong(recorded: &Recorded) -> Outcome {
    let text = run(recorded, "tcpdump", &["-n", "-vvv"])?;
    // The blanks are part of the patterns: octets in a dump may spell "bad" too.
    for bad in
        ["invalid", " bad ", "(bad ", "incorrect", "[|", "truncated", "Unknown object", "rsvp-rfc"]
    {
        if let Some(line) = text.lines().find(|line| line.contains(bad)) {
            return Err(format!("tcpdump: {line}").into());
        }
    }
    let (_, within) = bundles(recorded)?;
    assert_eq!(text.matches("RSVPv1").count() as u64, recorded.frames + within);
    // tcpdump decodes the kinds of RFC 2205, and prints others by their number.
    let known = recorded.variant.kinds().into_iter().filter(|&(number, _)| number <= 7);
    for (number, kind) in known {
        assert!(text.contains(&format!("{kind} Message ({number})")), "{kind}");
    }
    Ok(())
}

/// Script that reads the capture and prints for each packet: kind, length in the header, octets that were parsed as
/// objects, and the checksum as received and as computed by scapy.
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
    let mut seen = BTreeSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [kind, length, read, found, expected] = words[..] else { return Err(line.into()) };
        let kind = kind.parse::<u8>()?;
        // scapy takes the messages of a Bundle for objects.
        let read = if kind == BUNDLE.0 { length } else { read };
        assert_eq!((length, found), (read, expected), "{line}");
        seen.insert(kind);
    }
    // scapy does not decode messages in a Bundle, and their grouping depends on timing.
    let mut sent = BTreeSet::new();
    for frame in decoded(recorded)? {
        let name = frame["message"].as_str().unwrap_or_default();
        let kind = recorded.variant.kinds().into_iter().find(|&(_, kind)| kind == name);
        sent.insert(kind.ok_or(format!("a frame of kind {name:?}"))?.0);
    }
    assert_eq!(seen, sent);
    Ok(())
}

/// Returns a tool's output for the capture.
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

//! Interoperability: tshark, tcpdump and scapy decode messages of every type, style and address family.
//!
//! A test whose tool is not installed is listed as ignored, with the reason.

#[path = "foreign/boomerang.rs"]
mod boomerang;
#[path = "foreign/expected.rs"]
mod expected;
#[path = "foreign/packets.rs"]
mod packets;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use earmark_testkit::messages::rsvp::{KINDS, octets};
use earmark_wire::rsvp::*;
use expected::{expected_extension_fields, expected_fields};
use libtest_mimic::{Arguments, Failed, Trial};
use packets::{Capture, corpus, everything, extensions, packet};
use serde_json::Value;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = vec![
        trial("tshark_finds_nothing_wrong", "tshark", tool("tshark"), tshark_finds_nothing_wrong),
        trial("tshark_reads_the_same_values", "tshark", tool("tshark"), tshark_reads_values),
        trial("tshark_reads_extensions", "tshark", tool("tshark"), tshark_reads_extensions),
        trial(
            "tshark_reads_boomerang",
            "tshark",
            tool("tshark"),
            boomerang::tshark_reads_boomerang,
        ),
        trial("tcpdump_finds_nothing_wrong", "tcpdump", tool("tcpdump"), tcpdump_finds_nothing),
        trial("scapy_reads_the_same_objects", "python3-scapy", scapy(), scapy_reads_objects),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Creates a test that is ignored if its tool is missing.
fn trial(name: &str, package: &str, available: bool, run: fn() -> Result<(), Failed>) -> Trial {
    if available {
        Trial::test(name, run)
    } else {
        Trial::test(format!("{name} ({package} is not installed)"), run).with_ignored_flag(true)
    }
}

fn tool(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// The interpreter that has Debian's packages, whatever comes first in the search path.
const PYTHON: &str = "/usr/bin/python3";

fn scapy() -> bool {
    let import = ["-c", "import scapy.contrib.rsvp"];
    Command::new(PYTHON).args(import).output().is_ok_and(|output| output.status.success())
}

/// Returns the output of a tool with `-r capture` among its arguments.
fn run(tool: &str, capture: &Capture, arguments: &[&str]) -> Result<String, Failed> {
    let output = Command::new(tool).arg("-r").arg(capture.path()).args(arguments).output()?;
    if !output.status.success() {
        return Err(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn tshark_finds_nothing_wrong() -> Result<(), Failed> {
    let packets = everything();
    let capture = Capture::write("complaints", &packets);
    // tcpdump does not know the messages of RFC 3097 and reports that, but must report no fault.
    let complaints =
        "_ws.malformed or _ws.short or not rsvp or (_ws.expert and not rsvp.msg in {25,26})";
    let check = ["-o", "ip.check_checksum:TRUE"];
    let text = run("tshark", &capture, &[&check[..], &["-Y", complaints, "-V"]].concat())?;
    if !text.is_empty() {
        return Err(text.into());
    }
    let all = run("tshark", &capture, &[&check[..], &["-Y", "rsvp"]].concat())?;
    assert_eq!(all.lines().count(), packets.len());
    Ok(())
}

fn tshark_reads_values() -> Result<(), Failed> {
    let capture = Capture::write("values", &corpus().iter().map(packet).collect::<Vec<_>>());
    let text = run("tshark", &capture, &["-T", "json", "--no-duplicate-keys"])?;
    let packets: Vec<Value> = serde_json::from_str(&text)?;
    assert_eq!(packets.len(), corpus().len());
    for (packet, parts) in packets.iter().zip(corpus()) {
        let mut found = BTreeMap::new();
        collect(&packet["_source"]["layers"]["rsvp"], &mut found);
        for (field, mut expected) in expected_fields(&parts) {
            let mut values = found.remove(field).unwrap_or_default();
            // Values of repeated keys are joined, which keeps their order but not their objects.
            values.sort();
            expected.sort();
            let context = format!("{field} of {:?} {:?}", parts.kind, parts.style);
            if values != expected {
                return Err(format!("{context}: {values:?} instead of {expected:?}").into());
            }
        }
    }
    Ok(())
}

fn tshark_reads_extensions() -> Result<(), Failed> {
    let packets: Vec<_> = extensions().into_iter().map(|(_, packet)| packet).collect();
    let capture = Capture::write("extensions", &packets);
    let text = run("tshark", &capture, &["-T", "json", "--no-duplicate-keys"])?;
    let shown: Vec<Value> = serde_json::from_str(&text)?;
    let messages = [false, true].map(earmark_testkit::messages::rsvp::extensions).concat();
    assert_eq!(shown.len(), messages.len());
    for (packet, message) in shown.iter().zip(&messages) {
        let mut found = BTreeMap::new();
        collect(&packet["_source"]["layers"]["rsvp"], &mut found);
        let mut expected = BTreeMap::new();
        let kind = MessageType::from_code(message[1]);
        if kind == MessageType::Bundle {
            // tshark also shows the messages in the Bundle as if they were separate.
            expected.insert("rsvp.msg", vec![kind.code().to_string()]);
            expected.insert("rsvp.message_length", vec![message.len().to_string()]);
            let message = Message::parse(message).map_err(|error| error.to_string())?;
            let Body::Bundle(bundle) = message.body else { return Err("a Bundle".into()) };
            for inner in bundle.iter() {
                for (field, values) in expected_extension_fields(inner) {
                    expected.entry(field).or_default().extend(values);
                }
            }
        } else {
            expected = expected_extension_fields(message);
        }
        for (field, mut expected) in expected {
            let mut values = found.remove(field).unwrap_or_default();
            values.sort();
            expected.sort();
            if values != expected {
                return Err(
                    format!("{field} of {kind:?}: {values:?} instead of {expected:?}").into()
                );
            }
        }
    }
    Ok(())
}

/// Collects the values of all fields at any depth.
fn collect(value: &Value, found: &mut BTreeMap<String, Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                for value in value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice) {
                    match value {
                        Value::String(text) => {
                            found.entry(key.clone()).or_default().push(text.clone());
                        }
                        deeper => collect(deeper, found),
                    }
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

fn tcpdump_finds_nothing() -> Result<(), Failed> {
    let capture = Capture::write("tcpdump", &everything());
    let text = run("tcpdump", &capture, &["-n", "-vvv"])?;
    for bad in ["invalid", "bad ", "incorrect", "[|", "truncated", "Unknown object", "rsvp-rfc"] {
        if let Some(line) = text.lines().find(|line| line.contains(bad)) {
            return Err(format!("tcpdump: {line}").into());
        }
    }
    for kind in KINDS {
        let name = match kind {
            MessageType::PathErr => "PathErr Message (3)".into(),
            MessageType::ResvErr => "ResvErr Message (4)".into(),
            kind => format!("{} Message ({})", kind.name(), kind.code()),
        };
        let plain = corpus().iter().filter(|parts| parts.kind == kind).count();
        // One separate message and one in a Bundle, for each family.
        let extended = if kind == MessageType::Path { 4 } else { 0 };
        assert_eq!(text.matches(&name).count(), plain + extended, "{name}");
    }
    // Messages of each family, including those in Bundles.
    let extensions = [
        ("Bundle Message (12)", 2),
        ("Acknowledgement Message (13)", 4),
        ("Refresh Message (15)", 6),
        ("Hello Message (20)", 6),
        ("Class-Type: Message id nack (2)", 8),
        ("Class-Type: Hello Ack (2)", 2),
    ];
    for (name, expected) in extensions {
        assert_eq!(text.matches(name).count(), expected, "{name}");
    }
    assert_eq!(text.matches("options (RA)").count(), 5, "Path, PathTear and three ResvConf");
    Ok(())
}

/// Script that prints type, length and every object of the messages on standard input, then the checksum computed by
/// scapy.
const SCRIPT: &str = "
import sys
from scapy.contrib.rsvp import RSVP, RSVP_Object
for line in sys.stdin:
    message = RSVP(bytes.fromhex(line))
    words = [str(message.Class), str(message.TTL), str(message.Length)]
    layer = message.getlayer(RSVP_Object)
    ipv4 = layer is not None and layer.C_Type == 1
    while layer:
        words.append('%d:%d:%d' % (layer.Class, layer.C_Type, layer.Length))
        layer = layer.payload.getlayer(RSVP_Object) if ipv4 else None
    message.chksum = None
    words.append(bytes(message)[2:4].hex())
    print(*words)
";

fn scapy_reads_objects() -> Result<(), Failed> {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = Command::new(PYTHON)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("there is a pipe")?;
    let mut expected = Vec::new();
    for parts in corpus() {
        let wire = octets(&parts.message());
        let hex: String = wire.iter().map(|octet| format!("{octet:02x}")).collect();
        writeln!(input, "{hex}")?;
        let mut words = vec![parts.kind.code().to_string(), parts.send_ttl.to_string()];
        words.push(wire.len().to_string());
        // Scapy decodes RSVP_HOP of IPv4 only and fails behind one of IPv6, of which only the header is compared.
        let known = if parts.session.destination.is_ipv4() { usize::MAX } else { 1 };
        for object in earmark_wire::rsvp::objects(&wire).take(known) {
            let raw = object.map_err(|error| error.to_string())?.raw;
            words.push(format!("{}:{}:{}", raw.class_num(), raw.c_type(), raw.bytes.len()));
        }
        words.push(hex[4..8].to_string());
        expected.push(words.join(" "));
    }
    // Scapy does not know the newer classes and fails behind the first.
    for message in [false, true].into_iter().flat_map(earmark_testkit::messages::rsvp::extensions) {
        let hex: String = message.iter().map(|octet| format!("{octet:02x}")).collect();
        writeln!(input, "{hex}")?;
        let header = format!("{} {} {}", message[1], message[4], message.len());
        expected.push(format!("{header} * {}", &hex[4..8]));
    }
    drop(input);
    let output = child.wait_with_output()?;
    assert!(output.status.success());
    let found: Vec<String> = String::from_utf8(output.stdout)?.lines().map(String::from).collect();
    for (found, expected) in found.iter().zip(&expected) {
        let agrees = match expected.split_once('*') {
            Some((header, checksum)) => found.starts_with(header) && found.ends_with(checksum),
            None => found == expected,
        };
        if !agrees {
            return Err(format!("scapy reads {found}\ninstead of  {expected}").into());
        }
    }
    assert_eq!(found.len(), expected.len());
    Ok(())
}

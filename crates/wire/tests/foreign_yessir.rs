//! Our Wireshark dissector in tshark, with YESSIR: values are shown, and faults are marked.
//!
//! Without tshark the tests are listed as ignored.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::{Command as Process, ExitCode};

use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::ipv4;
use earmark_wire::rtcp::{Packet, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::*;
use libtest_mimic::{Arguments, Failed, Trial};

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../dissectors/yessir.lua");
const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const SSRC: u32 = 0x1234_5678;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let available = Process::new("tshark").arg("--version").output();
    let missing = !available.is_ok_and(|output| output.status.success());
    let trial =
        |name, run: fn() -> Result<(), Failed>| Trial::test(name, run).with_ignored_flag(missing);
    let trials = vec![
        trial("tshark_reads_the_same_values", reads_the_same_values),
        trial("tshark_marks_malformed_messages", marks_what_is_malformed),
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns a message with every type of fragment, in a sender report, in UDP.
fn sample() -> Vec<u8> {
    let bucket = TokenBucket {
        rate: 1_000.0,
        depth: 2_000.0,
        peak: 4_000.0,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let rspec = Rspec { rate: 3_000.0, slack_us: 9 };
    let mut notes = Vec::new();
    let nodes: [(FailureReason, IpAddr); 2] = [
        (FailureReason::Bandwidth, SOURCE.into()),
        (FailureReason::Limit, "2001:db8::1".parse().expect("an address")),
    ];
    for (reason, node) in nodes {
        let note = FailureNote { reason, hop: 2, available: OctetRate(8.0), node };
        let (octets, length) = note.to_octets();
        notes.extend(&octets[..length]);
    }
    let message = Message {
        ssrc: SSRC,
        generic: Generic {
            command: Command::Passive,
            style: Style::Shared,
            interval: 30,
            reservation: 0xabcd,
            multiplexed: true,
        },
        flowspec: Some(Flowspec::Intserv(FlowSpec::Guaranteed(bucket, rspec))),
        link_info: Some(LinkInfo {
            send_ttl: 64,
            hops: 3,
            other_hops: true,
            path_mtu: 1_400,
            available: OctetRate(500.0),
            latency_us: 77,
        }),
        failures: Failures::of(&notes).expect("they are notes"),
        auth: Some(Auth { key: 5, sequence: 6, digest: [0xab; 16] }),
        others: &[99, 0, 0, 8, 1, 2, 3, 4],
    };
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = SenderReport { ssrc: SSRC, sender, blocks: &[], extension: &[] };
    let mut packet = vec![0; udp::HEADER + 28 + message.buffer_len()];
    Packet::SenderReport(report).emit(&mut packet[udp::HEADER..]).expect("it fits");
    message.emit(&mut packet[udp::HEADER + 28..]).expect("it fits");
    let header = udp::Repr {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        source_port: 5_001,
        destination_port: 5_003,
    };
    header.emit(&mut packet).expect("it is short");
    packet
}

/// Writes a classic capture of one IPv4 packet, link type RAW.
fn capture(name: &str, udp: &[u8]) -> PathBuf {
    let mut header = [0; 60];
    let length = ipv4::Repr {
        tos: 0,
        identification: 1,
        dont_fragment: false,
        ttl: 64,
        protocol: udp::PROTOCOL,
        source: SOURCE,
        destination: DESTINATION,
        router_alert: Some(0),
        payload_len: udp.len(),
    }
    .emit(&mut header)
    .expect("the header fits");
    let packet = [&header[..length], udp].concat();
    let mut file = Vec::new();
    file.extend(0xa1b2_c3d4_u32.to_be_bytes());
    file.extend([0, 2, 0, 4]);
    let size = u32::try_from(packet.len()).expect("short");
    for word in [0, 0, 65_535, 101, 0, 0, size, size] {
        file.extend(u32::to_be_bytes(word));
    }
    file.extend(packet);
    let path =
        std::env::temp_dir().join(format!("earmark-yessir-{}-{name}.pcap", std::process::id()));
    std::fs::write(&path, file).expect("the temporary directory can be written to");
    path
}

/// Returns the values of these fields, one line.
fn tshark(name: &str, udp: &[u8], fields: &[&str]) -> String {
    let path = capture(name, udp);
    let mut tshark = Process::new("tshark");
    tshark.args(["-X", &format!("lua_script:{DISSECTOR}"), "-r"]).arg(&path);
    tshark.args(["-T", "fields", "-E", "separator=;"]);
    for field in fields {
        tshark.args(["-e", field]);
    }
    let output = tshark.output().expect("it was there a moment ago");
    std::fs::remove_file(&path).expect("it was written");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn reads_the_same_values() -> Result<(), Failed> {
    let expected = [
        ("yessir.version", "1"),
        ("yessir.ssrc", "0x12345678"),
        ("yessir.command", "2"),
        ("yessir.style", "2"),
        ("yessir.interval", "30"),
        ("yessir.reservation", "0x0000abcd"),
        ("yessir.multiplexed", "1"),
        ("yessir.rate", "1000"),
        ("yessir.depth", "2000"),
        ("yessir.peak", "4000"),
        ("yessir.min_policed_unit", "64"),
        ("yessir.max_packet_size", "1500"),
        ("yessir.service", "2"),
        ("yessir.reserved_rate", "3000"),
        ("yessir.slack", "9"),
        ("yessir.send_ttl", "64"),
        ("yessir.hops", "3"),
        ("yessir.other_hops", "1"),
        ("yessir.path_mtu", "1400"),
        ("yessir.available", "500"),
        ("yessir.latency", "77"),
        ("yessir.notes", "2"),
        ("yessir.note.reason", "1,4"),
        ("yessir.note.hop", "2,2"),
        ("yessir.note.available", "8,8"),
        ("yessir.note.node", "10.0.0.1"),
        ("yessir.note.node6", "2001:db8::1"),
        ("yessir.key", "5"),
        ("yessir.sequence", "6"),
        ("yessir.data", "01020304"),
        ("yessir.malformed", ""),
    ];
    let fields = expected.map(|(field, _)| field);
    let line = tshark("good", &sample(), &fields);
    // Versions of tshark differ in how they show a true flag.
    let read: Vec<&str> =
        line.split(';').map(|value| if value == "True" { "1" } else { value }).collect();
    for (number, (field, value)) in expected.into_iter().enumerate() {
        assert_eq!(read.get(number).copied().unwrap_or(""), value, "{field} in {line}");
    }
    Ok(())
}

fn marks_what_is_malformed() -> Result<(), Failed> {
    let mut packet = sample();
    let end = packet.len();
    packet[end - 6] = 0x10; // the last fragment leads past the end of the packet
    let line = tshark("bad", &packet, &["yessir.malformed", "yessir.interval"]);
    let (complaint, rest) = line.split_once(';').expect("two fields");
    assert!(!complaint.is_empty() && rest == "30", "{line}");
    Ok(())
}

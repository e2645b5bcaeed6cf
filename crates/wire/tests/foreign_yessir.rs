//! Our Wireshark dissector in tshark, with YESSIR: values are shown, and faults are marked.
//!
//! Without tshark the tests are listed as ignored.

use std::net::IpAddr;
use std::process::ExitCode;

use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};
use earmark_wire::rtcp::{Packet, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::*;
use libtest_mimic::Failed;
use tshark::{DESTINATION, SOURCE};

mod tshark;

const SSRC: u32 = 0x1234_5678;

fn main() -> ExitCode {
    tshark::run(&[
        ("tshark_reads_the_same_values", reads_the_same_values),
        ("tshark_marks_malformed_messages", marks_what_is_malformed),
    ])
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
        token: None,
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

/// Returns the values of these fields, one line.
fn tshark(name: &str, udp: &[u8], fields: &[&str]) -> String {
    tshark::values("yessir", name, udp::PROTOCOL, &[udp.to_vec()], fields).join("\n")
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

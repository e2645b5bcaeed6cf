//! YESSIR's encoding: offsets of fields, malformed messages, and other applications' packets.

use std::net::{IpAddr, Ipv4Addr};

use earmark_wire::rtcp::{self, Packet, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::*;

const SSRC: u32 = 0x1234_5678;

fn report() -> Vec<u8> {
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = SenderReport { ssrc: SSRC, sender, blocks: &[], extension: &[] };
    let mut octets = vec![0; 28];
    Packet::SenderReport(report).emit(&mut octets).expect("it fits");
    octets
}

fn read(compound: &[u8]) -> (Message<'_>, EditOffsets) {
    let report = Report::parse(compound).expect("it was emitted");
    assert_eq!((report.ssrc, report.goodbye), (SSRC, false));
    assert_eq!(report.sender.map(|sender| sender.octets), Some(4));
    report.message.expect("there is one")
}

const GENERIC: [u8; 12] = [1, 0, 0, 12, 1, 1, 0, 30, 0, 0, 0, 5];
const LINK_INFO: [u8; 16] = [6, 64, 0, 16, 1, 0, 5, 220, 0x46, 0x1c, 0x40, 0, 0, 0, 0, 9];
const FAILURE: [u8; 20] = [7, 0, 0, 20, 1, 0, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 10, 0, 0, 9];
const AUTH: [u8; 32] = [
    8, 0, 0, 32, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
];

/// Returns a compound of a common report and an APP packet of these octets.
fn carrying(head: [u8; 2], ssrc: u32, name: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let words = u16::try_from(2 + data.len() / 4).expect("short").to_be_bytes();
    let head = [head[0], head[1], words[0], words[1]];
    [&report()[..], &head, &ssrc.to_be_bytes(), name, data].concat()
}

fn yessir_compound(data: &[u8]) -> Vec<u8> {
    carrying([0x81, 204], SSRC, b"YSSR", data)
}

#[test]
fn fields_have_the_offsets_of_the_table() {
    let data = [&GENERIC[..], &LINK_INFO, &FAILURE, &AUTH].concat();
    let compound = yessir_compound(&data);
    let (message, _) = read(&compound);
    let generic = Generic {
        command: Command::Active,
        style: Style::Individual,
        interval: 30,
        reservation: 5,
        multiplexed: false,
    };
    assert_eq!(message.generic, generic);
    let info = LinkInfo {
        send_ttl: 64,
        hops: 1,
        other_hops: false,
        path_mtu: 1_500,
        available: OctetRate(10_000.0),
        latency_us: 9,
    };
    assert_eq!(message.link_info, Some(info));
    let note = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 2,
        available: OctetRate(0.0),
        node: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9)),
    };
    assert!(message.failures.iter().eq([note]));
    assert_eq!(message.auth, Some(Auth { key: 3, sequence: 4, digest: [9; 16] }));
    assert_eq!(message.flowspec, None);
    assert!(
        covered(&data).eq([&GENERIC[..]]),
        "routers edit the rest, and AUTH is the proof itself"
    );
}

#[test]
fn other_app_packets_are_no_message() {
    for compound in [
        report(),
        carrying([0x81, 204], SSRC, b"yssr", &GENERIC),
        carrying([0x81, 204], 9, b"qtsi", &[0xff; 8]),
        carrying([0x81, 205], SSRC, b"YSSR", &[]),
    ] {
        let report = Report::parse(&compound).expect("nothing is wrong with it");
        assert_eq!(report.message, None);
        assert!(!has_message(&compound));
    }
}

/// BYE counts if it is that of the reporting source.
#[test]
fn bye_of_the_reporting_source_is_recognized() {
    let compound = yessir_compound(&GENERIC);
    for (source, leaves) in [(SSRC, true), (9, false)] {
        let bye = [&[0x82, 203, 0, 2, 0, 0, 0, 1][..], &source.to_be_bytes()].concat();
        let compound = [&compound[..], &bye].concat();
        let report = Report::parse(&compound).expect("it is right");
        assert_eq!(report.goodbye, leaves);
        assert!(report.message.is_some());
    }
}

/// Offset of the data.
const DATA: usize = 28 + 12;

fn with(fragment: &[u8]) -> Vec<u8> {
    yessir_compound(&[&GENERIC[..], fragment].concat())
}

fn changed(fragment: &[u8], at: usize, octet: u8) -> Vec<u8> {
    let mut fragment = fragment.to_vec();
    fragment[at] = octet;
    fragment
}

fn intserv(service: u8) -> [u8; 36] {
    let mut fragment = [0; 36];
    fragment[..4].copy_from_slice(&[2, 0, 0, 36]);
    fragment[27] = service;
    fragment
}

#[test]
fn malformed_messages_are_reported_with_fragment_and_offset() {
    let behind = DATA + GENERIC.len();
    let cases = [
        (
            "two YESSIR packets",
            [yessir_compound(&GENERIC), yessir_compound(&GENERIC)[28..].to_vec()].concat(),
            ErrorKind::SecondMessage,
            28 + 24 + 8,
        ),
        ("version 2", carrying([0x82, 204], SSRC, b"YSSR", &GENERIC), ErrorKind::Version, 28),
        ("of another source", carrying([0x81, 204], 9, b"YSSR", &GENERIC), ErrorKind::Source, 32),
        ("no fragments", yessir_compound(&[]), ErrorKind::MissingGeneric, DATA),
        ("no GENERIC", yessir_compound(&LINK_INFO), ErrorKind::MissingGeneric, DATA + 16),
        ("two of GENERIC", with(&GENERIC), ErrorKind::DuplicateFragment, behind),
        (
            "two flowspecs",
            with(&[3, 0, 0, 8, 0, 1, 0, 0, 5, 0, 0, 8, 0, 1, 0, 0]),
            ErrorKind::DuplicateFragment,
            behind + 8,
        ),
        (
            "two of FAILURE",
            with(&[FAILURE, FAILURE].concat()),
            ErrorKind::DuplicateFragment,
            behind + 20,
        ),
        ("length below a header", with(&[9, 0, 0, 0]), ErrorKind::FragmentLength, behind + 2),
        (
            "length of no whole words",
            with(&[9, 0, 0, 7, 0, 0, 0, 0]),
            ErrorKind::FragmentLength,
            behind + 2,
        ),
        ("length past the end", with(&[9, 0, 0, 8]), ErrorKind::FragmentLength, behind + 2),
        (
            "GENERIC too short",
            yessir_compound(&[1, 0, 0, 8, 1, 1, 0, 30]),
            ErrorKind::FragmentLength,
            DATA + 2,
        ),
        ("command 0", yessir_compound(&changed(&GENERIC, 4, 0)), ErrorKind::Command, DATA + 4),
        ("style 3", yessir_compound(&changed(&GENERIC, 5, 3)), ErrorKind::Style, DATA + 5),
        ("service 6", with(&intserv(6)), ErrorKind::Service, behind + 24),
        (
            "a codec too long",
            with(&[3, 0, 0, 12, 0, 1, 0, 0, 0, 0, 0, 0]),
            ErrorKind::FragmentLength,
            behind + 2,
        ),
        ("LINK_INFO too short", with(&[6, 0, 0, 4]), ErrorKind::FragmentLength, behind + 2),
        ("FAILURE without a count", with(&[7, 0, 0, 4]), ErrorKind::FragmentLength, behind + 2),
        ("more notes than said", with(&changed(&FAILURE, 4, 0)), ErrorKind::Notes, behind + 4),
        ("fewer notes than said", with(&changed(&FAILURE, 4, 2)), ErrorKind::Notes, behind + 4),
        ("a note of no family", with(&changed(&FAILURE, 8, 3)), ErrorKind::Notes, behind + 4),
        ("a note cut off", with(&changed(&FAILURE, 8, 2)), ErrorKind::Notes, behind + 4),
        ("AUTH too short", with(&changed(&AUTH[..8], 3, 8)), ErrorKind::FragmentLength, behind + 2),
        (
            "RTCP that lies",
            yessir_compound(&GENERIC)[..44].to_vec(),
            ErrorKind::Rtcp(rtcp::ErrorKind::Length),
            30,
        ),
    ];
    for (what, compound, kind, offset) in cases {
        let error = Report::parse(&compound).expect_err(what);
        assert_eq!((error.kind, error.offset), (kind, offset), "{what}: {error}");
        assert!(error.to_string().starts_with(&format!("YESSIR, octet {offset}")), "{error}");
        assert!(has_message(&compound), "{what}: it is a YESSIR packet nevertheless");
    }
}

/// Senders may use fragments unknown here: they are kept at their place.
#[test]
fn unknown_fragments_are_kept() {
    let unknown = [200, 7, 0, 8, 1, 2, 3, 4];
    let compound = yessir_compound(&[&unknown[..], &GENERIC, &unknown, &LINK_INFO].concat());
    let packet = [&[0; udp::HEADER][..], &compound].concat();
    let (message, places) = read(&compound);
    let mut again = vec![0; message.buffer_len()];
    message.emit(&mut again).expect("it fits");
    assert_eq!(again.len(), compound.len() - 28);
    let edit = Edit { link_info: Some(LinkInfo::unknown(64)), note: None };
    let mut target = vec![0; packet.len()];
    edit.write(&packet, &places, &mut target).expect("it fits");
    let (before, after) = target.split_at(packet.len() - 12);
    assert_eq!(before, &packet[..packet.len() - 12]);
    assert_ne!(after, &packet[packet.len() - 12..]);
}

/// TOKEN: its flags count the octets that complete the last word.
#[test]
fn token_is_a_fragment_with_padding() {
    let token = |octets| Some(octets);
    for (octets, flags) in [(&[1, 2, 3, 4][..], 0), (&[1, 2, 3, 4, 5], 3), (&[9; 512], 0)] {
        let message = Message { token: token(octets), ..plain_message() };
        let mut packet = vec![0xa5; message.buffer_len()];
        assert_eq!(message.emit(&mut packet), Ok(packet.len()));
        let at = packet.len() - 4 - octets.len().next_multiple_of(4);
        let length = (packet.len() - at) as u8;
        assert_eq!((packet[at], packet[at + 1]), (9, flags));
        assert_eq!(packet[at + 3], length, "of {} octets", octets.len());
        let compound = [&[0x80, 201, 0, 1, 0, 0, 0, 7][..], &packet].concat();
        let report = Report::parse(&compound).expect("a report");
        assert_eq!(report.message.expect("a message").0, message);
        // Too much padding, nothing but padding, and a second token.
        let empty = if octets.len() < 256 { 4 } else { 5 };
        for (place, octet) in [(at + 1, 4), (at + 1, 255), (at + 3, empty)] {
            let mut wrong = compound.clone();
            wrong[8 + place] = octet;
            assert!(Report::parse(&wrong).is_err(), "{place} {octet}");
        }
    }
    let empty = Message { token: Some(&[]), ..plain_message() };
    assert_eq!(empty.emit(&mut [0; 100]), Err(earmark_wire::EmitError::Contradiction));
}

fn plain_message() -> Message<'static> {
    Message {
        ssrc: 7,
        generic: Generic {
            command: Command::Active,
            style: Style::Individual,
            interval: 30,
            reservation: 1,
            multiplexed: false,
        },
        flowspec: None,
        link_info: None,
        failures: Failures::default(),
        auth: None,
        token: None,
        others: &[],
    }
}

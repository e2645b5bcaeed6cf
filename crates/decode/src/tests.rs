//! Synthetic capture files of every link type in both formats, well-formed and malformed.

use std::net::{Ipv4Addr, Ipv6Addr};

use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::{
    Body, Bundle, Capability, Carried, FilterSpec, Hello, HelloKind, HelloMessage, Message, Path,
    RestartCap, RsvpHop, SenderDescriptor, Session, SourceSelector,
};

use super::*;

/// IP protocol number of RSVP.
const RSVP: u8 = 46;

mod agreement;
mod boomerang;
mod damage;
mod gist;
mod malformed;
mod yessir;

const ETHERNET: u32 = 1;

fn path(source: IpAddr, destination: IpAddr) -> Vec<u8> {
    let body = Body::Path(Path {
        session: Session { destination, protocol: 17, flags: 0, port: 6000 },
        hop: RsvpHop { address: source, lih: 7 },
        refresh_ms: 30_000,
        carried: Carried::NONE,
        sender: SenderDescriptor {
            template: FilterSpec { source, selector: SourceSelector::Port(5000) },
            tspec: SenderTspec::default(),
            adspec: None,
        },
    });
    let message = Message::new(63, body);
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer fits");
    octets
}

fn ipv4_packet(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let repr = ipv4::Repr {
        tos: 0,
        identification: 1,
        dont_fragment: false,
        ttl: 63,
        protocol,
        source: Ipv4Addr::new(10, 0, 1, 1),
        destination: Ipv4Addr::new(10, 0, 9, 9),
        router_alert: Some(0),
        payload_len: payload.len(),
    };
    let mut header = vec![0; repr.header_len()];
    repr.emit(&mut header).expect("the buffer fits");
    [header, payload.to_vec()].concat()
}

fn path4() -> Vec<u8> {
    path(Ipv4Addr::new(10, 0, 1, 1).into(), Ipv4Addr::new(10, 0, 9, 9).into())
}

fn packet4() -> Vec<u8> {
    ipv4_packet(RSVP, &path4())
}

/// Builds an IPv6 packet; those of RSVP have a router alert.
fn ipv6_packet(protocol: u8, [source, destination]: [Ipv6Addr; 2], payload: &[u8]) -> Vec<u8> {
    let repr = ipv6::Repr {
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 63,
        source,
        destination,
        router_alert: (protocol == RSVP).then_some(earmark_wire::rsvp::iana::ROUTER_ALERT),
        next_header: protocol,
        payload_len: payload.len(),
    };
    let mut header = vec![0; repr.header_len()];
    repr.emit(&mut header).expect("the buffer fits");
    [header, payload.to_vec()].concat()
}

fn packet6() -> Vec<u8> {
    let ends = [1, 9].map(|n| Ipv6Addr::new(0x2001, 0xdb8, n, 0, 0, 0, 0, n));
    ipv6_packet(RSVP, ends, &path(ends[0].into(), ends[1].into()))
}

fn ends(ipv6: bool) -> [IpAddr; 2] {
    match ipv6 {
        false => ["10.0.1.1", "10.0.9.9"].map(|text| text.parse().expect("an address")),
        true => ["2001:db8::1", "2001:db8::9"].map(|text| text.parse().expect("an address")),
    }
}

/// Builds an IP packet between [`ends`].
fn ip_packet(ipv6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match ends(ipv6) {
        [IpAddr::V6(source), IpAddr::V6(destination)] => {
            ipv6_packet(protocol, [source, destination], payload)
        }
        _ => ipv4_packet(protocol, payload),
    }
}

fn length(octets: &[u8]) -> [u8; 4] {
    u32::try_from(octets.len()).expect("short").to_be_bytes()
}

/// Builds a pcap file, big-endian.
fn pcap(link_type: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file =
        vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
    file.extend(link_type.to_be_bytes());
    for frame in frames {
        file.extend([0; 8]);
        file.extend([length(frame), length(frame)].concat());
        file.extend(frame);
    }
    file
}

/// Builds a pcapng file, little-endian, with two interfaces; each frame names its interface.
fn pcapng(link_types: [u16; 2], frames: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let padding = vec![0; body.len().next_multiple_of(4) - body.len()];
        let total = u32::try_from(12 + body.len() + padding.len()).expect("short").to_le_bytes();
        [&kind.to_le_bytes()[..], &total, body, &padding, &total].concat()
    };
    let mut section = 0x1a2b_3c4d_u32.to_le_bytes().to_vec();
    section.extend([1, 0, 0, 0]);
    section.extend([0xff; 8]);
    let mut file = block(0x0a0d_0d0a, &section);
    for link_type in link_types {
        file.extend(block(1, &[&link_type.to_le_bytes()[..], &[0, 0, 0xff, 0xff, 0, 0]].concat()));
    }
    for (interface, frame) in frames {
        let size = u32::try_from(frame.len()).expect("short").to_le_bytes();
        let head = [&interface.to_le_bytes()[..], &[0; 8], &size, &size].concat();
        file.extend(block(6, &[&head[..], frame].concat()));
    }
    file
}

fn json_lines(file: &[u8]) -> (Vec<Value>, Summary) {
    let mut out = Vec::new();
    let summary = decode(file, &mut out, Format::Json).expect("the file is whole");
    let text = String::from_utf8(out).expect("JSON is text");
    (text.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect(), summary)
}

fn text_of(packet: &[u8]) -> String {
    let mut out = Vec::new();
    decode(&pcap(101, &[packet.to_vec()])[..], &mut out, Format::Text).expect("the file is whole");
    String::from_utf8(out).expect("text")
}

fn ethernet(ethertypes: &[[u8; 2]], packet: &[u8]) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for (i, ethertype) in ethertypes.iter().enumerate() {
        if i > 0 {
            frame.extend([0, 5]);
        }
        frame.extend(ethertype);
    }
    frame.extend(packet);
    frame
}

/// One Path message behind every supported link-layer header.
#[test]
fn every_link_type_is_decoded() {
    let (v4, v6) = (packet4(), packet6());
    let sll = |protocol: [u8; 2], packet: &[u8]| [&[0; 14][..], &protocol, packet].concat();
    let sll2 = |protocol: [u8; 2], packet: &[u8]| [&protocol[..], &[0; 18], packet].concat();
    let null = |family: u8, packet: &[u8]| [&[0, 0, 0, family], packet].concat();
    let (ip4, ip6) = ([0x08, 0x00], [0x86, 0xdd]);
    let cases = [
        (ETHERNET, vec![ethernet(&[ip4], &v4), ethernet(&[ip6], &v6)]),
        (
            ETHERNET,
            vec![ethernet(&[[0x81, 0], ip4], &v4), ethernet(&[[0x88, 0xa8], [0x81, 0], ip6], &v6)],
        ),
        (113, vec![sll(ip4, &v4), sll(ip6, &v6)]),
        (276, vec![sll2(ip4, &v4), sll2(ip6, &v6)]),
        (101, vec![v4.clone(), v6.clone()]),
        (0, vec![null(2, &v4), null(30, &v6)]),
        (108, vec![null(2, &v4), null(24, &v6)]),
    ];
    for (link_type, frames) in cases {
        let (lines, summary) = json_lines(&pcap(link_type, &frames));
        let expected = Summary { frames: 2, messages: 2, ..Summary::default() };
        assert_eq!(summary, expected, "link type {link_type}");
        for (line, destination) in lines.iter().zip(["10.0.9.9", "2001:db8:9::9"]) {
            assert_eq!(line["message"], "Path");
            assert_eq!(line["destination"], destination);
            assert_eq!(line["objects"][0]["destination"], destination);
            assert_eq!(line.get("error"), None);
        }
    }
}

/// A complete line of output; frames without signalling are counted too.
#[test]
fn json_line_is_complete_and_counts_every_frame() {
    let udp = ipv4_packet(17, &[0; 8]);
    let arp = ethernet(&[[0x08, 0x06]], &[0; 28]);
    // Short frames are padded.
    let padded = [ethernet(&[[0x08, 0]], &packet4()), vec![0; 9]].concat();
    let frames = [ethernet(&[[0x08, 0]], &udp), arp, vec![1, 2, 3], padded];
    let (lines, summary) = json_lines(&pcap(ETHERNET, &frames));
    assert_eq!(summary, Summary { frames: 4, messages: 1, ..Summary::default() });
    let [line] = &lines[..] else { panic!("one line: {lines:?}") };
    assert_eq!(
        *line,
        json!({
            "frame": 4, "protocol": "rsvp", "source": "10.0.1.1", "destination": "10.0.9.9",
            "message_type": 1, "message": "Path", "send_ttl": 63,
            "objects": [
                {"class_num": 1, "c_type": 1, "length": 12, "offset": 8, "class": "SESSION",
                 "destination": "10.0.9.9", "protocol": 17, "flags": 0, "port": 6000},
                {"class_num": 3, "c_type": 1, "length": 12, "offset": 20, "class": "RSVP_HOP",
                 "address": "10.0.1.1", "lih": 7},
                {"class_num": 5, "c_type": 1, "length": 8, "offset": 32, "class": "TIME_VALUES",
                 "refresh_ms": 30000},
                {"class_num": 11, "c_type": 1, "length": 12, "offset": 40,
                 "class": "SENDER_TEMPLATE", "source": "10.0.1.1", "port": 5000},
                {"class_num": 12, "c_type": 2, "length": 36, "offset": 52, "class": "SENDER_TSPEC",
                 "rate": 0.0, "depth": 0.0, "peak": 0.0, "min_policed_unit": 0,
                 "max_packet_size": 0},
            ],
        })
    );
}

#[test]
fn pcapng_files_may_mix_link_types() {
    let frames = [(1, packet4()), (0, ethernet(&[[0x86, 0xdd]], &packet6())), (9, packet4())];
    let (lines, summary) = json_lines(&pcapng([1, 101], &frames));
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["frame"], &lines[1]["frame"]), (&json!(1), &json!(2)));
    let expected = Summary { frames: 3, messages: 2, malformed: 0, unknown_link_type: 1 };
    assert_eq!(summary, expected, "an interface that the file does not describe");
}

/// A malformed message does not keep the next one from being shown.
#[test]
fn malformed_messages_are_shown_with_error() {
    let mut unknown_c_type = path4();
    unknown_c_type[23] = 9;
    unknown_c_type[2..4].fill(0);
    let mut bad_checksum = path4();
    bad_checksum[3] ^= 1;
    let mut fragment = packet4();
    fragment[7] = 185;
    fragment[10..12].fill(0);
    let check = earmark_wire::checksum::checksum(&fragment[..24]);
    fragment[10..12].copy_from_slice(&check.to_be_bytes());
    let mut bad_header = packet4();
    bad_header[8] ^= 1;
    let frames = [
        ipv4_packet(RSVP, &unknown_c_type),
        ipv4_packet(RSVP, &bad_checksum),
        ipv4_packet(RSVP, &[0x10]),
        fragment,
        bad_header,
        packet4()[..60].to_vec(),
        packet4(),
    ];
    let (lines, summary) = json_lines(&pcap(101, &frames));
    assert_eq!(summary, Summary { frames: 7, messages: 7, malformed: 6, unknown_link_type: 0 });
    let error = |line: usize| {
        (lines[line]["error"]["kind"].clone(), lines[line]["error"]["offset"].clone())
    };
    assert_eq!(error(0), (json!("unknown_c_type"), json!(20)));
    assert_eq!(lines[0]["objects"][1]["error"], "unknown_c_type");
    assert_eq!(lines[0]["objects"][2]["refresh_ms"], 30_000);
    assert_eq!(error(1), (json!("checksum"), json!(2)));
    assert_eq!(lines[1]["objects"].as_array().map(Vec::len), Some(5));
    assert_eq!(error(2), (json!("truncated"), json!(1)));
    assert_eq!(error(3), (json!("fragment"), json!(1480)));
    assert_eq!(error(4), (json!("ip_header"), Value::Null));
    assert_eq!(error(5), (json!("ip_header"), Value::Null));
    assert_eq!(lines[5]["objects"][0]["destination"], "10.0.9.9");
    assert_eq!(lines[6].get("error"), None);
}

#[test]
fn text_has_a_line_for_message_and_objects() {
    let mut out = Vec::new();
    decode(&pcap(101, &[packet4()])[..], &mut out, Format::Text).expect("the file is whole");
    let text = String::from_utf8(out).expect("text");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("frame 1: RSVP Path 10.0.1.1 -> 10.0.9.9"));
    let session = lines.next().expect("an object");
    assert!(session.starts_with("    SESSION  "), "{session}");
    for part in ["destination 10.0.9.9", "protocol 17", "port 6000"] {
        assert!(session.contains(part), "{session}");
    }
    assert_eq!(lines.next(), Some("    RSVP_HOP  address 10.0.1.1  lih 7"));
}

/// RFC 3473 section 9.1, RFC 5063 section 4.2.
#[test]
fn text_has_restart_times_and_capability() {
    let hello = Hello { kind: HelloKind::Ack, source_instance: 1, destination_instance: 2 };
    let message = HelloMessage {
        restart_cap: Some(RestartCap { restart_ms: 30_000, recovery_ms: 60_000 }),
        capability: Some(Capability { flags: Capability::RECOVERY_PATH_DESIRED }),
        ..hello.into()
    };
    let message = Message::new(1, Body::Hello(message));
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("the buffer fits");
    let text = text_of(&ipv4_packet(RSVP, &octets));
    for line in [
        "RESTART_CAP  restart_ms 30000  recovery_ms 60000",
        "CAPABILITY  recovery_path_transmit false  recovery_path_desired true  recovery_path_srefresh false",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// A reader that returns one octet at a time, like a slow pipe.
struct SlowPipe<'a>(&'a [u8]);

impl Read for SlowPipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some((first, rest)) = self.0.split_first() else {
            return Ok(0);
        };
        let Some(target) = buffer.first_mut() else {
            return Ok(0);
        };
        *target = *first;
        self.0 = rest;
        Ok(1)
    }
}

#[test]
fn slow_pipe_is_decoded_like_file() {
    for file in [pcap(101, &[packet4()]), pcapng([101, 1], &[(0, packet4())])] {
        let summary = decode(SlowPipe(&file), &mut Vec::new(), Format::Json).expect("it is whole");
        assert_eq!(summary.messages, 1);
    }
}

/// The file exceeds the buffer, and so do single blocks.
#[test]
fn long_files_and_long_frames_are_read() {
    let long = [packet4(), vec![0; 200_000]].concat();
    let mut frames = vec![packet4(); 1000];
    frames.extend([long, packet4()]);
    let (lines, summary) = json_lines(&pcap(101, &frames));
    assert_eq!((summary.frames, lines.len()), (1002, 1002));
}

#[test]
fn other_or_truncated_files_are_refused() {
    let refused = |file: &[u8]| decode(file, &mut Vec::new(), Format::Json).map(|_| ());
    assert!(matches!(refused(b""), Err(DecodeError::Empty)));
    for file in [&b"x"[..], b"GIF89a, and so on and on and on", &[0xa1, 0xb2, 0xc3, 0xd4]] {
        assert!(matches!(refused(file), Err(DecodeError::NotACapture)), "{file:?}");
    }
    // The file is cut off after its header, within a frame.
    for file in [pcap(101, &[packet4(), packet4()]), pcapng([101, 1], &[(0, packet4())])] {
        for cut in 1..40 {
            let outcome = refused(&file[..file.len() - cut]);
            assert!(matches!(outcome, Err(DecodeError::Truncated(_))), "{outcome:?}");
        }
    }
    // The block claims a frame of two gigabytes in a small file.
    let mut oversized = pcap(101, &[packet4()]);
    oversized[32..36].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff]);
    assert!(refused(&oversized).is_err());
}

/// The messages in a Bundle are shown, and an error in one of them is reported there.
#[test]
fn bundle_is_decoded_message_by_message() {
    let mut second = path4();
    second[4] ^= 1;
    let mut bundle = [&[0; Bundle::HEADER_LEN][..], &path4(), &second].concat();
    Bundle::seal(&mut bundle, 0, 63).expect("it fits");
    let file = pcap(101, &[ipv4_packet(RSVP, &bundle)]);
    let (lines, summary) = json_lines(&file);
    assert_eq!((summary.messages, summary.malformed), (1, 0));
    assert_eq!(lines[0]["message"], "Bundle");
    assert_eq!(lines[0].get("objects"), None);
    let inner = lines[0]["messages"].as_array().expect("a list");
    assert_eq!(inner.len(), 2);
    assert_eq!(inner[0]["message"], "Path");
    assert_eq!(inner[0]["objects"][0]["destination"], "10.0.9.9");
    assert_eq!(inner[0].get("error"), None);
    assert_eq!(inner[1]["error"]["kind"], "checksum");

    let mut text = Vec::new();
    decode(&file[..], &mut text, Format::Text).expect("it can be read");
    let text = String::from_utf8(text).expect("text");
    assert_eq!(text.lines().next(), Some("frame 1: RSVP Bundle 10.0.1.1 -> 10.0.9.9"));
    assert!(text.contains("\n    Path\n        SESSION  destination 10.0.9.9"), "{text}");
    assert!(text.contains("\n    Path: malformed: RSVP Checksum"), "{text}");
}

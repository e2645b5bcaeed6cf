//! Captures of Boomerang and YESSIR over IPv4 and IPv6, well-formed and malformed.

use earmark_wire::boomerang::{
    Family, Flags, Keys, OptionFlags, OptionItem, Options, Qos, Rates, Reservation, Shape, UserId,
    Vector,
};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};
use earmark_wire::rtcp::{self, Application, Goodbye, Packet, SenderInfo, SenderReport};
use earmark_wire::yessir::{
    self, Command, FailureNote, FailureReason, Failures, Flowspec, Generic, LinkInfo, NAME,
    OctetRate, Style, VERSION,
};

use super::*;

fn ends(six: bool) -> [IpAddr; 2] {
    match six {
        false => ["10.0.1.1", "10.0.9.9"].map(|text| text.parse().expect("an address")),
        true => ["2001:db8::1", "2001:db8::9"].map(|text| text.parse().expect("an address")),
    }
}

/// Builds an IP packet without options between [`ends`].
fn packet(six: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    if !six {
        return ipv4_packet(protocol, payload);
    }
    let [IpAddr::V6(source), IpAddr::V6(destination)] = ends(six) else { unreachable!() };
    let repr = ipv6::Repr {
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 63,
        source,
        destination,
        router_alert: None,
        next_header: protocol,
        payload_len: payload.len(),
    };
    let mut header = vec![0; repr.header_len()];
    repr.emit(&mut header).expect("the buffer fits");
    [header, payload.to_vec()].concat()
}

fn echo(six: bool, kind: Kind, qos: Qos<'_>, nack: bool) -> Vec<u8> {
    let [source, destination] = ends(six);
    let user = UserId { flags: OptionFlags(0), user: *b"alice\0\0\0", credential: [0xab; 8] };
    let classifier = Keys {
        source,
        destination,
        source_port: 0,
        destination_port: 5_001,
        protocol: 17,
        tos: 0,
        flags: 0,
    };
    let reservation = Reservation {
        transaction_id: 0xabcd,
        flags: Flags(u16::from(nack)),
        refresh_interval: 30,
        key: 1,
        classifier,
        mask: Shape { source_port: false, tos: false, ..Shape::exact(Family::of(source)) },
        qos,
        options: Options::Items(&[OptionItem::UserId(user)]),
    };
    let mut data = vec![0; reservation.buffer_len()];
    reservation.emit(&mut data).expect("it fits");
    let echo = Echo { kind, identifier: 7, sequence: 8, data: &data };
    let ends = PseudoHeader::of(source, destination).expect("of one family");
    let mut message = vec![0; echo.buffer_len()];
    echo.emit(ends, &mut message).expect("it fits");
    message
}

const RATES: Rates = Rates { forward: 2_000_000, reverse: 64_000 };

/// A request and a reply over IPv4 and IPv6; then a damaged one, a truncated one, and a plain ping.
#[test]
fn boomerang_messages_are_decoded() {
    for six in [false, true] {
        let protocol = if six { icmp::PROTOCOL_V6 } else { icmp::PROTOCOL_V4 };
        let request = echo(six, Kind::Request, Qos::Bitrate(RATES), false);
        let vector = Vector::Items(&[RATES, Rates { forward: 1, reverse: 2 }]);
        let reply = echo(six, Kind::Reply, Qos::Downgrade { policy: 0, vector }, true);
        let (mut damaged, cut, mut ping) = (request.clone(), &request[..40], request.clone());
        damaged[12] ^= 1;
        ping[8] ^= 1;
        let messages = [&request[..], &reply, &damaged, cut, &ping];
        let file = pcap(101, &messages.map(|message| packet(six, protocol, message)));
        let (lines, summary) = json_lines(&file);
        let expected = Summary { frames: 5, messages: 4, malformed: 2, unknown_link_type: 0 };
        assert_eq!(summary, expected);
        let [source, destination] = ends(six);
        let whole = if six { 128 } else { 32 };
        assert_eq!(
            lines[0],
            json!({
                "frame": 1, "protocol": "boomerang",
                "source": source, "destination": destination,
                "message": "echo", "identifier": 7, "sequence": 8, "transaction_id": 0xabcd,
                "nack": false, "no_echo": false, "refresh_interval_s": 30, "key": 1,
                "objects": [
                    {"class": "CLASSIFIER", "source": source, "source_port": 0,
                     "destination": destination, "destination_port": 5_001, "protocol": 17, "tos": 0},
                    {"class": "MASK", "source_bits": whole, "source_port": false,
                     "destination_bits": whole, "destination_port": true, "protocol": true,
                     "tos": false},
                    {"class": "BITRATE", "forward_bps": 2_000_000, "reverse_bps": 64_000},
                    {"class": "USER_ID", "user": "alice", "credential": "abababababababab"},
                ],
            })
        );
        assert_eq!((&lines[1]["message"], &lines[1]["nack"]), (&json!("echo reply"), &json!(true)));
        assert_eq!(
            lines[1]["objects"][3],
            json!({"class": "DOWNGRADE", "forward_bps": 1, "reverse_bps": 2})
        );
        assert_eq!(lines[2]["error"]["kind"], "icmp_checksum");
        assert_eq!(lines[2]["transaction_id"], 0x0100_abcd);
        // The sender has truncated the message, so that the checksum is wrong too.
        assert_eq!(lines[3]["error"]["kind"], "icmp_checksum");
        assert_eq!(lines[3].get("objects"), None);
    }
    let request =
        packet(false, icmp::PROTOCOL_V4, &echo(false, Kind::Request, Qos::Bitrate(RATES), true));
    let text = text_of(&request);
    let expected = "frame 1: Boomerang echo 10.0.1.1 -> 10.0.9.9  transaction_id 43981  nack true";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\n    BITRATE  forward_bps 2000000  reverse_bps 64000\n"), "{text}");
}

fn report(ends: [IpAddr; 2], command: Command, is_answer: bool) -> Vec<u8> {
    let ssrc = 0x1234_5678_u32;
    let note = FailureNote {
        reason: FailureReason::Bandwidth,
        hop: 2,
        available: OctetRate(125_000.0),
        node: ends[0],
    };
    let (note, length) = note.to_octets();
    let message = yessir::Message {
        ssrc,
        generic: Generic {
            command,
            style: Style::Individual,
            interval: 30,
            reservation: 9,
            multiplexed: false,
        },
        flowspec: Some(Flowspec::Class { dscp: 46, rate: OctetRate(250_000.0) }),
        link_info: Some(LinkInfo::unknown(64)),
        failures: Failures::of(&note[..length]).expect("a note"),
        auth: None,
        others: &[],
    };
    let mut app = vec![0; message.buffer_len()];
    message.emit(&mut app).expect("it fits");
    let sources = [ssrc.to_be_bytes()];
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let first = match is_answer {
        false => Packet::SenderReport(SenderReport { ssrc, sender, blocks: &[], extension: &[] }),
        true => Packet::ReceiverReport(rtcp::ReceiverReport { ssrc, blocks: &[], extension: &[] }),
    };
    let application =
        Packet::Application(Application { subtype: VERSION, ssrc, name: NAME, data: &app[12..] });
    let bye = Packet::Goodbye(Goodbye { sources: &sources, reason: None });
    let packets = [first, application, bye];
    let packets = if command == Command::Release { &packets[..] } else { &packets[..2] };
    let mut udp = vec![0; udp::HEADER + rtcp::buffer_len(packets)];
    rtcp::emit(packets, &mut udp[udp::HEADER..]).expect("it fits");
    let [source, destination] = ends;
    let header = udp::Repr { source, destination, source_port: 5_007, destination_port: 5_007 };
    header.emit(&mut udp).expect("it fits");
    udp
}

/// Reports of sender and receiver over IPv4 and IPv6; then a malformed one, and a report without YESSIR.
#[test]
fn yessir_reports_are_decoded() {
    for six in [false, true] {
        let ends = ends(six);
        let active = report(ends, Command::Active, false);
        let release = report(ends, Command::Release, false);
        let answer = report(ends, Command::Active, true);
        let mut broken = active.clone();
        let generic = broken.windows(4).position(|window| window == *b"YSSR").expect("APP") + 4;
        broken[generic + 3] = 3;
        let mut plain = active.clone();
        plain[generic - 1] = b'?';
        let messages = [active, release, answer, broken, plain];
        let file = pcap(101, &messages.map(|message| packet(six, udp::PROTOCOL, &message)));
        let (lines, summary) = json_lines(&file);
        let expected = Summary { frames: 5, messages: 4, malformed: 1, unknown_link_type: 0 };
        assert_eq!(summary, expected);
        let names: Vec<&Value> = lines.iter().map(|line| &line["message"]).collect();
        assert_eq!(names[..3], ["active", "release", "answer"]);
        assert_eq!((&lines[0]["bye"], &lines[1]["bye"]), (&json!(false), &json!(true)));
        assert_eq!(
            (&lines[0]["destination_port"], &lines[0]["packets"]),
            (&json!(5_007), &json!(3))
        );
        let objects = lines[0]["objects"].as_array().expect("a list");
        let classes: Vec<&Value> = objects.iter().map(|object| &object["class"]).collect();
        assert_eq!(classes, ["GENERIC", "FLOWSPEC_CLASS", "LINK_INFO", "FAILURE"]);
        assert_eq!((&objects[0]["interval"], &objects[0]["reservation"]), (&json!(30), &json!(9)));
        assert_eq!((&objects[1]["dscp"], &objects[1]["rate"]), (&json!(46), &json!(250_000.0)));
        assert_eq!((&objects[3]["hop"], &objects[3]["node"]), (&json!(2), &json!(ends[0])));
        assert_eq!(lines[3]["error"]["kind"], "fragment_length");
    }
    let message = report(ends(false), Command::Active, false);
    let text = text_of(&packet(false, udp::PROTOCOL, &message));
    assert!(text.starts_with("frame 1: YESSIR active 10.0.1.1 -> 10.0.9.9  "), "{text}");
    assert!(text.contains("\n    FLOWSPEC_CLASS  "), "{text}");
}

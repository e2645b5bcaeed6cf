//! Captures of YESSIR over IPv4 and IPv6, well-formed and malformed.

use earmark_wire::rtcp::{self, Application, Goodbye, Packet, SenderInfo, SenderReport};
use earmark_wire::yessir::{
    self, Command, FailureNote, FailureReason, Failures, Flowspec, Generic, LinkInfo, NAME,
    OctetRate, Style, VERSION,
};

use earmark_wire::udp;

use super::*;

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
        token: None,
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
    for ipv6 in [false, true] {
        let ends = ends(ipv6);
        let active = report(ends, Command::Active, false);
        let release = report(ends, Command::Release, false);
        let answer = report(ends, Command::Active, true);
        let mut broken = active.clone();
        let generic = broken.windows(4).position(|window| window == *b"YSSR").expect("APP") + 4;
        broken[generic + 3] = 3;
        let mut plain = active.clone();
        plain[generic - 1] = b'?';
        let messages = [active, release, answer, broken, plain];
        let file = pcap(101, &messages.map(|message| ip_packet(ipv6, udp::PROTOCOL, &message)));
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
    let text = text_of(&ip_packet(false, udp::PROTOCOL, &message));
    assert!(text.starts_with("frame 1: YESSIR active 10.0.1.1 -> 10.0.9.9  "), "{text}");
    assert!(text.contains("\n    FLOWSPEC_CLASS  "), "{text}");
}

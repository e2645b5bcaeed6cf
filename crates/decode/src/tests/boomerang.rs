//! Captures of Boomerang over IPv4 and IPv6, well-formed and malformed.

use earmark_wire::boomerang::{
    Family, Flags, Keys, OptionFlags, OptionItem, Options, Qos, Rates, Reservation, Shape, UserId,
    Vector,
};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};

use earmark_wire::icmp;

use super::*;

fn echo(ipv6: bool, kind: Kind, qos: Qos<'_>, nack: bool) -> Vec<u8> {
    let [source, destination] = ends(ipv6);
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
    for ipv6 in [false, true] {
        let protocol = if ipv6 { icmp::PROTOCOL_V6 } else { icmp::PROTOCOL_V4 };
        let request = echo(ipv6, Kind::Request, Qos::Bitrate(RATES), false);
        let vector = Vector::Items(&[RATES, Rates { forward: 1, reverse: 2 }]);
        let reply = echo(ipv6, Kind::Reply, Qos::Downgrade { policy: 0, vector }, true);
        let (mut damaged, cut, mut ping) = (request.clone(), &request[..40], request.clone());
        damaged[12] ^= 1;
        ping[8] ^= 1;
        let messages = [&request[..], &reply, &damaged, cut, &ping];
        let file = pcap(101, &messages.map(|message| ip_packet(ipv6, protocol, message)));
        let (lines, summary) = json_lines(&file);
        let expected = Summary { frames: 5, messages: 4, malformed: 2, unknown_link_type: 0 };
        assert_eq!(summary, expected);
        let [source, destination] = ends(ipv6);
        let whole = if ipv6 { 128 } else { 32 };
        assert_eq!(
            lines[0],
            json!({
                "frame": 1, "protocol": "boomerang",
                "source": source, "destination": destination,
                "message": "echo", "request": "Reservation", "identifier": 7, "sequence": 8, "transaction_id": 0xabcd,
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
        let classifier = &lines[3]["objects"][0];
        let expected = if ipv6 { [40, 8] } else { [16, 8] };
        let remark = &classifier["malformed"][0];
        assert_eq!([&remark["expected"], &remark["found"]].map(Value::as_u64), expected.map(Some));
        assert_eq!(classifier.get("source").is_some(), !ipv6, "{classifier}");
        assert_eq!(classifier.get("rest").is_some(), ipv6, "{classifier}");
    }
    let request =
        ip_packet(false, icmp::PROTOCOL_V4, &echo(false, Kind::Request, Qos::Bitrate(RATES), true));
    let text = text_of(&request);
    let expected = "frame 1: Boomerang echo (Reservation) 10.0.1.1 -> 10.0.9.9  transaction_id 43981  nack true";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("\n    BITRATE  forward_bps 2000000  reverse_bps 64000\n"), "{text}");
}

//! Our Wireshark dissector in tshark, with every layout of Boomerang messages.

use std::net::IpAddr;

use earmark_wire::boomerang::{
    Aggregation, Family, Flags, Keys, OptionFlags, OptionItem, Options, Qos, Rates, Reservation,
    Shape, UserId, Vector,
};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};
use earmark_wire::{ipv4, ipv6};
use libtest_mimic::Failed;

use crate::packets::Capture;
use crate::run;

const SCRIPT: &str =
    concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/../../dissectors/boomerang.lua");

fn addresses(family: Family) -> [IpAddr; 3] {
    let texts = match family {
        Family::V4 => ["10.1.2.3", "10.9.8.7", "10.0.0.9"],
        Family::V6 => ["2001:db8::1", "2001:db8::2", "2001:db8::9"],
    };
    texts.map(|text| text.parse().expect("an address"))
}

/// Returns an echo with a message, behind an IP header.
fn packet(family: Family, kind: Kind, message: &Reservation<'_>) -> Vec<u8> {
    let [near, far, _] = addresses(family);
    let (source, destination) = if kind == Kind::Request { (near, far) } else { (far, near) };
    let pseudo_header = PseudoHeader::of(source, destination).expect("of one family");
    let mut data = vec![0; message.buffer_len()];
    message.emit(&mut data).expect("it fits");
    let echo = Echo { kind, identifier: 7, sequence: 9, data: &data };
    let mut icmp = vec![0; echo.buffer_len()];
    echo.emit(pseudo_header, &mut icmp).expect("it fits");
    let mut header = [0xa5; 64];
    let (protocol, ttl) = (pseudo_header.protocol(), 63);
    let length = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
            tos: 0,
            identification: 1,
            dont_fragment: false,
            ttl,
            protocol,
            source,
            destination,
            router_alert: Some(0),
            payload_len: icmp.len(),
        }
        .emit(&mut header),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
            traffic_class: 0,
            flow_label: 0,
            hop_limit: ttl,
            source,
            destination,
            router_alert: None,
            next_header: protocol,
            payload_len: icmp.len(),
        }
        .emit(&mut header),
        _ => panic!("addresses are of one family"),
    };
    [&header[..length.expect("the header fits")], &icmp].concat()
}

/// Returns bitrates in a request and refused in the reply, then downgrades with both options: three packets for each
/// family.
fn corpus() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for family in [Family::V4, Family::V6] {
        let [source, destination, node] = addresses(family);
        let classifier = Keys {
            source,
            destination,
            source_port: 4_000,
            destination_port: 5_004,
            protocol: 17,
            tos: 0,
            flags: 0,
        };
        let out = Reservation {
            transaction_id: 0xdead_beef,
            flags: Flags(0),
            refresh_interval: 30,
            key: 1,
            classifier,
            mask: Shape::exact(family),
            qos: Qos::Bitrate(Rates { forward: 2_000_000, reverse: 64_000 }),
            options: Options::NONE,
        };
        let offer = Qos::Bitrate(Rates { forward: 1_500_000, reverse: 64_000 });
        let refused = Reservation { flags: Flags(1), key: 0, qos: offer, ..out };
        let pairs = [Rates::ZERO, Rates { forward: 300, reverse: 200 }];
        let id = UserId { flags: OptionFlags(0), user: *b"alice\0\0\0", credential: [7; 8] };
        let note = Aggregation {
            flags: OptionFlags(2),
            node,
            transaction_id: 5,
            classifier,
            mask: Shape::exact(family).keys(family).expect("a mask"),
            rate: 16_909_060,
        };
        let options = [OptionItem::UserId(id), OptionItem::Aggregation(note)];
        let list = Reservation {
            flags: Flags(2),
            qos: Qos::Downgrade { policy: 0, vector: Vector::Items(&pairs) },
            options: Options::Items(&options),
            ..out
        };
        packets.push(packet(family, Kind::Request, &out));
        packets.push(packet(family, Kind::Reply, &refused));
        packets.push(packet(family, Kind::Request, &list));
    }
    packets
}

/// Packets by number, with their expected fields.
pub(crate) fn tshark_reads_boomerang() -> Result<(), Failed> {
    let packets = corpus();
    let capture = Capture::write("boomerang", &packets);
    let fields = [
        "boomerang.transaction_id",
        "boomerang.qos",
        "boomerang.flags.nack",
        "boomerang.flags.no_echo",
        "boomerang.refresh_int",
        "boomerang.key",
        "boomerang.classifier.source_port",
        "boomerang.mask.protocol",
        "boomerang.forward",
        "boomerang.reverse",
        "boomerang.user",
        "boomerang.aggregate_rate",
    ];
    let mut arguments = vec!["-X", SCRIPT, "-T", "fields"];
    fields.iter().for_each(|field| arguments.extend(["-e", field]));
    let text = run("tshark", &capture, &arguments)?;
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let expected = [
        "0xdeadbeef 0x10 0 0 30 1 4000 255 2000000 64000 - -",
        "0xdeadbeef 0x10 1 0 30 0 4000 255 1500000 64000 - -",
        "0xdeadbeef 0x30 0 1 30 1 4000,4000 255,255 0,300 0,200 alice 16909060",
    ];
    assert_eq!(rows.len(), packets.len());
    for (row, expected) in rows.iter().zip(expected.iter().cycle()) {
        let spoken = |word: &&str| match *word {
            "" => "-".to_owned(),
            "False" => "0".to_owned(),
            "True" => "1".to_owned(),
            // Some versions of tshark show the nibble at its place in the octet, others as a separate number.
            "0x01" | "0x1" => "0x10".to_owned(),
            "0x03" | "0x3" => "0x30".to_owned(),
            other => other.to_owned(),
        };
        let row: Vec<String> = row.iter().map(spoken).collect();
        assert_eq!(row.join(" "), *expected);
    }
    let complaints = "_ws.malformed or _ws.expert or not boomerang or icmp.checksum.status == 0";
    let text = run("tshark", &capture, &["-X", SCRIPT, "-Y", complaints])?;
    if !text.is_empty() {
        return Err(text.into());
    }
    // A message for nothing that no node has refused is a release, by name in the list of packets, too.
    let mut release = packets[0].clone();
    let rates = release.len() - 8;
    release[rates..].fill(0);
    let mut refused = release.clone();
    refused[24 + 8 + 11] = 1;
    let capture = Capture::write("boomerang-release", &[release, refused, packets[0].clone()]);
    let text = run("tshark", &capture, &["-X", SCRIPT, "-T", "fields", "-e", "boomerang.request"])?;
    assert_eq!(text.lines().collect::<Vec<_>>(), ["Release", "Reservation", "Reservation"]);
    let text = run("tshark", &capture, &["-X", SCRIPT])?;
    assert_eq!(text.matches("Boomerang Release").count(), 1, "{text}");
    // Truncated messages are marked, and other pings are ignored.
    let mut short = packets[0].clone();
    short.truncate(24 + 8 + 60);
    short[3] = short.len() as u8;
    let mut ping = packets[0].clone();
    ping[24 + 8] = 0;
    let capture = Capture::write("boomerang-short", &[short, ping]);
    let text = run("tshark", &capture, &["-X", SCRIPT, "-Y", "boomerang.short"])?;
    assert_eq!(text.lines().count(), 1, "{text}");
    let text = run("tshark", &capture, &["-X", SCRIPT, "-Y", "boomerang"])?;
    assert_eq!(text.lines().count(), 1, "{text}");
    Ok(())
}

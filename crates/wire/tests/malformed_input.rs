//! A valid message of each type, truncated at every octet and with each of its bits changed: every parser returns a
//! value, or an error with its offset.
//!
//! Each protocol's own tests have properties with random octets; these tests are exhaustive.

mod common;

use std::net::{Ipv4Addr, Ipv6Addr};

use common::{diagnosis_parts, extensions, sample};
use earmark_wire::icmp::{Kind, PseudoHeader};
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, SenderTspec};
use earmark_wire::qspec::{Parameter, QosObject, Qspec, Value};
use earmark_wire::rsvp::{Body, MessageType, Style};
use earmark_wire::{
    boomerang, gist, icmp, intserv, ipv4, ipv6, ping_nslp, qos_nslp, qspec, rsvp, rtcp, udp, yessir,
};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const DESTINATION: Ipv4Addr = Ipv4Addr::new(10, 0, 9, 9);
const ROOM: usize = 1_024;

/// Parser of octets; returns the error's text, and its offset if the error has one.
type Reader = fn(&[u8]) -> Result<(), (String, Option<usize>)>;

/// Wraps a parser whose errors have an offset.
macro_rules! with_offset {
    ($parse:expr) => {
        |octets: &[u8]| match $parse(octets) {
            Ok(read) => {
                let _ = format!("{read:?}");
                Ok(())
            }
            Err(error) => Err((error.to_string(), Some(error.offset))),
        }
    };
}

/// Wraps a parser whose errors have the offset in their text.
macro_rules! with_offset_in_text {
    ($parse:expr) => {
        |octets: &[u8]| match $parse(octets) {
            Ok(read) => {
                let _ = format!("{read:?}");
                Ok(())
            }
            Err(error) => Err((error.to_string(), None)),
        }
    };
}

const READERS: [(&str, Reader); 17] = [
    ("RSVP", with_offset!(rsvp::Message::parse)),
    ("ADSPEC", with_offset!(Adspec::parse)),
    ("FLOWSPEC", with_offset!(FlowSpec::parse)),
    ("SENDER_TSPEC", with_offset!(SenderTspec::parse)),
    ("Boomerang", with_offset!(boomerang::Reservation::parse)),
    ("Boomerang, in place", with_offset!(boomerang::View::parse)),
    ("GIST in datagrams", with_offset!(|octets| gist::Message::parse(octets, gist::Mode::D))),
    ("GIST in streams", with_offset!(|octets| gist::Message::parse(octets, gist::Mode::C))),
    ("the length of a GIST message", with_offset!(gist::message_len)),
    ("QoS NSLP", with_offset!(qos_nslp::Message::parse)),
    ("QSPEC", with_offset!(Qspec::parse)),
    ("Ping NSLP", with_offset!(ping_nslp::Ping::parse)),
    ("RTCP", with_offset!(|octets| rtcp::Compound::parse(octets).map(|it| it.packets().count()))),
    ("YESSIR", with_offset!(yessir::Report::parse)),
    ("UDP", with_offset_in_text!(udp::Packet::parse)),
    ("IPv4", with_offset_in_text!(ipv4::Packet::parse)),
    ("IPv6", with_offset_in_text!(ipv6::Packet::parse)),
];

/// Reads octets with all functions that accept malformed input.
fn parse_malformed(octets: &[u8]) {
    let _ = (rsvp::PartialMessage::scan(octets), rsvp::objects(octets).count());
    let _ =
        (rsvp::objects_in(octets).count(), rsvp::Integrity::covered(octets).map(Iterator::count));
    let _ = (Adspec::check(octets), rsvp::Bundle::new(octets).map(|bundle| bundle.iter().count()));
    let _ =
        (boomerang::is_boomerang(octets), boomerang::CommonForm::read(octets).map(|it| it.rates()));
    let _ = (boomerang::Keys::from_octets(octets), ipv6::router_alert(octets));
    let _ = (gist::datagram(octets), gist::find_sender(octets));
    let _ = gist::find_object(octets, gist::ObjectType::NslpData);
    let _ = (
        qos_nslp::RequestIds::find(octets),
        yessir::has_message(octets),
        yessir::CommonForm::read(octets),
    );
    let _ = yessir::Failures::of(octets).map(|notes| notes.iter().count());
    let _ = (rtcp::frames(octets).count(), yessir::covered(octets).count());
    let _ = icmp::Echo::parse(octets, PseudoHeader::V4)
        .map_err(|error| assert!(!error.to_string().is_empty()));
    let mut changed = octets.to_vec();
    let _ = (ping_nslp::count_hop(&mut changed), qspec::Editor::new(&mut changed).map(drop));
    changed.resize(octets.len() + ROOM, 0);
    let time = ping_nslp::Timestamp { seconds: 1, microseconds: 2 };
    let record = ping_nslp::NodeRecord { address: SOURCE.into(), time, available: Some(3) };
    let _ = ping_nslp::append(&mut changed, octets.len(), &record);
    let mut room = vec![0; octets.len() + ROOM];
    let _ = (gist::forward(octets, &mut room), gist::forward_with_data(octets, b"data", &mut room));
    let _ = Adspec::forward(octets, &common::HOP, &mut room);
    for mode in [gist::Mode::D, gist::Mode::C] {
        if let Err(error) = gist::Message::parse(octets, mode) {
            let _ = error.error_data(octets, mode);
        }
    }
}

/// Runs all parsers on the octets. An error has an offset within the octets or directly behind them.
fn run_all_parsers(what: &str, octets: &[u8]) {
    for (reader, read) in READERS {
        let Err((text, offset)) = read(octets) else { continue };
        assert!(text.contains("octet"), "{what} as {reader}: {text}");
        let Some(offset) = offset else { continue };
        assert!(text.contains(&offset.to_string()), "{what} as {reader}, {offset}: {text}");
        // A missing RSVP object has the offset at which its header would begin.
        assert!(offset <= octets.len() + 4, "{what} as {reader}, of {}: {text}", octets.len());
    }
    parse_malformed(octets);
}

fn damage_bit_by_bit(what: &str, octets: &[u8]) {
    for end in 0..=octets.len() {
        run_all_parsers(what, &octets[..end]);
    }
    let mut changed = octets.to_vec();
    for at in 0..octets.len() {
        for bit in 0..8 {
            changed[at] ^= 1 << bit;
            run_all_parsers(what, &changed);
            changed[at] ^= 1 << bit;
        }
    }
}

/// Removes the checksum, so that damage reaches the parser.
fn without_checksum(mut message: Vec<u8>) -> Vec<u8> {
    message[2..4].fill(0);
    message
}

#[test]
fn rsvp_messages_damaged_bit_by_bit() {
    for (kind, style) in [
        (MessageType::Path, Style::FixedFilter),
        (MessageType::Resv, Style::SharedExplicit),
        (MessageType::ResvErr, Style::FixedFilter),
        (MessageType::Resv, Style::Wildcard),
    ] {
        let parts = sample(kind, style, false);
        let message = without_checksum(common::octets(&parts.message()));
        damage_bit_by_bit(kind.name(), &message);
    }
}

#[test]
fn rsvp_extensions_damaged_bit_by_bit() {
    for message in extensions(false) {
        damage_bit_by_bit("an extension", &without_checksum(message));
    }
    let parts = diagnosis_parts(false);
    let message = rsvp::Message::new(63, Body::Dreq(parts.diagnosis()));
    damage_bit_by_bit("DREQ", &without_checksum(common::octets(&message)));
}

#[test]
fn intserv_bodies_damaged_bit_by_bit() {
    let mut buffer = [0; ROOM];
    let adspec = Adspec::for_sender().advertise(&common::HOP);
    let length = adspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("ADSPEC", &buffer[..length]);
    let flowspec = FlowSpec::Guaranteed(common::BUCKET, Rspec { rate: 1.0, slack_us: 2 });
    let length = flowspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("FLOWSPEC", &buffer[..length]);
    let tspec: SenderTspec = common::BUCKET;
    let length = tspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("SENDER_TSPEC", &buffer[..length]);
}

#[test]
fn boomerang_messages_damaged_bit_by_bit() {
    for family in [boomerang::Family::V4, boomerang::Family::V6] {
        let (source, destination) = match family {
            boomerang::Family::V4 => (SOURCE.into(), DESTINATION.into()),
            boomerang::Family::V6 => ([1; 16].into(), [2; 16].into()),
        };
        let classifier = boomerang::Keys {
            source,
            destination,
            source_port: 1,
            destination_port: 2,
            protocol: 17,
            tos: 0,
            flags: 0,
        };
        let user = boomerang::UserId {
            flags: boomerang::OptionFlags(0),
            user: *b"somebody",
            credential: [7; 8],
        };
        let vector = [boomerang::Rates { forward: 3, reverse: 2 }; 2];
        let message = boomerang::Reservation {
            transaction_id: 1,
            flags: boomerang::Flags(0),
            refresh_interval: 30,
            key: 1,
            classifier,
            mask: boomerang::Shape::exact(family),
            qos: boomerang::Qos::Downgrade { policy: 1, vector: boomerang::Vector::Items(&vector) },
            options: boomerang::Options::Items(&[boomerang::OptionItem::UserId(user)]),
        };
        let mut octets = vec![0; message.buffer_len()];
        message.emit(&mut octets).expect("it fits");
        damage_bit_by_bit("Boomerang", &octets);
        let mut echo = [&[0; icmp::HEADER][..], &octets].concat();
        icmp::seal(&mut echo, PseudoHeader::V4, Kind::Request, 1, 2).expect("it has a header");
        damage_bit_by_bit("an echo", &echo);
    }
}

fn qspec_octets() -> Vec<u8> {
    let bucket = intserv::TokenBucket { peak: f32::INFINITY, ..common::BUCKET };
    let parameters = [
        Parameter::mandatory(Value::Tmod1(bucket)),
        Parameter::optional(Value::PathLatency(5)),
        Parameter::optional(Value::Unknown { id: 77, octets: &[1, 2, 3, 4] }),
    ];
    let sequence = qspec::iana::MessageSequence::TwoWay;
    let qspec = Qspec {
        desired: Some(QosObject::new(&parameters)),
        available: Some(QosObject::new(&parameters[1..])),
        ..Qspec::new(qspec::Procedure { sequence, combination: 0 })
    };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("it fits");
    octets
}

fn reserve() -> Vec<u8> {
    let qspec = qspec_octets();
    let message = qos_nslp::Message::Reserve(qos_nslp::Reserve {
        flags: qos_nslp::GenericFlags::default(),
        tear: false,
        replace: true,
        rsn: qos_nslp::Rsn { number: 1, epoch: 2 },
        rii: Some(3),
        refresh_period: Some(30_000),
        bound: qos_nslp::BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: Some(qos_nslp::PacketClassifier(0xe3)),
        qspec: Some(&qspec),
        extra: qos_nslp::Extra::NONE,
    });
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

#[test]
fn nslp_messages_damaged_bit_by_bit() {
    damage_bit_by_bit("QSPEC", &qspec_octets());
    damage_bit_by_bit("QoS NSLP", &reserve());
    for version in [ping_nslp::Version::V1, ping_nslp::Version::V2] {
        let objects = &ping_nslp::WITH_BANDWIDTH;
        let ping = ping_nslp::Ping { version, hops: 1, sequence: 5, objects, data: &[] };
        let mut octets = vec![0; ROOM];
        let length = ping.emit(&mut octets).expect("it fits");
        let time = ping_nslp::Timestamp { seconds: 1, microseconds: 2 };
        let record = ping_nslp::NodeRecord { address: SOURCE.into(), time, available: Some(3) };
        let length = ping_nslp::append(&mut octets, length, &record).expect("it fits");
        damage_bit_by_bit("Ping NSLP", &octets[..length]);
    }
}

#[test]
fn gist_messages_damaged_bit_by_bit() {
    let mri = gist::Mri::PathCoupled(gist::PathCoupled {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(17),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(1),
        destination_port: Some(2),
        direction: gist::Direction::Downstream,
    });
    let nli = gist::NetworkLayerInformation {
        peer_identity: b"edge1",
        ip_ttl: 64,
        interface_address: SOURCE.into(),
        routing_state_validity: 30_000,
    };
    let profiles = [gist::Profile(&[2, 1]), gist::Profile(&[1])];
    let options = [gist::ProtocolOptions::tcp_query(1), gist::ProtocolOptions::tcp_query(2)];
    let stack = gist::Stack {
        proposal: gist::Profiles::new(&profiles),
        configuration: gist::StackConfiguration {
            hold_time: 30_000,
            options: gist::ProtocolOptionsList::new(&options),
        },
    };
    let data = reserve();
    let query = gist::Body::Query(gist::Query {
        nat_traversal: None,
        mri,
        session: gist::SessionId([7; 16]),
        nli,
        query_cookie: b"cookie!!",
        stack: Some(stack),
        nslp_data: Some(&data[..12]),
    });
    let extensions = gist::Extensions::NONE;
    let message =
        gist::Message { hops: 8, nslpid: 1, source_is_peer: true, body: query, extensions };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    damage_bit_by_bit("a Query", &octets);
}

#[test]
fn yessir_reports_damaged_bit_by_bit() {
    let sender = rtcp::SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = rtcp::SenderReport { ssrc: 7, sender, blocks: &[], extension: &[] };
    let mut compound = vec![0; 28];
    rtcp::Packet::SenderReport(report).emit(&mut compound).expect("it fits");
    compound.extend([0x81, 204, 0, 14, 0, 0, 0, 7]);
    compound.extend(b"YSSR");
    compound.extend([1, 0, 0, 12, 1, 1, 0, 30, 0, 0, 0, 5]);
    compound.extend([6, 64, 0, 16, 1, 0, 5, 220, 0x46, 0x1c, 0x40, 0, 0, 0, 0, 9]);
    compound.extend([7, 0, 0, 20, 1, 0, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 10, 0, 0, 9]);
    compound.extend([0x81, 203, 0, 1, 0, 0, 0, 7]);
    let report = yessir::Report::parse(&compound).expect("it is right");
    assert!(report.goodbye && report.message.is_some());
    damage_bit_by_bit("YESSIR", &compound);
}

#[test]
fn ip_and_udp_packets_damaged_bit_by_bit() {
    let payload = [7; 12];
    let mut datagram = [&[0; udp::HEADER][..], &payload].concat();
    let (source, destination) = (SOURCE.into(), DESTINATION.into());
    let ports = udp::Repr { source, destination, source_port: 1, destination_port: 2 };
    ports.emit(&mut datagram).expect("it is short");
    damage_bit_by_bit("UDP", &datagram);
    let mut packet = vec![0; 128];
    let header = ipv4::Repr {
        tos: 0xc0,
        identification: 1,
        dont_fragment: false,
        ttl: 64,
        protocol: udp::PROTOCOL,
        source: SOURCE,
        destination: DESTINATION,
        router_alert: Some(0),
        payload_len: payload.len(),
    };
    let length = header.emit(&mut packet).expect("it fits");
    packet.truncate(length + payload.len());
    damage_bit_by_bit("IPv4", &packet);
    let mut packet = vec![0; 128];
    let header = ipv6::Repr {
        traffic_class: 0xc0,
        flow_label: 1,
        hop_limit: 64,
        source: Ipv6Addr::LOCALHOST,
        destination: Ipv6Addr::LOCALHOST,
        router_alert: Some(1),
        next_header: udp::PROTOCOL,
        payload_len: payload.len(),
    };
    let length = header.emit(&mut packet).expect("it fits");
    packet.truncate(length + payload.len());
    damage_bit_by_bit("IPv6", &packet);
    damage_bit_by_bit("hop-by-hop options", &packet[40..48]);
}

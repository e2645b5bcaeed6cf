//! A valid message of each type, truncated at every octet and with each of its bits changed: every parser returns a
//! value, or an error with its offset.
//!
//! Each protocol's own tests have properties with random octets; these tests are exhaustive.

use earmark_testkit::messages::intserv::{BUCKET, HOP};
use earmark_testkit::messages::rsvp::{diagnosis_parts, extensions, octets as emitted, sample};
use earmark_testkit::messages::{self, packets};
use earmark_wire::icmp::PseudoHeader;
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, SenderTspec};
use earmark_wire::qspec::Qspec;
use earmark_wire::rsvp::{Body, MessageType, Style};
use earmark_wire::{
    boomerang, gist, icmp, ipv4, ipv6, natfw_nslp, ping_nslp, qos_nslp, qspec, rsvp, rtcp, udp,
    yessir,
};

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

const READERS: [(&str, Reader); 18] = [
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
    ("NATFW NSLP", with_offset!(natfw_nslp::Message::parse)),
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
        natfw_nslp::PartialMessage::parse(octets),
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
    let record =
        ping_nslp::NodeRecord { address: packets::SOURCE.into(), time, available: Some(3) };
    let _ = ping_nslp::append(&mut changed, octets.len(), &record);
    let mut room = vec![0; octets.len() + ROOM];
    let _ = (gist::forward(octets, &mut room), gist::forward_with_data(octets, b"data", &mut room));
    let _ = Adspec::forward(octets, &HOP, &mut room);
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
        let message = without_checksum(emitted(&parts.message()));
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
    damage_bit_by_bit("DREQ", &without_checksum(emitted(&message)));
}

#[test]
fn intserv_bodies_damaged_bit_by_bit() {
    let mut buffer = [0; ROOM];
    let adspec = Adspec::for_sender().advertise(&HOP);
    let length = adspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("ADSPEC", &buffer[..length]);
    let flowspec = FlowSpec::Guaranteed(BUCKET, Rspec { rate: 1.0, slack_us: 2 });
    let length = flowspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("FLOWSPEC", &buffer[..length]);
    let tspec: SenderTspec = BUCKET;
    let length = tspec.emit(&mut buffer).expect("it fits");
    damage_bit_by_bit("SENDER_TSPEC", &buffer[..length]);
}

#[test]
fn boomerang_messages_damaged_bit_by_bit() {
    for family in [boomerang::Family::V4, boomerang::Family::V6] {
        let octets = messages::boomerang::valid(family);
        damage_bit_by_bit("Boomerang", &octets);
        damage_bit_by_bit("an echo", &packets::echo(&octets));
    }
}

#[test]
fn nslp_messages_damaged_bit_by_bit() {
    damage_bit_by_bit("QSPEC", &messages::qspec::valid());
    damage_bit_by_bit("QoS NSLP", &messages::qos_nslp::valid_reserve());
    for message in messages::natfw_nslp::valid() {
        damage_bit_by_bit("NATFW NSLP", &message);
    }
    for version in [ping_nslp::Version::V1, ping_nslp::Version::V2] {
        damage_bit_by_bit("Ping NSLP", &messages::ping_nslp::valid(version));
    }
}

#[test]
fn gist_messages_damaged_bit_by_bit() {
    damage_bit_by_bit("a Query", &messages::gist::valid_query());
}

#[test]
fn yessir_reports_damaged_bit_by_bit() {
    let compound = messages::yessir::valid(true);
    let report = yessir::Report::parse(&compound).expect("it is right");
    assert!(report.goodbye && report.message.is_some());
    damage_bit_by_bit("YESSIR", &compound);
}

#[test]
fn ip_and_udp_packets_damaged_bit_by_bit() {
    let payload = [7; 12];
    damage_bit_by_bit("UDP", &packets::udp(1, &payload));
    damage_bit_by_bit("IPv4", &packets::ipv4(udp::PROTOCOL, &payload));
    let packet = packets::ipv6(udp::PROTOCOL, &payload);
    damage_bit_by_bit("IPv6", &packet);
    damage_bit_by_bit("hop-by-hop options", &packet[40..48]);
}

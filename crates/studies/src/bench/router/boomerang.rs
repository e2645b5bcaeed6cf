//! Messages of Boomerang: 64 kbit/s in each direction, 16 sessions to an initiating node. Each message passes the
//! router twice, on its way out and on its way back.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use earmark_wire::boomerang::{Family, Flags, Keys, Options, Qos, Rates, Reservation, Shape};
use earmark_wire::icmp::{self, HEADER, Kind, PseudoHeader, seal};
use earmark_wire::udp;

use super::{Arrival, FAR, Message, NEAR, Router, Step};

/// Kinds of messages, with the goals of one transit. A release ends both directions on its way out, and finds nothing
/// on its way back.
pub(super) const MESSAGES: [Message; 6] = [
    Message { name: "set-up, out", step: Step::SetUp, goal: Some(2_000), write: out },
    Message { name: "set-up, back", step: Step::SetUp, goal: Some(2_000), write: back },
    Message { name: "refresh, out", step: Step::Refresh, goal: Some(500), write: out },
    Message { name: "refresh, back", step: Step::Refresh, goal: Some(500), write: back },
    Message { name: "release, out", step: Step::Release, goal: None, write: release_out },
    Message { name: "release, back", step: Step::Release, goal: None, write: release_back },
];

const RATES: Rates = Rates { forward: 64_000, reverse: 64_000 };

fn out(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, Kind::Request, RATES)
}

fn back(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, Kind::Reply, RATES)
}

fn release_out(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, Kind::Request, Rates::ZERO)
}

fn release_back(_: &Router, number: u32, round: u32) -> Arrival {
    message(number, round, Kind::Reply, Rates::ZERO)
}

fn message(number: u32, round: u32, pass: Kind, rates: Rates) -> Arrival {
    let near = IpAddr::V4(Ipv4Addr::from(0xac10_0000 + number / 16));
    let far = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number));
    let mut octets = Vec::new();
    let ends = [SocketAddr::new(near, 4_000), SocketAddr::new(far, 5_004)];
    // A ping's identifier and sequence number have 16 bits.
    let numbers = [number as u16, round as u16];
    write_loop(number, ends, rates, 30, (pass, numbers), &mut octets);
    let (interface, source, destination) = match pass {
        Kind::Request => (NEAR, near, far),
        Kind::Reply => (FAR, far, near),
    };
    let (session, protocol) = (number, icmp::PROTOCOL_V4);
    Arrival { session, protocol, interface, source, destination, octets }
}

/// Writes an ICMP echo with a reservation for a flow between these ends; `echo` has its kind, and its identifier and
/// sequence number.
pub(in crate::bench) fn write_loop(
    transaction_id: u32,
    [near, far]: [SocketAddr; 2],
    rates: Rates,
    refresh_interval: u8,
    (kind, [identifier, sequence]): (Kind, [u16; 2]),
    octets: &mut Vec<u8>,
) {
    let reservation = Reservation {
        transaction_id,
        flags: Flags(0),
        refresh_interval,
        key: 1,
        classifier: Keys {
            source: near.ip(),
            destination: far.ip(),
            source_port: near.port(),
            destination_port: far.port(),
            protocol: udp::PROTOCOL,
            tos: 0,
            flags: 0,
        },
        mask: Shape::exact(Family::V4),
        qos: Qos::Bitrate(rates),
        options: Options::NONE,
    };
    octets.clear();
    octets.resize(HEADER + reservation.buffer_len(), 0);
    reservation.emit(&mut octets[HEADER..]).expect("it fits");
    seal(octets, PseudoHeader::V4, kind, identifier, sequence).expect("it fits");
}

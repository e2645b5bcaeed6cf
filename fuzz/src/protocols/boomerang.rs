//! Boomerang: loops of few flows, and messages of any content on both passes.

use std::net::IpAddr;

use earmark_boomerang::{
    self as boomerang, AggregateRule, Application, OnRefusal, Request, RequestedRates, Selector,
};
use earmark_core::{Prefix, Rate};
use earmark_node::{Command, NodeConfig};
use earmark_wire::boomerang::*;
use earmark_wire::icmp::{self, Kind, PseudoHeader};
use earmark_wire::udp;

use super::Protocol;
use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;
use crate::steps::interface_of;
use crate::topology::{self, NODES};

/// Boomerang.
pub struct Boomerang;

impl Protocol for Boomerang {
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits {
        let options = draw.octet();
        let settings = &mut config.boomerang;
        let most = draw.one_of(&[6, 2]);
        settings.refresh_interval = draw.one_of(&[30, 1, 0, 255]);
        settings.max_refresh_interval = draw.one_of(&[60, 2, 0]);
        settings.lifetime_multiplier = draw.one_of(&[3, 0]);
        settings.lock = options & 1 != 0;
        settings.aggregate_only = options & 2 != 0;
        settings.offload = options & 4 != 0;
        if options & 8 != 0 {
            settings.aggregates = vec![aggregate(draw)];
        }
        settings.limits.sessions = most;
        settings.limits.sessions_per_source = draw.one_of(&[6, 1]);
        settings.limits.masks = draw.one_of(&[8, 1]);
        settings.limits.branches = draw.one_of(&[4, 1]);
        settings.limits.applications = 2;
        vec![("boomerang", "sessions", most as usize)]
    }

    fn command(&self, draw: &mut Draw<'_>, _: usize, application: u64) -> Command {
        let application = Application(application);
        let rates = |draw: &mut Draw<'_>| RequestedRates {
            forward: super::rate(draw),
            reverse: super::rate(draw),
        };
        let command = match draw.below(8) {
            0 => {
                let mut more = vec![rates(draw)];
                more.extend(draw.list(2, rates));
                boomerang::Command::Modify { application, rates: more }
            }
            1 => boomerang::Command::Query { application, request: request(draw, rates) },
            2 => boomerang::Command::Aggregate { rules: draw.list(2, aggregate) },
            _ => boomerang::Command::Reserve { application, request: request(draw, rates) },
        };
        Command::Boomerang(command)
    }

    fn release(&self, application: u64) -> Vec<Command> {
        let application = Application(application);
        vec![Command::Boomerang(boomerang::Command::Release { application })]
    }

    fn message(&self, draw: &mut Draw<'_>, _: &Network) -> Option<Packet> {
        let to = draw.below(NODES);
        let destination = topology::destination(draw);
        let source = topology::source(draw, destination);
        let family = if destination.is_ipv4() { Family::V4 } else { Family::V6 };
        let classifier = keys(draw, source, destination);
        let pairs = [pair(draw), pair(draw), pair(draw)];
        let count = 1 + draw.below(3);
        let options = draw.list(3, |draw| option(draw, classifier));
        let message = Reservation {
            transaction_id: draw.octet().into(),
            flags: Flags(u16::from(draw.octet() & 3)),
            refresh_interval: draw.octet(),
            key: draw.one_of(&[1, 0, 35, 2_491, u64::MAX]),
            classifier,
            mask: mask(draw, family),
            qos: match draw.flag() {
                true => Qos::Downgrade {
                    policy: draw.octet().into(),
                    vector: Vector::Items(&pairs[..count]),
                },
                false => Qos::Bitrate(pairs[0]),
            },
            options: Options::Items(&options),
        };
        let mut payload = vec![0; icmp::HEADER + message.buffer_len()];
        message.emit(&mut payload[icmp::HEADER..]).ok()?;
        let kind = if draw.flag() { Kind::Reply } else { Kind::Request };
        let (source, destination) = match kind {
            Kind::Request => (source, destination),
            Kind::Reply => (destination, source),
        };
        let ends = PseudoHeader::of(source, destination)?;
        let numbers = [draw.octet(), draw.octet()].map(u16::from);
        icmp::seal(&mut payload, ends, kind, numbers[0], numbers[1]).ok()?;
        Some(Packet {
            to,
            interface: interface_of(to, draw),
            protocol: ends.protocol(),
            source,
            destination,
            ttl: draw.one_of(&[64, 63, 1, 2]),
            router_alert: draw.flag(),
            payload,
        })
    }

    fn is_message(&self, packet: &Packet) -> bool {
        let ends = PseudoHeader::of(packet.source, packet.destination);
        ends.is_some_and(|ends| icmp::Echo::parse(&packet.payload, ends).is_ok())
    }

    fn ip_protocol(&self, destination: IpAddr) -> u8 {
        if destination.is_ipv4() { icmp::PROTOCOL_V4 } else { icmp::PROTOCOL_V6 }
    }

    fn framed(&self, octets: &[u8]) -> Vec<u8> {
        [&[8, 0, 0, 0, 0, 1, 0, 2], &iana::MAGIC.to_be_bytes()[..], octets].concat()
    }
}

fn request(draw: &mut Draw<'_>, rates: impl Fn(&mut Draw<'_>) -> RequestedRates) -> Request {
    let destination = topology::destination(draw);
    let source = match draw.below(4) {
        0 => topology::source(draw, destination),
        _ if destination.is_ipv4() => std::net::Ipv4Addr::UNSPECIFIED.into(),
        _ => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let port = draw.octet();
    let selector = Selector {
        source: Prefix::host(source),
        destination: if port & 0x40 == 0 {
            Prefix::host(destination)
        } else {
            Prefix::new(destination, 24)
        },
        protocol: (port & 0x80 == 0).then_some(udp::PROTOCOL),
        source_port: (port & 0xa0 == 0).then_some(4_000 + u16::from(port & 1)),
        destination_port: (port & 0x90 == 0).then_some(5_000 + u16::from(port >> 1 & 1)),
    };
    let mut request = Request::new(destination, selector, rates(draw));
    request.rates.extend(draw.list(2, rates));
    request.interval = draw.maybe(Draw::octet);
    request.count_nodes = draw.flag();
    if draw.flag() {
        request.on_refusal = OnRefusal::Release;
    }
    request
}

fn aggregate(draw: &mut Draw<'_>) -> AggregateRule {
    let like = topology::destination(draw);
    let any = Prefix::everything(like.is_ipv6());
    let selector = Selector {
        source: any,
        destination: if draw.flag() { any } else { Prefix::new(like, 24) },
        protocol: draw.maybe(|_| udp::PROTOCOL),
        source_port: None,
        destination_port: None,
    };
    let step = draw.one_of(&[Rate::ZERO, Rate::from_mbps(1), Rate::from_mbps(100)]);
    AggregateRule { name: "all".to_owned(), selector, step }
}

fn keys(draw: &mut Draw<'_>, source: IpAddr, destination: IpAddr) -> Keys {
    let (source, destination) = match draw.below(4) {
        0 => (destination, source),
        _ => (source, destination),
    };
    let port = draw.octet();
    Keys {
        source,
        destination,
        source_port: 4_000 + u16::from(port & 1),
        destination_port: 5_000 + u16::from(port >> 1 & 1),
        protocol: if port < 240 { udp::PROTOCOL } else { 0 },
        tos: port >> 6,
        flags: 0,
    }
}

fn mask(draw: &mut Draw<'_>, family: Family) -> Shape {
    let options = draw.octet();
    if options < 160 {
        return Shape::exact(family);
    }
    let bits = 8 * family.address_len() as u8;
    let protocol = options & 1 == 0;
    Shape {
        source: bits - draw.octet() % (bits + 1),
        destination: bits - draw.octet() % (bits + 1),
        protocol,
        source_port: protocol && options & 2 == 0,
        destination_port: protocol && options & 4 == 0,
        tos: options & 8 == 0,
    }
}

fn pair(draw: &mut Draw<'_>) -> Rates {
    let rate = |draw: &mut Draw<'_>| u32::try_from(super::rate(draw).as_bps()).unwrap_or(u32::MAX);
    Rates { forward: rate(draw), reverse: rate(draw) }
}

fn option(draw: &mut Draw<'_>, classifier: Keys) -> OptionItem<'static> {
    let flags = OptionFlags(u16::from(draw.octet() & 7));
    match draw.below(4) {
        0 => {
            OptionItem::UserId(UserId { flags, user: *b"somebody", credential: [draw.octet(); 8] })
        }
        1 => OptionItem::Aggregation(Aggregation {
            flags,
            node: topology::source(draw, classifier.destination),
            transaction_id: draw.octet().into(),
            classifier: keys(draw, classifier.source, classifier.destination),
            mask: Keys { flags: 0, ..classifier },
            rate: pair(draw).forward,
        }),
        2 => OptionItem::Participation(Participation::new(classifier.source, draw.octet())),
        _ => OptionItem::Unknown { code: 9, rest: &[0, 0, 0, 0, 1, 2, 3, 4] },
    }
}

//! YESSIR: streams between few ports, and reports of any content.

use std::net::IpAddr;

use earmark_core::Rate;
use earmark_node::{Command, NodeConfig};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rtcp::{Packet as Rtcp, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Auth, FailureNote, FailureReason, Failures, Flowspec, Generic, LinkInfo, Message, OctetRate,
    Report, Style, iana,
};
use earmark_yessir::{self as yessir, Application, Attachment, Measuring, Stream};

use super::Protocol;
use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;
use crate::steps::interface_of;
use crate::topology::{self, NODES};

/// YESSIR.
pub struct Yessir;

impl Protocol for Yessir {
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits {
        let settings = &mut config.yessir;
        let most = draw.one_of(&[6, 2]);
        settings.interval = draw.one_of(&[30, 1, 0]);
        settings.max_interval = draw.one_of(&[120, 2, 0]);
        settings.missed = draw.one_of(&[3, 0]);
        if draw.flag() {
            settings.measured = [("eth1".to_owned(), Measuring::default())].into();
        }
        settings.limits.sessions = most;
        settings.limits.sessions_per_source = draw.one_of(&[6, 1]);
        settings.limits.sharers = draw.one_of(&[3, 1]);
        settings.limits.branches = draw.one_of(&[4, 1]);
        settings.limits.applications = 3;
        settings.limits.largest = draw.maybe(|_| Rate::from_mbps(2));
        vec![("yessir", "streams", most as usize), ("yessir", "applications", 3)]
    }

    fn command(&self, draw: &mut Draw<'_>, _: usize, application: u64) -> Command {
        let application = Application(application);
        let destination = topology::destination(draw);
        let port = 5_000 + 2 * u16::from(draw.octet() & 1);
        let command = match draw.below(8) {
            0 => yessir::Command::Statistics {
                application,
                packets: draw.u32(),
                octets: draw.u32(),
                rtp_timestamp: draw.octet().into(),
            },
            1..=3 => {
                yessir::Command::Listen { application, destination, port, cname: "a@b".to_owned() }
            }
            _ => {
                let source = topology::source(draw, destination);
                let stream =
                    Stream { source, destination, source_port: 4_000, destination_port: port };
                let attachment = Attachment {
                    stream,
                    ssrc: draw.maybe(|draw| draw.octet().into()),
                    cname: "b@c".to_owned(),
                    multiplexed: draw.flag(),
                    flowspec: flowspec(draw),
                    style: if draw.flag() { Style::Shared } else { Style::Individual },
                    passive: draw.below(8) == 0,
                    interval: draw.one_of(&[0, 1, 60, u16::MAX]),
                    ttl: draw.one_of(&[64, 0, 1]),
                    token: None,
                };
                yessir::Command::Attach { application, attachment }
            }
        };
        Command::Yessir(command)
    }

    fn release(&self, application: u64) -> Vec<Command> {
        let application = Application(application);
        vec![Command::Yessir(yessir::Command::Release { application })]
    }

    fn message(&self, draw: &mut Draw<'_>, _: &Network) -> Option<Packet> {
        let to = draw.below(NODES);
        let destination = topology::destination(draw);
        let source = topology::source(draw, destination);
        let ssrc = u32::from(draw.octet() & 3);
        let sender = SenderInfo {
            ntp: draw.octet().into(),
            rtp_timestamp: draw.octet().into(),
            packets: draw.octet().into(),
            octets: draw.u32(),
        };
        let report = Rtcp::SenderReport(SenderReport { ssrc, sender, blocks: &[], extension: &[] });
        let mut payload = vec![0; udp::HEADER + 28];
        report.emit(&mut payload[udp::HEADER..]).ok()?;
        let notes: Vec<u8> = draw.list(2, note).concat();
        let message = Message {
            ssrc: if draw.below(16) == 0 { 99 } else { ssrc },
            generic: Generic {
                command: iana::Command::from_code(1 + draw.octet() % 4),
                style: if draw.flag() { Style::Shared } else { Style::Individual },
                interval: draw.one_of(&[30, 0, 1, u16::MAX]),
                reservation: draw.octet().into(),
                multiplexed: draw.flag(),
            },
            flowspec: draw.maybe(flowspec),
            link_info: draw.maybe(|draw| LinkInfo {
                send_ttl: draw.octet(),
                hops: draw.octet(),
                other_hops: draw.flag(),
                path_mtu: draw.u16(),
                available: OctetRate(super::rate(draw).as_octets_per_second()),
                latency_us: draw.u32(),
            }),
            failures: Failures::of(&notes)?,
            auth: draw.maybe(|draw| Auth {
                key: 1,
                sequence: draw.octet().into(),
                digest: [0; 16],
            }),
            token: None,
            others: &[],
        };
        if draw.below(8) != 0 {
            let mut app = vec![0; message.buffer_len()];
            message.emit(&mut app).ok()?;
            payload.extend(app);
        }
        if draw.below(8) == 0 {
            payload.extend([0x81, 203, 0, 1, 0, 0, 0, ssrc as u8]);
        }
        let odd = u16::from(draw.octet() & 3);
        let destination_port = 5_000 + odd;
        let header =
            udp::Repr { source, destination, source_port: 4_000 + (odd & 1), destination_port };
        header.emit(&mut payload).ok()?;
        Some(Packet {
            to,
            interface: interface_of(to, draw),
            protocol: udp::PROTOCOL,
            source,
            destination,
            ttl: draw.one_of(&[64, 63, 1, 2]),
            router_alert: draw.below(8) != 0,
            payload,
        })
    }

    fn is_message(&self, packet: &Packet) -> bool {
        udp::Packet::parse(&packet.payload).is_ok_and(|udp| {
            let checksum = udp.verify(packet.source, packet.destination);
            checksum != udp::Checksum::Invalid && Report::parse(udp.payload).is_ok()
        })
    }

    fn ip_protocol(&self, _: IpAddr) -> u8 {
        udp::PROTOCOL
    }

    fn framed(&self, octets: &[u8]) -> Vec<u8> {
        let length = octets.len() / 4 * 4;
        let words = (length / 4 + 2) as u8;
        let front = [0x80, 201, 0, 1, 0, 0, 0, 7, 0x81, 204, 0, words, 0, 0, 0, 7];
        let ports = [0x0f, 0xa1, 0x13, 0x89, 0, 0, 0, 0];
        [&ports[..], &front, b"YSSR", &octets[..length]].concat()
    }
}

fn note(draw: &mut Draw<'_>) -> Vec<u8> {
    let node = topology::destination(draw);
    let available = OctetRate(super::rate(draw).as_octets_per_second());
    let reason = FailureReason::from_code(draw.octet() & 7);
    let (octets, length) =
        FailureNote { reason, hop: draw.octet().into(), available, node }.to_octets();
    octets[..length].to_vec()
}

fn flowspec(draw: &mut Draw<'_>) -> Flowspec {
    let rate = match draw.below(8) {
        0 => f32::NAN,
        1 => f32::from_bits(draw.u32()),
        _ => super::rate(draw).as_octets_per_second(),
    };
    match draw.below(4) {
        0 => Flowspec::Intserv(FlowSpec::ControlledLoad(TokenBucket {
            rate,
            depth: draw.one_of(&[3_000.0, f32::INFINITY, f32::NAN]),
            peak: f32::INFINITY,
            min_policed_unit: 100,
            max_packet_size: draw.one_of(&[1_500, 9_000, 0]),
        })),
        1 => Flowspec::Codec { payload_type: draw.octet() % 40, frames: draw.octet() },
        2 => Flowspec::Measured { window: draw.u16(), headroom: draw.u16() },
        _ => Flowspec::Class { dscp: draw.octet(), rate: OctetRate(rate) },
    }
}

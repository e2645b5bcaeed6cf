//! Messages of YESSIR as JSON: the report that carries one, then its fragments as objects, in their order and as far as their
//! lengths lead.

use earmark_wire::rtcp::PacketType;
use earmark_wire::yessir::iana::AddressFamily;
use earmark_wire::yessir::{
    Command, FailureReason, FragmentType, HEADER, NAME, Report, Style, has_message,
};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::fields::{Fields, Remarks};
use crate::objects;
use crate::protocol::{IpPacket, Protocol};

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "yessir", title: "YESSIR", ip_protocol: None, decode };

/// Length of an APP packet's header, octets.
const APP_HEADER: usize = 12;

/// Returns the fields of a message, and its error. Offsets count from the start of the compound packet.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let packet = packet.udp().filter(|packet| has_message(packet.payload))?;
    let mut shown = Map::new();
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    let mut list = Vec::new();
    show_compound(packet.payload, &mut shown, &mut list);
    shown.insert("objects".into(), list.into());
    if let Err(error) = Report::parse(packet.payload) {
        let error = objects::error(error.kind.name(), error.offset, &error);
        shown.insert("error".into(), error);
    }
    Some(shown)
}

/// Shows the report, whether the source leaves, and the fragments of the first message.
fn show_compound(compound: &[u8], shown: &mut Map<String, Value>, list: &mut Vec<Value>) {
    let (mut at, mut ssrc, mut is_sender) = (0, None, false);
    let (mut message, mut is_leaving) = (None, false);
    while let Some(&[first, packet_type, l0, l1]) =
        compound.get(at..).and_then(|it| it.first_chunk())
    {
        let length = 4 * (usize::from(u16::from_be_bytes([l0, l1])) + 1);
        let rest = compound.get(at..).unwrap_or_default();
        let packet_type = PacketType::from_code(packet_type);
        let is_ours =
            packet_type == PacketType::Application && rest.get(8..APP_HEADER) == Some(&NAME);
        if is_ours && length < APP_HEADER {
            let fields = Fields::new(packet_type.name(), rest, at, rest.len());
            list.push(objects::read(packet_type.name(), fields, |fields| {
                fields.skip(APP_HEADER);
                fields.give_up(format_args!("impossible length {length}"));
            }));
            break;
        }
        let octets = rest.get(..length).unwrap_or(rest);
        let mut fields = Fields::new(packet_type.name(), octets, at, length);
        match packet_type {
            PacketType::SenderReport | PacketType::ReceiverReport if at == 0 => {
                is_sender = packet_type == PacketType::SenderReport;
                ssrc = show_report(is_sender, &mut fields, shown);
            }
            PacketType::Application if is_ours && message.is_none() => {
                let padding = match octets {
                    [.., padding] if first & 0x20 != 0 && octets.len() == rest.len() => *padding,
                    _ => 0,
                };
                let end = octets.len().saturating_sub(padding.into()).max(APP_HEADER);
                message = octets.get(APP_HEADER..end).map(|data| (data, at + APP_HEADER));
            }
            PacketType::Goodbye => {
                let sources = octets.get(4..).unwrap_or_default().as_chunks::<4>().0;
                let count = usize::from(first & 0x1f);
                is_leaving |= sources.iter().take(count).any(|source| Some(*source) == ssrc);
            }
            _ => {}
        }
        // The values of other packets are not shown.
        fields.remaining();
        let (_, remarks) = fields.finish();
        if !remarks.is_empty() {
            let mut packet = objects::object(packet_type.name(), Map::new());
            remarks.show(&mut packet);
            list.push(packet.into());
        }
        at += length;
    }
    let name = message.map_or("unknown", |(data, _)| name(is_sender, data));
    shown.insert("message".into(), name.into());
    shown.insert("bye".into(), is_leaving.into());
    if let Some((data, offset)) = message {
        show_fragments(data, offset, list);
    }
}

/// Shows the values of a report; returns its SSRC.
fn show_report(
    is_sender: bool,
    fields: &mut Fields<'_>,
    shown: &mut Map<String, Value>,
) -> Option<[u8; 4]> {
    let mut ssrc = None;
    let values = fields.group(|fields| {
        fields.skip(4);
        ssrc = fields.take();
        fields.put_some("ssrc", ssrc.map(u32::from_be_bytes));
        if is_sender {
            fields.skip(12);
            fields.u32("packets");
            fields.u32("octets");
        }
    });
    shown.extend(values);
    ssrc
}

/// Name of a message: the command of a sender, or `answer` for a receiver.
fn name(is_sender: bool, data: &[u8]) -> &'static str {
    const GENERIC: u8 = FragmentType::Generic.code();
    let mut fragments = data;
    let mut command = None;
    while let [number, _, l0, l1, rest @ ..] = fragments {
        if *number == GENERIC {
            command = rest.first().map(|command| Command::from_code(*command));
            break;
        }
        let length = usize::from(u16::from_be_bytes([*l0, *l1])).max(HEADER);
        fragments = fragments.get(length..).unwrap_or_default();
    }
    match (is_sender, command) {
        (false, _) => "answer",
        (true, Some(Command::Active)) => "active",
        (true, Some(Command::Passive)) => "passive",
        (true, Some(Command::Release)) => "release",
        (true, Some(Command::Unknown(_)) | None) => "unknown",
    }
}

fn show_fragments(data: &[u8], offset: usize, list: &mut Vec<Value>) {
    let mut at = 0;
    while let Some(rest) = data.get(at..).filter(|rest| !rest.is_empty()) {
        let Some(&[number, flags, l0, l1]) = rest.first_chunk::<HEADER>() else {
            let fields = Fields::new("fragment header", rest, offset + at, HEADER);
            return list.push(objects::read("UNKNOWN", fields, |_| {}));
        };
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let fragment_type = FragmentType::from_code(number);
        let (class, name) = match fragment_type {
            FragmentType::Unknown(number) => ("UNKNOWN", format!("fragment {number}")),
            known => (known.name(), known.name().to_owned()),
        };
        let is_possible = length >= HEADER && length.is_multiple_of(4);
        let claimed = if is_possible { length } else { rest.len() };
        let octets = rest.get(..claimed).unwrap_or(rest);
        let mut fields = Fields::new(name, octets, offset + at, claimed);
        fields.skip(HEADER);
        match fragment_type {
            _ if !is_possible => {
                list.push(objects::read(class, fields, |fields| {
                    fields.give_up(format_args!("impossible length {length}"));
                }));
                return;
            }
            FragmentType::Failure => show_failures(fields, list),
            _ => list.push(objects::read(class, fields, |it| read(fragment_type, flags, it))),
        }
        at += length;
    }
}

/// Reads the body of a fragment except FAILURE.
fn read(fragment_type: FragmentType, flags: u8, fields: &mut Fields<'_>) {
    match fragment_type {
        FragmentType::Generic => {
            let command = fields.take().map(|[code]| to_value(Command::from_code(code)));
            fields.put_some("command", command);
            let style = fields.take().map(|[code]| to_value(Style::from_code(code)));
            fields.put_some("style", style);
            fields.u16("interval");
            fields.u32("reservation");
            fields.put("multiplexed", flags & 1 != 0);
        }
        FragmentType::FlowspecIntserv => {
            fields.token_bucket();
            let service = fields.take().map(u32::from_be_bytes);
            fields.put_some(
                "service",
                service.map(|service| match service {
                    2 => Value::from("guaranteed"),
                    5 => "controlled-load".into(),
                    service => service.into(),
                }),
            );
            match service {
                Some(5) => fields.skip(8),
                _ => {
                    fields.single("reserved_rate");
                    fields.u32("slack_us");
                }
            }
        }
        FragmentType::FlowspecCodec => {
            fields.u8("payload_type");
            fields.u8("frames");
            fields.skip(2);
        }
        FragmentType::FlowspecClass => {
            fields.u8("dscp");
            fields.skip(3);
            fields.single("rate");
        }
        FragmentType::FlowspecMeasured => {
            fields.u16("window");
            fields.u16("headroom");
        }
        FragmentType::LinkInfo => {
            fields.put("send_ttl", flags);
            fields.u8("hops");
            let bits = fields.take().map(|[bits]: [u8; 1]| bits & 1 != 0);
            fields.put_some("other_hops", bits);
            fields.u16("path_mtu");
            fields.single("available");
            fields.u32("latency_us");
        }
        FragmentType::Auth => {
            fields.u32("key");
            fields.u64("sequence");
            fields.hex("digest", 16);
        }
        FragmentType::Token => {
            let length = fields.remaining().len().saturating_sub(flags.into());
            fields.put("octets", length);
        }
        FragmentType::Failure => {}
        FragmentType::Unknown(number) => {
            fields.put("type", number);
            fields.put("flags", flags);
            fields.hex("octets", fields.left());
        }
    }
}

/// Adds the notes of FAILURE, each as an object of its own, and the remarks on the fragment.
fn show_failures(mut fields: Fields<'_>, list: &mut Vec<Value>) {
    let class = FragmentType::Failure.name();
    let count = fields.take().map(|[count, _, _, _]: [u8; 4]| count);
    let mut notes = 0;
    while fields.left() > 0 {
        let mut is_known = true;
        let note = fields.group(|fields| {
            let family = fields.take().map(|[family]| AddressFamily::from_code(family));
            let reason = fields.take().map(|[code]| to_value(FailureReason::from_code(code)));
            fields.put_some("reason", reason);
            fields.u16("hop");
            fields.single("available");
            match family {
                Some(AddressFamily::Ipv4) => fields.address("node", true),
                Some(AddressFamily::Ipv6) => fields.address("node", false),
                Some(AddressFamily::Unknown(family)) => {
                    is_known = false;
                    fields.give_up(format_args!("unknown address family {family}"));
                }
                None => {}
            }
        });
        list.push(objects::object(class, note).into());
        notes += 1;
        if !is_known {
            break;
        }
    }
    if let Some(count) = count.filter(|count| usize::from(*count) != notes) {
        fields.malformed(format_args!("the count is {count}, but the number of notes is {notes}"));
    }
    let (shown, remarks) = fields.finish();
    if !remarks.is_empty() {
        let mut rest = objects::object(class, shown);
        Remarks::show(remarks, &mut rest);
        list.push(rest.into());
    }
}

fn to_value(value: impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

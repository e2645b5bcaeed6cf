//! Messages of YESSIR as JSON: the report that carries one, then its fragments as objects.

use earmark_wire::yessir::{Command, Message, Report, has_message};
use serde_json::{Map, Value};

use crate::objects;
use crate::protocol::{IpPacket, Protocol};

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "yessir", title: "YESSIR", ip_protocol: None, decode };

/// Returns the fields of a message, or its error. Offsets count from the start of the compound packet.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let packet = packet.udp().filter(|packet| has_message(packet.payload))?;
    let mut shown = Map::new();
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    match Report::parse(packet.payload) {
        Ok(report) => {
            let Some((message, _)) = &report.message else { return Some(shown) };
            shown.insert("message".into(), name(&report, message).into());
            shown.insert("ssrc".into(), report.ssrc.into());
            if let Some(sender) = report.sender {
                shown.insert("packets".into(), sender.packets.into());
                shown.insert("octets".into(), sender.octets.into());
            }
            shown.insert("bye".into(), report.goodbye.into());
            let mut objects = Vec::new();
            objects::add(message, &mut shown, &mut objects);
            shown.insert("objects".into(), objects.into());
        }
        Err(error) => {
            let error = objects::error(error.kind.name(), error.offset, &error);
            shown.insert("error".into(), error);
        }
    }
    Some(shown)
}

/// Name of a message: the command of a sender, or `answer` for a receiver.
fn name(report: &Report<'_>, message: &Message<'_>) -> &'static str {
    match (report.sender, message.generic.command) {
        (None, _) => "answer",
        (Some(_), Command::Active) => "active",
        (Some(_), Command::Passive) => "passive",
        (Some(_), Command::Release) => "release",
        (Some(_), Command::Unknown(_)) => "unknown",
    }
}

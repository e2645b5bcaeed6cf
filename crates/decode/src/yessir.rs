//! Messages of YESSIR as JSON: the report that carries one, then its fragments as objects.

use earmark_wire::udp;
use earmark_wire::yessir::{Command, Message, Report, has_message};
use serde_json::{Map, Value};

use super::objects;

/// The UDP packet if it carries a message, well-formed or malformed.
pub(super) fn message(udp: &[u8]) -> Option<udp::Packet<'_>> {
    udp::Packet::parse(udp).ok().filter(|packet| has_message(packet.payload))
}

/// Adds the fields of a message, or its error. Offsets count from the start of the compound packet.
pub(super) fn show(packet: &udp::Packet<'_>, shown: &mut Map<String, Value>) {
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    match Report::parse(packet.payload) {
        Ok(report) => {
            let Some((message, _)) = &report.message else { return };
            shown.insert("message".into(), name(&report, message).into());
            shown.insert("ssrc".into(), report.ssrc.into());
            if let Some(sender) = report.sender {
                shown.insert("packets".into(), sender.packets.into());
                shown.insert("octets".into(), sender.octets.into());
            }
            shown.insert("bye".into(), report.goodbye.into());
            let mut objects = Vec::new();
            objects::add(message, shown, &mut objects);
            shown.insert("objects".into(), objects.into());
        }
        Err(error) => {
            let error = objects::error(error.kind.name(), error.offset, &error);
            shown.insert("error".into(), error);
        }
    }
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

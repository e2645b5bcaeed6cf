//! Messages of YESSIR as JSON: the report that carries one, then its fragments as objects.

use earmark_wire::udp;
use earmark_wire::yessir::{Command, Flowspec, Message, Report, has_message};
use serde::Serialize;
use serde_json::{Map, Value, json};

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
            shown.insert("objects".into(), fragments(message).into());
        }
        Err(error) => {
            let text = error.to_string();
            let error = json!({"kind": error.kind.name(), "offset": error.offset, "text": text});
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

fn fragments(message: &Message<'_>) -> Vec<Value> {
    let mut fragments = vec![object("GENERIC", message.generic)];
    if let Some(flowspec) = message.flowspec {
        fragments.push(match flowspec {
            Flowspec::Intserv(flowspec) => object("FLOWSPEC_INTSERV", flowspec),
            Flowspec::Codec { payload_type, frames } => {
                object("FLOWSPEC_CODEC", json!({ "payload_type": payload_type, "frames": frames }))
            }
            Flowspec::Class { dscp, rate } => {
                object("FLOWSPEC_CLASS", json!({ "dscp": dscp, "rate": rate }))
            }
            Flowspec::Measured { window, headroom } => {
                object("FLOWSPEC_MEASURED", json!({ "window": window, "headroom": headroom }))
            }
        });
    }
    fragments.extend(message.link_info.map(|info| object("LINK_INFO", info)));
    fragments.extend(message.failures.iter().map(|note| object("FAILURE", note)));
    fragments.extend(
        message
            .auth
            .map(|auth| object("AUTH", json!({ "key": auth.key, "sequence": auth.sequence }))),
    );
    fragments
}

/// A fragment as an object whose first field is its name; rates stay in octets per second.
fn object(class: &str, fields: impl Serialize) -> Value {
    let mut object = Map::new();
    object.insert("class".into(), class.into());
    match serde_json::to_value(fields).unwrap_or_default() {
        Value::Object(fields) => object.extend(fields),
        other => drop(object.insert("value".into(), other)),
    }
    object.into()
}

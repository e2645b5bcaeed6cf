//! Messages of GIST in datagrams as JSON: the common header, then the objects and the message of the application. Messages
//! over messaging associations are segments of a stream and are not decoded.
//!
//! The objects are shown in their order as far as their lengths lead, whether or not the message is well-formed.

use earmark_wire::gist::iana::{ObjectType, VERSION};
use earmark_wire::gist::{self, HEADER, Header, Message, MessageType, Mode};
use earmark_wire::udp;
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::objects;
use crate::protocol::{IpPacket, Protocol};
use list::{Element, elements};

mod layout;
mod list;
mod nslp;
mod qspec;

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "gist", title: "GIST", ip_protocol: None, decode };

/// The UDP packet that carries a message of GIST, well-formed or malformed, and the message.
fn message<'a>(packet: &IpPacket<'a>) -> Option<(udp::Packet<'a>, &'a [u8])> {
    let packet = packet.udp()?;
    let ports = [packet.source_port, packet.destination_port];
    if !ports.contains(&gist::iana::PORT) {
        return None;
    }
    Some((packet, gist::datagram(packet.payload)?))
}

/// Returns the fields of a message, and its error. Offsets count from the common header.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let (packet, octets) = message(packet)?;
    let mut shown = Map::new();
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    let mut list = Vec::new();
    let nslpid = show_header(octets, &mut shown, &mut list);
    for element in elements(octets.get(HEADER..).unwrap_or_default(), HEADER) {
        show(&element, nslpid, &mut list);
    }
    shown.insert("objects".into(), list.into());
    if let Err(error) = Message::parse(octets, Mode::D) {
        let error = objects::error(error.kind.name(), error.offset, &error);
        shown.insert("error".into(), error);
    }
    Some(shown)
}

/// Shows the common header, of any version; returns the application. A truncated header is an object of its own.
fn show_header(octets: &[u8], shown: &mut Map<String, Value>, list: &mut Vec<Value>) -> u16 {
    let header = octets.first_chunk::<HEADER>().map(|header| {
        let mut supported = *header;
        let [version, ..] = std::mem::replace(&mut supported[0], VERSION).to_be_bytes();
        (version, Header::parse(&supported))
    });
    let Some((version, Ok(header))) = header else {
        let name = "common header";
        list.push(objects::read(name, Fields::new(name, octets, 0, HEADER), |_| {}));
        return 0;
    };
    let flags = header.flags;
    let mut put = |name: &str, value: Value| shown.insert(name.into(), value);
    put("message", header.message_type.name().into());
    if version != VERSION {
        put("version", version.into());
    }
    put("hops", header.hops.into());
    put("nslpid", header.nslpid.into());
    put("source_is_peer", flags.source_is_peer.into());
    match header.message_type {
        MessageType::Response => {
            put("confirm_requested", flags.reply_requested.into());
        }
        MessageType::Data => {
            put("context_free", flags.context_free.into());
            put("explicitly_routed", flags.explicitly_routed.into());
        }
        MessageType::Hello => {
            put("reply_requested", flags.reply_requested.into());
        }
        _ => {}
    }
    header.nslpid
}

/// Shows an object, and those in it.
fn show(element: &Element<'_>, nslpid: u16, list: &mut Vec<Value>) {
    let object_type = element.object_type.map(ObjectType::from_code);
    let known = object_type.filter(|it| !matches!(it, ObjectType::Unknown(_)));
    match known {
        Some(ObjectType::NslpData) => {
            if element.is_truncated() {
                list.push(element.show(Some(ObjectType::NslpData.name()), |fields| {
                    fields.remaining();
                }));
            }
            nslp::show(nslpid, element.value(), list);
        }
        Some(ObjectType::Error) => {
            let mut parts = [None, None];
            list.push(element.show(Some(ObjectType::Error.name()), |fields| {
                parts = layout::error(fields);
            }));
            let names = [ObjectType::SessionId, ObjectType::MessageRoutingInformation];
            for (name, part) in names.into_iter().zip(parts) {
                list.extend(part.map(|part| Value::from(objects::object(name.name(), part))));
            }
        }
        Some(known) => {
            list.push(element.show(Some(known.name()), |fields| layout::read(known, fields)));
        }
        None => list.push(element.show(None, |_| {})),
    }
}

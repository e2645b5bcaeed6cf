//! Messages of GIST in datagrams as JSON: the common header, then the objects and the message of the application. Messages
//! over messaging associations are segments of a stream and are not decoded.

use earmark_wire::gist::{self, Body, Message, Mode};
use earmark_wire::udp;
use serde_json::{Map, Value};

use crate::objects;
use crate::protocol::{IpPacket, Protocol};

mod nslp;

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

/// Returns the fields of a message, or its error. Offsets count from the common header.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let (packet, octets) = message(packet)?;
    let mut shown = Map::new();
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    match Message::parse(octets, Mode::D) {
        Ok(message) => {
            shown.insert("message".into(), message.body.message_type().name().into());
            let mut objects = Vec::new();
            objects::add(&message, &mut shown, &mut objects);
            if let Some(data) = application_data(&message.body) {
                nslp::show(message.nslpid, data, &mut objects);
            }
            shown.insert("objects".into(), objects.into());
        }
        Err(error) => {
            if let Ok(header) = gist::Header::parse(octets) {
                shown.insert("message".into(), header.message_type.name().into());
                shown.insert("nslpid".into(), header.nslpid.into());
            }
            let error = objects::error(error.kind.name(), error.offset, &error);
            shown.insert("error".into(), error);
        }
    }
    Some(shown)
}

fn application_data<'a>(body: &Body<'a>) -> Option<&'a [u8]> {
    match body {
        Body::Query(query) => query.nslp_data,
        Body::Response(response) => response.nslp_data,
        Body::Confirm(confirm) => confirm.nslp_data,
        Body::Data(data) => Some(data.nslp_data),
        Body::Error(_) | Body::Hello(_) => None,
    }
}

//! Messages of RSVP as JSON: their objects and errors.

use earmark_wire::rsvp::{Body, Message, MessageType, objects};
use serde_json::{Map, Value, json};

use crate::objects;
use crate::protocol::Protocol;

/// IP protocol number of RSVP.
const IP_PROTOCOL: u8 = 46;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "rsvp",
    title: "RSVP",
    ip_protocol: Some(IP_PROTOCOL),
    decode: |packet| {
        (packet.ip_protocol == IP_PROTOCOL).then(|| {
            let mut shown = Map::new();
            show(packet.payload, &mut shown);
            shown
        })
    },
};

/// Adds type, objects and errors; for a Bundle, the messages in it.
fn show(octets: &[u8], shown: &mut Map<String, Value>) {
    if let [_, code, _, _, send_ttl, ..] = *octets {
        let message_type = MessageType::from_code(code);
        shown.insert("message_type".into(), code.into());
        shown.insert("message".into(), message_type.name().into());
        shown.insert("send_ttl".into(), send_ttl.into());
    }
    let parsed = Message::parse(octets);
    if let Ok(Message { body: Body::Bundle(bundle), .. }) = parsed {
        let messages = bundle.iter().map(|octets| {
            let mut shown = Map::new();
            show(octets, &mut shown);
            Value::Object(shown)
        });
        shown.insert("messages".into(), messages.collect());
        return;
    }
    let list = objects(octets).map(|object| match object {
        Ok(object) => serde_json::to_value(object).unwrap_or_default(),
        Err(error) => json!({
            "class_num": error.class_num,
            "c_type": error.c_type,
            "offset": error.offset,
            "error": error.kind.name(),
        }),
    });
    shown.insert("objects".into(), list.collect());
    if let Err(error) = parsed {
        let error = objects::error(error.kind.name(), error.offset, &error);
        shown.insert("error".into(), error);
    }
}

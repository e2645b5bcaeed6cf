//! Messages of RSVP as JSON: their objects and errors.

use earmark_wire::rsvp::{Bundle, Message, MessageType, ObjectClass, ParseError, objects};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::objects::{self, hex};
use crate::protocol::Protocol;

mod layout;

/// IP protocol number of RSVP.
const IP_PROTOCOL: u8 = 46;
/// Length of the common header, octets.
const HEADER: usize = Bundle::HEADER_LEN;
/// Length of an object's header, octets.
const OBJECT_HEADER: usize = 4;

pub(super) const PROTOCOL: Protocol = Protocol {
    name: "rsvp",
    title: "RSVP",
    ip_protocol: Some(IP_PROTOCOL),
    decode: |packet| {
        (packet.ip_protocol == IP_PROTOCOL).then(|| {
            let mut shown = Map::new();
            show(packet.payload, &mut shown);
            if is_bundle(packet.payload) {
                shown.insert("messages".into(), messages(packet.payload).into());
            }
            shown
        })
    },
};

fn is_bundle(octets: &[u8]) -> bool {
    octets.get(1) == Some(&MessageType::Bundle.code())
}

/// Adds type, objects and error. A Bundle has messages instead of objects.
fn show(octets: &[u8], shown: &mut Map<String, Value>) {
    if let [_, code, _, _, send_ttl, ..] = *octets {
        let message_type = MessageType::from_code(code);
        shown.insert("message_type".into(), code.into());
        shown.insert("message".into(), message_type.name().into());
        shown.insert("send_ttl".into(), send_ttl.into());
    }
    if !is_bundle(octets) {
        shown.insert("objects".into(), list(octets).into());
    }
    if let Err(error) = Message::parse(octets) {
        let error = objects::error(error.kind.name(), error.offset, &error);
        shown.insert("error".into(), error);
    }
}

/// Messages of a Bundle, as far as their lengths lead. One within another is not decoded.
fn messages(bundle: &[u8]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut rest = bundle.get(HEADER..).unwrap_or_default();
    while !rest.is_empty() {
        let length = match *rest {
            [_, _, _, _, _, _, l0, l1, ..] => u16::from_be_bytes([l0, l1]).into(),
            _ => 0,
        };
        let split = rest.split_at_checked(length).filter(|_| length >= HEADER);
        let (message, behind) = split.unwrap_or((rest, &[]));
        let mut shown = Map::new();
        show(message, &mut shown);
        if is_bundle(message) {
            shown.insert("octets".into(), hex(message).into());
        }
        messages.push(shown.into());
        rest = behind;
    }
    messages
}

/// Objects of a message, as far as their lengths lead.
fn list(octets: &[u8]) -> Vec<Value> {
    if octets.len() < HEADER {
        let name = "common header";
        return vec![objects::read(name, Fields::new(name, octets, 0, HEADER), |_| {})];
    }
    let mut at = HEADER;
    let mut list = Vec::new();
    for object in objects(octets) {
        match object {
            Ok(object) => {
                at = object.raw.offset + object.raw.bytes.len();
                list.push(serde_json::to_value(object).unwrap_or_default());
            }
            Err(error) => {
                let rest = octets.get(at..).unwrap_or_default();
                list.push(malformed(rest, at, &error));
                at += rest.first_chunk().map_or(0, |&[l0, l1]| length([l0, l1]));
            }
        }
    }
    list
}

fn length(octets: [u8; 2]) -> usize {
    u16::from_be_bytes(octets).into()
}

/// An object at the start of `rest` that cannot be decoded, as far as its octets allow.
fn malformed(rest: &[u8], at: usize, error: &ParseError) -> Value {
    let Some(&[l0, l1, class_num, c_type]) = rest.first_chunk::<OBJECT_HEADER>() else {
        let fields = Fields::new("object header", rest, at, OBJECT_HEADER);
        return objects::read("object header", fields, |_| {});
    };
    let length = length([l0, l1]);
    let class = ObjectClass::from_code(class_num);
    let name = match class {
        ObjectClass::Unknown(number) => format!("object of class {number}"),
        known => known.name().to_owned(),
    };
    let is_possible = length >= OBJECT_HEADER && length.is_multiple_of(4);
    let claimed = if is_possible { length } else { rest.len() };
    let octets = rest.get(..claimed).unwrap_or(rest);
    let mut fields = Fields::new(name.as_str(), octets, at, claimed);
    fields.skip(OBJECT_HEADER);
    if !is_possible {
        fields.give_up(format_args!("impossible length {length}"));
    } else if !layout::read(class, c_type, &mut fields) {
        match class {
            ObjectClass::Unknown(_) => fields.hex("body", fields.left()),
            _ => fields.give_up(format_args!("unknown C-Type {c_type}")),
        }
    }
    let (shown, mut remarks) = fields.finish();
    if remarks.is_empty() {
        remarks.malformed(&name, error.offset, error.kind);
    }
    let mut object = Map::new();
    object.insert("class_num".into(), class_num.into());
    object.insert("c_type".into(), c_type.into());
    object.insert("length".into(), length.into());
    object.insert("offset".into(), at.into());
    object.insert("class".into(), class.name().into());
    object.insert("error".into(), error.kind.name().into());
    object.extend(shown);
    remarks.show(&mut object);
    object.into()
}

#[cfg(test)]
mod tests {
    use earmark_testkit::messages::{rsvp::extensions, samples};

    use super::*;

    /// The layouts, which are for malformed objects, show well-formed ones as the wire format does.
    #[test]
    fn layouts_show_whole_objects_as_serialized() {
        let samples = samples::rsvp().into_iter().map(|sample| sample.message);
        let messages = samples.chain([false, true].into_iter().flat_map(extensions));
        let mut classes = std::collections::BTreeSet::new();
        for message in messages.filter(|message| !is_bundle(message)) {
            for object in objects(&message).map_while(Result::ok) {
                let raw = object.raw;
                let expected = serde_json::to_value(object).expect("it can be serialized");
                let name = ObjectClass::from_code(raw.class_num()).name();
                let mut fields = Fields::new(name, raw.bytes, raw.offset, raw.bytes.len());
                fields.skip(OBJECT_HEADER);
                if !layout::read(ObjectClass::from_code(raw.class_num()), raw.c_type(), &mut fields)
                {
                    assert_eq!(expected["class"], "unknown", "{expected}");
                    continue;
                }
                let (shown, remarks) = fields.finish();
                assert!(remarks.is_empty(), "{name}: {shown:?}");
                let own = ["class_num", "c_type", "length", "offset", "class", "objects"];
                for (field, value) in expected.as_object().expect("a map") {
                    let is_own = own.contains(&field.as_str());
                    assert!(is_own || shown.get(field) == Some(value), "{name} {field}: {shown:?}");
                }
                classes.insert(name);
            }
        }
        assert!(classes.len() > 20, "{classes:?}");
    }
}

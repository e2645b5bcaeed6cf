//! Messages of QoS NSLP (RFC 5974 section 5.1).

use earmark_wire::qos_nslp::iana::{BindingCode, MessageType, ObjectType, SourceType, flag};
use earmark_wire::qos_nslp::{ErrorSource, Message, Outcome};
use serde_json::Value;

use super::super::list::Element;
use super::super::qspec;
use super::{names, session_auth, show_message};
use crate::fields::Fields;
use crate::objects::{self, hex};

/// Adds a message and its objects.
pub(super) fn show(data: &[u8], list: &mut Vec<Value>) {
    let name = |code| match MessageType::from_code(code) {
        MessageType::Unknown(_) => None,
        known => Some(known.name()),
    };
    let error = Message::parse(data).err();
    let error = error.map(|error| objects::error(error.kind.name(), error.offset, &error));
    show_message(data, "QoS NSLP", name, read_header, error, show_object, list);
}

fn read_header(message_type: u8, fields: &mut Fields<'_>) {
    let Some([own]) = fields.take() else { return };
    let flags = fields.take().map(u16::from_be_bytes);
    fields.put_some(
        "flags",
        flags.map(|bits| {
            names(&[
                ("scoping", bits & flag::SCOPING != 0),
                ("proxy", bits & flag::PROXY != 0),
                ("ack_req", bits & flag::ACK_REQ != 0),
                ("break", bits & flag::BREAK != 0),
            ])
        }),
    );
    match MessageType::from_code(message_type) {
        MessageType::Reserve => {
            fields.put("tear", own & flag::TEAR != 0);
            fields.put("replace", own & flag::REPLACE != 0);
        }
        MessageType::Query => fields.put("reserve_init", own & flag::RESERVE_INIT != 0),
        MessageType::Response | MessageType::Notify | MessageType::Unknown(_) => {}
    }
}

fn show_object(element: &Element<'_>, list: &mut Vec<Value>) {
    let object_type = element.object_type.map(ObjectType::from_code);
    match object_type.filter(|it| !matches!(it, ObjectType::Unknown(_))) {
        Some(ObjectType::Qspec) => {
            let mut fields = element.fields(ObjectType::Qspec.name());
            fields.remaining();
            let (_, remarks) = fields.finish();
            qspec::show(element.value(), remarks, list);
        }
        known => {
            list.push(element.show(known.map(ObjectType::name), |fields| {
                known.into_iter().for_each(|known| read(known, fields));
            }));
        }
    }
}

/// Reads the value of a known object, except QSPEC.
fn read(object_type: ObjectType, fields: &mut Fields<'_>) {
    match object_type {
        ObjectType::Rii => fields.u32("number"),
        ObjectType::Rsn => {
            fields.u32("number");
            fields.u32("epoch");
        }
        ObjectType::RefreshPeriod => fields.u32("ms"),
        ObjectType::BoundSessionId => {
            let binding = fields.take().map(|[_, _, _, code]| BindingCode::from_code(code).name());
            fields.hex("session", 16);
            fields.put_some("binding", binding);
        }
        ObjectType::PacketClassifier => {
            fields.u8("fields");
            fields.skip(3);
        }
        ObjectType::InfoSpec => info_spec(fields),
        ObjectType::SessionIdList => {
            fields.list("sessions", 16, |session| hex(session).into());
        }
        ObjectType::RsnList => {
            fields.u32("epoch");
            fields.list("rsns", 4, |octets| {
                octets.first_chunk().map_or(0, |octets| u32::from_be_bytes(*octets)).into()
            });
        }
        ObjectType::MessageId | ObjectType::BoundMessageId => {
            let code = fields.take::<4>();
            fields.hex("id", 16);
            fields.put_some("bidirectional", code.map(|[_, _, _, code]| code & 1 != 0));
        }
        ObjectType::SessionAuth => session_auth::read(fields),
        ObjectType::Qspec | ObjectType::Unknown(_) => {}
    }
}

fn info_spec(fields: &mut Fields<'_>) {
    let Some([_, code, class_and_type, words]) = fields.take() else { return };
    let outcome = Outcome::from_codes(class_and_type >> 4, code);
    fields.put("severity", outcome.class().name());
    fields.put("outcome", outcome.name());
    fields.put("code", code);
    let octets = fields.slice(4 * usize::from(words));
    fields.put("source", octets.and_then(|octets| source(class_and_type & 0xf, octets)));
    match fields.remaining() {
        [] => {}
        details => fields.put("details", hex(details)),
    }
}

/// Returns the error source identifier, if there is one; one of a wrong length as an unknown one.
fn source(code: u8, octets: &[u8]) -> Option<String> {
    let known = match SourceType::from_code(code) {
        SourceType::Ipv4 => <[u8; 4]>::try_from(octets).ok().map(|it| ErrorSource::Ipv4(it.into())),
        SourceType::Ipv6 => {
            <[u8; 16]>::try_from(octets).ok().map(|it| ErrorSource::Ipv6(it.into()))
        }
        SourceType::Fqdn => {
            let name = octets.split(|octet| *octet == 0).next().unwrap_or_default();
            std::str::from_utf8(name).ok().map(ErrorSource::Fqdn)
        }
        SourceType::Unknown(_) => None,
    };
    let is_absent = code == 0 && octets.is_empty();
    let source = known.unwrap_or(ErrorSource::Unknown { code, octets });
    (!is_absent).then(|| format!("{source:?}"))
}

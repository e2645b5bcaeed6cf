//! Messages of NATFW NSLP (RFC 5973 section 4).

use earmark_wire::natfw_nslp::iana::{MessageType, ObjectType, flag};
use earmark_wire::natfw_nslp::{Message, Outcome, RuleAction};
use serde_json::Value;

use super::super::list::Element;
use super::{names, session_auth, show_message};
use crate::fields::Fields;
use crate::objects;

/// Adds a message and its objects.
pub(super) fn show(data: &[u8], list: &mut Vec<Value>) {
    let name = |code| match MessageType::from_code(code) {
        MessageType::Unknown(_) => None,
        known => Some(known.name()),
    };
    let error = Message::parse(data).err();
    let error = error.map(|error| objects::error(error.kind.name(), error.offset, &error));
    show_message(data, "NATFW NSLP", name, read_header, error, show_object, list);
}

fn read_header(message_type: u8, fields: &mut Fields<'_>) {
    let flags = fields.take().map(u8::from_be_bytes);
    fields.skip(2);
    if let MessageType::Create | MessageType::External = MessageType::from_code(message_type) {
        fields.put_some(
            "flags",
            flags.map(|bits| {
                let is_proxy = bits & flag::PROXY != 0;
                // Without proxy mode the other flag has no meaning.
                let is_onward = is_proxy && bits & flag::END_TO_END != 0;
                names(&[("proxy", is_proxy), ("end_to_end", is_onward)])
            }),
        );
    }
}

fn show_object(element: &Element<'_>, list: &mut Vec<Value>) {
    let object_type = element.object_type.map(ObjectType::from_code);
    let known = object_type.filter(|it| !matches!(it, ObjectType::Unknown(_)));
    list.push(element.show(known.map(ObjectType::name), |fields| {
        known.into_iter().for_each(|known| read(known, fields));
    }));
}

/// Reads the value of a known object.
fn read(object_type: ObjectType, fields: &mut Fields<'_>) {
    match object_type {
        ObjectType::Lifetime => fields.u32("seconds"),
        ObjectType::Nonce | ObjectType::Msn => fields.u32("number"),
        ObjectType::ExternalAddress => {
            if read_port(fields) {
                fields.address("address", true);
            }
        }
        ObjectType::ExternalBinding => {
            if read_port(fields) {
                fields.list("addresses", 4, |octets| {
                    let address = octets.first_chunk::<4>().map(|it| std::net::Ipv4Addr::from(*it));
                    address.map(|address| address.to_string()).into()
                });
            }
        }
        ObjectType::ExtendedFlow => {
            let action = fields.take().map(u16::from_be_bytes);
            let known = [RuleAction::Allow, RuleAction::Deny];
            fields.put_some(
                "action",
                action.map(|code| match known.into_iter().find(|it| it.code() == code) {
                    Some(action) => Value::from(action.name()),
                    None => code.into(),
                }),
            );
            fields.u16("sub_ports");
        }
        ObjectType::Info => {
            let Some([class, code]) = fields.take() else { return fields.skip(2) };
            let outcome = Outcome::from_codes(class, code);
            fields.put("severity", outcome.class().name());
            fields.put("outcome", outcome.name());
            fields.put("code", code);
            let object = fields.take().map(|half| u16::from_be_bytes(half) & 0x0fff);
            let object = object.filter(|object| *object != 0);
            fields.put_some("object", object.map(|object| ObjectType::from_code(object).name()));
        }
        ObjectType::DataTerminal => data_terminal(fields),
        ObjectType::IcmpTypes => {
            let Some([count]) = fields.take() else { return };
            let types = fields.slice(count.into());
            fields.pad();
            fields.put_some("types", types.map(<[u8]>::to_vec));
        }
        ObjectType::SessionAuth => session_auth::read(fields),
        ObjectType::Unknown(_) => {}
    }
}

/// Reads the port and IP version in front of addresses, which have a form for IPv4 only. Returns whether it is that.
fn read_port(fields: &mut Fields<'_>) -> bool {
    fields.u16("port");
    let version = fields.take().map(|[version, _]| version >> 4);
    if let Some(version) = version.filter(|version| *version != 4) {
        fields.give_up(format_args!("IP version is {version}, not 4"));
        return false;
    }
    true
}

fn data_terminal(fields: &mut Fields<'_>) {
    let Some([flags, _]) = fields.take() else { return };
    let [has_protocol, has_ports, has_spi] = [0x80, 0x40, 0x20].map(|bit| flags & bit != 0);
    let [prefix, protocol] = [(); 2].map(|()| fields.take().map(u8::from_be_bytes));
    let ports = has_ports.then(|| {
        let [destination, source] = [(); 2].map(|()| fields.take().map(u16::from_be_bytes));
        (source, destination)
    });
    let spi = has_spi.then(|| fields.take().map(u32::from_be_bytes)).flatten();
    let sender = fields.take_address(true);
    match (sender, prefix) {
        (Some(sender), Some(prefix)) => {
            fields.put("sender", format!("{sender}/{prefix}"));
            if prefix == 0 && !sender.is_unspecified() {
                fields.warning(format_args!(
                    "the sender is {sender}, but its prefix length is 0: any address"
                ));
            }
        }
        (None, prefix) => fields.put_some("sender_prefix", prefix),
        (Some(_), None) => {}
    }
    fields.put_some("protocol", protocol.filter(|_| has_protocol));
    fields.put_some("source_port", ports.and_then(|(source, _)| source));
    fields.put_some("destination_port", ports.and_then(|(_, destination)| destination));
    fields.put_some("spi", spi);
}

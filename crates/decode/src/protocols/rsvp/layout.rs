//! Layouts of the objects of RSVP, to show what is readable of a malformed one. Fields have the names under which the wire
//! format shows them in a well-formed object.

use earmark_wire::intserv::iana::{Parameter, Service};
use earmark_wire::rsvp::iana::{PolicyElementType, c_type};
use earmark_wire::rsvp::{
    Capability, ErrorCode, List, ObjectClass, PolicyElement, PolicyOption, Style,
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::OBJECT_HEADER;
use crate::fields::Fields;
use crate::objects::hex;

/// Reads the body of an object. Returns `false` if its class or C-Type is unknown.
pub(super) fn read(class: ObjectClass, c_type: u8, fields: &mut Fields<'_>) -> bool {
    match class {
        ObjectClass::Session => return session(c_type, fields),
        ObjectClass::FilterSpec | ObjectClass::SenderTemplate => return filter(c_type, fields),
        ObjectClass::RsvpHop
        | ObjectClass::ErrorSpec
        | ObjectClass::Scope
        | ObjectClass::ResvConfirm
        | ObjectClass::NotifyRequest
        | ObjectClass::Diagnostic
        | ObjectClass::Route
        | ObjectClass::DiagResponse
        | ObjectClass::SessionOfInterest => match c_type {
            c_type::IPV4 => with_addresses(class, true, fields),
            c_type::IPV6 => with_addresses(class, false, fields),
            _ => return false,
        },
        ObjectClass::FlowSpec | ObjectClass::SenderTspec if c_type == c_type::INTSERV => {
            traffic(class == ObjectClass::FlowSpec, fields);
        }
        ObjectClass::Adspec if c_type == c_type::INTSERV => adspec(fields),
        ObjectClass::MessageIdList => return message_id_list(c_type, fields),
        ObjectClass::Hello if matches!(c_type, c_type::HELLO_REQUEST | c_type::HELLO_ACK) => {
            fields.put("kind", if c_type == c_type::HELLO_ACK { "ack" } else { "request" });
            fields.u32("source_instance");
            fields.u32("destination_instance");
        }
        ObjectClass::MessageIdAck if matches!(c_type, 1 | 2) => {
            let is_ack = c_type == c_type::MESSAGE_ID_ACK;
            fields.put("kind", if is_ack { "ack" } else { "nack" });
            fields.skip(1);
            fields.u24("epoch");
            fields.u32("id");
        }
        // All others have the C-Type 1 only.
        _ if c_type == 1 => return with_one_form(class, fields),
        _ => return false,
    }
    true
}

fn with_one_form(class: ObjectClass, fields: &mut Fields<'_>) -> bool {
    match class {
        ObjectClass::Integrity => {
            fields.u8("flags");
            fields.skip(1);
            key_id(fields);
            fields.u64("sequence");
            fields.hex("digest", fields.left().max(4));
        }
        ObjectClass::Challenge => {
            fields.skip(2);
            key_id(fields);
            fields.u64("cookie");
        }
        ObjectClass::TimeValues => fields.u32("refresh_ms"),
        ObjectClass::Style => {
            fields.skip(1);
            let vector = fields.take().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]));
            fields.put_some(
                "style",
                vector.map(|vector| match Style::from_option_vector(vector) {
                    Some(style) => Value::from(style.name()),
                    None => vector.into(),
                }),
            );
        }
        ObjectClass::PolicyData => policy_data(fields),
        ObjectClass::RestartCap => {
            fields.u32("restart_ms");
            fields.u32("recovery_ms");
        }
        ObjectClass::Capability => {
            let Some(flags) = fields.take().map(u32::from_be_bytes) else { return true };
            for (name, bit) in [
                ("recovery_path_transmit", Capability::RECOVERY_PATH_TRANSMIT),
                ("recovery_path_desired", Capability::RECOVERY_PATH_DESIRED),
                ("recovery_path_srefresh", Capability::RECOVERY_PATH_SREFRESH),
            ] {
                fields.put(name, flags & bit != 0);
            }
        }
        ObjectClass::MessageId => {
            fields.u8("flags");
            fields.u24("epoch");
            fields.u32("id");
        }
        ObjectClass::DiagSelect => {
            let mut selected: Vec<Value> = Vec::new();
            while fields.left() > 0 {
                let Some([class_num, c_type]) = fields.take() else { break };
                // A pair of zeros completes the last word.
                if fields.left() > 0 || (class_num, c_type) != (0, 0) {
                    selected.push(json!({ "class_num": class_num, "c_type": c_type }));
                }
            }
            fields.put("selected", selected);
        }
        ObjectClass::DClass => fields.list("code_points", 4, |octets| match *octets {
            [_, _, _, octet] => (octet >> 2).into(),
            _ => Value::Null,
        }),
        _ => return false,
    }
    true
}

fn key_id(fields: &mut Fields<'_>) {
    let id = fields.take().map(|[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
    fields.put_some("key_id", id);
}

fn session(c_type: u8, fields: &mut Fields<'_>) -> bool {
    let is_ipv4 = matches!(
        c_type,
        c_type::IPV4
            | c_type::SESSION_IPV4_GPI
            | c_type::AGGREGATE_IPV4
            | c_type::GENERIC_AGGREGATE_IPV4
    );
    match c_type {
        c_type::AGGREGATE_IPV4 | c_type::AGGREGATE_IPV6 => {
            fields.address("destination", is_ipv4);
            fields.skip(1);
            fields.u8("flags");
            fields.skip(1);
            fields.u8("dscp");
        }
        c_type::GENERIC_AGGREGATE_IPV4 | c_type::GENERIC_AGGREGATE_IPV6 => {
            generic_aggregate(is_ipv4, fields);
        }
        1..=4 => {
            fields.address("destination", is_ipv4);
            fields.u8("protocol");
            fields.u8("flags");
            fields.u16("port");
        }
        _ => return false,
    }
    true
}

fn generic_aggregate(is_ipv4: bool, fields: &mut Fields<'_>) {
    fields.address("destination", is_ipv4);
    fields.skip(1);
    fields.u8("flags");
    fields.u16("phb_id");
    fields.skip(2);
    fields.u16("port");
    fields.address("extended_port", is_ipv4);
}

fn filter(c_type: u8, fields: &mut Fields<'_>) -> bool {
    let is_ipv4 = matches!(c_type, c_type::IPV4 | c_type::SENDER_IPV4_GPI | c_type::AGGREGATE_IPV4);
    match c_type {
        1..=5 | c_type::AGGREGATE_IPV4 | c_type::AGGREGATE_IPV6 => {
            fields.address("source", is_ipv4);
        }
        _ => return false,
    }
    match c_type {
        c_type::IPV6_FLOW_LABEL => {
            fields.skip(1);
            fields.u24("flow_label");
        }
        c_type::SENDER_IPV4_GPI | c_type::SENDER_IPV6_GPI => fields.u32("spi"),
        c_type::IPV4 | c_type::IPV6 => {
            fields.skip(2);
            fields.u16("port");
        }
        _ => {}
    }
    true
}

/// Reads an object whose C-Type is the family of its addresses.
fn with_addresses(class: ObjectClass, is_ipv4: bool, fields: &mut Fields<'_>) {
    let size = if is_ipv4 { 4 } else { 16 };
    match class {
        ObjectClass::RsvpHop => {
            fields.address("address", is_ipv4);
            fields.u32("lih");
        }
        ObjectClass::ErrorSpec => {
            fields.address("node", is_ipv4);
            fields.u8("flags");
            let code = fields.u8("code");
            fields.u16("value");
            fields.put_some("text", code.map(|code| ErrorCode::from_code(code).name()));
        }
        ObjectClass::Scope => fields.list("senders", size, address),
        ObjectClass::ResvConfirm => fields.address("receiver", is_ipv4),
        ObjectClass::NotifyRequest => fields.address("node", is_ipv4),
        ObjectClass::Route => {
            fields.skip(3);
            fields.u8("pointer");
            fields.list("nodes", size, address);
        }
        ObjectClass::Diagnostic => {
            fields.u8("max_hops");
            fields.u8("hop_count");
            fields.skip(1);
            let flags = fields.take().map(u8::from_be_bytes);
            fields.put_some("more_fragments", flags.map(|flags| flags & 1 != 0));
            fields.u32("request_id");
            fields.u16("path_mtu");
            fields.u16("fragment_offset");
            fields.address("last_hop", is_ipv4);
            for name in ["sender", "requester"] {
                let Some([_, _, _, c_type]) = fields.take() else { continue };
                let shown = fields.group(|fields| {
                    filter(c_type, fields);
                });
                fields.put(name, shown);
            }
        }
        ObjectClass::DiagResponse => {
            fields.u32("arrival");
            fields.address("incoming", is_ipv4);
            fields.address("outgoing", is_ipv4);
            fields.address("previous_hop", is_ipv4);
            fields.u8("ip_hops");
            let bits = fields.take().map(u8::from_be_bytes);
            fields.put_some("merged", bits.map(|bits| bits & 0x80 != 0));
            fields.put_some("error", bits.map(|bits| bits >> 4 & 0x07));
            fields.put_some("refresh_multiple", bits.map(|bits| bits & 0x0f));
            fields.u16("refresh_s");
            let objects = fields.remaining();
            fields.put("octets", hex(objects));
        }
        _ => generic_aggregate(is_ipv4, fields),
    }
}

fn address(octets: &[u8]) -> Value {
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(octets), _) => std::net::IpAddr::from(octets).to_string().into(),
        (_, Ok(octets)) => std::net::IpAddr::from(octets).to_string().into(),
        _ => Value::Null,
    }
}

fn message_id_list(c_type: u8, fields: &mut Fields<'_>) -> bool {
    let (name, size) = match c_type {
        c_type::MESSAGE_ID_LIST => ("ids", 4),
        c_type::SRC_LIST_IPV4 => ("sources", 8),
        c_type::SRC_LIST_IPV6 => ("sources", 20),
        c_type::MCAST_LIST_IPV4 => ("multicast", 12),
        c_type::MCAST_LIST_IPV6 => ("multicast", 36),
        _ => return false,
    };
    fields.skip(1);
    fields.u24("epoch");
    fields.list(name, size, |octets| {
        let (id, addresses) = octets.split_first_chunk().unwrap_or((&[0; 4], &[]));
        let id = u32::from_be_bytes(*id);
        let (source, destination) = addresses.split_at(addresses.len() / 2);
        match name {
            "ids" => id.into(),
            "sources" => json!({ "id": id, "source": address(addresses) }),
            _ => json!({
                "id": id, "source": address(source), "destination": address(destination),
            }),
        }
    });
    true
}

/// Reads SENDER_TSPEC or FLOWSPEC: headers of the data, of the service and of each parameter (RFC 2210 section 3).
fn traffic(is_flowspec: bool, fields: &mut Fields<'_>) {
    fields.skip(4);
    let Some([service, _, _, _]) = fields.take() else { return };
    if is_flowspec {
        fields.put(
            "service",
            match Service::from_code(service) {
                Service::ControlledLoad => Value::from("controlled-load"),
                Service::Guaranteed => "guaranteed".into(),
                _ => service.into(),
            },
        );
    }
    parameters(fields, true);
}

/// Reads parameters up to the end of a fragment; at least one if one is required.
fn parameters(fields: &mut Fields<'_>, is_required: bool) {
    let mut is_required = is_required;
    while fields.left() > 0 || is_required {
        is_required = false;
        let Some([id, _, l0, l1]) = fields.take() else { return };
        let parameter = Parameter::from_code(id);
        let name = match parameter {
            Parameter::Unknown(id) => format!("parameter {id}"),
            known => known.name().to_owned(),
        };
        let length = 4 * usize::from(u16::from_be_bytes([l0, l1]));
        let shown = fields.part(&name, length, |fields| match parameter {
            Parameter::NumberOfIsHops => fields.u32("hops"),
            Parameter::AvailablePathBandwidth => fields.single("bandwidth"),
            Parameter::MinimumPathLatency => fields.u32("latency_us"),
            Parameter::PathMtu => fields.u32("mtu"),
            Parameter::TokenBucketTspec => fields.token_bucket(),
            Parameter::GuaranteedRspec => {
                fields.single("reserved_rate");
                fields.u32("slack_us");
            }
            Parameter::CTotal => fields.u32("c_total"),
            Parameter::DTotal => fields.u32("d_total"),
            Parameter::CSum => fields.u32("c_sum"),
            Parameter::DSum => fields.u32("d_sum"),
            Parameter::Unknown(_) => {
                let octets = fields.remaining();
                fields.put(&name, hex(octets));
            }
        });
        fields.extend(shown);
    }
}

/// Reads ADSPEC: a header of the data, and the fragments of the services (RFC 2210 section 3.3).
fn adspec(fields: &mut Fields<'_>) {
    fields.skip(4);
    while fields.left() > 0 {
        let Some([service, flags, l0, l1]) = fields.take() else { return };
        let service = Service::from_code(service);
        let name = match service {
            Service::Unknown(number) => format!("service {number}"),
            known => known.name().replace(' ', "_"),
        };
        let length = 4 * usize::from(u16::from_be_bytes([l0, l1]));
        let shown = fields.part(&name, length, |fields| {
            fields.put("break_bit", flags & 0x80 != 0);
            parameters(fields, false);
        });
        match service {
            Service::General => fields.extend(shown),
            _ => fields.put_again(&name, shown.into()),
        }
    }
}

/// Reads POLICY_DATA: options, and policy elements behind Data Offset (RFC 2750 section 3).
fn policy_data(fields: &mut Fields<'_>) {
    let Some([o0, o1, _, _]) = fields.take() else { return };
    let data_offset = usize::from(u16::from_be_bytes([o0, o1]));
    let Some(options) = data_offset.checked_sub(OBJECT_HEADER + 4) else {
        return fields.give_up(format_args!("Data Offset {data_offset} is below 8"));
    };
    let options = fields.part("options", options, |fields| {
        let mut list: Vec<Value> = Vec::new();
        while fields.left() > 0 {
            let Some(head @ [l0, l1, class, _]) = fields.take() else { break };
            let body = body([l0, l1], fields);
            let Some(octets) = body.map(|body| [&head[..], body].concat()) else { break };
            let class = ObjectClass::from_code(class).name();
            list.push(
                first(List::<PolicyOption<'_>>::Wire(&octets).iter().next())
                    .unwrap_or_else(|| json!({ "class": class, "body": body.map(hex) })),
            );
        }
        fields.put("options", list);
    });
    fields.extend(options);
    let mut list: Vec<Value> = Vec::new();
    while fields.left() > 0 {
        let Some(head @ [l0, l1, t0, t1]) = fields.take() else { break };
        let body = body([l0, l1], fields);
        let Some(octets) = body.map(|body| [&head[..], body].concat()) else { break };
        let p_type = PolicyElementType::from_code(u16::from_be_bytes([t0, t1]));
        let known = first(List::<PolicyElement<'_>>::Wire(&octets).iter().next());
        list.push(known.unwrap_or_else(
            || json!({ "p_type": p_type.code(), "policy": p_type.name(), "body": body.map(hex) }),
        ));
    }
    fields.put("elements", list);
}

/// Takes the octets of an option or element behind its header; `None` if they are not all there.
fn body<'a>(length: [u8; 2], fields: &mut Fields<'a>) -> Option<&'a [u8]> {
    let length = usize::from(u16::from_be_bytes(length));
    match length.checked_sub(OBJECT_HEADER) {
        Some(length) => fields.slice(length),
        None => {
            fields.give_up(format_args!("impossible length {length} of an option or element"));
            None
        }
    }
}

/// Returns an item as the wire format shows it, if it can be decoded.
fn first(item: Option<impl Serialize>) -> Option<Value> {
    serde_json::to_value(item?)
        .ok()
        .filter(|value| value.as_object().is_some_and(|it: &Map<_, _>| !it.is_empty()))
}

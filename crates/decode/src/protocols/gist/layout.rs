//! Layouts of the objects of GIST (RFC 5971 A.3).

use std::net::IpAddr;

use earmark_wire::gist::iana::{ErrorClass, ErrorCode, InfoType, ObjectType, RoutingMethod};
use earmark_wire::gist::{Info, ProtocolId, ProtocolOptions};
use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::objects::hex;

const MRI: &str = ObjectType::MessageRoutingInformation.name();

/// Reads the value of a known object, except Error and NSLP-Data.
pub(super) fn read(object_type: ObjectType, fields: &mut Fields<'_>) {
    match object_type {
        ObjectType::MessageRoutingInformation => mri(fields),
        ObjectType::SessionId => fields.hex("session", 16),
        ObjectType::NetworkLayerInformation => nli(fields),
        ObjectType::StackProposal => stack_proposal(fields),
        ObjectType::StackConfigurationData => stack_configuration(fields),
        ObjectType::QueryCookie | ObjectType::ResponderCookie => {
            fields.hex("octets", fields.left());
        }
        ObjectType::NatTraversal => nat_traversal(fields),
        ObjectType::HelloId => fields.u32("id"),
        ObjectType::Error | ObjectType::NslpData | ObjectType::Unknown(_) => {}
    }
}

fn mri(fields: &mut Fields<'_>) {
    let Some([method, _, b0, b1]) = fields.take() else { return };
    let bits = u16::from_be_bytes([b0, b1]);
    let has = |place: u32| bits & 0x8000 >> place != 0;
    let (name, upstream) = match RoutingMethod::from_code(method) {
        RoutingMethod::PathCoupled => ("path-coupled", has(10)),
        RoutingMethod::LooseEnd => ("loose-end", has(4)),
        RoutingMethod::Unknown(method) => {
            return fields.give_up(format_args!("unknown routing method {method}"));
        }
    };
    fields.put("method", name);
    fields.put("direction", if upstream { "Upstream" } else { "Downstream" });
    let is_ipv4 = match bits >> 12 {
        4 => true,
        6 => false,
        version => return fields.give_up(format_args!("unknown IP version {version}")),
    };
    let ends = [(); 2].map(|()| fields.take_address(is_ipv4));
    let names = ["source", "destination"];
    if method == RoutingMethod::LooseEnd.code() {
        for (name, address) in names.into_iter().zip(ends) {
            fields.put_some(name, address.map(|address| address.to_string()));
        }
        return;
    }
    let prefixes = [(); 2].map(|()| fields.take().map(u8::from_be_bytes));
    for (name, (address, prefix)) in names.into_iter().zip(ends.into_iter().zip(prefixes)) {
        show_prefix(fields, name, address, prefix);
    }
    let [protocol, ds_field] = [(); 2].map(|()| fields.take().map(u8::from_be_bytes));
    let mut word = |is_present: bool| is_present.then(|| fields.take::<4>());
    let (flow_label, spi, ports) = (word(has(6)), word(has(7)), word(has(8) || has(9)));
    let [source_port, destination_port] = [0, 2].map(|at| {
        let [a, b] = *ports??.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes([a, b]))
    });
    fields.put_some("protocol", protocol.filter(|_| has(4)));
    fields.put_some("source_port", source_port.filter(|_| has(8)));
    fields.put_some("destination_port", destination_port.filter(|_| has(9)));
    fields.put_some("dscp", ds_field.filter(|_| has(5)).map(|field| field >> 2));
    let label = flow_label.flatten().map(|label| u32::from_be_bytes(label) & 0x000f_ffff);
    fields.put_some("flow_label", label);
    fields.put_some("spi", spi.flatten().map(u32::from_be_bytes));
}

/// Shows an address with its prefix length. A length of 0 makes the address meaningless.
fn show_prefix(fields: &mut Fields<'_>, name: &str, address: Option<IpAddr>, prefix: Option<u8>) {
    let (Some(address), Some(prefix)) = (address, prefix) else {
        return fields.put_some(name, address.map(|address| address.to_string()));
    };
    fields.put(name, format!("{address}/{prefix}"));
    if prefix == 0 && !address.is_unspecified() {
        fields.warning(format_args!(
            "the {name} is {address}, but its prefix length is 0: any address"
        ));
    }
}

fn nli(fields: &mut Fields<'_>) {
    let Some([identity, ip_ttl, version, _]) = fields.take() else { return };
    let validity = fields.take().map(u32::from_be_bytes);
    fields.hex("peer_identity", identity.into());
    fields.pad();
    fields.put("ip_ttl", ip_ttl);
    fields.put_some("routing_state_validity_ms", validity);
    match version >> 4 {
        4 => fields.address("interface_address", true),
        6 => fields.address("interface_address", false),
        version => fields.give_up(format_args!("unknown IP version {version}")),
    }
}

fn stack_proposal(fields: &mut Fields<'_>) {
    let Some([count, _, _, _]) = fields.take() else { return };
    let mut profiles: Vec<Value> = Vec::new();
    for _ in 0..count {
        let layers = fields.take().map(u8::from_be_bytes);
        let Some(layers) = layers.and_then(|layers| fields.slice(layers.into())) else { break };
        fields.pad();
        profiles.push(layers.iter().map(|layer| ProtocolId::from_code(*layer).name()).collect());
    }
    fields.put("profiles", profiles);
}

fn stack_configuration(fields: &mut Fields<'_>) {
    let Some([count, _, _, _]) = fields.take() else { return };
    fields.u32("hold_time_ms");
    let mut options: Vec<Value> = Vec::new();
    for _ in 0..count {
        let Some([protocol, profile, length, flags]) = fields.take() else { break };
        let data = fields.slice(length.into());
        fields.pad();
        let (protocol, unusable) = (ProtocolId::from_code(protocol), flags & 0x80 != 0);
        let data = data.unwrap_or_default();
        let port = ProtocolOptions { protocol, profile, unusable, data }.tcp_port();
        options.push(json!({
            "protocol": protocol.name(), "profile": profile, "port": port, "unusable": unusable,
        }));
    }
    fields.put("options", options);
}

fn nat_traversal(fields: &mut Fields<'_>) {
    let Some([mri_words, types, translators, _]) = fields.take() else { return };
    let original = fields.part(MRI, 4 * usize::from(mri_words), mri);
    fields.put("original", original);
    let translated: Option<Vec<u16>> = fields.slice(2 * usize::from(types)).map(|octets| {
        octets.as_chunks().0.iter().map(|half| u16::from_be_bytes(*half) & 0x0fff).collect()
    });
    fields.pad();
    fields.put_some("translated", translated);
    let mut opaque: Vec<Value> = Vec::new();
    for _ in 0..translators {
        let length = fields.take().map(u16::from_be_bytes);
        let Some(octets) = length.and_then(|length| fields.slice(length.into())) else { break };
        fields.pad();
        opaque.push(hex(octets).into());
    }
    fields.put("opaque", opaque);
}

/// Reads the value of an Error object. Returns the session identifier and the MRI in it.
pub(super) fn error(fields: &mut Fields<'_>) -> [Option<Map<String, Value>>; 2] {
    let Some([class, c0, c1, subcode]) = fields.take() else { return [None, None] };
    let code = ErrorCode::from_code(u16::from_be_bytes([c0, c1]));
    fields.put("severity", ErrorClass::from_code(class).name());
    fields.put("error", code.name());
    fields.put("code", code.code());
    fields.put("subcode", subcode);
    let Some([flags, _, mri_words, infos]) = fields.take() else { return [None, None] };
    let has = |place: u32| flags & 0x80 >> place != 0;
    fields.hex("original", 8);
    let session = has(0).then(|| fields.group(|fields| fields.hex("session", 16)));
    let mri = has(1).then(|| fields.part(MRI, 4 * usize::from(mri_words), mri));
    let mut list: Vec<Value> = Vec::new();
    for _ in 0..infos {
        let Some([t0, t1, l0, l1]) = fields.take() else { break };
        let length = 4 * usize::from(u16::from_be_bytes([l0, l1]));
        let Some(value) = fields.slice(length) else { break };
        list.push(info(u16::from_be_bytes([t0, t1]), value).to_string().into());
    }
    fields.put("infos", list);
    let comment = has(2).then(|| {
        let text = fields.remaining();
        let text = text.split(|octet| *octet == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    });
    fields.put("comment", comment);
    [session, mri]
}

/// Returns an additional information, as an unknown one if its value is too short.
fn info(info_type: u16, value: &[u8]) -> Info<'_> {
    let half = |at: usize| {
        let [a, b] = *value.get(at..)?.first_chunk()?;
        Some(u16::from_be_bytes([a, b]))
    };
    let known = match InfoType::from_code(info_type) {
        InfoType::MessageLength => half(0).map(Info::MessageLength),
        InfoType::Mtu => half(0).map(Info::Mtu),
        InfoType::ObjectType => half(0).map(Info::ObjectType),
        InfoType::ObjectValue => {
            half(2).and_then(|offset| Some(Info::ObjectValue { offset, object: value.get(4..)? }))
        }
        InfoType::Unknown(_) => None,
    };
    known.unwrap_or(Info::Unknown { info_type, value })
}

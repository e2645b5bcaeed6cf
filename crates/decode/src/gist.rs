//! Messages of GIST in datagrams as JSON: the common header, then the objects and the message of the application. Messages
//! over messaging associations are segments of a stream and are not decoded.

use earmark_wire::gist::{
    self, Body, Error, Info, Message, Mode, Mri, NetworkLayerInformation, ProtocolId,
    ProtocolOptions, Stack,
};
use earmark_wire::udp;
use serde_json::{Map, Value, json};

use super::nslp;

/// The UDP packet that carries a message of GIST, well-formed or malformed, and the message.
pub(super) fn message(udp: &[u8]) -> Option<(udp::Packet<'_>, &[u8])> {
    let packet = udp::Packet::parse(udp).ok()?;
    let ports = [packet.source_port, packet.destination_port];
    if !ports.contains(&gist::iana::PORT) {
        return None;
    }
    Some((packet, gist::datagram(packet.payload)?))
}

/// Adds the fields of a message, or its error. Offsets count from the common header.
pub(super) fn show(packet: &udp::Packet<'_>, octets: &[u8], shown: &mut Map<String, Value>) {
    shown.insert("source_port".into(), packet.source_port.into());
    shown.insert("destination_port".into(), packet.destination_port.into());
    match Message::parse(octets, Mode::D) {
        Ok(message) => show_message(&message, shown),
        Err(error) => {
            if let Ok(header) = gist::Header::parse(octets) {
                shown.insert("message".into(), header.message_type.name().into());
                shown.insert("nslpid".into(), header.nslpid.into());
            }
            let text = error.to_string();
            let error = json!({"kind": error.kind.name(), "offset": error.offset, "text": text});
            shown.insert("error".into(), error);
        }
    }
}

fn show_message(message: &Message<'_>, shown: &mut Map<String, Value>) {
    let name = message.body.message_type().name();
    shown.insert("message".into(), name.into());
    shown.insert("hops".into(), message.hops.into());
    shown.insert("nslpid".into(), message.nslpid.into());
    shown.insert("source_is_peer".into(), message.source_is_peer.into());
    let mut objects = Vec::new();
    let data = show_body(&message.body, shown, &mut objects);
    objects.extend(message.extensions.iter().map(|extension| {
        let octets = hexadecimal(extension.value);
        json!({ "class": "UNKNOWN", "type": extension.object_type, "octets": octets })
    }));
    if let Some(data) = data {
        nslp::show(message.nslpid, data, &mut objects);
    }
    shown.insert("objects".into(), objects.into());
}

/// Adds the objects of a message. Returns the data of the application.
fn show_body<'a>(
    body: &Body<'a>,
    shown: &mut Map<String, Value>,
    objects: &mut Vec<Value>,
) -> Option<&'a [u8]> {
    match body {
        Body::Query(query) => {
            objects.extend([mri(&query.mri), session(query.session), nli(&query.nli)]);
            objects.push(cookie("Query-Cookie", query.query_cookie));
            objects.extend(query.stack.iter().flat_map(stack));
            query.nslp_data
        }
        Body::Response(response) => {
            shown.insert("confirm_requested".into(), response.confirm_requested.into());
            objects.extend([mri(&response.mri), session(response.session), nli(&response.nli)]);
            objects.push(cookie("Query-Cookie", response.query_cookie));
            if let Some(part) = response.responder {
                objects.push(cookie("Responder-Cookie", part.cookie));
                objects.extend(part.stack.iter().flat_map(stack));
            }
            response.nslp_data
        }
        Body::Confirm(confirm) => {
            objects.extend([mri(&confirm.mri), session(confirm.session), nli(&confirm.nli)]);
            if let Some(returned) = confirm.returned {
                objects.push(cookie("Responder-Cookie", returned.cookie));
            }
            confirm.nslp_data
        }
        Body::Data(data) => {
            shown.insert("context_free".into(), data.context_free.into());
            shown.insert("explicitly_routed".into(), data.explicitly_routed.into());
            objects.extend([mri(&data.mri), session(data.session)]);
            objects.extend(data.nli.as_ref().map(nli));
            Some(data.nslp_data)
        }
        Body::Error(error) => {
            show_error(error, objects);
            None
        }
        Body::Hello(hello) => {
            shown.insert("reply_requested".into(), hello.reply_requested.into());
            objects.push(json!({ "class": "Hello-ID", "id": hello.id }));
            None
        }
    }
}

fn mri(mri: &Mri) -> Value {
    let Mri::PathCoupled(flow) = mri else {
        let (source, destination) = mri.addresses();
        return json!({
            "class": "Message-Routing-Information",
            "method": "loose-end",
            "direction": mri.direction(),
            "source": source,
            "destination": destination,
        });
    };
    let mut shown = Map::new();
    shown.insert("class".into(), "Message-Routing-Information".into());
    shown.insert("method".into(), "path-coupled".into());
    let prefix = |address, length| Value::String(format!("{address}/{length}"));
    shown.insert("direction".into(), json!(flow.direction));
    shown.insert("source".into(), prefix(flow.source, flow.source_prefix));
    shown.insert("destination".into(), prefix(flow.destination, flow.destination_prefix));
    let fields = [
        ("protocol", flow.protocol.map(u32::from)),
        ("source_port", flow.source_port.map(u32::from)),
        ("destination_port", flow.destination_port.map(u32::from)),
        ("dscp", flow.ds_field.map(u32::from)),
        ("flow_label", flow.flow_label),
        ("spi", flow.spi),
    ];
    let present = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
    shown.extend(present.map(|(name, value)| (name.to_owned(), value.into())));
    shown.into()
}

fn session(session: gist::SessionId) -> Value {
    json!({ "class": "Session-Identifier", "session": session.to_string() })
}

fn nli(nli: &NetworkLayerInformation<'_>) -> Value {
    json!({
        "class": "Network-Layer-Information",
        "peer_identity": hexadecimal(nli.peer_identity),
        "interface_address": nli.interface_address,
        "ip_ttl": nli.ip_ttl,
        "routing_state_validity_ms": nli.routing_state_validity,
    })
}

fn cookie(class: &str, octets: &[u8]) -> Value {
    json!({ "class": class, "octets": hexadecimal(octets) })
}

fn stack(stack: &Stack<'_>) -> [Value; 2] {
    let profile = |profile: gist::Profile<'_>| -> Vec<&str> {
        profile.protocols().map(ProtocolId::name).collect()
    };
    let profiles: Vec<_> = stack.proposal.iter().map(profile).collect();
    let option = |options: ProtocolOptions<'_>| {
        json!({
            "protocol": options.protocol.name(),
            "profile": options.profile,
            "port": options.tcp_port(),
            "unusable": options.unusable,
        })
    };
    let options: Vec<_> = stack.configuration.options.iter().map(option).collect();
    let hold_time = stack.configuration.hold_time;
    [
        json!({ "class": "Stack-Proposal", "profiles": profiles }),
        json!({ "class": "Stack-Configuration-Data", "hold_time_ms": hold_time, "options": options }),
    ]
}

fn show_error(message: &Error<'_>, objects: &mut Vec<Value>) {
    let error = &message.error;
    objects.extend(message.nli.as_ref().map(nli));
    let infos: Vec<String> = error.infos.iter().map(info).collect();
    objects.push(json!({
        "class": "Error",
        "severity": error.class.name(),
        "error": error.code.name(),
        "code": error.code.code(),
        "subcode": error.subcode,
        "infos": infos,
        "comment": error.comment,
    }));
    objects.extend(error.session.map(session));
    objects.extend(error.mri.as_ref().map(mri));
}

fn info(info: Info<'_>) -> String {
    match info {
        Info::MessageLength(words) => format!("the objects have {words} words"),
        Info::Mtu(octets) => format!("the MTU is {octets} octets"),
        Info::ObjectType(number) => format!("object {number}"),
        Info::ObjectValue { offset, object } => {
            format!("octet {offset} of {}", hexadecimal(object))
        }
        Info::Unknown { info_type, value } => format!("{info_type}: {}", hexadecimal(value)),
    }
}

pub(super) fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

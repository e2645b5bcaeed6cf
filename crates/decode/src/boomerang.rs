//! Messages of Boomerang as JSON: fields of the header, then classifier, mask, rates and options as objects.

use std::net::IpAddr;

use earmark_wire::boomerang::{
    Aggregation, Keys, OptionItem, Participation, Qos, Rates, Reservation, Shape,
    iana::participation_flag, is_boomerang,
};
use earmark_wire::icmp::{Echo, EchoError, HEADER, Kind, PseudoHeader};
use serde_json::{Map, Value, json};

/// Types of echo messages of ICMP and ICMPv6.
const ECHOES: [u8; 4] = [8, 0, 128, 129];

/// Whether an ICMP or ICMPv6 message carries a message of Boomerang, well-formed or malformed.
pub(super) fn is_message(icmp: &[u8]) -> bool {
    icmp.first().is_some_and(|kind| ECHOES.contains(kind))
        && icmp.get(HEADER..).is_some_and(is_boomerang)
}

/// Adds the fields of a message, or its error. Offsets count from MAGIC; those in the ICMP header from the start of that.
pub(super) fn show(
    icmp: &[u8],
    source: IpAddr,
    destination: IpAddr,
    shown: &mut Map<String, Value>,
) {
    let Some(ends) = PseudoHeader::of(source, destination) else { return };
    let reply = matches!(icmp.first(), Some(0 | 129));
    shown.insert("message".into(), if reply { "echo reply" } else { "echo" }.into());
    let echo = Echo::parse(icmp, ends);
    if let Ok(Echo { kind, identifier, sequence, .. }) = echo {
        debug_assert_eq!(kind == Kind::Reply, reply);
        shown.insert("identifier".into(), identifier.into());
        shown.insert("sequence".into(), sequence.into());
    }
    let parsed = Reservation::parse(icmp.get(HEADER..).unwrap_or_default());
    if let Ok(message) = &parsed {
        show_message(message, shown);
    }
    let error = match (echo, parsed) {
        (Err(error), _) => {
            let offset = match error {
                EchoError::Truncated(at) => at,
                EchoError::Type(_) => 0,
                EchoError::Code(_) => 1,
                EchoError::Checksum => 2,
            };
            json!({"kind": error.name(), "offset": offset, "text": error.to_string()})
        }
        (Ok(_), Err(error)) => {
            let text = error.to_string();
            json!({"kind": error.kind.name(), "offset": error.offset, "text": text})
        }
        (Ok(_), Ok(_)) => return,
    };
    shown.insert("error".into(), error);
}

fn show_message(message: &Reservation<'_>, shown: &mut Map<String, Value>) {
    shown.insert("transaction_id".into(), message.transaction_id.into());
    shown.insert("nack".into(), message.flags.is_nack().into());
    shown.insert("no_echo".into(), message.flags.is_no_echo().into());
    shown.insert("refresh_interval_s".into(), message.refresh_interval.into());
    shown.insert("key".into(), message.key.into());
    let mut objects = vec![keys("CLASSIFIER", &message.classifier), mask(&message.mask)];
    match message.qos {
        Qos::Bitrate(wanted) => objects.push(rates("BITRATE", wanted)),
        Qos::Downgrade { vector, .. } => {
            objects.extend(vector.iter().map(|wanted| rates("DOWNGRADE", wanted)));
        }
    }
    objects.extend(message.options.iter().map(|option| show_option(&option)));
    shown.insert("objects".into(), objects.into());
}

fn keys(class: &str, keys: &Keys) -> Value {
    let Keys { source, destination, source_port, destination_port, protocol, tos, .. } = keys;
    json!({
        "class": class,
        "source": source,
        "source_port": source_port,
        "destination": destination,
        "destination_port": destination_port,
        "protocol": protocol,
        "tos": tos,
    })
}

/// The mask: significant leading bits of the addresses, and whether the other fields are matched.
fn mask(mask: &Shape) -> Value {
    let Shape { source, destination, source_port, destination_port, protocol, tos } = mask;
    json!({
        "class": "MASK",
        "source_bits": source,
        "source_port": source_port,
        "destination_bits": destination,
        "destination_port": destination_port,
        "protocol": protocol,
        "tos": tos,
    })
}

fn rates(class: &str, rates: Rates) -> Value {
    json!({ "class": class, "forward_bps": rates.forward, "reverse_bps": rates.reverse })
}

fn show_option(option: &OptionItem<'_>) -> Value {
    match option {
        OptionItem::UserId(id) => {
            let name = id.user.split(|&octet| octet == 0).next().unwrap_or_default();
            json!({
                "class": "USER_ID",
                "user": String::from_utf8_lossy(name),
                "credential": id.credential.iter().map(|o| format!("{o:02x}")).collect::<String>(),
            })
        }
        OptionItem::Aggregation(option) => show_aggregation(option),
        OptionItem::Participation(record) => show_participation(record),
        OptionItem::Unknown { code, rest } => {
            json!({ "class": "UNKNOWN", "option": code, "octets": rest.len() })
        }
    }
}

fn show_participation(record: &Participation) -> Value {
    json!({
        "class": "PARTICIPATION",
        "initiator": record.initiator,
        "seen": record.seen,
        "last_forward": record.last_forward,
        "first_reverse": record.first_reverse,
        "forward_nodes": record.forward.nodes,
        "forward_gaps": record.forward.gaps,
        "reverse_nodes": record.reverse.nodes,
        "reverse_gaps": record.reverse.gaps,
        "ttl": record.ttl,
        "forward_ends": record.has(participation_flag::FORWARD_ENDS),
        "far_end": record.has(participation_flag::FAR_END),
    })
}

fn show_aggregation(option: &Aggregation) -> Value {
    let Aggregation { flags, node, transaction_id, classifier, rate, .. } = option;
    let mut shown = keys("AGGREGATION", classifier);
    if let Value::Object(shown) = &mut shown {
        shown.insert("node".into(), node.to_string().into());
        shown.insert("transaction_id".into(), (*transaction_id).into());
        shown.insert("rate_bps".into(), (*rate).into());
        shown.insert("leaves".into(), flags.leaves().into());
        shown.insert("raises".into(), flags.raises().into());
        if let Some(shape) = option.shape() {
            shown.insert("source_bits".into(), shape.source.into());
            shown.insert("destination_bits".into(), shape.destination.into());
        }
    }
    shown
}

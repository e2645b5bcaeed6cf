//! Messages of Boomerang as JSON: fields of the header, then classifier, mask, rates and options as objects, as far as the
//! octets of the message lead.

use earmark_wire::boomerang::iana::{AddressFamily, MessageType, OptionType, QosFormat};
use earmark_wire::boomerang::{
    Aggregation, Family, Flags, Keys, OptionFlags, OptionItem, Options, Participation, QosView,
    Rates, Reservation, View, is_boomerang,
};
use earmark_wire::icmp::{Echo, EchoError, HEADER, PROTOCOL_V4, PROTOCOL_V6, PseudoHeader};
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::objects;
use crate::protocol::{IpPacket, Protocol};

pub(super) const PROTOCOL: Protocol =
    Protocol { name: "boomerang", title: "Boomerang", ip_protocol: None, decode };

/// Types of echo messages of ICMP and ICMPv6.
const ECHOES: [u8; 4] = [8, 0, 128, 129];

/// Offset of the classifier, octets.
const CLASSIFIER: usize = 24;

/// Whether an ICMP or ICMPv6 message carries a message of Boomerang, well-formed or malformed.
fn is_message(icmp: &[u8]) -> bool {
    icmp.first().is_some_and(|kind| ECHOES.contains(kind))
        && icmp.get(HEADER..).is_some_and(is_boomerang)
}

/// Returns the fields of a message, and its error. Offsets count from MAGIC; those in the ICMP header from the start of that.
fn decode(packet: &IpPacket<'_>) -> Option<Map<String, Value>> {
    let icmp = packet.payload;
    if !matches!(packet.ip_protocol, PROTOCOL_V4 | PROTOCOL_V6) || !is_message(icmp) {
        return None;
    }
    let ends = PseudoHeader::of(packet.source, packet.destination)?;
    let mut shown = Map::new();
    let reply = matches!(icmp.first(), Some(0 | 129));
    let octets = icmp.get(HEADER..).unwrap_or_default();
    shown.insert("message".into(), if reply { "echo reply" } else { "echo" }.into());
    shown.insert("request".into(), request(octets).into());
    let echo = Echo::parse(icmp, ends);
    if let Ok(Echo { identifier, sequence, .. }) = echo {
        shown.insert("identifier".into(), identifier.into());
        shown.insert("sequence".into(), sequence.into());
    }
    let mut list = Vec::new();
    show(octets, &mut shown, &mut list);
    shown.insert("objects".into(), list.into());
    let error = match (echo, Reservation::parse(octets)) {
        (Err(error), _) => {
            let offset = match error {
                EchoError::Truncated(at) => at,
                EchoError::Type(_) => 0,
                EchoError::Code(_) => 1,
                EchoError::Checksum => 2,
            };
            objects::error(error.name(), offset, &error)
        }
        (Ok(_), Err(error)) => objects::error(error.kind.name(), error.offset, &error),
        (Ok(_), Ok(_)) => return Some(shown),
    };
    shown.insert("error".into(), error);
    Some(shown)
}

/// Returns what the message requests. One of zero rates that no node has refused is a release.
fn request(octets: &[u8]) -> &'static str {
    if let Ok(view) = View::parse(octets) {
        let is_nothing = match view.qos() {
            QosView::Bitrate(rates) => rates == Rates::ZERO,
            QosView::Downgrade(vector) => vector.iter().all(|rates| *rates == [0; 8]),
        };
        return if is_nothing && !view.flags().is_nack() { "Release" } else { "Reservation" };
    }
    match octets.get(8).map(|code| MessageType::from_code(*code)) {
        Some(MessageType::Reservation) => "Reservation",
        Some(MessageType::DsMarker) => "DS marker set-up",
        Some(MessageType::Unknown(_)) | None => "unknown",
    }
}

/// Shows the headers as fields of the message, and all behind them as objects.
fn show(octets: &[u8], shown: &mut Map<String, Value>, list: &mut Vec<Value>) {
    let (head, rest) = octets.split_at(CLASSIFIER.min(octets.len()));
    let mut fields = Fields::new("HEADER", head, 0, CLASSIFIER);
    fields.skip(4);
    fields.u32("transaction_id");
    let [message_type, format] = [(); 2].map(|()| fields.take().map(u8::from_be_bytes));
    let flags = fields.take().map(|flags| Flags(u16::from_be_bytes(flags)));
    fields.put_some("nack", flags.map(Flags::is_nack));
    fields.put_some("no_echo", flags.map(Flags::is_no_echo));
    let is_reservation = message_type == Some(MessageType::Reservation.code());
    if message_type.is_some() && !is_reservation {
        // The layout behind the container header is unknown.
        let body = octets.get(12..).unwrap_or_default();
        shown.extend(Fields::finish(fields).0.into_iter().filter(|(name, _)| name != "rest"));
        return list.push(objects::read("BODY", Fields::new("BODY", body, 12, body.len()), |_| {}));
    }
    fields.u8("refresh_interval_s");
    fields.skip(3);
    fields.u64("key");
    let (mut header, remarks) = fields.finish();
    if !remarks.is_empty() {
        let mut object = objects::object("HEADER", Map::new());
        object.extend(header.remove("rest").map(|rest| ("rest".to_owned(), rest)));
        remarks.show(&mut object);
        list.push(object.into());
    }
    shown.extend(header);
    let family = format.map(|format| AddressFamily::from_code(format & 0x0f));
    let (family, format) = match (family, format) {
        (Some(AddressFamily::Ipv4), Some(format)) => (Family::V4, format),
        (Some(AddressFamily::Ipv6), Some(format)) => (Family::V6, format),
        (Some(AddressFamily::Unknown(_)), Some(_)) => {
            let fields = Fields::new("CLASSIFIER", rest, CLASSIFIER, rest.len());
            return list.push(objects::read("CLASSIFIER", fields, |fields| {
                fields.give_up("the address family of the format is neither IPv4 nor IPv6");
            }));
        }
        _ => return,
    };
    show_body(rest, family, QosFormat::from_code(format & 0xf0), list);
}

/// Splits up to `length` octets off the front of `rest`, which begin at offset `at`; `None` without any.
fn split<'a>(rest: &mut &'a [u8], at: &mut usize, name: &str, length: usize) -> Fields<'a> {
    let (octets, behind) = rest.split_at(length.min(rest.len()));
    let fields = Fields::new(name, octets, *at, length);
    *at += octets.len();
    *rest = behind;
    fields
}

/// Shows classifier, mask, QoS part and options.
fn show_body(mut rest: &[u8], family: Family, qos: QosFormat, list: &mut Vec<Value>) {
    let mut at = CLASSIFIER;
    let length = family.keys_len();
    let fields = split(&mut rest, &mut at, "CLASSIFIER", length);
    list.push(objects::read("CLASSIFIER", fields, |fields| read_keys(family, fields)));
    let shape = rest.get(..length).and_then(shape);
    let fields = split(&mut rest, &mut at, "MASK", length);
    list.push(objects::read("MASK", fields, |fields| match shape {
        Some(shape) => {
            fields.remaining();
            fields.extend(objects::object("MASK", shape));
        }
        None => read_keys(family, fields),
    }));
    match qos {
        QosFormat::Bitrate => {
            let fields = split(&mut rest, &mut at, "BITRATE", 8);
            list.push(objects::read("BITRATE", fields, read_rates));
        }
        QosFormat::Downgrade => {
            let size = rest.first().copied();
            let fields = split(&mut rest, &mut at, "DOWNGRADE", 4);
            if size.is_none_or(|size| size == 0) || rest.is_empty() {
                list.push(objects::read("DOWNGRADE", fields, |fields| {
                    fields.u8("vec_size");
                    fields.u16("policy");
                    fields.skip(1);
                }));
            }
            for _ in 0..size.unwrap_or(0) {
                let fields = split(&mut rest, &mut at, "DOWNGRADE", 8);
                list.push(objects::read("DOWNGRADE", fields, read_rates));
                if rest.is_empty() {
                    break;
                }
            }
        }
        QosFormat::IntServ | QosFormat::Unknown(_) => {
            let length = rest.len();
            let fields = split(&mut rest, &mut at, "QOS", length);
            list.push(objects::read("QOS", fields, |fields| {
                fields
                    .give_up(format_args!("the format is {}, whose layout is unknown", qos.name()));
            }));
        }
    }
    show_options(rest, at, family, list);
}

fn read_keys(family: Family, fields: &mut Fields<'_>) {
    let is_ipv4 = family == Family::V4;
    fields.address("source", is_ipv4);
    fields.address("destination", is_ipv4);
    fields.u16("source_port");
    fields.u16("destination_port");
    fields.u8("protocol");
    fields.u8("tos");
    fields.skip(2);
}

fn read_rates(fields: &mut Fields<'_>) {
    fields.u32("forward_bps");
    fields.u32("reverse_bps");
}

/// Returns the prefixes and keys of a valid mask.
fn shape(mask: &[u8]) -> Option<Value> {
    let mask = Keys::from_octets(mask)?;
    let (flags, node, transaction_id, rate) = (OptionFlags(0), mask.source, 0, 0);
    // Aggregations have a mask of the same form.
    let shape =
        Aggregation { flags, node, transaction_id, classifier: mask, mask, rate }.shape()?;
    serde_json::to_value(shape).ok()
}

/// Shows the options. Behind an unknown or truncated one nothing can be read.
fn show_options(octets: &[u8], at: usize, family: Family, list: &mut Vec<Value>) {
    let options = Options::Wire { octets, family, at };
    let mut end = 0;
    for option in options.iter() {
        let start = end;
        end += option.buffer_len(family);
        let name = format!("option {}", option.option_type().code());
        let octets = octets.get(start..end).unwrap_or_default();
        let fields = Fields::new(name, octets, at + start, octets.len());
        list.push(match option {
            OptionItem::Token(token) => objects::read("TOKEN", fields, |fields| {
                fields.remaining();
                fields.put("octets", token.len());
            }),
            OptionItem::Unknown { code, rest } => objects::read("UNKNOWN", fields, |fields| {
                fields.warning(format_args!("option {code} is unknown and takes the rest"));
                fields.put("option", code);
                fields.put("octets", rest.len());
                fields.skip(2);
                let rest = fields.remaining();
                fields.put("rest", objects::hex(rest));
            }),
            known => serde_json::to_value(known).unwrap_or_default(),
        });
    }
    let rest = octets.get(end..).unwrap_or_default();
    if rest.is_empty() {
        return;
    }
    let code = rest.first_chunk().map(|code| OptionType::from_code(u16::from_be_bytes(*code)));
    let (class, claimed) = match code {
        Some(OptionType::UserId) => ("USER_ID", 20),
        Some(OptionType::Aggregation) => ("AGGREGATION", Aggregation::buffer_len(family)),
        Some(OptionType::Participation) => ("PARTICIPATION", Participation::buffer_len(family)),
        Some(OptionType::Token) => ("TOKEN", 4),
        Some(OptionType::Unknown(_)) | None => ("UNKNOWN", 4),
    };
    let fields = Fields::new(class, rest, at + end, claimed);
    list.push(objects::read(class, fields, |fields| {
        fields.skip(2);
        let flags = fields.take().map(u16::from_be_bytes);
        read_option(code, flags, family, fields);
    }));
}

fn read_option(
    code: Option<OptionType>,
    flags: Option<u16>,
    family: Family,
    fields: &mut Fields<'_>,
) {
    let is_ipv4 = family == Family::V4;
    match code {
        Some(OptionType::UserId) => {
            let user = fields.slice(8).map(|user| {
                let user = user.split(|octet| *octet == 0).next().unwrap_or_default();
                String::from_utf8_lossy(user).into_owned()
            });
            fields.put_some("user", user);
            fields.hex("credential", 8);
        }
        Some(OptionType::Aggregation) => {
            fields.address("node", is_ipv4);
            fields.u32("transaction_id");
            read_keys(family, fields);
            let mask = fields.group(|fields| read_keys(family, fields));
            fields.put("mask", mask);
            fields.u32("rate_bps");
        }
        Some(OptionType::Participation) => {
            for name in ["initiator", "seen", "last_forward", "first_reverse"] {
                fields.address(name, is_ipv4);
            }
            for name in ["forward_nodes", "forward_gaps", "reverse_nodes", "reverse_gaps", "ttl"] {
                fields.u8(name);
            }
            fields.skip(3);
        }
        Some(OptionType::Token) => {
            let length = usize::from(flags.unwrap_or(0));
            fields.put("octets", length);
            if length == 0 {
                fields.give_up("the token is empty");
            }
            fields.skip(length);
            fields.pad();
        }
        Some(OptionType::Unknown(_)) | None => {}
    }
}

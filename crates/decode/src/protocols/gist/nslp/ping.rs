//! Messages of Ping NSLP: a header, the list of requested objects, and the records of the nodes.

use std::net::Ipv6Addr;

use earmark_wire::ping_nslp::Ping;
use earmark_wire::ping_nslp::iana::ObjectType;
use serde_json::{Map, Value};

use crate::fields::Fields;
use crate::objects::{self, hex};

const TITLE: &str = "Ping NSLP";

/// Returns a message with its records.
pub(super) fn show(data: &[u8]) -> Value {
    let length = match *data {
        [1, _, length, ..] => length.into(),
        [2, _, l0, l1, ..] => u16::from_be_bytes([l0, l1]).into(),
        _ => data.len(),
    };
    // Up to three octets of padding may follow.
    let message = data.get(..length).filter(|message| data.len() - message.len() < 4);
    let fields = Fields::new(TITLE, message.unwrap_or(data), 0, length);
    let mut shown = objects::read(TITLE, fields, read);
    if let (Some(shown), Err(error)) = (shown.as_object_mut(), Ping::parse(data)) {
        let error = objects::error(error.kind.name(), error.offset, &error);
        shown.insert("error".into(), error);
    }
    shown
}

fn read(fields: &mut Fields<'_>) {
    let Some(version) = fields.u8("version") else { return };
    fields.u8("hops");
    let count = match version {
        1 => fields.take().map(|[_, count]: [u8; 2]| count),
        2 => fields.take().map(|[_, _, count, _, _, _]: [u8; 6]| count),
        version => return fields.give_up(format_args!("unknown version {version}")),
    };
    fields.u32("sequence");
    let mut objects = Vec::new();
    for _ in 0..count.unwrap_or(0) {
        let Some([t0, t1, l0, l1]) = fields.take() else { break };
        objects.push((u16::from_be_bytes([t0, t1]), u16::from_be_bytes([l0, l1])));
    }
    let mut records: Vec<Value> = Vec::new();
    let has_values = objects.iter().any(|(_, length)| *length > 0);
    while has_values && fields.left() > 0 {
        records.push(record(&objects, fields).into());
    }
    fields.put("records", records);
}

/// Reads the record of a node: each requested object with its length. An unknown one, or one of another length than its type
/// has, is shown as octets.
fn record(objects: &[(u16, u16)], fields: &mut Fields<'_>) -> Map<String, Value> {
    let mut shown = Map::new();
    for name in ["address", "time", "available_bps"] {
        shown.insert(name.into(), Value::Null);
    }
    // At most one of each known type.
    let mut seen = Vec::new();
    for &(code, length) in objects {
        let Some(octets) = fields.slice(length.into()) else { break };
        let object_type = ObjectType::from_code(code);
        // The first object of a type counts.
        let is_known = object_type.fixed_len() == Some(length) && !seen.contains(&object_type);
        let number = |at: usize| {
            let number = octets.get(at..).and_then(|octets| octets.first_chunk());
            number.map_or(0, |number| u32::from_be_bytes(*number))
        };
        let (name, value) = match object_type {
            ObjectType::Address if is_known => {
                let address = octets.first_chunk::<16>().map(|it| Ipv6Addr::from(*it));
                ("address", address.map(|it| it.to_canonical().to_string()).into())
            }
            ObjectType::Timestamp if is_known => {
                ("time", format!("{}.{:06}", number(0), number(4)).into())
            }
            ObjectType::Bandwidth if is_known => {
                let value = u64::from(number(0)) << 32 | u64::from(number(4));
                // The first bit tells that the node knows the value.
                let is_set = value >> 63 != 0;
                ("available_bps", is_set.then_some(value & (u64::MAX >> 1)).into())
            }
            _ => {
                shown.insert(format!("object {code}"), hex(octets).into());
                continue;
            }
        };
        seen.push(object_type);
        shown.insert(name.into(), value);
    }
    shown
}

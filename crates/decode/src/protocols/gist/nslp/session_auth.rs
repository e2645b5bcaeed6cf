//! The layout of SESSION_AUTH, which QoS NSLP and NATFW NSLP share (RFC 5981 section 3.1).

use earmark_wire::nsis::iana::XType;
use serde_json::{Value, json};

use crate::fields::Fields;

/// Reads the attributes. The length of one counts its header, and not its padding.
pub(super) fn read(fields: &mut Fields<'_>) {
    let mut attributes: Vec<Value> = Vec::new();
    while fields.left() > 0 {
        let Some([l0, l1, x_type, sub_type]) = fields.take() else { break };
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let Some(length) = length.checked_sub(4) else {
            fields.give_up(format_args!("length {length} of an attribute is below 4"));
            break;
        };
        let x_type = XType::from_code(x_type).name();
        let value = fields.slice(length);
        fields.pad();
        attributes.push(json!({
            "type": x_type, "sub_type": sub_type, "octets": value.map_or(length, <[u8]>::len),
        }));
    }
    fields.put("attributes", attributes);
}

//! Objects of messages as JSON.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::fields::Fields;

/// An object of a message: its class, then its fields.
pub(super) fn object(class: &str, fields: impl Serialize) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("class".into(), class.into());
    if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
        object.extend(fields);
    }
    object
}

/// An object as its octets allow: the fields that `read` finds, with the remarks on it.
pub(super) fn read<'a>(
    class: &str,
    mut fields: Fields<'a>,
    read: impl FnOnce(&mut Fields<'a>),
) -> Value {
    read(&mut fields);
    let (shown, remarks) = fields.finish();
    let mut object = object(class, shown);
    remarks.show(&mut object);
    object.into()
}

/// An error and its offset, octets.
pub(super) fn error(kind: &str, offset: usize, text: &impl Display) -> Value {
    json!({ "kind": kind, "offset": offset, "text": text.to_string() })
}

/// Octets as hexadecimal digits.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Whether an object has a remark that it, or the message in it, is malformed.
pub(super) fn is_malformed(object: &Value) -> bool {
    // The name of an error is a value of an object.
    object.get("malformed").is_some() || object.get("error").is_some_and(Value::is_object)
}

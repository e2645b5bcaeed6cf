//! Messages as JSON objects, from the serialization of the wire types.

use std::fmt::Display;

use serde::Serialize;
use serde_json::{Map, Value, json};

/// Adds a message to `shown`: flags and numbers as fields, objects to the list `objects`.
pub(super) fn add(
    message: &impl Serialize,
    shown: &mut Map<String, Value>,
    objects: &mut Vec<Value>,
) {
    let Ok(Value::Object(entries)) = serde_json::to_value(message) else { return };
    for (name, value) in entries {
        match value {
            // An absent object.
            Value::Null => {}
            Value::Object(_) => objects.push(object(&name, value)),
            Value::Array(list) if list.first().is_some_and(Value::is_object) => {
                objects.extend(list.into_iter().map(|value| object(&name, value)));
            }
            value => drop(shown.insert(name, value)),
        }
    }
}

/// An object of a message: its class, then its fields.
pub(super) fn object(class: &str, fields: impl Serialize) -> Value {
    let mut object = Map::new();
    object.insert("class".into(), class.into());
    if let Ok(Value::Object(fields)) = serde_json::to_value(fields) {
        object.extend(fields);
    }
    object.into()
}

/// An error and its offset, octets.
pub(super) fn error(kind: &str, offset: usize, text: &impl Display) -> Value {
    json!({ "kind": kind, "offset": offset, "text": text.to_string() })
}

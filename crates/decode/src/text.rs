//! Messages as text: a line for each message, and an indented line for each of its objects.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// Fields of a message that are printed in its first line, or in lines of their own.
const NOT_SHOWN: [&str; 12] = [
    "frame",
    "protocol",
    "source",
    "destination",
    "message_type",
    "message",
    "send_ttl",
    "objects",
    "messages",
    "error",
    "identifier",
    "sequence",
];

/// Prints a line for the message, and an indented one for each object and for each message of a Bundle.
/// `protocol` is its name.
pub(super) fn write(
    protocol: &str,
    shown: &Map<String, Value>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let text = |key: &str| shown.get(key).and_then(Value::as_str).unwrap_or("?");
    let frame = shown.get("frame").and_then(Value::as_u64).unwrap_or(0);
    let (message, source, destination) = (text("message"), text("source"), text("destination"));
    write!(out, "frame {frame}: {protocol} {message} {source} -> {destination}")?;
    write_fields(shown, &NOT_SHOWN, out)?;
    write_objects(shown, 4, out)?;
    for inner in shown.get("messages").and_then(Value::as_array).into_iter().flatten() {
        write!(out, "    {}", inner["message"].as_str().unwrap_or("?"))?;
        inner.as_object().map_or(Ok(()), |inner| write_objects(inner, 8, out))?;
    }
    Ok(())
}

/// Completes the line of a message, and prints a line for each object.
fn write_objects(shown: &Map<String, Value>, indent: usize, out: &mut dyn Write) -> io::Result<()> {
    if let Some(reason) = shown.get("error").and_then(|error| error["text"].as_str()) {
        write!(out, ": malformed: {reason}")?;
    }
    writeln!(out)?;
    for object in shown.get("objects").and_then(Value::as_array).into_iter().flatten() {
        match object["class"].as_str() {
            Some(class) => write!(out, "{:indent$}{class}", "")?,
            None => write!(out, "{:indent$}class {}", "", object["class_num"])?,
        }
        if let Some(object) = object.as_object() {
            write_fields(object, &["class", "class_num", "c_type", "length", "offset"], out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn write_fields(shown: &Map<String, Value>, but: &[&str], out: &mut dyn Write) -> io::Result<()> {
    for (field, value) in shown.iter().filter(|(field, _)| !but.contains(&field.as_str())) {
        match value {
            Value::String(value) => write!(out, "  {field} {value}")?,
            value => write!(out, "  {field} {value}")?,
        }
    }
    Ok(())
}

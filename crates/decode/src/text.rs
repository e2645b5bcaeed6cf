//! Messages as text: a line for each message, and an indented line for each of its objects.

use std::io::{self, Write};

use serde_json::{Map, Value};

/// Fields of a message that are printed in its first line, or in lines of their own.
const NOT_SHOWN: [&str; 13] = [
    "frame",
    "protocol",
    "source",
    "destination",
    "message_type",
    "message",
    "request",
    "send_ttl",
    "objects",
    "messages",
    "error",
    "identifier",
    "sequence",
];

/// Fields of an object that are not printed in its line, or only if they are no remarks.
const NOT_IN_OBJECTS: [&str; 8] =
    ["class", "class_num", "c_type", "length", "offset", "error", "malformed", "warnings"];

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
    write!(out, "frame {frame}: {protocol} {message}")?;
    if let Some(request) = shown.get("request").and_then(Value::as_str) {
        write!(out, " ({request})")?;
    }
    write!(out, " {source} -> {destination}")?;
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
            write_fields(object, &NOT_IN_OBJECTS, out)?;
            // An error that is only a name or a number is a field.
            if let Some(error) = object.get("error").filter(|error| !error.is_object()) {
                write_field("error", error, out)?;
            }
        }
        writeln!(out)?;
        let remark = |title: &str, remark: &Value, out: &mut dyn Write| {
            let text = remark["text"].as_str().unwrap_or("?");
            writeln!(out, "{:indent$}    {title}: {text}", "")
        };
        if object["error"].is_object() {
            remark("malformed", &object["error"], out)?;
        }
        for (title, key) in [("malformed", "malformed"), ("warning", "warnings")] {
            for text in object[key].as_array().into_iter().flatten() {
                remark(title, text, out)?;
            }
        }
    }
    Ok(())
}

fn write_fields(shown: &Map<String, Value>, but: &[&str], out: &mut dyn Write) -> io::Result<()> {
    for (field, value) in shown.iter().filter(|(field, _)| !but.contains(&field.as_str())) {
        write_field(field, value, out)?;
    }
    Ok(())
}

fn write_field(field: &str, value: &Value, out: &mut dyn Write) -> io::Result<()> {
    match value {
        Value::String(value) => write!(out, "  {field} {value}"),
        value => write!(out, "  {field} {value}"),
    }
}

//! Forms of a line: text for people, JSON for programs, and the journal's own protocol.
//!
//! A message or value may come from other hosts and users. In text, what could begin another line or field is escaped; JSON
//! escapes by itself; the journal gets values with their lengths.

use std::fmt::Write as _;

use earmark_control::LogLevel;
use serde_json::{Map, Value, json};

use super::record::Record;

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    /// A line of text, with the time.
    #[default]
    Text,
    /// A line of text without the time, for a reader that adds its own.
    TextWithoutTime,
    /// A JSON object a line.
    Json,
    /// The journal's native protocol.
    Journal,
}

impl Format {
    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Format::Text | Format::TextWithoutTime => "text",
            Format::Json => "json",
            Format::Journal => "journal",
        }
    }

    /// Appends a record in this form.
    pub(super) fn write(self, record: &Record, to: &mut Vec<u8>) {
        match self {
            Format::Text => {
                let time = format!("{:.6} ", record.time);
                to.extend_from_slice(time.as_bytes());
                text(record, to);
            }
            Format::TextWithoutTime => text(record, to),
            Format::Json => json(record, to),
            Format::Journal => journal(record, to),
        }
    }
}

fn text(record: &Record, to: &mut Vec<u8>) {
    let mut line = format!("{:>5} ", record.level.name().to_uppercase());
    let _ = write!(line, "{}: ", record.target);
    escape(&record.message, &mut line);
    for (name, value) in &record.fields {
        let _ = write!(line, " {name}=");
        match value {
            Value::String(value) if needs_quotes(value) => {
                line.push('"');
                escape_quoted(value, &mut line);
                line.push('"');
            }
            Value::String(value) => line.push_str(value),
            other => _ = write!(line, "{other}"),
        }
    }
    line.push('\n');
    to.extend_from_slice(line.as_bytes());
}

fn needs_quotes(value: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.:/+%@,#[]()".contains(c);
    value.is_empty() || !value.chars().all(is_plain)
}

/// Appends a message, whose quotes stay.
fn escape(message: &str, to: &mut String) {
    for c in message.chars() {
        match c {
            '"' | '\'' => to.push(c),
            _ => to.extend(c.escape_debug()),
        }
    }
}

fn escape_quoted(value: &str, to: &mut String) {
    for c in value.chars() {
        match c {
            '\'' => to.push(c),
            _ => to.extend(c.escape_debug()),
        }
    }
}

fn json(record: &Record, to: &mut Vec<u8>) {
    let fields: Map<String, Value> =
        record.fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let line = json!({
        "time": format!("{:.6}", record.time),
        "level": record.level.name(),
        "target": record.target,
        "kind": record.kind.map(|kind| kind.name),
        "message": record.message,
        "fields": fields,
    });
    to.extend_from_slice(line.to_string().as_bytes());
    to.push(b'\n');
}

/// Name of the program in the journal.
const IDENTIFIER: &str = "earmarkd";

/// Priorities of syslog (RFC 5424 section 6.2.1).
fn priority(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Off | LogLevel::Error => "3",
        LogLevel::Warn => "4",
        LogLevel::Info => "6",
        LogLevel::Debug | LogLevel::Trace => "7",
    }
}

fn journal(record: &Record, to: &mut Vec<u8>) {
    let mut field = |name: &str, value: &str| {
        to.extend(name.bytes().map(|octet| match octet.to_ascii_uppercase() {
            octet if octet.is_ascii_alphanumeric() => octet,
            _ => b'_',
        }));
        to.push(b'\n');
        to.extend_from_slice(&(value.len() as u64).to_le_bytes());
        to.extend_from_slice(value.as_bytes());
        to.push(b'\n');
    };
    field("MESSAGE", &record.message);
    field("PRIORITY", priority(record.level));
    field("SYSLOG_IDENTIFIER", IDENTIFIER);
    field("TARGET", record.target);
    if let Some(kind) = record.kind {
        field("MESSAGE_ID", &format!("{:032x}", kind.id));
        field("KIND", kind.name);
    }
    for (name, value) in &record.fields {
        match value {
            Value::String(text) => field(name, text),
            other => field(name, &other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kind;
    use super::*;

    fn record(message: &str) -> Record {
        let mut record = Record::of_kind(&kind::NEIGHBOR_LOST, "alpha", message.to_owned());
        record.time = "2026-11-28T07:09:31.5Z".parse().expect("a time");
        record
    }

    fn written(format: Format, record: &Record) -> Vec<u8> {
        let mut to = Vec::new();
        format.write(record, &mut to);
        to
    }

    fn line(format: Format, record: &Record) -> String {
        String::from_utf8(written(format, record)).expect("text")
    }

    /// Reads the fields of the journal's protocol, all of which are written with their lengths.
    fn read_fields(mut octets: &[u8]) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        while let Some(end) = octets.iter().position(|octet| *octet == b'\n') {
            let name = String::from_utf8(octets[..end].to_vec()).expect("text");
            let (length, rest) = octets[end + 1..].split_at(8);
            let length = u64::from_le_bytes(length.try_into().expect("eight")) as usize;
            let value = String::from_utf8(rest[..length].to_vec()).expect("text");
            assert_eq!(rest[length], b'\n');
            fields.push((name, value));
            octets = &rest[length + 1..];
        }
        fields
    }

    #[test]
    fn text_has_time_level_target_message_and_fields() {
        let mut record = record("neighbor is silent");
        record.add("peer", "10.0.0.2");
        record.add("flow", "10.0.0.1 to 10.0.2.2:5001");
        record.add("count", 3_u64);
        let expected = " WARN alpha: neighbor is silent peer=10.0.0.2 \
            flow=\"10.0.0.1 to 10.0.2.2:5001\" count=3\n";
        assert_eq!(line(Format::TextWithoutTime, &record), expected);
        let with_time = format!("2026-11-28T07:09:31.500000Z {expected}");
        assert_eq!(line(Format::Text, &record), with_time);
    }

    #[test]
    fn json_has_stable_members() {
        let mut record = record("neighbor is silent");
        record.add("peer", "10.0.0.2");
        record.add("count", 3_u64);
        let read: Value = serde_json::from_slice(&written(Format::Json, &record)).expect("JSON");
        let expected = json!({
            "time": "2026-11-28T07:09:31.500000Z", "level": "warn", "target": "alpha",
            "kind": "neighbor_lost", "message": "neighbor is silent",
            "fields": {"peer": "10.0.0.2", "count": 3},
        });
        assert_eq!(read, expected);
    }

    #[test]
    fn journal_gets_priority_identifier_and_fields() {
        let mut record = record("neighbor is silent");
        record.add("peer", "10.0.0.2");
        record.add("found.removed", 3_u64);
        let fields = read_fields(&written(Format::Journal, &record));
        let id = format!("{:032x}", kind::NEIGHBOR_LOST.id);
        let expected = [
            ("MESSAGE", "neighbor is silent"),
            ("PRIORITY", "4"),
            ("SYSLOG_IDENTIFIER", "earmarkd"),
            ("TARGET", "alpha"),
            ("MESSAGE_ID", &id),
            ("KIND", "neighbor_lost"),
            ("PEER", "10.0.0.2"),
            ("FOUND_REMOVED", "3"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(fields, expected);
    }

    /// Values of other hosts and users begin no line and no field, and send no sequences to terminals.
    #[test]
    fn foreign_text_forges_neither_line_nor_field() {
        let foreign =
            "alice\" outcome=ok\nERROR daemon: \x1b[31mforged\u{9b}2J\u{202e} PRIORITY=0\r";
        let mut record = record(foreign);
        record.add("flow", foreign);
        for format in [Format::Text, Format::TextWithoutTime, Format::Json] {
            let line = line(format, &record);
            assert_eq!(line.matches('\n').count(), 1, "{line:?}");
            assert!(!line.contains(['\x1b', '\r']), "{line:?}");
        }
        let line = line(Format::TextWithoutTime, &record);
        assert!(!line.contains(['\u{9b}', '\u{202e}']), "{line:?}");
        let (_, value) = line.rsplit_once(" flow=\"").expect("a field");
        assert!(value.starts_with("alice\\\" outcome=ok\\nERROR"), "{value}");
        let read: Value = serde_json::from_slice(&written(Format::Json, &record)).expect("JSON");
        assert_eq!(read["fields"]["flow"], foreign);

        let fields = read_fields(&written(Format::Journal, &record));
        assert_eq!(fields.iter().filter(|(name, _)| name == "PRIORITY").count(), 1);
        assert_eq!(fields.last(), Some(&("FLOW".to_owned(), foreign.to_owned())));
    }
}

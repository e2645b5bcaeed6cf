//! One line of the log before it has a form: level, target, kind, message and fields.

use std::fmt;

use earmark_control::LogLevel;
use jiff::Timestamp;
use serde_json::Value;
use tracing::field::{Field, Visit};

use super::kind::{self, Kind};

/// Longest message or value of a field, octets. What is longer is cut.
const LONGEST_VALUE: usize = 64 * 1024;

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(super) time: Timestamp,
    pub(super) level: LogLevel,
    /// Name of the target.
    pub(super) target: &'static str,
    pub(super) kind: Option<&'static Kind>,
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, Value)>,
}

impl Record {
    /// Creates a line of a kind, with the present time.
    pub(super) fn of_kind(kind: &'static Kind, target: &'static str, message: String) -> Record {
        let mut record = Record::new(level_of(kind.level), target);
        record.kind = Some(kind);
        record.message = cut(message);
        record
    }

    pub(super) fn new(level: LogLevel, target: &'static str) -> Record {
        let time = Timestamp::now();
        Record { time, level, target, kind: None, message: String::new(), fields: Vec::new() }
    }

    /// Adds a field, unless it is empty.
    pub(super) fn add(&mut self, name: &'static str, value: impl Into<Value>) {
        match value.into() {
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => self.fields.push((name, cut(text).into())),
            other => self.fields.push((name, other)),
        }
    }

    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = cut(text),
            "kind" => self.kind = kind::find(&text),
            name => self.add(name, text),
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field.name(), value);
    }
}

/// Converts a level of tracing.
pub(super) fn level_of(level: tracing::Level) -> LogLevel {
    match level {
        tracing::Level::ERROR => LogLevel::Error,
        tracing::Level::WARN => LogLevel::Warn,
        tracing::Level::INFO => LogLevel::Info,
        tracing::Level::DEBUG => LogLevel::Debug,
        tracing::Level::TRACE => LogLevel::Trace,
    }
}

fn cut(mut text: String) -> String {
    if text.len() > LONGEST_VALUE {
        text.truncate(text.floor_char_boundary(LONGEST_VALUE));
        text.push('…');
    }
    text
}

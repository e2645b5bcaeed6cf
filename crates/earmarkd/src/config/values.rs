//! Values of a configuration by key, as its files have them.

use std::collections::BTreeMap;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::files::Files;
use super::source::Source;
use super::table::{SECRET, Table};
use super::{ConfigError, Place};

/// Values by key with its table: `daemon.reconcile`, `interface eth0: bandwidth`, `policy.rule 1: priority`.
pub(crate) type Values = BTreeMap<String, Value>;

/// A value.
#[derive(Clone)]
pub(crate) struct Value {
    /// The value as TOML.
    text: String,
    is_secret: bool,
    /// The place of the value.
    pub(crate) place: Place,
}

/// Most characters of a value that are shown.
const LONGEST: usize = 60;

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.shown(), self.place)
    }
}

impl Value {
    /// Returns whether both are the same, wherever they are.
    pub(crate) fn is_same(&self, other: &Value) -> bool {
        self.text == other.text
    }

    /// Returns the value as it may be shown: not a secret, and only the begin of a long one.
    pub(crate) fn shown(&self) -> String {
        if self.is_secret {
            return "(secret)".to_owned();
        }
        match self.text.char_indices().nth(LONGEST) {
            Some((end, _)) => format!("{}...", &self.text[..end]),
            None => self.text.clone(),
        }
    }
}

impl Files {
    /// Returns the values of the files.
    ///
    /// # Errors
    /// A file is not TOML.
    pub(crate) fn values(&self) -> Result<Values, ConfigError> {
        let (text, parts) = self.joined();
        let source = Source::of_files(&text, &parts);
        let (table, _) = Table::of_files(&source)?;
        let mut walk = Walk { source: &source, values: Values::new() };
        walk.table("", table.items(), false);
        Ok(walk.values)
    }
}

struct Walk<'s> {
    source: &'s Source<'s>,
    values: Values,
}

impl Walk<'_> {
    /// Adds the values of a table; `before` is its name with a separator. The parser has limited the nesting depth.
    fn table(&mut self, before: &str, items: &DeTable<'_>, is_secret: bool) {
        for (key, value) in items {
            let name: &str = key.get_ref();
            self.value(&format!("{before}{name}"), value, is_secret || name.starts_with(SECRET));
        }
    }

    fn value(&mut self, key: &str, value: &Spanned<DeValue<'_>>, is_secret: bool) {
        match value.get_ref() {
            DeValue::Table(items) => self.table(&format!("{key}."), items, is_secret),
            DeValue::Array(values)
                if !values.is_empty() && values.iter().all(|value| value.get_ref().is_table()) =>
            {
                for (number, value) in values.iter().enumerate() {
                    let Some(items) = value.get_ref().as_table() else { continue };
                    // Only names of interfaces are unique.
                    let name = items.get("name").filter(|_| key == "interface");
                    let name = name.and_then(|name| name.get_ref().as_str());
                    let name = name.map_or_else(|| (number + 1).to_string(), str::to_owned);
                    self.table(&format!("{key} {name}: "), items, is_secret);
                }
            }
            other => {
                let place = self.source.place(value.span());
                let value = Value { text: text_of(other), is_secret, place };
                self.values.insert(key.to_owned(), value);
            }
        }
    }
}

/// Formats a value as TOML; tables are in lists only.
fn text_of(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.to_string(),
        DeValue::Boolean(is_true) => is_true.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(values) => {
            let texts: Vec<String> = values.iter().map(|value| text_of(value.get_ref())).collect();
            format!("[{}]", texts.join(", "))
        }
        DeValue::Table(_) => "{...}".to_owned(),
    }
}

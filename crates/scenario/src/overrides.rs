//! Overrides: values for keys of a scenario, set before it is parsed, so that a sweep needs one file.
//!
//! A key is written with dots: `refresh`, `retry.threshold`. In a list its next part is the name of elements, or the
//! index of one, from 0: `flows.test.rate`, `flows.best effort.count`, `flows.0.count`. All elements with the name
//! are set. Missing tables are created, lists do not grow. A value must be valid in the file: errors name the
//! misspelt key.

use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use crate::error::{MAX_KEY_PARTS, OverrideError, ScenarioError, of_toml};
use crate::scenario::Scenario;

/// A value for a key of a scenario; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The key, with dots.
    pub key: String,
    /// The value.
    pub value: Value,
}

/// Error: the text is not an override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` sets nothing; write KEY=VALUE, as in retry.threshold=3")]
pub struct NoOverride(String);

impl FromStr for Override {
    type Err = NoOverride;

    /// Parses `KEY=VALUE`. A value that is not valid TOML is taken as text: the quotes of `refresh=30s` are optional.
    fn from_str(text: &str) -> Result<Override, NoOverride> {
        let (key, value) = text.split_once('=').ok_or_else(|| NoOverride(text.to_owned()))?;
        let (key, value) = (key.trim(), value.trim());
        if key.is_empty() || value.is_empty() {
            return Err(NoOverride(text.to_owned()));
        }
        let read = value.parse().unwrap_or_else(|_| Value::String(value.to_owned()));
        Ok(Override { key: key.to_owned(), value: read })
    }
}

impl Scenario {
    /// Parses a scenario with overrides, applied one after the other.
    ///
    /// # Errors
    /// The text is not a scenario, by itself or with an override.
    pub fn parse_with(text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
        let mut scenario = Scenario::parse(text)?;
        let mut table: Table = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
        for Override { key, value } in overrides {
            let why = |why| ScenarioError::Override { key: key.clone(), why };
            if key.split('.').count() > MAX_KEY_PARTS {
                return Err(why(OverrideError::TooDeep));
            }
            set_in_table(&mut table, "", key, value).map_err(why)?;
            let read = Scenario::deserialize(table.clone());
            scenario =
                read.map_err(|error| why(OverrideError::Unfit(error.message().to_owned())))?;
        }
        Ok(scenario)
    }
}

/// Sets `key` in the table at `at`.
fn set_in_table(
    table: &mut Table,
    at: &str,
    key: &str,
    value: &Value,
) -> Result<(), OverrideError> {
    let Some((first, rest)) = key.split_once('.') else {
        table.insert(key.to_owned(), value.clone());
        return Ok(());
    };
    let below = table.entry(first).or_insert_with(|| Value::Table(Table::new()));
    set_below(below, &format!("{at}{first}"), rest, value)
}

/// Sets `key` in the value at `at`.
fn set_below(target: &mut Value, at: &str, key: &str, value: &Value) -> Result<(), OverrideError> {
    match target {
        Value::Table(table) => set_in_table(table, &format!("{at}."), key, value),
        Value::Array(list) => {
            let (element, rest) = split(list, key);
            let mut meant = 0;
            for (number, target) in list.iter_mut().enumerate() {
                if name(target) != Some(element) && element.parse() != Ok(number) {
                    continue;
                }
                meant += 1;
                match rest {
                    None => *target = value.clone(),
                    Some(rest) => set_below(target, &format!("{at}.{element}"), rest, value)?,
                }
            }
            match meant {
                0 => Err(OverrideError::NoSuchElement {
                    list: at.to_owned(),
                    element: element.to_owned(),
                    known: known(list),
                }),
                _ => Ok(()),
            }
        }
        _ => Err(OverrideError::NoTable(at.to_owned())),
    }
}

/// Returns the list element that a key begins with, and the rest of the key. A name may contain dots; of two matches,
/// the longer one is taken.
fn split<'k>(list: &[Value], key: &'k str) -> (&'k str, Option<&'k str>) {
    let fits = |name: &&str| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let longest = list.iter().filter_map(name).filter(fits).map(str::len).max();
    let first = longest.unwrap_or_else(|| key.find('.').unwrap_or(key.len()));
    let (element, rest) = key.split_at(first);
    (element, rest.strip_prefix('.'))
}

/// Returns the name of a list element.
fn name(element: &Value) -> Option<&str> {
    element.as_table()?.get("name")?.as_str()
}

fn known(list: &[Value]) -> String {
    let name = |(number, element): (usize, &Value)| match name(element) {
        Some(name) => format!("`{name}`"),
        None => format!("`{number}`"),
    };
    let names: Vec<String> = list.iter().enumerate().map(name).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;

//! Overrides: values for keys of a scenario, set before it is parsed, so that a sweep needs one file.
//!
//! A key is written with dots: `refresh`, `retry.threshold`. In a list its next part is the name of elements, or the
//! index of one, from 0: `flows.test.rate`, `flows.best effort.count`, `flows.0.count`. All elements with the name
//! are set. Missing tables are created, lists do not grow. A value must be valid in the file: errors name the
//! misspelt key.

use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use crate::scenario::{Scenario, ScenarioError, of_toml};

/// Maximum number of parts of a key. No key of a scenario has as many, dots in names included; generated keys may.
const MAX_KEY_PARTS: usize = 64;

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

/// Reason why a key could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No element of the list matches.
    #[error("{list} has no element `{element}`; there are {known}")]
    NoSuchElement {
        /// Key of the list.
        list: String,
        /// Requested element.
        element: String,
        /// Existing elements.
        known: String,
    },
    /// The key has too many parts.
    #[error("no key has more than {MAX_KEY_PARTS} parts")]
    TooDeep,
    /// The parent of the key is not a table.
    #[error("there is nothing below {0}, which is neither a table nor a list")]
    NoTable(String),
    /// The scenario is not valid any more, in the words of the TOML parser.
    #[error("{0}")]
    Unfit(String),
}

/// Parses a scenario with these overrides, set in turn; it must be valid before and after each.
pub(crate) fn parse(text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
    let mut scenario = Scenario::parse(text)?;
    let mut table: Table = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
    for Override { key, value } in overrides {
        let why = |why| ScenarioError::Override { key: key.clone(), why };
        if key.split('.').count() > MAX_KEY_PARTS {
            return Err(why(OverrideError::TooDeep));
        }
        set_in_table(&mut table, "", key, value).map_err(why)?;
        let read = Scenario::deserialize(table.clone());
        scenario = read.map_err(|error| why(OverrideError::Unfit(error.message().to_owned())))?;
    }
    Ok(scenario)
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
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::scenario::Threshold;

    const TEXT: &str = r#"
        name = "two"
        topology = "two.toml"
        protocol = "yessir"
        duration = "60s"

        [[flows]]
        name = "best effort"
        between = [["a", "b"]]
        rate = "100kbit"

        [[flows]]
        name = "test"
        between = [["a", "b"]]
        rate = "100kbit"
        "#;

    fn with(overrides: &[&str]) -> Result<Scenario, ScenarioError> {
        let read = |text: &&str| text.parse().expect("an override");
        let overrides: Vec<Override> = overrides.iter().map(read).collect();
        Scenario::parse_with(TEXT, &overrides)
    }

    #[test]
    fn values_are_set_at_any_depth() {
        let scenario = with(&[
            "refresh=5s",
            "protocol = rsvp",
            "retry.threshold=3",
            "retry.counting=\"tries\"",
            "flows.best effort.count=7",
            "flows.1.bursts.on=1s", // bursts need both times
        ]);
        assert!(scenario.is_err(), "{scenario:?}");
        let scenario = with(&[
            "refresh=5s",
            "protocol = rsvp",
            "retry.threshold=3",
            "flows.best effort.count=7",
            "flows.best effort.count=8",
            "flows.1.bursts={on = \"1s\", off = \"2s\"}",
            "flows.test.bursts.off=3s",
        ])
        .unwrap();
        assert_eq!(scenario.refresh, Duration::from_secs(5));
        assert_eq!(scenario.protocol, "rsvp");
        assert_eq!(scenario.retry.threshold, Threshold::Times(3));
        assert_eq!(scenario.flows[0].count, 8, "the last one holds");
        assert_eq!(scenario.flows[1].bursts.unwrap().off, Duration::from_secs(3));
        assert_eq!(with(&[]).unwrap(), Scenario::parse(TEXT).unwrap());
    }

    #[test]
    fn invalid_override_is_named() {
        for (overrides, error) in [
            (&["refrehs=5s"][..], "`refrehs`: unknown field `refrehs`, expected one of"),
            (&["refresh=5s", "retry.treshold=1"], "`retry.treshold`: unknown field `treshold`"),
            (&["refresh=5"], "`refresh`: invalid type: integer `5`, expected a string"),
            (
                &["flows.tset.count=1"],
                "`flows.tset.count`: flows has no element `tset`; there are `best effort`, `test`",
            ),
            (&["flows.2.count=1"], "flows has no element `2`"),
            (&["name.first=1"], "`name.first`: there is nothing below name, which is neither"),
            (&["flows.test.between.0.1.x=1"], "nothing below flows.test.between.0.1"),
        ] {
            let message = with(overrides).unwrap_err().to_string();
            assert!(message.contains(error), "{message}");
        }
        for text in ["refresh", "=5s", "refresh="] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
    }

    /// A name with a dot, and one that is its prefix.
    #[test]
    fn longer_matching_name_is_taken() {
        let text = TEXT.replace("best effort", "test.v2");
        let rate = "flows.test.v2.count=4".parse().unwrap();
        let scenario = Scenario::parse_with(&text, &[rate]).unwrap();
        assert_eq!([scenario.flows[0].count, scenario.flows[1].count], [4, 1]);
    }
}

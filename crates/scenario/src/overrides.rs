//! Overrides: other values for keys of a scenario, set before it is read, so that a sweep needs one file.
//!
//! A key is written with dots: `refresh`, `retry.threshold`. In a list the next part of it is the name of elements, or the number
//! of one, from 0: `flows.test.rate`, `flows.best effort.count`, `flows.0.count`. Elements that share a name are all
//! meant. Tables that are not there yet come into being, lists do not grow. What is set has to be what the file could say
//! itself: whoever misspells a key is told, and which one it was.

use std::str::FromStr;

use serde::Deserialize;
use toml::{Table, Value};

use crate::scenario::{Scenario, ScenarioError, of_toml};

/// Parts of a key at most. No key of a scenario has as many, dots in names included; whoever makes keys by a program may.
const DEEPEST: usize = 64;

/// Another value for a key of a scenario. See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    /// The key, with dots.
    pub key: String,
    /// What it is to be.
    pub value: Value,
}

/// A text that says no override.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` sets nothing; write KEY=VALUE, as in retry.threshold=3")]
pub struct NoOverride(String);

impl FromStr for Override {
    type Err = NoOverride;

    /// Reads `KEY=VALUE`. A value that TOML could not read is a text: the quotes of `refresh=30s` need not be written.
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

/// Why something cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No element of a list is meant.
    #[error("{list} has no element `{element}`; there are {known}")]
    NoSuchElement {
        /// Key of the list.
        list: String,
        /// What was asked for.
        element: String,
        /// What could have been.
        known: String,
    },
    /// Nothing is as deep.
    #[error("no key has more than {DEEPEST} parts")]
    TooDeep,
    /// There is nothing below a number or a text.
    #[error("there is nothing below {0}, which is neither a table nor a list")]
    NoTable(String),
    /// It is no scenario any more, in the words of the TOML reader.
    #[error("{0}")]
    Unfit(String),
}

/// A scenario of this text with these values in it, set in turn; it has to be a scenario before and after each.
pub(crate) fn parse(text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
    let mut scenario = Scenario::parse(text)?;
    let mut table: Table = toml::from_str(text).map_err(|error| of_toml(text, &error))?;
    for Override { key, value } in overrides {
        let why = |why| ScenarioError::Override { key: key.clone(), why };
        if key.split('.').count() > DEEPEST {
            return Err(why(OverrideError::TooDeep));
        }
        set_in_table(&mut table, "", key, value).map_err(why)?;
        let read = Scenario::deserialize(table.clone());
        scenario = read.map_err(|error| why(OverrideError::Unfit(error.message().to_owned())))?;
    }
    Ok(scenario)
}

/// Sets `key` in a table that stands at `at`.
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

/// Sets `key` in what stands at `at`.
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

/// The element of a list that a key begins with, and the rest of the key. A name may have dots in it; of two that fit, the longer
/// one is meant.
fn split<'k>(list: &[Value], key: &'k str) -> (&'k str, Option<&'k str>) {
    let fits = |name: &&str| {
        key.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let longest = list.iter().filter_map(name).filter(fits).map(str::len).max();
    let first = longest.unwrap_or_else(|| key.find('.').unwrap_or(key.len()));
    let (element, rest) = key.split_at(first);
    (element, rest.strip_prefix('.'))
}

/// The name of an element of a list.
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
    use crate::scenario::{Protocol, Threshold};

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
    fn values_are_set_wherever_they_stand() {
        let scenario = with(&[
            "refresh=5s",
            "protocol = rsvp",
            "retry.threshold=3",
            "retry.counting=\"tries\"",
            "flows.best effort.count=7",
            "flows.1.bursts.on=1s", // half of what bursts need would be none
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
        assert_eq!(scenario.protocol, Protocol::Rsvp);
        assert_eq!(scenario.retry.threshold, Threshold::Times(3));
        assert_eq!(scenario.flows[0].count, 8, "the last one holds");
        assert_eq!(scenario.flows[1].bursts.unwrap().off, Duration::from_secs(3));
        assert_eq!(with(&[]).unwrap(), Scenario::parse(TEXT).unwrap());
    }

    #[test]
    fn what_cannot_be_set_is_named() {
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
            let told = with(overrides).unwrap_err().to_string();
            assert!(told.contains(error), "{told}");
        }
        for text in ["refresh", "=5s", "refresh="] {
            assert!(text.parse::<Override>().is_err(), "{text}");
        }
    }

    /// A name with a dot in it, and one that is the beginning of another.
    #[test]
    fn the_longer_name_is_meant() {
        let text = TEXT.replace("best effort", "test.v2");
        let rate = "flows.test.v2.count=4".parse().unwrap();
        let scenario = Scenario::parse_with(&text, &[rate]).unwrap();
        assert_eq!([scenario.flows[0].count, scenario.flows[1].count], [4, 1]);
    }
}

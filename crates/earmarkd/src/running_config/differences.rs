//! Settings in which two configurations differ, and when each takes effect.

use earmark_control::{ConfigDifference, ConfigEffect};

use crate::config::{Value, Values};

/// Most differences that are named.
const MOST: usize = 1_000;

/// Differences between two configurations.
pub(super) struct Differences {
    /// The differences, sorted by key.
    pub(super) rows: Vec<ConfigDifference>,
    /// Whether there are more.
    pub(super) more: bool,
    /// Values that run after a reload.
    pub(super) after_reload: Values,
}

/// Compares what runs with a configuration, of which the keys in `waiting` need a restart.
pub(super) fn differences(running: &Values, new: &Values, waiting: &[String]) -> Differences {
    let mut found = Differences { rows: Vec::new(), more: false, after_reload: Values::new() };
    let waiting: Vec<String> = waiting.iter().flat_map(|waiting| prefixes(waiting)).collect();
    let is_known = |key: &str| match key.split_once(": ") {
        Some((table, _)) if table.starts_with("interface ") => {
            let first = running.range(format!("{table}: ")..).next();
            first.is_some_and(|(key, _)| key.starts_with(table))
        }
        _ => true,
    };
    let needs_restart = |key: &str| {
        waiting.iter().any(|prefix| {
            // An interface that cannot join waits with all of its settings.
            let whole = prefix.split_once(": ").filter(|_| !is_known(key)).map(|(table, _)| table);
            is_below(key, prefix) || whole.is_some_and(|table| is_below(key, table))
        })
    };
    let mut difference = |key: &str, before: Option<&Value>, after: Option<&Value>| {
        if let (Some(before), Some(after)) = (before, after)
            && before.is_same(after)
        {
            found.after_reload.insert(key.to_owned(), after.clone());
            return;
        }
        let effect = match needs_restart(key) {
            true => ConfigEffect::Restart,
            false => ConfigEffect::Reload,
        };
        let runs = if effect == ConfigEffect::Reload { after } else { before };
        if let Some(runs) = runs {
            found.after_reload.insert(key.to_owned(), runs.clone());
        }
        if found.rows.len() == MOST {
            found.more = true;
            return;
        }
        let place = after.map(|value| (value.place.file.display(), value.place.line));
        found.rows.push(ConfigDifference {
            key: key.to_owned(),
            running: before.map(Value::shown),
            file: after.map(Value::shown),
            place: place.map(|(file, line)| format!("{file}:{line}")),
            effect,
        });
    };
    let mut before = running.iter().peekable();
    for (key, value) in new {
        while let Some((gone, old)) = before.next_if(|(known, _)| *known < key) {
            difference(gone, Some(old), None);
        }
        let old = before.next_if(|(known, _)| *known == key).map(|(_, old)| old);
        difference(key, old, Some(value));
    }
    before.for_each(|(gone, old)| difference(gone, Some(old), None));
    found
}

/// Returns the keys of which a text of [`Reloaded::waiting`](crate::config::Reloaded::waiting) speaks: `one.tcp and one.tls`,
/// `interface eth0: queues`, `interface eth0, which was removed`.
fn prefixes(waiting: &str) -> Vec<String> {
    if let Some(removed) = waiting.strip_suffix(", which was removed") {
        return vec![removed.to_owned()];
    }
    let (table, keys) = match waiting.split_once(": ") {
        Some((table, keys)) => (format!("{table}: "), keys),
        None => (String::new(), waiting),
    };
    let keys = keys.split(", ").flat_map(|keys| keys.split(" and "));
    keys.map(|key| format!("{table}{key}")).collect()
}

/// Returns whether a key is this one, or in this table.
fn is_below(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':', ' ']))
}

#[cfg(test)]
#[path = "differences_tests.rs"]
mod tests;

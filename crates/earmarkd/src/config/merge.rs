//! Combination of the tables of several files: later files override earlier ones.
//!
//! Tables are combined key by key, a value replaces an earlier one, and tables of a list are added to those before. An
//! `[[interface]]` with the name of an earlier one is combined with it instead. An empty list removes earlier tables.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// The list whose tables have names.
const INTERFACE: &str = "interface";
const NAME: &str = "name";

/// Adds the table of a later file to that of the files before.
pub(super) fn merge_files<'a>(earlier: &mut DeTable<'a>, mut later: DeTable<'a>) {
    let is_list = |table: &DeTable<'_>| {
        table.get(INTERFACE).and_then(|value| value.get_ref().as_array()).is_some_and(is_of_tables)
    };
    if is_list(earlier)
        && is_list(&later)
        && let Some(DeValue::Array(before)) = earlier.get_mut(INTERFACE).map(Spanned::get_mut)
        && let Some(DeValue::Array(value)) = later.remove(INTERFACE).map(Spanned::into_inner)
    {
        merge_interfaces(before, value);
    }
    merge(earlier, later);
}

fn merge<'a>(earlier: &mut DeTable<'a>, later: DeTable<'a>) {
    for (key, value) in later {
        let Some(before) = earlier.get_mut(key.get_ref().as_ref()) else {
            earlier.insert(key, value);
            continue;
        };
        let span = value.span();
        match (before.get_mut(), value.into_inner()) {
            (DeValue::Table(before), DeValue::Table(value)) => merge(before, value),
            (DeValue::Array(before), DeValue::Array(value))
                if is_of_tables(before) && is_of_tables(&value) =>
            {
                value.into_iter().for_each(|value| before.push(value));
            }
            (_, value) => {
                // Not only the value: errors are reported at the place of the key.
                earlier.remove(key.get_ref().as_ref());
                earlier.insert(key, Spanned::new(span, value));
            }
        }
    }
}

fn is_of_tables(list: &DeArray<'_>) -> bool {
    !list.is_empty() && list.iter().all(|value| value.get_ref().is_table())
}

fn name_of<'v>(value: &'v Spanned<DeValue<'_>>) -> Option<&'v str> {
    value.get_ref().as_table()?.get(NAME)?.get_ref().as_str()
}

fn merge_interfaces<'a>(earlier: &mut DeArray<'a>, later: DeArray<'a>) {
    // Two interfaces of one file with the same name are not combined: they are a mistake, which is reported as without other files.
    let names = earlier.iter().enumerate();
    let mut names: BTreeMap<String, usize> =
        names.filter_map(|(at, value)| Some((name_of(value)?.to_owned(), at))).collect();
    for value in later {
        let known = name_of(&value).and_then(|name| names.remove(name));
        match (known.and_then(|at| earlier.get_mut(at)).map(Spanned::get_mut), value) {
            (Some(DeValue::Table(before)), value) => {
                if let DeValue::Table(mut value) = value.into_inner() {
                    value.remove(NAME);
                    merge(before, value);
                }
            }
            (_, value) => earlier.push(value),
        }
    }
}

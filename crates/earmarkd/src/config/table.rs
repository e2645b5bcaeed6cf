//! Tables of the file before they have a type, and the keys by which the daemon and each protocol share them.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::merge::merge_files;
use super::source::Source;
use super::{ConfigError, Place};

/// The key that names files to include.
pub(super) const INCLUDE: &str = "include";

/// Keys of a table that belong to one protocol.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// The keys.
    pub names: &'static [&'static str],
    /// The key before which an error lists them.
    pub before: &'static str,
}

/// A table of the file, or those of its keys that belong to one protocol.
#[derive(Debug)]
pub struct Table<'a> {
    span: Range<usize>,
    items: DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Parses a file.
    pub(super) fn parse(text: &'a str, source: &Source<'_>) -> Result<Table<'a>, ConfigError> {
        let root = DeTable::parse(text).map_err(|error| source.parser_error(&error))?;
        Ok(Table { span: root.span(), items: root.into_inner() })
    }

    /// Parses the files of a source and combines them: later ones override earlier ones. Returns the place of the first secret
    /// of each file, too.
    pub(super) fn of_files(
        source: &Source<'a>,
    ) -> Result<(Table<'a>, Vec<Option<Place>>), ConfigError> {
        let mut all = Table { span: 0..0, items: DeTable::new() };
        let mut secrets = Vec::new();
        for mut table in Table::parse_all(source)? {
            secrets.push(table.secret(source));
            // The files that the key names are files of the source.
            table.items.remove(INCLUDE);
            merge_files(&mut all.items, table.items);
        }
        Ok((all, secrets))
    }

    /// Returns the keys and values.
    pub(super) fn items(&self) -> &DeTable<'a> {
        &self.items
    }

    /// Parses the files of a source.
    fn parse_all(source: &Source<'a>) -> Result<Vec<Table<'a>>, ConfigError> {
        let parse = |(begin, text)| {
            let root =
                DeTable::parse(text).map_err(|error| source.parser_error_at(begin, &error))?;
            let span = moved(root.span(), begin);
            Ok(Table { span, items: moved_items(root.into_inner(), begin) })
        };
        source.texts().map(parse).collect()
    }

    /// Takes a key out of the table.
    pub(super) fn take(&mut self, key: &str) -> Option<Spanned<DeValue<'a>>> {
        self.items.remove(key)
    }

    /// Returns the place of the first key whose value is a secret; `None` if there is none.
    pub(super) fn secret(&self, source: &Source<'_>) -> Option<Place> {
        secret_in(&self.items).map(|span| source.place(span))
    }

    /// Returns the tables of an array of tables, which is taken out of this one.
    pub(super) fn take_tables<T: DeserializeOwned>(
        &mut self,
        key: &str,
        source: &Source<'_>,
    ) -> Result<Vec<Table<'a>>, ConfigError> {
        let Some(value) = self.items.remove(key) else { return Ok(Vec::new()) };
        let span = value.span();
        let values = match value.into_inner() {
            DeValue::Array(values) => values,
            other => {
                // The parser's own error says what it is instead.
                read::<Vec<T>>(Spanned::new(span, other), source)?;
                return Ok(Vec::new());
            }
        };
        let mut tables = Vec::with_capacity(values.len());
        for value in values {
            let span = value.span();
            match value.into_inner() {
                DeValue::Table(items) => tables.push(Table { span, items }),
                other => _ = read::<T>(Spanned::new(span, other), source)?,
            }
        }
        Ok(tables)
    }

    /// Converts the table to a type.
    ///
    /// # Errors
    /// A value is not of its type, or missing, or unknown.
    pub fn read<T: DeserializeOwned>(self, source: &Source<'_>) -> Result<T, ConfigError> {
        read(Spanned::new(self.span, DeValue::Table(self.items)), source)
    }
}

fn moved(span: Range<usize>, by: usize) -> Range<usize> {
    span.start + by..span.end + by
}

/// Moves all spans, which count from the begin of a file, to the place of that file in its source. The parser has limited the
/// nesting depth.
fn moved_items(items: DeTable<'_>, by: usize) -> DeTable<'_> {
    if by == 0 {
        return items;
    }
    let mut all = DeTable::new();
    for (key, value) in items {
        let span = moved(key.span(), by);
        all.insert(Spanned::new(span, key.into_inner()), moved_value(value, by));
    }
    all
}

fn moved_value(value: Spanned<DeValue<'_>>, by: usize) -> Spanned<DeValue<'_>> {
    let span = moved(value.span(), by);
    let value = match value.into_inner() {
        DeValue::Table(items) => DeValue::Table(moved_items(items, by)),
        DeValue::Array(values) => {
            DeValue::Array(values.into_iter().map(|value| moved_value(value, by)).collect())
        }
        other => other,
    };
    Spanned::new(span, value)
}

/// Begin of the names of keys whose values are secrets.
pub(super) const SECRET: &str = "secret";

/// Returns the place of the first secret in a table; the parser has limited the nesting depth.
fn secret_in(items: &DeTable<'_>) -> Option<Range<usize>> {
    let in_value = |value: &Spanned<DeValue<'_>>| in_items(value.get_ref());
    let in_item = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
        let key_text: &std::borrow::Cow<'_, str> = key.get_ref();
        if key_text.starts_with(SECRET) { Some(key.span()) } else { in_value(value) }
    };
    items.iter().filter_map(in_item).min_by_key(|span| span.start)
}

fn in_items(value: &DeValue<'_>) -> Option<Range<usize>> {
    match value {
        DeValue::Table(items) => secret_in(items),
        DeValue::Array(values) => values.iter().find_map(|value| in_items(value.get_ref())),
        _ => None,
    }
}

fn read<T: DeserializeOwned>(
    value: Spanned<DeValue<'_>>,
    source: &Source<'_>,
) -> Result<T, ConfigError> {
    T::deserialize(ValueDeserializer::from(value)).map_err(|error| source.parser_error(&error))
}

/// Keys of a table by owner: the daemon itself, or a protocol by its place in the list.
pub(super) struct Owners {
    of: BTreeMap<&'static str, Option<usize>>,
    /// All keys in the order in which an error lists them.
    all: Vec<&'static str>,
    count: usize,
}

impl Owners {
    pub(super) fn new(
        general: &[&'static str],
        protocols: impl Iterator<Item = &'static [Keys]>,
    ) -> Owners {
        let of = general.iter().map(|&key| (key, None)).collect();
        let mut owners = Owners { of, all: general.to_vec(), count: 0 };
        for protocol in protocols {
            for Keys { names, before } in protocol {
                let at = owners.all.iter().position(|key| key == before);
                let at = at.unwrap_or(owners.all.len());
                owners.all.splice(at..at, names.iter().copied());
                owners.of.extend(names.iter().map(|&key| (key, Some(owners.count))));
            }
            owners.count += 1;
        }
        owners
    }

    /// Divides a table among the owners of its keys. Returns the general part and those of the protocols.
    pub(super) fn divide<'a>(
        &self,
        table: Table<'a>,
        source: &Source<'_>,
    ) -> Result<(Table<'a>, Vec<Table<'a>>), ConfigError> {
        let empty = || Table { span: table.span.clone(), items: DeTable::new() };
        let mut general = empty();
        let mut parts: Vec<Table<'a>> = (0..self.count).map(|_| empty()).collect();
        for (key, value) in table.items {
            let Some(&owner) = self.of.get(&**key.get_ref()) else {
                let all: Vec<String> = self.all.iter().map(|key| format!("`{key}`")).collect();
                let (key, span) = (key.get_ref(), key.span());
                let message = format!("unknown field `{key}`, expected one of {}", all.join(", "));
                return Err(ConfigError::of_parser(source.place(span), &message));
            };
            let part = owner.map_or(&mut general, |owner| &mut parts[owner]);
            part.items.insert(key, value);
        }
        Ok((general, parts))
    }
}

//! Texts of settings files and their paths. All values are read through it, so that every error is reported with its place.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use earmark_token::{Pattern, Required};
use toml::Spanned;

use super::{ConfigError, InterfaceConfig, Place};
use earmark_core::Prefix;
use earmark_core::amounts::parse_duration;

const RANGE: &str = "a range of addresses such as \"10.0.0.0/8\", or one such as \"10.0.0.1\"";

/// Texts of settings files and their paths, for values and the places of errors.
pub struct Source<'a> {
    /// The texts of all files, one after the other.
    text: &'a str,
    /// Files by the offset and the number of lines before them.
    files: Vec<SourceFile<'a>>,
    /// Offset of each line, so that the place of a value is found without scanning the text before it.
    lines: Vec<usize>,
    /// Headers of tables with their lines, counted from 0.
    tables: Vec<(usize, &'a str)>,
    /// Names of the interfaces, once they are read and a value names one.
    interfaces: OnceCell<BTreeSet<String>>,
}

#[derive(Clone, Copy)]
struct SourceFile<'a> {
    begin: usize,
    lines_before: usize,
    path: &'a Path,
}

/// Places of the tables that are read, by what only one of them may say.
pub(crate) type LineOfKey<K> = BTreeMap<K, Place>;

/// What to write as a pattern for names of users.
pub(crate) const USER_NAME: &str =
    "a name such as \"alice@example.org\" or \"OU=Sales\", where * stands for any text";

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str, path: &'a Path) -> Source<'a> {
        Source::of_files(text, &[(0, path)])
    }

    /// Creates a source of several files, whose texts follow one another with a line break behind each. Each file has its begin.
    pub(super) fn of_files(text: &'a str, files: &[(usize, &'a Path)]) -> Source<'a> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines: Vec<usize> = std::iter::once(0).chain(ends).collect();
        let file = |&(begin, path): &(usize, &'a Path)| {
            let lines_before = lines.partition_point(|&line| line < begin);
            SourceFile { begin, lines_before, path }
        };
        let files = files.iter().map(file).collect();
        let tables = text.lines().enumerate();
        let tables = tables.filter_map(|(line, text)| Some((line, table_of(text)?))).collect();
        Source { text, files, lines, tables, interfaces: OnceCell::new() }
    }

    /// Returns the text of each file with its begin.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let text = self.text;
        // The line break behind a text belongs to it only if there is a single file, which may have none.
        let ends = self.files.iter().skip(1).map(|file| file.begin - 1).chain([text.len()]);
        self.files.iter().zip(ends).map(move |(file, end)| (file.begin, &text[file.begin..end]))
    }

    /// Reads a duration within `range`; `default` if it is absent.
    pub(crate) fn duration(
        &self,
        text: Option<&Spanned<String>>,
        range: RangeInclusive<Duration>,
        default: Duration,
        hint: &str,
    ) -> Result<Duration, ConfigError> {
        let Some(text) = text else { return Ok(default) };
        let duration = parse_duration(text.get_ref())
            .map_err(|error| self.error(text.span(), error.to_string(), hint))?;
        if !range.contains(&duration) {
            return Err(self.error(text.span(), "the duration is out of range", hint));
        }
        Ok(duration)
    }

    /// Reads a time for which messages have a field of seconds that holds `max` at most; `default` if it is absent.
    pub(crate) fn seconds<T: Copy + Into<u64> + TryFrom<u64>>(
        &self,
        text: Option<&Spanned<String>>,
        max: T,
        default: T,
    ) -> Result<T, ConfigError> {
        let most: u64 = max.into();
        let range = Duration::from_secs(1)..=Duration::from_secs(most);
        let hint = format!("\"30s\" is usual; whole seconds from 1s to {most}s are possible");
        let found = self.duration(text, range, Duration::from_secs(default.into()), &hint)?;
        if let Some(text) = text
            && found.subsec_nanos() != 0
        {
            return Err(self.error(text.span(), "messages state it in whole seconds", &hint));
        }
        Ok(T::try_from(found.as_secs()).unwrap_or(max))
    }

    /// Reads an integer within `range`; `default` if it is absent.
    pub(crate) fn within(
        &self,
        value: Option<Spanned<u32>>,
        range: Range<u32>,
        default: u32,
    ) -> Result<u32, ConfigError> {
        match value {
            None => Ok(default),
            Some(value) if range.contains(value.get_ref()) => Ok(value.into_inner()),
            Some(value) => Err(self.error(
                value.span(),
                format!("{} is out of range", value.get_ref()),
                format!("{} to {}; the default is {default}", range.start, range.end - 1),
            )),
        }
    }

    /// Reads a count of at least 1; `default` if it is absent.
    pub(crate) fn count(
        &self,
        value: Option<Spanned<u32>>,
        default: u32,
    ) -> Result<u32, ConfigError> {
        self.within(value, 1..u32::MAX, default)
    }

    /// Reads a number between two bounds; `default` if it is absent.
    pub(crate) fn between(
        &self,
        value: Option<Spanned<f64>>,
        low: f64,
        high: f64,
        default: f64,
    ) -> Result<f64, ConfigError> {
        match value {
            None => Ok(default),
            Some(value) if (low..=high).contains(value.get_ref()) => Ok(value.into_inner()),
            Some(value) => Err(self.error(
                value.span(),
                format!("{} is out of range", value.get_ref()),
                format!("{low} to {high}; the default is {default}"),
            )),
        }
    }

    /// Parses a text value.
    pub(crate) fn read<T: FromStr<Err: Display>>(
        &self,
        text: &Spanned<String>,
        hint: &str,
    ) -> Result<T, ConfigError> {
        text.get_ref()
            .parse()
            .map_err(|error: T::Err| self.error(text.span(), error.to_string(), hint))
    }

    pub(crate) fn all<T: FromStr<Err: std::fmt::Display>>(
        &self,
        texts: &[Spanned<String>],
        hint: &str,
    ) -> Result<Vec<T>, ConfigError> {
        texts.iter().map(|text| self.read(text, hint)).collect()
    }

    /// Reads which names a token must prove.
    pub(crate) fn required(
        &self,
        verified: bool,
        users: &[Spanned<String>],
    ) -> Result<Required, ConfigError> {
        Ok(Required { verified, users: self.all::<Pattern>(users, USER_NAME)? })
    }

    /// The place of `span`. The key is read from the line itself, so that errors of the TOML parser have one too.
    pub(crate) fn place(&self, span: Range<usize>) -> Place {
        let line = self.lines.partition_point(|&begin| begin <= span.start).max(1);
        let key = key_of(self.line(line)).unwrap_or_default();
        let following = self.files.partition_point(|file| file.lines_before < line);
        let SourceFile { lines_before, path, .. } = self.files[following.max(1) - 1];
        let before = self.tables.partition_point(|&(at, _)| at < line);
        let table = before.checked_sub(1).map(|last| self.tables[last]);
        let table = table.filter(|&(at, _)| at >= lines_before).map_or("", |(_, table)| table);
        let key = match (table, key) {
            (table, "") => table.to_owned(),
            ("", key) => key.to_owned(),
            (table, key) => format!("{table}.{key}"),
        };
        Place { file: path.to_owned(), line: line - lines_before, key }
    }

    /// An error about the value at `span`, with what to write instead.
    pub(crate) fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        ConfigError::at(self.place(span), message, hint)
    }

    /// Checks that no table before has the same key, and enters it. `what` says of the key what only one table may say.
    pub(crate) fn once<K: Ord>(
        &self,
        known: &mut LineOfKey<K>,
        key: K,
        span: Range<usize>,
        what: impl Display,
        hint: &str,
    ) -> Result<(), ConfigError> {
        let place = self.place(span);
        match known.insert(key, place.clone()) {
            None => Ok(()),
            Some(Place { file, line, .. }) => {
                let file = match file == place.file {
                    true => String::new(),
                    false => format!(" of {}", file.display()),
                };
                let message = format!("{what} already, in line {line}{file}");
                Err(ConfigError::at(place, message, hint))
            }
        }
    }

    /// An error of the TOML parser.
    pub(crate) fn parser_error(&self, error: &toml::de::Error) -> ConfigError {
        self.parser_error_at(0, error)
    }

    /// An error of the TOML parser in the file with this begin.
    pub(super) fn parser_error_at(&self, begin: usize, error: &toml::de::Error) -> ConfigError {
        let span = error.span().unwrap_or(0..0);
        ConfigError::of_parser(self.place(span.start + begin..span.end + begin), error.message())
    }

    /// Reads a burst, as a time at the reserved rate.
    pub(crate) fn burst(
        &self,
        text: Option<&Spanned<String>>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let hint = "the largest burst, as a time at the reserved rate: from 1ms to 10s";
        self.duration(text, Duration::from_millis(1)..=Duration::from_secs(10), default, hint)
    }

    /// Reads address ranges; a single address is the smallest one.
    pub(crate) fn ranges(&self, texts: &[Spanned<String>]) -> Result<Vec<Prefix>, ConfigError> {
        let range = |text: &Spanned<String>| match text.get_ref().parse() {
            Ok(address) => Ok(Prefix::host(address)),
            Err(_) => self.read(text, RANGE),
        };
        texts.iter().map(range).collect()
    }

    /// Returns whether an interface of this file, `known`, has this name.
    pub(crate) fn has_interface(&self, name: &str, known: &[InterfaceConfig]) -> bool {
        let names = || known.iter().map(|interface| interface.name.clone()).collect();
        self.interfaces.get_or_init(names).contains(name)
    }

    /// Returns a line, counted from 1.
    pub(crate) fn line(&self, number: usize) -> &str {
        let begin = number.checked_sub(1).and_then(|line| self.lines.get(line).copied());
        begin.and_then(|begin| self.text[begin..].lines().next()).unwrap_or_default()
    }
}

fn key_of(line: &str) -> Option<&str> {
    Some(line.split_once('=')?.0.trim().trim_matches('"'))
}

fn table_of(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let inner = line.strip_prefix("[[").or_else(|| line.strip_prefix('['))?;
    Some(inner.split(']').next()?.trim())
}

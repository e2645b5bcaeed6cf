//! Errors in a configuration, with their place.

use std::fmt;
use std::path::{Path, PathBuf};

/// A place in a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Path of the file.
    pub file: PathBuf,
    /// Line, from 1; 0 if the error concerns no single line.
    pub line: usize,
    /// The key with its table, `interface.bandwidth`; empty if the error concerns no key.
    pub key: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        Ok(())
    }
}

/// An error in a configuration: place, message and hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}\n  help: {hint}")]
pub struct ConfigError {
    /// Place of the error.
    pub place: Place,
    /// The error itself.
    pub message: String,
    /// Advice what to do.
    pub hint: String,
}

impl ConfigError {
    pub(crate) fn at(
        place: Place,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        let place = Place { key: abridged(place.key), ..place };
        ConfigError { place, message: abridged(message.into()), hint: abridged(hint.into()) }
    }

    /// An error of the TOML parser, with as much advice as its message allows.
    pub(crate) fn of_parser(place: Place, message: &str) -> ConfigError {
        let hint = match nearest(message) {
            Some(name) => format!("did you mean `{name}`?"),
            None if message.contains("expected a sequence") => {
                "tables of which there may be several have two brackets: [[interface]]".to_owned()
            }
            None => "`earmarkd config example` shows every key with its form".to_owned(),
        };
        ConfigError::at(place, message, hint)
    }

    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> ConfigError {
        ConfigError::at(
            Place { file: path.to_owned(), ..Place::default() },
            format!("cannot read the file: {error}"),
            "`earmarkd config example > FILE` writes one to start from",
        )
    }
}

/// Longest text of an error, octets. A longer one, which quotes a value of the file, loses its middle.
const LONGEST_TEXT: usize = 2_000;

/// Returns a text of bounded length: begin and end of a long one.
fn abridged(text: String) -> String {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let part = LONGEST_TEXT / 4;
    let (begin, end) = (text.floor_char_boundary(part), text.ceil_char_boundary(text.len() - part));
    format!("{} [... {} octets ...] {}", &text[..begin], end - begin, &text[end..])
}

/// Longest unknown key that is compared with the known ones.
const LONGEST_SLIP: usize = 64;

/// Least similarity of two names for one to be a misspelling of the other: 0 nothing in common, 1 equal.
const SLIP: f64 = 0.5;

/// The key most similar to an unknown one, taken from the parser's message: "unknown field `bandwith`, expected one of
/// `name`, `bandwidth`". The parser knows the keys, so that no second list of them can become outdated.
fn nearest(message: &str) -> Option<&str> {
    let mut names = message.split('`').skip(1).step_by(2);
    let unknown = names.next().filter(|_| message.starts_with("unknown field"))?;
    if unknown.len() > LONGEST_SLIP {
        return None;
    }
    let likeness = |name: &str| strsim::normalized_damerau_levenshtein(unknown, name);
    let best = names.max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(best) >= SLIP).then_some(best)
}

//! Words of a line: numbers, times and `key=value` pairs, with errors that name the word at fault.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Error text about a line.
pub type Fault = String;

/// The words of a line that have not been taken yet.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// Splits a line at blanks, without remarks in parentheses.
    pub fn of(line: &'a str) -> Words<'a> {
        let mut words = Vec::new();
        let mut depth = 0;
        for word in line.split_whitespace() {
            let opened = word.starts_with('(');
            depth += usize::from(opened);
            if depth == 0 {
                words.push(word);
            } else if word.ends_with(')') {
                depth -= 1;
            }
        }
        Words { words }
    }

    /// Returns the remaining words as a line.
    pub fn text_of_all(&self) -> String {
        self.words.join(" ")
    }

    /// Returns whether no word is left.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Takes the next positional word.
    pub fn next(&mut self, what: &str) -> Result<&'a str, Fault> {
        if self.words.is_empty() {
            return Err(format!("{what} is missing"));
        }
        Ok(self.words.remove(0))
    }

    /// Takes the next word as a value.
    pub fn value<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, Fault> {
        let word = self.next(what)?;
        word.parse().map_err(|error| format!("{what} `{word}`: {error}"))
    }

    /// Takes a word at any position; returns whether it was present.
    pub fn flag(&mut self, name: &str) -> bool {
        let place = self.words.iter().position(|word| *word == name);
        place.map(|place| self.words.remove(place)).is_some()
    }

    /// Takes a word if it is the first one; returns whether it was.
    pub fn flag_first(&mut self, name: &str) -> bool {
        let found = self.words.first() == Some(&name);
        if found {
            self.words.remove(0);
        }
        found
    }

    /// Takes `name=...` at any position.
    pub fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
        let place = self.words.iter().position(|word| value(word).is_some())?;
        value(self.words.remove(place))
    }

    /// Takes an optional `name=...` as a value.
    pub fn maybe<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| format!("{name}={text}: {error}"))
    }

    /// Takes a required `name=...` as a value.
    pub fn key<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<T, Fault> {
        self.maybe(name)?.ok_or_else(|| format!("{name}=... is missing"))
    }

    /// Takes the word `name` and the value behind it.
    pub fn after<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<Option<T>, Fault> {
        let Some(place) = self.words.iter().position(|word| *word == name) else {
            return Ok(None);
        };
        self.words.remove(place);
        if place == self.words.len() {
            return Err(format!("nothing behind `{name}`"));
        }
        let word = self.words.remove(place);
        word.parse().map(Some).map_err(|error| format!("{name} {word}: {error}"))
    }

    /// Takes all words up to the first one in `ends`, and that one, if any.
    pub fn until(&mut self, ends: &[&str]) -> (Words<'a>, Option<&'a str>) {
        let place = self.words.iter().position(|word| ends.contains(word));
        let end = place.map(|place| self.words[place]);
        let rest = place.map_or(Vec::new(), |place| self.words.split_off(place + 1));
        let mut words = std::mem::replace(&mut self.words, rest);
        words.truncate(place.unwrap_or(words.len()));
        (Words { words }, end)
    }

    /// Checks that no word is left.
    pub fn end(self) -> Result<(), Fault> {
        match self.words.first() {
            Some(word) => Err(format!("`{word}` is not understood here")),
            None => Ok(()),
        }
    }
}

/// A time such as `157.5s`.
#[derive(Clone, Copy, Debug)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Seconds, Fault> {
        let number = text.strip_suffix('s').ok_or("a time looks like 157.5s")?;
        let seconds: f64 = number.parse().map_err(|_| "a time looks like 157.5s")?;
        Duration::try_from_secs_f64(seconds).map(Seconds).map_err(|error| error.to_string())
    }
}

/// Octets from hexadecimal digits.
pub fn octets(text: &str) -> Result<Vec<u8>, Fault> {
    let octets = text.parse::<earmark_core::Octets>();
    octets.map(|octets| octets.0).map_err(|error| error.to_string())
}

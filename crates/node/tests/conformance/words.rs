//! Words of a line: numbers, times and `key=value` pairs, with errors that say which word was wrong.

use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// What is wrong with a line, for people.
pub(crate) type Fault = String;

/// The words of one line that have not been taken yet.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    words: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// Words are what blanks separate; what stands in parentheses is a remark.
    pub(crate) fn of(line: &'a str) -> Words<'a> {
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

    /// Those that are left, as a line.
    pub(crate) fn text_of_all(&self) -> String {
        self.words.join(" ")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The next word that is not looked for by name.
    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, Fault> {
        if self.words.is_empty() {
            return Err(format!("{what} is missing"));
        }
        Ok(self.words.remove(0))
    }

    /// The next word as a value.
    pub(crate) fn value<T: FromStr<Err: Display>>(&mut self, what: &str) -> Result<T, Fault> {
        let word = self.next(what)?;
        word.parse().map_err(|error| format!("{what} `{word}`: {error}"))
    }

    /// Takes a word wherever it stands: whether it was there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let place = self.words.iter().position(|word| *word == name);
        place.map(|place| self.words.remove(place)).is_some()
    }

    /// Takes `name=...` wherever it stands.
    pub(crate) fn text(&mut self, name: &str) -> Option<&'a str> {
        let value = |word: &'a str| word.strip_prefix(name)?.strip_prefix('=');
        let place = self.words.iter().position(|word| value(word).is_some())?;
        value(self.words.remove(place))
    }

    /// Takes `name=...` as a value.
    pub(crate) fn maybe<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Fault> {
        let Some(text) = self.text(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| format!("{name}={text}: {error}"))
    }

    /// Takes `name=...`, which must be there.
    pub(crate) fn key<T: FromStr<Err: Display>>(&mut self, name: &str) -> Result<T, Fault> {
        self.maybe(name)?.ok_or_else(|| format!("{name}=... is missing"))
    }

    /// Takes the word `name` and the value behind it.
    pub(crate) fn after<T: FromStr<Err: Display>>(
        &mut self,
        name: &str,
    ) -> Result<Option<T>, Fault> {
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

    /// Takes all words up to the first one that is in `ends`, and that one, if there is any.
    pub(crate) fn until(&mut self, ends: &[&str]) -> (Words<'a>, Option<&'a str>) {
        let place = self.words.iter().position(|word| ends.contains(word));
        let end = place.map(|place| self.words[place]);
        let rest = place.map_or(Vec::new(), |place| self.words.split_off(place + 1));
        let mut words = std::mem::replace(&mut self.words, rest);
        words.truncate(place.unwrap_or(words.len()));
        (Words { words }, end)
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Fault> {
        match self.words.first() {
            Some(word) => Err(format!("`{word}` is not understood here")),
            None => Ok(()),
        }
    }
}

/// `157.5s`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Seconds, Fault> {
        let number = text.strip_suffix('s').ok_or("a time looks like 157.5s")?;
        let seconds: f64 = number.parse().map_err(|_| "a time looks like 157.5s")?;
        Duration::try_from_secs_f64(seconds).map(Seconds).map_err(|error| error.to_string())
    }
}

/// Octets from hexadecimal digits.
pub(crate) fn octets(text: &str) -> Result<Vec<u8>, Fault> {
    let octets = text.parse::<earmark_core::record::Octets>();
    octets.map(|octets| octets.0).map_err(|error| error.to_string())
}

//! The text format of metrics, version 0.0.4, parsed line by line while it arrives.

use std::borrow::Cow;

/// Most octets of a text.
pub const MAX_OCTETS: usize = 4 * 1024 * 1024;
/// Most lines of a text.
pub const MAX_LINES: usize = 100_000;
/// Most octets of a line.
pub const MAX_LINE: usize = 16 * 1024;

/// What is wrong with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpositionError {
    /// The text has too many octets.
    #[error("the text exceeds {MAX_OCTETS} octets")]
    TooManyOctets,
    /// The text has too many lines.
    #[error("the text exceeds {MAX_LINES} lines")]
    TooManyLines,
    /// A line is malformed.
    #[error("line {line}: {error}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        error: LineError,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is too long.
    #[error("the line exceeds {MAX_LINE} octets")]
    TooLong,
    /// The line is not UTF-8.
    #[error("invalid UTF-8")]
    Utf8,
    /// The line begins with no name of a metric.
    #[error("no name of a metric")]
    Name,
    /// The labels are malformed.
    #[error("malformed labels")]
    Labels,
    /// The value is no number.
    #[error("the value is no number")]
    Value,
    /// The value is negative, not finite or improbably large.
    #[error("the value is out of range")]
    Range,
    /// A name is too long.
    #[error("a label exceeds 64 octets")]
    Label,
    /// The timestamp is no integer, or something follows it.
    #[error("malformed timestamp")]
    Timestamp,
    /// The text ends within the line.
    #[error("the text ends within the line")]
    CutOff,
}

/// A sample of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Name of the metric.
    pub name: &'a str,
    /// Labels with their values, in the order of the text.
    pub labels: Vec<(&'a str, Cow<'a, str>)>,
    /// The value; also infinite or no number.
    pub value: f64,
}

impl Sample<'_> {
    /// Returns the value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(other, _)| *other == name).map(|(_, value)| value.as_ref())
    }
}

/// Splits a text that arrives in parts into lines, and keeps one unfinished line at most.
#[derive(Debug, Default)]
pub struct Lines {
    unfinished: Vec<u8>,
    lines: usize,
    octets: usize,
}

impl Lines {
    /// Parses the lines that a further part completes, and passes each sample on.
    ///
    /// # Errors
    /// A line is malformed or refused by `take`, or a bound is exceeded.
    pub fn push(
        &mut self,
        part: &[u8],
        mut take: impl FnMut(&Sample<'_>) -> Result<(), LineError>,
    ) -> Result<(), ExpositionError> {
        self.octets = self.octets.saturating_add(part.len());
        if self.octets > MAX_OCTETS {
            return Err(ExpositionError::TooManyOctets);
        }
        let mut parts = part.split(|octet| *octet == b'\n').peekable();
        while let Some(octets) = parts.next() {
            if self.unfinished.len() + octets.len() > MAX_LINE {
                return Err(self.malformed(LineError::TooLong));
            }
            if parts.peek().is_none() {
                self.unfinished.extend_from_slice(octets);
                break;
            }
            let whole = match self.unfinished.is_empty() {
                true => parse_octets(octets, &mut take),
                false => {
                    self.unfinished.extend_from_slice(octets);
                    parse_octets(&self.unfinished, &mut take)
                }
            };
            whole.map_err(|error| self.malformed(error))?;
            self.unfinished.clear();
            self.lines += 1;
            if self.lines > MAX_LINES {
                return Err(ExpositionError::TooManyLines);
            }
        }
        Ok(())
    }

    /// Checks that the text ends with the end of a line.
    ///
    /// # Errors
    /// The last line has no end.
    pub fn finish(&self) -> Result<(), ExpositionError> {
        match self.unfinished.is_empty() {
            true => Ok(()),
            false => Err(self.malformed(LineError::CutOff)),
        }
    }

    /// Returns an error in the line after the complete ones.
    fn malformed(&self, error: LineError) -> ExpositionError {
        ExpositionError::Line { line: self.lines + 1, error }
    }
}

fn parse_octets(
    octets: &[u8],
    take: &mut impl FnMut(&Sample<'_>) -> Result<(), LineError>,
) -> Result<(), LineError> {
    let line = std::str::from_utf8(octets).map_err(|_| LineError::Utf8)?;
    parse_line(line)?.map_or(Ok(()), |sample| take(&sample))
}

/// Parses a line; `None` for a comment and an empty line.
///
/// # Errors
/// The line is malformed.
pub fn parse_line(line: &str) -> Result<Option<Sample<'_>>, LineError> {
    let line = line.trim_matches(BLANK);
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, rest) = split_name(line, true).ok_or(LineError::Name)?;
    let rest = rest.trim_start_matches(BLANK);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => parse_labels(rest).ok_or(LineError::Labels)?,
        None => (Vec::new(), rest),
    };
    let mut words = rest.split(BLANK).filter(|word| !word.is_empty());
    let value = words.next().ok_or(LineError::Value)?;
    let value = value.parse().map_err(|_| LineError::Value)?;
    if words.next().is_some_and(|timestamp| timestamp.parse::<i64>().is_err()) {
        return Err(LineError::Timestamp);
    }
    if words.next().is_some() {
        return Err(LineError::Timestamp);
    }
    Ok(Some(Sample { name, labels, value }))
}

const BLANK: [char; 2] = [' ', '\t'];

/// Splits the name of a metric or of a label from the text behind it; only names of metrics may have colons.
fn split_name(text: &str, colons: bool) -> Option<(&str, &str)> {
    let is_part =
        |octet: u8| octet.is_ascii_alphanumeric() || octet == b'_' || (colons && octet == b':');
    let end = text.bytes().position(|octet| !is_part(octet)).unwrap_or(text.len());
    let begins = text.bytes().next().is_some_and(|octet| !octet.is_ascii_digit());
    (end > 0 && begins).then(|| text.split_at(end))
}

type Labels<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// Parses labels up to their closing brace; returns them and the text behind it.
fn parse_labels(mut text: &str) -> Option<(Labels<'_>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches(BLANK);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = split_name(text, false)?;
        let rest = rest.trim_start_matches(BLANK).strip_prefix('=')?;
        let rest = rest.trim_start_matches(BLANK).strip_prefix('"')?;
        let (value, rest) = parse_quoted(rest)?;
        labels.push((name, value));
        let rest = rest.trim_start_matches(BLANK);
        text = match rest.strip_prefix(',') {
            Some(rest) => rest,
            None if rest.starts_with('}') => rest,
            None => return None,
        };
    }
}

/// Parses a value of a label up to its closing quote; returns it and the text behind the quote.
fn parse_quoted(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let mut unescaped: Option<String> = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let value = unescaped.map_or(Cow::Borrowed(text.get(..at)?), Cow::Owned);
                return Some((value, text.get(at + 1..)?));
            }
            '\\' => {
                let value =
                    unescaped.get_or_insert_with(|| text.get(..at).unwrap_or_default().to_owned());
                value.push(match characters.next()?.1 {
                    'n' => '\n',
                    kept @ ('"' | '\\') => kept,
                    _ => return None,
                });
            }
            _ => {
                if let Some(value) = &mut unescaped {
                    value.push(character);
                }
            }
        }
    }
    None
}

#[cfg(test)]
#[path = "exposition_tests.rs"]
mod tests;

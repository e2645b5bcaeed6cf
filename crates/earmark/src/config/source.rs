//! The text of a settings file and where it came from: how values are read from it, so that whatever is wrong with one is
//! reported with its place.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use toml::Spanned;

use super::{ConfigError, Place};
use earmark_core::amounts::parse_duration;

pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    pub(super) path: &'a Path,
}

impl Source<'_> {
    /// What `text` says, if it lies in `range`; `default` where it is not there.
    pub(super) fn duration(
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

    /// What `value` says, if it lies in `range`; `default` where it is not there.
    pub(super) fn within(
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

    /// What `value` says, if it lies between two others; `default` where it is not there.
    pub(super) fn between(
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

    /// What `text` says, in whatever form it has.
    pub(super) fn read<T: FromStr<Err: Display>>(
        &self,
        text: &Spanned<String>,
        hint: &str,
    ) -> Result<T, ConfigError> {
        text.get_ref()
            .parse()
            .map_err(|error: T::Err| self.error(text.span(), error.to_string(), hint))
    }

    /// The place of what `span` covers.
    pub(super) fn place(&self, span: Range<usize>) -> Place {
        Place::of(self.text, self.path, span)
    }

    /// An error about what `span` covers, and what to write instead.
    pub(super) fn error(
        &self,
        span: Range<usize>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        ConfigError::at(self.place(span), message, hint)
    }

    /// A line, counted from 1.
    pub(super) fn line(&self, number: usize) -> &str {
        self.text.lines().nth(number.saturating_sub(1)).unwrap_or_default()
    }
}

//! Levels of the daemon's log: the request that shows and sets them, and its answer.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Name that stands for all targets of the log.
pub const ALL_TARGETS: &str = "all";

/// Parameters of [`crate::Request::Log`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogRequest {
    /// Return to the levels of the daemon's start first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset: bool,
    /// Levels to set, by target; [`ALL_TARGETS`] stands for those that are not named.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, LogLevel>,
    /// Time after which the targets return to the levels of the start; without it they stay as set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

impl LogRequest {
    /// Returns whether the request changes a level.
    pub fn changes(&self) -> bool {
        self.reset || !self.set.is_empty()
    }
}

/// The answer to [`crate::Request::Log`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogAnswer {
    /// Form of the log: `text`, `json` or `journal`.
    pub format: String,
    /// All targets with their levels.
    pub targets: Vec<LogTargetRow>,
}

/// A target of the log: a part of the daemon that writes lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LogTargetRow {
    /// Name of the target.
    pub target: String,
    /// Level now: lines of this level and of more important ones are written.
    pub level: LogLevel,
    /// Level of the daemon's start.
    pub started_with: LogLevel,
    /// Time until the target returns to the level of the start; `None` if it stays as set.
    pub for_ms: Option<u64>,
    /// What the lines are about.
    pub about: String,
}

/// Level of a line, and of a target: it writes lines of its level and of more important ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// No line.
    Off,
    /// The operator must act.
    Error,
    /// The operator may have to act.
    Warn,
    /// What an operator wants to know.
    Info,
    /// Each reservation and event.
    Debug,
    /// Each message that is dropped.
    Trace,
}

impl LogLevel {
    /// All levels, the quietest first.
    pub const ALL: [LogLevel; 6] = [
        LogLevel::Off,
        LogLevel::Error,
        LogLevel::Warn,
        LogLevel::Info,
        LogLevel::Debug,
        LogLevel::Trace,
    ];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Warn => "warn",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
            LogLevel::Trace => "trace",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for LogLevel {
    type Err = LogLevelsError;

    fn from_str(text: &str) -> Result<LogLevel, LogLevelsError> {
        let found = LogLevel::ALL.into_iter().find(|level| level.name().eq_ignore_ascii_case(text));
        found.ok_or_else(|| LogLevelsError::Level(text.to_owned()))
    }
}

/// Levels by target, as they are written on the command line: `debug`, `control=debug` or `warn,control=debug,audit=info`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogLevels(pub BTreeMap<String, LogLevel>);

impl FromStr for LogLevels {
    type Err = LogLevelsError;

    fn from_str(text: &str) -> Result<LogLevels, LogLevelsError> {
        let mut levels = BTreeMap::new();
        for part in text.split(',').map(str::trim) {
            let (target, level) = part.split_once('=').unwrap_or((ALL_TARGETS, part));
            if levels.insert(target.to_owned(), level.parse()?).is_some() {
                return Err(LogLevelsError::Twice(target.to_owned()));
            }
        }
        Ok(LogLevels(levels))
    }
}

impl fmt::Display for LogLevels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (target, level)) in self.0.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            write!(f, "{comma}{target}={level}")?;
        }
        Ok(())
    }
}

/// Why a text is no list of levels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogLevelsError {
    /// A level does not exist.
    #[error("unknown level {0:?}: the levels are off, error, warn, info, debug and trace")]
    Level(String),
    /// A target has two levels.
    #[error("{0:?} has two levels")]
    Twice(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn levels(text: &str) -> Result<String, LogLevelsError> {
        Ok(text.parse::<LogLevels>()?.to_string())
    }

    #[test]
    fn list_of_levels_is_read_and_written() {
        assert_eq!(levels("info").as_deref(), Ok("all=info"));
        assert_eq!(levels("WARN, audit=debug").as_deref(), Ok("all=warn,audit=debug"));
        assert_eq!(levels("audit=loud"), Err(LogLevelsError::Level("loud".to_owned())));
        assert_eq!(levels(""), Err(LogLevelsError::Level(String::new())));
        assert_eq!(levels("audit=info,audit=warn"), Err(LogLevelsError::Twice("audit".to_owned())));
        let names: Vec<_> = LogLevel::ALL.map(|l| serde_json::to_value(l).expect("JSON")).into();
        assert_eq!(names, LogLevel::ALL.map(LogLevel::name));
    }
}

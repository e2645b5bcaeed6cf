//! Syntax of times and rates in a scenario.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::amounts::parse_duration;
use serde::{Deserialize, Deserializer, de};

/// Parses a time such as `"20ms"`.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map_err(|why| de::Error::custom(format!("`{text}`: {why}")))
}

/// Parses an optional time.
pub(crate) fn some_time<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    time(deserializer).map(Some)
}

/// Parses a rate such as `"100kbit"`.
pub(crate) fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|why| de::Error::custom(format!("invalid rate `{text}`: {why}")))
}

/// Parses an optional rate.
pub(crate) fn some_rate<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Rate>, D::Error> {
    rate(deserializer).map(Some)
}

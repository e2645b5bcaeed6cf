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

/// A text, or a list of times.
pub(crate) enum TextOrTimes {
    /// A text.
    Text(String),
    /// Times such as `["0s", "1.5s"]`.
    Times(Vec<Duration>),
}

impl<'de> Deserialize<'de> for TextOrTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TextOrTimes, D::Error> {
        #[derive(Deserialize)]
        #[serde(
            untagged,
            expecting = "expected a text, or a list of times such as [\"0s\", \"1.5s\"]"
        )]
        enum Texts {
            One(String),
            Many(Vec<String>),
        }

        let time = |(place, text): (usize, &String)| {
            let named =
                |why| de::Error::custom(format!("time {place} of the list, `{text}`: {why}"));
            parse_duration(text).map_err(named)
        };
        Ok(match Texts::deserialize(deserializer)? {
            Texts::One(text) => TextOrTimes::Text(text),
            Texts::Many(texts) => {
                let times = (1..).zip(&texts).map(time);
                TextOrTimes::Times(times.collect::<Result<_, D::Error>>()?)
            }
        })
    }
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

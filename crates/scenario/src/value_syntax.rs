//! Syntax of times, rates and distributions in a scenario.

use std::str::FromStr;
use std::time::Duration;

use earmark_core::Rate;
use earmark_core::amounts::parse_duration;
use earmark_core::random::Stream;
use earmark_sim::distributions;
use serde::{Deserialize, Deserializer, Serialize, de};

/// Lifetime of flows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Lifetime {
    /// `"forever"`.
    Forever,
    /// `"constant 60s"`: all the same.
    Constant(Duration),
    /// `"exponential 150s"`: distributed exponentially, with this mean.
    Exponential(Duration),
    /// `"uniform 30s 90s"`: uniformly distributed between these.
    Uniform(Duration, Duration),
}

impl Lifetime {
    /// Returns the mean; `None` for ever.
    pub fn mean(&self) -> Option<Duration> {
        match *self {
            Lifetime::Forever => None,
            Lifetime::Constant(time) | Lifetime::Exponential(time) => Some(time),
            // The sum of both may exceed the range of a time.
            Lifetime::Uniform(low, high) => Some(low + (high.saturating_sub(low)) / 2),
        }
    }

    /// Draws a lifetime; `None` for ever.
    pub fn draw(&self, dice: &mut Stream) -> Option<Duration> {
        match *self {
            Lifetime::Forever => None,
            Lifetime::Constant(time) => Some(time),
            Lifetime::Exponential(mean) => Some(distributions::exponential(dice, mean)),
            Lifetime::Uniform(low, high) => Some(dice.uniform(low, high)),
        }
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Lifetime, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let time = |text: &str| parse_duration(text).map_err(|why| format!("`{text}`: {why}"));
        Ok(match words[..] {
            ["forever"] => Lifetime::Forever,
            ["constant", one] => Lifetime::Constant(time(one)?),
            ["exponential", mean] => Lifetime::Exponential(time(mean)?),
            ["uniform", low, high] if time(low)? <= time(high)? => {
                Lifetime::Uniform(time(low)?, time(high)?)
            }
            _ => {
                return Err(format!(
                    "invalid lifetime `{text}`; write \"forever\", \"constant 60s\", \
                     \"exponential 150s\" or \
                     \"uniform 30s 90s\""
                ));
            }
        })
    }
}

impl<'de> Deserialize<'de> for Lifetime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lifetime, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

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

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    #[test]
    fn lifetimes_are_parsed() {
        let seconds = Duration::from_secs;
        for (text, lifetime) in [
            ("forever", Lifetime::Forever),
            ("constant 60s", Lifetime::Constant(seconds(60))),
            ("exponential 2min", Lifetime::Exponential(seconds(120))),
            ("uniform 30s 90s", Lifetime::Uniform(seconds(30), seconds(90))),
        ] {
            assert_eq!(text.parse(), Ok(lifetime));
        }
        for text in ["", "60s", "constant", "uniform 9s 1s", "constant 1", "forever 1s"] {
            assert!(text.parse::<Lifetime>().is_err(), "{text}");
        }
    }

    #[test]
    fn drawn_lifetimes_match_distribution() {
        let mut dice = RandomStreams::new(1).stream("lifetime");
        let second = Duration::from_secs(1);
        assert_eq!(Lifetime::Forever.draw(&mut dice), None);
        assert_eq!(Lifetime::Constant(second).draw(&mut dice), Some(second));
        let uniform = Lifetime::Uniform(second, 3 * second);
        let drawn: Vec<_> = (0..1_000).filter_map(|_| uniform.draw(&mut dice)).collect();
        assert!(drawn.iter().all(|time| (second..=3 * second).contains(time)));
        let mean = drawn.iter().sum::<Duration>() / 1_000;
        assert!((1_900..2_100).contains(&mean.as_millis()), "{mean:?}");
    }
}

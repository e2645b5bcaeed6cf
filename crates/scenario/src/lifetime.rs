//! Laws of the lifetimes of flows.
//!
//! A law gives two kinds of random times: the whole lifetime of a flow that begins, and the remaining lifetime of a
//! flow that is met at a random time ([`LifetimeLaw::draw_remaining`]). A process of arrivals that begins with remaining
//! lifetimes is in its steady state from the first instant on.
//!
//! Logarithms and powers are computed in software, so that they are the same on all machines.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use earmark_core::amounts::parse_duration;
use earmark_core::random::Stream;
use earmark_sim::distributions::{exponential, fraction, normal};
use serde::{Deserialize, Deserializer, de};

use crate::value_syntax::TextOrTimes;

/// Distribution of lifetimes.
pub trait LifetimeLaw: Debug + Send + Sync {
    /// Returns the mean; `None` if flows never end.
    fn mean(&self) -> Option<Duration>;

    /// Draws the lifetime of a flow that begins; `None` if it never ends.
    fn draw(&self, dice: &mut Stream) -> Option<Duration>;

    /// Draws the remaining lifetime of a flow that is met at a random time; `None` if it never ends. For the
    /// distribution function F and the mean m its density at x is (1 - F(x)) / m.
    fn draw_remaining(&self, dice: &mut Stream) -> Option<Duration>;
}

/// Lifetime of flows, as a scenario names it.
#[derive(Clone, Debug)]
pub enum Lifetime {
    /// `"forever"`.
    Forever,
    /// `"constant 60s"`: all the same.
    Constant(Duration),
    /// `"exponential 150s"`: exponentially distributed, with this mean.
    Exponential(Duration),
    /// `"uniform 30s 90s"`: uniformly distributed between these.
    Uniform(Duration, Duration),
    /// `"pareto 150s 1.5"`: Pareto's law with this mean and this shape, which is above 1. The variance is infinite up
    /// to a shape of 2.
    Pareto(Duration, f64),
    /// `"lognormal 150s 1.2"`: the logarithm is normally distributed, with this standard deviation; the mean is that of
    /// the lifetime itself.
    Lognormal(Duration, f64),
    /// Another law, for a scenario that a program builds.
    Law(Arc<dyn LifetimeLaw>),
}

impl PartialEq for Lifetime {
    /// Laws of programs are equal if they are the same object.
    fn eq(&self, other: &Lifetime) -> bool {
        use Lifetime::{Constant, Exponential, Forever, Law, Lognormal, Pareto, Uniform};
        match (self, other) {
            (Forever, Forever) => true,
            (Constant(a), Constant(b)) | (Exponential(a), Exponential(b)) => a == b,
            (Uniform(a, b), Uniform(c, d)) => (a, b) == (c, d),
            (Pareto(a, b), Pareto(c, d)) | (Lognormal(a, b), Lognormal(c, d)) => (a, b) == (c, d),
            (Law(a), Law(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl LifetimeLaw for Lifetime {
    fn mean(&self) -> Option<Duration> {
        match self {
            Lifetime::Forever => None,
            Lifetime::Constant(mean)
            | Lifetime::Exponential(mean)
            | Lifetime::Pareto(mean, _)
            | Lifetime::Lognormal(mean, _) => Some(*mean),
            // The sum of both may exceed the range of a time.
            Lifetime::Uniform(low, high) => Some(*low + (high.saturating_sub(*low)) / 2),
            Lifetime::Law(law) => law.mean(),
        }
    }

    fn draw(&self, dice: &mut Stream) -> Option<Duration> {
        Some(match self {
            Lifetime::Forever => return None,
            Lifetime::Constant(time) => *time,
            Lifetime::Exponential(mean) => exponential(dice, *mean),
            Lifetime::Uniform(low, high) => dice.uniform(*low, *high),
            Lifetime::Pareto(mean, shape) => pareto(dice, shortest(*mean, *shape), *shape),
            Lifetime::Lognormal(mean, deviation) => {
                lognormal(dice, *mean, *deviation, -deviation * deviation / 2.0)
            }
            Lifetime::Law(law) => return law.draw(dice),
        })
    }

    /// Draws the whole lifetime of the flow first: it is met with a probability proportional to its lifetime. The time
    /// of the meeting is uniformly distributed over that lifetime.
    fn draw_remaining(&self, dice: &mut Stream) -> Option<Duration> {
        let whole = match self {
            Lifetime::Forever => return None,
            Lifetime::Exponential(mean) => return Some(exponential(dice, *mean)), // memoryless
            Lifetime::Law(law) => return law.draw_remaining(dice),
            Lifetime::Constant(time) => *time,
            Lifetime::Uniform(low, high) => {
                let (low, high) = (low.as_nanos() as f64, high.as_nanos() as f64);
                let square = low * low + fraction(dice) * (high * high - low * low);
                nanoseconds(libm::sqrt(square))
            }
            // The weighted density is that of the same law with the shape less 1.
            Lifetime::Pareto(mean, shape) => pareto(dice, shortest(*mean, *shape), shape - 1.0),
            // The weighted density is that of the same law with a larger mean.
            Lifetime::Lognormal(mean, deviation) => {
                lognormal(dice, *mean, *deviation, deviation * deviation / 2.0)
            }
        };
        Some(nanoseconds(whole.as_nanos() as f64 * fraction(dice)))
    }
}

/// Returns the shortest lifetime of Pareto's law.
fn shortest(mean: Duration, shape: f64) -> Duration {
    nanoseconds(mean.as_nanos() as f64 * (shape - 1.0) / shape)
}

fn pareto(dice: &mut Stream, shortest: Duration, shape: f64) -> Duration {
    let long = libm::pow(1.0 - fraction(dice), -1.0 / shape);
    nanoseconds(shortest.as_nanos() as f64 * long)
}

/// Draws e to the power of a normally distributed number with this standard deviation and mean, in units of `unit`.
fn lognormal(dice: &mut Stream, unit: Duration, deviation: f64, mean: f64) -> Duration {
    nanoseconds(unit.as_nanos() as f64 * libm::exp(mean + deviation * normal(dice)))
}

/// Returns a time of this length, rounded down; the longest one if it is too long.
pub(crate) fn nanoseconds(time: f64) -> Duration {
    Duration::from_nanos(time as u64) // saturates
}

/// Largest shape of Pareto's law and standard deviation of the logarithm: others are constants, or overflow.
const LARGEST_PARAMETER: f64 = 100.0;

/// Parses a parameter of a law, which is above `low`.
pub(crate) fn number_above(text: &str, low: f64, what: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > low && number <= LARGEST_PARAMETER => Ok(number),
        _ => Err(format!(
            "`{text}`: {what} is a number above {low}, and at most {LARGEST_PARAMETER}"
        )),
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
            ["pareto", mean, shape] => {
                Lifetime::Pareto(time(mean)?, number_above(shape, 1.0, "a shape")?)
            }
            ["lognormal", mean, deviation] => Lifetime::Lognormal(
                time(mean)?,
                number_above(deviation, 0.0, "a standard deviation")?,
            ),
            _ => {
                return Err(format!(
                    "invalid lifetime `{text}`; write \"forever\", \"constant 60s\", \"exponential 150s\", \"uniform 30s \
                     90s\", \"pareto 150s 1.5\" (mean and shape) or \"lognormal 150s 1.2\" (mean, and standard deviation \
                     of the logarithm)"
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

/// Lifetimes of a group of flows.
#[derive(Clone, Debug, PartialEq)]
pub enum Lifetimes {
    /// One law for all.
    Law(Lifetime),
    /// A list such as `["60s", "10s"]`: the lifetime of each flow, in the order of a trace of arrivals.
    Trace(Vec<Duration>),
}

impl From<Lifetime> for Lifetimes {
    fn from(law: Lifetime) -> Lifetimes {
        Lifetimes::Law(law)
    }
}

impl Lifetimes {
    /// Returns the mean of the law; `None` if flows never end, or each has a lifetime of its own.
    pub(crate) fn mean(&self) -> Option<Duration> {
        match self {
            Lifetimes::Law(law) => law.mean(),
            Lifetimes::Trace(_) => None,
        }
    }

    /// Draws or looks up the lifetime of flow number `place`; `None` if it never ends.
    pub(crate) fn draw(&self, place: usize, dice: &mut Stream) -> Option<Duration> {
        match self {
            Lifetimes::Law(law) => law.draw(dice),
            Lifetimes::Trace(times) => times.get(place).copied(),
        }
    }

    /// Draws the remaining lifetime of a flow that is met at a random time; `None` without a law, or if it never ends.
    pub(crate) fn draw_remaining(&self, dice: &mut Stream) -> Option<Duration> {
        match self {
            Lifetimes::Law(law) => law.draw_remaining(dice),
            Lifetimes::Trace(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Lifetimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lifetimes, D::Error> {
        match TextOrTimes::deserialize(deserializer)? {
            TextOrTimes::Text(text) => text.parse().map(Lifetimes::Law).map_err(de::Error::custom),
            TextOrTimes::Times(times) => Ok(Lifetimes::Trace(times)),
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    /// Laws with a mean of 60 s, each with the second moment in s².
    const LAWS: [(&str, f64); 5] = [
        ("constant 60s", 3_600.0),
        ("exponential 60s", 7_200.0),
        ("uniform 30s 90s", 3_900.0),
        ("pareto 60s 4.5", 3_600.0 * 12.25 / 11.25), // x² a / (a - 2) with x = 60 (a - 1) / a
        ("lognormal 60s 0.5", 3_600.0 * 1.284_025),  // m² e^(0.25)
    ];

    fn seconds(draw: impl FnMut() -> Option<Duration>) -> Vec<f64> {
        std::iter::repeat_with(draw).take(200_000).map(|time| time.unwrap().as_secs_f64()).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn lifetimes_are_parsed() {
        let seconds = Duration::from_secs;
        for (text, lifetime) in [
            ("forever", Lifetime::Forever),
            ("constant 60s", Lifetime::Constant(seconds(60))),
            ("exponential 2min", Lifetime::Exponential(seconds(120))),
            ("uniform 30s 90s", Lifetime::Uniform(seconds(30), seconds(90))),
            ("pareto 60s 1.5", Lifetime::Pareto(seconds(60), 1.5)),
            ("lognormal 60s 2", Lifetime::Lognormal(seconds(60), 2.0)),
        ] {
            assert_eq!(text.parse(), Ok(lifetime));
        }
        for text in [
            "",
            "60s",
            "constant",
            "uniform 9s 1s",
            "constant 1",
            "forever 1s",
            "pareto 60s 1",
            "pareto 60s NaN",
            "pareto 60s",
            "lognormal 60s 0",
            "lognormal 60s inf",
            "lognormal 60s 101",
        ] {
            assert!(text.parse::<Lifetime>().is_err(), "{text}");
        }
    }

    #[test]
    fn drawn_lifetimes_have_their_mean() {
        for (text, _) in LAWS {
            let law: Lifetime = text.parse().unwrap();
            let mut dice = RandomStreams::new(1).stream("lifetime");
            let drawn = mean(&seconds(|| law.draw(&mut dice)));
            assert!((drawn - 60.0).abs() < 0.6, "{text}: {drawn}");
            assert_eq!(law.mean(), Some(Duration::from_secs(60)), "{text}");
        }
    }

    /// The mean remaining lifetime is the second moment by twice the mean, and the share of remaining lifetimes up to x
    /// is the mean of min(X, x) by the mean of X.
    #[test]
    fn remaining_lifetimes_have_the_equilibrium_distribution() {
        for (text, second_moment) in LAWS {
            let law: Lifetime = text.parse().unwrap();
            let mut dice = RandomStreams::new(2).stream("remaining");
            let remaining = seconds(|| law.draw_remaining(&mut dice));
            let expected = second_moment / 120.0;
            let drawn = mean(&remaining);
            assert!((drawn / expected - 1.0).abs() < 0.015, "{text}: {drawn}, not {expected}");
            let whole = seconds(|| law.draw(&mut dice));
            for x in [15.0, 45.0, 60.0, 75.0] {
                let share = mean(&whole.iter().map(|time| time.min(x)).collect::<Vec<_>>()) / 60.0;
                let drawn = mean(
                    &remaining
                        .iter()
                        .map(|time| f64::from(u8::from(*time <= x)))
                        .collect::<Vec<_>>(),
                );
                assert!((drawn - share).abs() < 0.006, "{text} up to {x}: {drawn}, not {share}");
            }
        }
        let mut dice = RandomStreams::new(1).stream("lifetime");
        assert_eq!(Lifetime::Forever.draw_remaining(&mut dice), None);
    }

    #[test]
    fn program_gives_a_law_of_its_own() {
        #[derive(Debug)]
        struct Two;
        impl LifetimeLaw for Two {
            fn mean(&self) -> Option<Duration> {
                Some(Duration::from_secs(2))
            }
            fn draw(&self, _: &mut Stream) -> Option<Duration> {
                self.mean()
            }
            fn draw_remaining(&self, dice: &mut Stream) -> Option<Duration> {
                Some(dice.uniform(Duration::ZERO, Duration::from_secs(2)))
            }
        }
        let law = Lifetime::Law(Arc::new(Two));
        let mut dice = RandomStreams::new(1).stream("lifetime");
        assert_eq!((law.mean(), law.draw(&mut dice)), (Some(Duration::from_secs(2)), law.mean()));
        assert!(law.draw_remaining(&mut dice) < law.mean());
        assert!(law == law.clone() && law != Lifetime::Law(Arc::new(Two)));
    }
}

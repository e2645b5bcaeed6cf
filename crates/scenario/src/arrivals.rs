//! Laws of the arrivals of flows.
//!
//! A law gives the times between arrivals, for a mean that follows from the number and the lifetime of the flows. The time
//! to the first arrival is that from a random time on ([`ArrivalLaw::first`]), so that the process is stationary: from
//! the first instant on, the expected number of arrivals in any interval is its length by the mean.
//!
//! Laws of independent times between arrivals (renewal processes) use the same distributions as lifetimes. A trace
//! names each arrival instead.

use std::fmt::Debug;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use earmark_core::random::Stream;
use earmark_sim::distributions::happens;
use serde::{Deserialize, Deserializer, de};

use crate::lifetime::{Lifetime, LifetimeLaw, nanoseconds, number_above};
use crate::value_syntax::TextOrTimes;

/// Distribution of the times between arrivals.
pub trait ArrivalLaw: Debug + Send + Sync {
    /// Draws the time from a random time to the next arrival; `None` if there is none. For the distribution function F of
    /// independent times between arrivals, its density at x is (1 - F(x)) / mean.
    fn first(&self, mean: Duration, dice: &mut Stream) -> Option<Duration>;

    /// Draws the time from one arrival to the next, whose mean is `mean`; zero within a batch, `None` if there is none.
    fn next(&self, mean: Duration, dice: &mut Stream) -> Option<Duration>;
}

/// Arrival of flows after the initial ones, as a scenario names it. Except for the first kind, flows arrive whatever
/// becomes of the others, with as many arrivals as departures on average.
#[derive(Clone, Debug, Default)]
pub enum Arrivals {
    /// `"replaced"`: each flow that ends is replaced at once by another between the same nodes.
    #[default]
    Replaced,
    /// `"poisson"`: a Poisson process.
    Poisson,
    /// `"periodic"`: equal times between arrivals.
    Periodic,
    /// `"pareto 1.5"`: the times between arrivals have Pareto's law with this shape, which is above 1.
    Pareto(f64),
    /// `"lognormal 1.2"`: the logarithm of the times between arrivals is normally distributed, with this standard
    /// deviation.
    Lognormal(f64),
    /// `"batches 10"`: a Poisson process of batches. Sizes are geometrically distributed, from 1 on, with this mean; the
    /// flows of a batch arrive at one instant.
    Batches(f64),
    /// A list such as `["0s", "1.5s"]`: the times of all arrivals in ascending order, from [`Flows::starts`] on.
    ///
    /// [`Flows::starts`]: crate::Flows::starts
    Trace(Vec<Duration>),
    /// Another law, for a scenario that a program builds.
    Law(Arc<dyn ArrivalLaw>),
}

impl PartialEq for Arrivals {
    /// Laws of programs are equal if they are the same object.
    fn eq(&self, other: &Arrivals) -> bool {
        use Arrivals::{Batches, Law, Lognormal, Pareto, Periodic, Poisson, Replaced, Trace};
        match (self, other) {
            (Replaced, Replaced) | (Poisson, Poisson) | (Periodic, Periodic) => true,
            (Pareto(a), Pareto(b)) | (Lognormal(a), Lognormal(b)) | (Batches(a), Batches(b)) => {
                a == b
            }
            (Trace(a), Trace(b)) => a == b,
            (Law(a), Law(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Arrivals {
    /// Returns the distribution of independent times between arrivals, or between batches; `None` for the other kinds.
    fn intervals(&self, mean: Duration) -> Option<Lifetime> {
        Some(match self {
            Arrivals::Poisson => Lifetime::Exponential(mean),
            Arrivals::Periodic => Lifetime::Constant(mean),
            Arrivals::Pareto(shape) => Lifetime::Pareto(mean, *shape),
            Arrivals::Lognormal(deviation) => Lifetime::Lognormal(mean, *deviation),
            Arrivals::Batches(size) => {
                Lifetime::Exponential(nanoseconds(mean.as_nanos() as f64 * size))
            }
            Arrivals::Replaced | Arrivals::Trace(_) | Arrivals::Law(_) => return None,
        })
    }
}

impl ArrivalLaw for Arrivals {
    fn first(&self, mean: Duration, dice: &mut Stream) -> Option<Duration> {
        match self {
            Arrivals::Law(law) => law.first(mean, dice),
            _ => self.intervals(mean)?.draw_remaining(dice),
        }
    }

    fn next(&self, mean: Duration, dice: &mut Stream) -> Option<Duration> {
        match self {
            Arrivals::Law(law) => law.next(mean, dice),
            // The probability that a batch ends is the same after each of its flows.
            Arrivals::Batches(size) if !happens(dice, 1.0 / size) => Some(Duration::ZERO),
            _ => self.intervals(mean)?.draw(dice),
        }
    }
}

/// Largest mean size of batches.
const LARGEST_BATCH: f64 = 1e6;

impl FromStr for Arrivals {
    type Err = String;

    fn from_str(text: &str) -> Result<Arrivals, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        Ok(match words[..] {
            ["replaced"] => Arrivals::Replaced,
            ["poisson"] => Arrivals::Poisson,
            ["periodic"] => Arrivals::Periodic,
            ["pareto", shape] => Arrivals::Pareto(number_above(shape, 1.0, "a shape")?),
            ["lognormal", deviation] => {
                Arrivals::Lognormal(number_above(deviation, 0.0, "a standard deviation")?)
            }
            ["batches", size] => match size.parse() {
                Ok(mean) if (1.0..=LARGEST_BATCH).contains(&mean) => Arrivals::Batches(mean),
                _ => {
                    return Err(format!("`{size}`: a mean size of batches is from 1 to a million"));
                }
            },
            _ => {
                return Err(format!(
                    "invalid arrivals `{text}`; write \"replaced\", \"poisson\", \"periodic\", \"pareto 1.5\" (shape), \
                     \"lognormal 1.2\" (standard deviation of the logarithm), \"batches 10\" (mean size), or a list of \
                     times such as [\"0s\", \"1.5s\"]"
                ));
            }
        })
    }
}

impl<'de> Deserialize<'de> for Arrivals {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Arrivals, D::Error> {
        match TextOrTimes::deserialize(deserializer)? {
            TextOrTimes::Text(text) => text.parse().map_err(de::Error::custom),
            TextOrTimes::Times(times) => Ok(Arrivals::Trace(times)),
        }
    }
}

#[cfg(test)]
mod tests;

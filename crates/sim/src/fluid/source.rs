//! On and off times of a fluid source, and its rate.

use core::time::Duration;

use earmark_core::Time;
use earmark_core::random::Stream;

use super::rate::FluidRate;
use crate::distributions;
use crate::pattern::TrafficPattern;
use crate::traffic::Source;

/// A source that alternates between on and off. It draws the same random numbers as a packet source, in the same order.
#[derive(Debug)]
pub(crate) struct OnOffSource {
    random: Stream,
    rate: FluidRate,
    /// Mean times on and off; `None` for a source that is always on.
    bursts: Option<(Duration, Duration)>,
    is_on: bool,
    next_burst: Time,
}

impl OnOffSource {
    /// Creates a source that is off until its [`first`](OnOffSource::first) turn.
    pub(crate) fn new(source: &Source, starts: Time, mut random: Stream) -> OnOffSource {
        let (mut bursts, mut next_burst) = (None, starts);
        let rate = match &source.pattern {
            TrafficPattern::Constant(rate) | TrafficPattern::Bucket { rate, .. } => {
                FluidRate::of(*rate)
            }
            TrafficPattern::OnOff { rate, on, off } => {
                bursts = Some((*on, *off));
                next_burst = distributions::first_burst(&mut random, starts, *on, *off);
                FluidRate::of(*rate)
            }
            TrafficPattern::Times(times) => FluidRate::mean(source.packet_octets, times),
        };
        OnOffSource { random, rate, bursts, is_on: false, next_burst }
    }

    /// Returns the time when it is on for the first time.
    pub(crate) fn first(&self) -> Time {
        self.next_burst
    }

    /// Turns on or off now; returns the new rate, and the time of the next turn.
    pub(crate) fn turn(&mut self, now: Time) -> (FluidRate, Time) {
        let Some((on, off)) = self.bursts else {
            return (self.rate, Time::MAX);
        };
        self.is_on = !self.is_on;
        if !self.is_on {
            return (FluidRate::ZERO, self.next_burst);
        }
        let ends = now + distributions::exponential(&mut self.random, on);
        self.next_burst = ends + distributions::exponential(&mut self.random, off);
        (self.rate, ends)
    }
}

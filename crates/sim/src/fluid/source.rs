//! On and off times of a fluid source, and its rate.

use core::time::Duration;

use earmark_core::Time;
use earmark_core::random::Stream;

use super::rate::Flux;
use crate::distributions;
use crate::pattern::Shape;
use crate::traffic::Source;

/// A source that alternates between on and off. It draws the same random numbers as a packet source, in the same order.
#[derive(Debug)]
pub(crate) struct Turns {
    dice: Stream,
    flux: Flux,
    /// Mean times on and off; `None` for a source that is always on.
    bursts: Option<(Duration, Duration)>,
    is_on: bool,
    next_burst: Time,
}

impl Turns {
    /// Creates a source that is off until its [`first`](Turns::first) turn.
    pub(crate) fn new(source: &Source, starts: Time, mut dice: Stream) -> Turns {
        let (mut bursts, mut next_burst) = (None, starts);
        let flux = match &source.shape {
            Shape::Constant(rate) | Shape::Bucket { rate, .. } => Flux::of(*rate),
            Shape::OnOff { rate, on, off } => {
                bursts = Some((*on, *off));
                next_burst = distributions::first_burst(&mut dice, starts, *on, *off);
                Flux::of(*rate)
            }
            Shape::Times(times) => Flux::mean(source.packet_octets, times),
        };
        Turns { dice, flux, bursts, is_on: false, next_burst }
    }

    /// Returns the time when it is on for the first time.
    pub(crate) fn first(&self) -> Time {
        self.next_burst
    }

    /// Turns on or off now; returns the new rate, and the time of the next turn.
    pub(crate) fn turn(&mut self, now: Time) -> (Flux, Time) {
        let Some((on, off)) = self.bursts else {
            return (self.flux, Time::MAX);
        };
        self.is_on = !self.is_on;
        if !self.is_on {
            return (Flux::ZERO, self.next_burst);
        }
        let ends = now + distributions::exponential(&mut self.dice, on);
        self.next_burst = ends + distributions::exponential(&mut self.dice, off);
        (self.flux, ends)
    }
}

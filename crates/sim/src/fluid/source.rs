//! When a source of fluid is on, and how much it lets flow.

use core::time::Duration;

use earmark_core::Time;
use earmark_core::random::Stream;

use super::rate::Flux;
use crate::dice;
use crate::shape::Shape;
use crate::traffic::Source;

/// A source that is on and off by turns. It draws what the packets of the same source would, in the same order.
#[derive(Debug)]
pub(super) struct Turns {
    dice: Stream,
    flux: Flux,
    /// Mean times on and off; `None` where it is always on.
    bursts: Option<(Duration, Duration)>,
    is_on: bool,
    next_burst: Time,
}

impl Turns {
    /// A source that is off until its [`first`](Turns::first) turn.
    pub(super) fn new(source: &Source, starts: Time, mut dice: Stream) -> Turns {
        let (mut bursts, mut next_burst) = (None, starts);
        let flux = match &source.shape {
            Shape::Constant(rate) | Shape::Bucket { rate, .. } => Flux::of(*rate),
            Shape::OnOff { rate, on, off } => {
                bursts = Some((*on, *off));
                next_burst = dice::first_burst(&mut dice, starts, *on, *off);
                Flux::of(*rate)
            }
            Shape::Times(times) => Flux::mean(source.packet_octets, times),
        };
        Turns { dice, flux, bursts, is_on: false, next_burst }
    }

    /// When it is on for the first time.
    pub(super) fn first(&self) -> Time {
        self.next_burst
    }

    /// Turns on or off, now: what it lets flow from now on, and when it turns next.
    pub(super) fn turn(&mut self, now: Time) -> (Flux, Time) {
        let Some((on, off)) = self.bursts else {
            return (self.flux, Time::MAX);
        };
        self.is_on = !self.is_on;
        if !self.is_on {
            return (Flux::ZERO, self.next_burst);
        }
        let ends = now + dice::exponential(&mut self.dice, on);
        self.next_burst = ends + dice::exponential(&mut self.dice, off);
        (self.flux, ends)
    }
}

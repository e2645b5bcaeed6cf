//! Timing of single operations, as in Pan and Schulzrinne: their mean and their standard deviation.
//!
//! A mean is that of the operations of a round without the lowest and the highest tenth; a standard deviation is that
//! without the lowest and the highest hundredth. Otherwise both would reflect the few operations with an interrupt of
//! the machine.

use std::time::Instant;

use crate::paper_reproduction::section::Estimate;
use earmark_lab::statistics::{trimmed, trimmed_mean};

/// Number of readings that determine the cost of the clock.
const READINGS: u32 = 1_000;
/// Number of operations for each that is left out of the standard deviation at both ends.
const HUNDRED: usize = 100;

/// The clock, and the time that its readings add to a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    cost_us: f64,
}

/// Mean and standard deviation of the operations of a round, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    mean: f64,
    deviation: f64,
}

/// Results of the rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    rounds: Vec<Round>,
    /// Operations of the current round, microseconds.
    times: Vec<f64>,
    /// Number of operations of all completed rounds.
    operations: u64,
}

impl Clock {
    /// Measures the current cost of reading the clock, on this thread.
    pub(super) fn calibrated() -> Clock {
        let clock = Clock { cost_us: 0.0 };
        let readings = (0..READINGS).map(|_| clock.time(|| ()));
        Clock { cost_us: trimmed_mean(readings) }
    }

    /// Returns the cost of the clock, microseconds.
    pub(super) fn cost_us(&self) -> f64 {
        self.cost_us
    }

    /// Returns the time of an operation, less the cost of the clock, microseconds.
    pub(super) fn time<T>(&self, operation: impl FnOnce() -> T) -> f64 {
        let start = Instant::now();
        let result = operation();
        let took = start.elapsed();
        std::hint::black_box(result);
        took.as_secs_f64() * 1e6 - self.cost_us
    }

    /// Times an operation on each of these items.
    pub(super) fn each<I, T>(
        &self,
        into: &mut Tally,
        items: impl IntoIterator<Item = I>,
        mut operation: impl FnMut(I) -> T,
    ) {
        into.times.extend(items.into_iter().map(|item| self.time(|| operation(item))));
    }
}

impl Round {
    /// Summarizes these operations; `None` if there are fewer than two.
    fn of(times: &mut [f64]) -> Option<Round> {
        times.sort_unstable_by(f64::total_cmp);
        let most = trimmed(times, HUNDRED);
        if most.len() < 2 {
            return None;
        }
        let count = most.len() as f64;
        let mean = most.iter().sum::<f64>() / count;
        let squares: f64 = most.iter().map(|time| (time - mean).powi(2)).sum();
        Some(Round {
            mean: trimmed_mean(times.iter().copied()),
            deviation: (squares / (count - 1.0)).sqrt(),
        })
    }
}

impl Tally {
    /// Adds the time of an operation, microseconds.
    pub(super) fn add(&mut self, time: f64) {
        self.times.push(time);
    }

    /// Ends the round: its operations become one value.
    pub(super) fn end_round(&mut self) {
        self.operations += self.times.len() as u64;
        self.rounds.extend(Round::of(&mut self.times));
        self.times.clear();
    }

    /// Returns the mean time of an operation, from the means of the rounds.
    pub(super) fn mean(&self) -> Option<Estimate> {
        self.estimate(self.means())
    }

    /// Returns the standard deviation of an operation within a round.
    pub(super) fn deviation(&self) -> Option<Estimate> {
        self.estimate(self.rounds.iter().map(|round| round.deviation))
    }

    /// Summarizes a value of each round.
    pub(super) fn estimate(&self, rounds: impl Iterator<Item = f64>) -> Option<Estimate> {
        Estimate::of_batches(&rounds.collect::<Vec<f64>>(), self.operations)
    }

    /// Returns the means of the rounds, in order.
    pub(super) fn means(&self) -> impl Iterator<Item = f64> {
        self.rounds.iter().map(|round| round.mean)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn rounds_have_their_mean_and_deviation() {
        let round = Round::of(&mut [5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(round.mean, 3.0);
        assert!((round.deviation - 2.5_f64.sqrt()).abs() < 1e-12);
        assert_eq!((Round::of(&mut []), Round::of(&mut [1.0])), (None, None));
        let mut tally = Tally::default();
        assert_eq!(tally.mean(), None);
        for times in [[1.0, 3.0], [3.0, 5.0]] {
            times.into_iter().for_each(|time| tally.add(time));
            tally.end_round();
        }
        let mean = tally.mean().unwrap();
        assert_eq!((mean.median, mean.low, mean.high, mean.repetitions), (3.0, 2.0, 4.0, 4));
        assert_eq!(tally.means().collect::<Vec<f64>>(), [2.0, 4.0]);
    }

    /// An operation with an interrupt changes neither; one slow operation in ten contributes to the deviation.
    #[test]
    fn disturbed_operations_are_left_out() {
        let quiet: Vec<f64> = (0..200).map(|n| f64::from(n % 2)).collect();
        let mut disturbed = quiet.clone();
        (disturbed[7], disturbed[150]) = (9_000.0, 400.0);
        let [quiet, disturbed] = [quiet, disturbed].map(|mut times| Round::of(&mut times).unwrap());
        assert!((quiet.mean - disturbed.mean).abs() < 0.01, "{disturbed:?}");
        assert!((quiet.deviation - disturbed.deviation).abs() < 0.01, "{disturbed:?}");
        let mut some_slow: Vec<f64> = (0..200).map(|n| f64::from(n / 180 * 9)).collect();
        assert!(Round::of(&mut some_slow).unwrap().deviation > 2.0);
    }

    #[test]
    fn operation_time_excludes_the_clock() {
        let clock = Clock::calibrated();
        assert!(clock.cost_us() > 0.0);
        let mut tally = Tally::default();
        clock.each(&mut tally, 0..3, |_| std::thread::sleep(Duration::from_millis(1)));
        tally.end_round();
        assert!(tally.means().all(|mean| mean > 900.0) && tally.means().count() == 1);
    }
}

//! Operations that are timed one by one, as the figures of Pan and Schulzrinne were: their mean and their standard deviation.

use std::time::Instant;

use crate::overhead::chapter::Estimate;

/// How often the clock is read to find what that costs.
const READINGS: u32 = 1_000;

/// The clock, and what it adds to whatever is timed by it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    cost_us: f64,
}

/// Mean and standard deviation of operations in a batch, microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Batch {
    pub(super) mean: f64,
    pub(super) deviation: f64,
}

/// What batch after batch has found.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    batches: Vec<Batch>,
}

impl Clock {
    /// Finds out what reading the clock costs.
    pub(super) fn calibrated() -> Clock {
        let clock = Clock { cost_us: 0.0 };
        let readings = (0..READINGS).map(|_| clock.time(|| ()));
        let cost_us = Estimate::of(&readings.collect::<Vec<f64>>()).map_or(0.0, |cost| cost.median);
        Clock { cost_us }
    }

    /// What the clock costs, microseconds.
    pub(super) fn cost_us(&self) -> f64 {
        self.cost_us
    }

    /// How long something takes, without the clock, microseconds.
    pub(super) fn time<T>(&self, operation: impl FnOnce() -> T) -> f64 {
        let start = Instant::now();
        let result = operation();
        let took = start.elapsed();
        std::hint::black_box(result);
        took.as_secs_f64() * 1e6 - self.cost_us
    }

    /// Times an operation on each of these.
    pub(super) fn each<I, T>(
        &self,
        items: impl IntoIterator<Item = I>,
        mut operation: impl FnMut(I) -> T,
    ) -> Batch {
        let times: Vec<f64> = items.into_iter().map(|item| self.time(|| operation(item))).collect();
        Batch::of(&times)
    }
}

impl Batch {
    /// Of at least two times.
    pub(super) fn of(times: &[f64]) -> Batch {
        let count = times.len() as f64;
        let mean = times.iter().sum::<f64>() / count;
        let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
        Batch { mean, deviation: (squares / (count - 1.0)).sqrt() }
    }
}

impl Tally {
    /// Another batch.
    pub(super) fn add(&mut self, batch: Batch) {
        self.batches.push(batch);
    }

    /// The mean of an operation: of the batches' means.
    pub(super) fn mean(&self) -> Option<Estimate> {
        self.estimate(|batch| batch.mean)
    }

    /// The standard deviation of an operation within a batch.
    pub(super) fn deviation(&self) -> Option<Estimate> {
        self.estimate(|batch| batch.deviation)
    }

    /// A number of each batch.
    pub(super) fn estimate(&self, of: impl Fn(&Batch) -> f64) -> Option<Estimate> {
        Estimate::over_time(&self.batches.iter().map(of).collect::<Vec<f64>>())
    }

    /// The means of the batches, in their order.
    pub(super) fn means(&self) -> impl Iterator<Item = f64> {
        self.batches.iter().map(|batch| batch.mean)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn batches_have_their_mean_and_deviation() {
        let batch = Batch::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(batch.mean, 3.0);
        assert!((batch.deviation - 2.5_f64.sqrt()).abs() < 1e-12);
        let mut tally = Tally::default();
        assert_eq!(tally.mean(), None);
        tally.add(batch);
        tally.add(Batch { mean: 5.0, deviation: 0.0 });
        assert_eq!(tally.mean().map(|mean| mean.median), Some(4.0));
        assert_eq!(tally.means().collect::<Vec<f64>>(), [3.0, 5.0]);
    }

    #[test]
    fn what_takes_time_takes_it_without_the_clock() {
        let clock = Clock::calibrated();
        assert!(clock.cost_us() > 0.0);
        let sleep = |_| std::thread::sleep(Duration::from_millis(1));
        assert!(clock.each(0..3, sleep).mean > 900.0);
    }
}

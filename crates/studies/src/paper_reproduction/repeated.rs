//! Rounds: repeated measurements, each of which is like another run of the program.
//!
//! Two runs differ by more than two measurements of one run do: by memory addresses, and by other work of the
//! machine. So a round sets up its subject anew, on a thread of its own, and rounds are spread over time. An interval
//! over rounds then includes the spread between runs.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::section::Section;
use crate::bench::Supervision;

/// A part whose rounds run between the other parts, so that they cover the whole time of a report: a processor
/// changes its speed by a few percent from one minute to the next.
pub(super) trait RepeatedMeasurement {
    /// Number of rounds.
    fn count(&self) -> u32;
    /// Interval between the beginnings of consecutive rounds.
    fn interval(&self) -> Duration;
    /// Runs a round.
    fn round(&mut self, number: u32, supervision: &Supervision<'_>) -> Result<()>;
    /// Returns the results of the rounds.
    fn section(&self) -> Section;
}

/// A part and its progress.
pub(super) struct PartProgress {
    name: &'static str,
    part: Box<dyn RepeatedMeasurement>,
    done: u32,
    /// Error that ended the part.
    failed: Option<anyhow::Error>,
}

impl PartProgress {
    /// Creates a part without rounds done.
    pub(super) fn new(name: &'static str, part: Box<dyn RepeatedMeasurement>) -> PartProgress {
        PartProgress { name, part, done: 0, failed: None }
    }

    /// Runs the rounds of stop `stop` of `stops`, numbered from 0: about as many at each stop.
    pub(super) fn stop(&mut self, stop: usize, stops: usize, supervision: &Supervision<'_>) {
        let count = self.part.count();
        let until = (count as usize * (stop + 1) / stops) as u32;
        let (first, interval) = (self.done, self.part.interval());
        if self.failed.is_some() || until <= first {
            return;
        }
        let what = format!("{}: rounds {} to {until} of {count}", self.name, first + 1);
        supervision.watcher.begin(&what, (until - first).into());
        let part = &mut self.part;
        let done = run_rounds(until - first, interval, supervision, |n| {
            part.round(first + n, supervision)
        });
        (self.done, self.failed) = (until, done.err());
    }

    /// Returns the results of all rounds.
    ///
    /// # Errors
    /// A round has failed.
    pub(super) fn section(self) -> Result<Section> {
        self.failed.map_or_else(|| Ok(self.part.section()), Err)
    }
}

/// Runs a number of rounds, numbered from 0, whose beginnings are at least `apart` apart.
///
/// # Errors
/// A round has failed; the measurement was interrupted.
pub(super) fn run_rounds(
    rounds: u32,
    interval: Duration,
    supervision: &Supervision<'_>,
    mut round: impl FnMut(u32) -> Result<()>,
) -> Result<()> {
    for number in 0..rounds {
        supervision.check_interrupted()?;
        let begun = Instant::now();
        round(number)?;
        supervision.watcher.reached(u64::from(number) + 1);
        if number + 1 < rounds {
            std::thread::sleep(interval.saturating_sub(begun.elapsed()));
        }
    }
    Ok(())
}

/// Runs `work` on a thread of its own, and so with another stack and heap: memory addresses alone change times by a
/// few percent, which would otherwise be constant in one run and different in the next.
pub(super) fn on_new_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let done = std::thread::scope(|scope| scope.spawn(work).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::bench::Unwatched;

    #[test]
    fn rounds_are_spaced_and_stop_at_a_failure() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        let interval = Duration::from_millis(10);
        let mut begun = Vec::new();
        let round = |_| {
            begun.push(Instant::now());
            Ok(())
        };
        run_rounds(3, interval, &supervision, round).unwrap();
        assert!(begun.len() == 3 && begun.windows(2).all(|two| two[1] - two[0] >= interval));
        let mut done = Vec::new();
        let round = |number| {
            done.push(number);
            anyhow::ensure!(number < 1, "enough");
            Ok(())
        };
        assert!(run_rounds(9, Duration::ZERO, &supervision, round).is_err());
        assert_eq!(done, [0, 1]);
        interrupted.store(true, Ordering::Relaxed);
        assert!(
            run_rounds(1, interval, &supervision, |_| unreachable!("it was interrupted")).is_err()
        );
    }

    /// Records the numbers of the rounds that ran.
    struct RanRounds(Vec<u32>);

    impl RepeatedMeasurement for RanRounds {
        fn count(&self) -> u32 {
            8
        }

        fn interval(&self) -> Duration {
            Duration::ZERO
        }

        fn round(&mut self, number: u32, _: &Supervision<'_>) -> Result<()> {
            self.0.push(number);
            anyhow::ensure!(self.0.len() <= 8, "enough");
            Ok(())
        }

        fn section(&self) -> Section {
            let mut section = Section::default();
            section.text(format!("{:?}", self.0));
            section
        }
    }

    /// Whatever runs between them, all rounds run once, in order, and about as many at each stop.
    #[test]
    fn rounds_are_spread_over_all_stops() {
        let supervision = Supervision::unwatched();
        for stops in 1..12 {
            let mut spread = PartProgress::new("numbers", Box::new(RanRounds(Vec::new())));
            for stop in 0..stops {
                let before = spread.done;
                spread.stop(stop, stops, &supervision);
                assert!((spread.done - before) as usize <= 8_usize.div_ceil(stops));
            }
            let section = format!("{:?}", spread.section().unwrap());
            assert!(section.contains("[0, 1, 2, 3, 4, 5, 6, 7]"), "{section}");
        }
        let mut broken = PartProgress::new("numbers", Box::new(RanRounds(vec![9; 6])));
        (0..4).for_each(|stop| broken.stop(stop, 4, &supervision));
        assert!(broken.section().is_err());
    }

    #[test]
    fn result_of_another_thread_is_returned() {
        let here = std::thread::current().id();
        assert!(on_new_thread(|| Ok(std::thread::current().id() != here)).unwrap());
        assert!(on_new_thread(|| -> Result<()> { anyhow::bail!("no") }).is_err());
    }
}

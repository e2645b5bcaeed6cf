//! Parallel runs: one for each processor at a time, with a progress bar.
//!
//! The results are in the order of the jobs, whichever was done first, so that they are independent of the number of
//! processors.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Returns a bar for `runs` runs on standard error; nothing is drawn unless that is a terminal.
pub fn bar(what: &str, runs: usize) -> ProgressBar {
    let bar = ProgressBar::new(runs as u64).with_prefix(what.to_owned());
    if let Ok(style) =
        ProgressStyle::with_template("{prefix:<12} {bar:40} {pos}/{len} runs, {eta} to go")
    {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Runs every job, on all processors, and returns the results in the order of the jobs. The bar advances by one for
/// each, and is removed at the end. A panic of a run is passed on to the caller.
pub fn over_all_cores<T: Sync, R: Send>(
    jobs: &[T],
    progress: &ProgressBar,
    run: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(number) else { return done };
            done.push((number, run(job)));
            progress.inc(1);
        }
    };
    let workers = thread::available_parallelism().map_or(1, NonZero::get).min(jobs.len());
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(ScopedJoinHandle::join);
        joined
            .flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect::<Vec<_>>()
    });
    progress.finish_and_clear();
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first jobs take longest, so that they are done last.
    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..40).collect();
        let progress = ProgressBar::hidden();
        let results = over_all_cores(&jobs, &progress, |&job| {
            thread::sleep(Duration::from_millis(10_u64.saturating_sub(job)));
            job * job
        });
        assert_eq!(results, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        assert_eq!(progress.position(), 40);
        assert!(over_all_cores(&[] as &[u64], &progress, |&job| job).is_empty());
    }

    #[test]
    #[should_panic(expected = "run 3 is lost")]
    fn a_panic_is_passed_on() {
        over_all_cores(&[1, 2, 3, 4], &ProgressBar::hidden(), |&job| {
            assert!(job != 3, "run {job} is lost");
        });
    }
}

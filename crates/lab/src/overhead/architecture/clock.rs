//! The same benchmark on the processor that is there: its time, and what its counters count, where it has some.

use anyhow::Result;

use super::super::chapter::Estimate;
use crate::bench::Supervision;
use crate::bench::calls::{self, Plan};

/// How often it is played for one value.
const BATCH: usize = 3;

/// How long what is counted takes, microseconds: of each plan, with so many values, taken by turns, so that each sees the
/// machine at several times.
///
/// # Errors
/// The benchmark did not do what it should; it was interrupted.
pub(super) fn times(
    plans: &[Plan],
    values: usize,
    supervision: &Supervision<'_>,
) -> Result<Vec<Estimate>> {
    supervision.watcher.begin("architecture: calls on this processor", values as u64);
    let mut times = vec![Vec::new(); plans.len()];
    for round in 0..values {
        for (plan, times) in plans.iter().zip(&mut times) {
            supervision.go_on()?;
            let mut batch =
                (0..BATCH).map(|_| Ok(calls::play(plan)?.us)).collect::<Result<Vec<f64>>>()?;
            batch.sort_unstable_by(f64::total_cmp);
            times.push(batch[BATCH / 2]);
        }
        supervision.watcher.reached(round as u64 + 1);
    }
    Ok(times.iter().filter_map(|times| Estimate::of(times)).collect())
}

//! YESSIR as Pan and Schulzrinne measured it: how long a new flow takes among others (Table 2), and what each step of it takes
//! (Table 3).

mod clock;
mod flows;
mod sockets;
mod steps;
mod tell;

use anyhow::Result;

use super::Order;
use super::chapter::Chapter;
use super::published;
use crate::bench::Supervision;
use clock::Clock;
use flows::Flows;
use steps::Steps;

/// Flows that stand, beyond those of the paper.
const BEYOND: [u32; 3] = [30_000, 100_000, 1_000_000];

/// All that is measured, round by round.
struct Measurements {
    clock: Clock,
    flows: Vec<Flows>,
    steps: Steps,
}

/// Measures all of it. Every round visits every size and every step, so that what is compared was measured side by side.
pub(super) fn measure(order: &Order, supervision: &Supervision<'_>) -> Result<Chapter> {
    let sizes =
        published::numbers("pan.table2_flow_build.flows").into_iter().map(|flows| flows as u32);
    let sizes: Vec<u32> = sizes.chain(BEYOND).collect();
    let rounds = if order.quick { 1_500 } else { 6_000 };
    Ok(tell::tell(&Measurements::of(&sizes, rounds, supervision)?))
}

impl Measurements {
    fn of(sizes: &[u32], rounds: u32, supervision: &Supervision<'_>) -> Result<Measurements> {
        let watcher = supervision.watcher;
        let mut flows = Vec::new();
        for &size in sizes {
            watcher.begin(&format!("yessir: {size} flows"), size.into());
            flows.push(Flows::new(size, |count| {
                watcher.reached(count.into());
                supervision.go_on()
            })?);
        }
        let mut all = Measurements { clock: Clock::calibrated(), flows, steps: Steps::new()? };
        watcher.begin("yessir: rounds", rounds.into());
        for round in 0..rounds {
            supervision.go_on()?;
            for flows in &mut all.flows {
                flows.round(&all.clock, round)?;
            }
            all.steps.round(&all.clock, round)?;
            watcher.reached(u64::from(round) + 1);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::bench::Unwatched;

    /// A small run fills the whole chapter: every published figure of this part has its counterpart, lists as long as published.
    #[test]
    fn every_published_figure_has_a_counterpart() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        let sizes: Vec<u32> = (1..=11).collect();
        let chapter = tell::tell(&Measurements::of(&sizes, 2, &supervision).unwrap());
        let mine = |key: &str| {
            ["pan.table2_flow_build", "pan.table3_yessir"]
                .iter()
                .any(|above| published::is_under(key, above))
        };
        for (key, value) in published::measurements().filter(|(key, _)| mine(key)) {
            let entry = chapter.entries.iter().find(|entry| entry.key == *key);
            let values = &entry.unwrap_or_else(|| panic!("{key}")).values;
            assert_eq!(values.len(), value.as_array().map_or(1, Vec::len), "{key}");
            assert!(values.iter().all(|value| value.median.is_finite()), "{key}");
        }
        assert!(chapter.tables().all(|table| {
            !table.rows.is_empty() && table.rows.iter().all(|row| row.len() == table.columns.len())
        }));
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(Measurements::of(&sizes, 1, &supervision).is_err(), "it was interrupted");
    }
}

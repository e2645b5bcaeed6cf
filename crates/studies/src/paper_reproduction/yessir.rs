//! YESSIR as measured by Pan and Schulzrinne: time of a new flow among others (Table 2), and time of each of its
//! steps (Table 3).

mod clock;
mod flows;
mod report;
mod sockets;
mod steps;

use std::time::Duration;

use anyhow::Result;

use super::PartOptions;
use super::checkpoint_trace::{self, CheckpointTracing};
use super::published;
use super::repeated::{RepeatedMeasurement, on_new_thread};
use super::section::Section;
use crate::bench::Supervision;
use flows::{Batches, Flows};
use steps::Steps;

/// Numbers of resident flows beyond those of the paper.
const BEYOND: [u32; 3] = [30_000, 100_000, 1_000_000];
/// Number of flows from which on they are not created anew in every round, which would take seconds.
const LARGE: u32 = 1_000_000;

/// Size of the measurement.
#[derive(Clone, Copy, Debug)]
struct Plan {
    rounds: u32,
    /// Number of rounds for each creation of a large router, which yields the values of all of them.
    large_every: u32,
    /// Least interval between the beginnings of rounds.
    interval: Duration,
    batches: Batches,
}

const QUICK: Plan = Plan {
    rounds: 8,
    large_every: 4,
    interval: Duration::from_secs(3),
    batches: Batches { of_flows: 60, of_steps: 40 },
};
const FULL: Plan = Plan {
    rounds: 24,
    large_every: 3,
    interval: Duration::from_secs(5),
    batches: Batches { of_flows: 100, of_steps: 60 },
};

/// All measurements, round by round. Every round visits every size and every step, so that compared values are
/// measured side by side.
struct Measurements {
    plan: Plan,
    flows: Vec<Flows>,
    steps: Steps,
    /// Calibrated in the first round.
    clock: Option<checkpoint_trace::Clock>,
}

/// Returns the rounds of this part.
pub(super) fn rounds(order: &PartOptions) -> Box<dyn RepeatedMeasurement> {
    let sizes =
        published::numbers("pan.table2_flow_build.flows").into_iter().map(|flows| flows as u32);
    let sizes: Vec<u32> = sizes.chain(BEYOND).collect();
    Box::new(Measurements::of(&sizes, if order.quick { QUICK } else { FULL }))
}

impl Measurements {
    fn of(sizes: &[u32], plan: Plan) -> Measurements {
        let flows = sizes.iter().map(|&size| Flows::new(size)).collect();
        Measurements { plan, flows, steps: Steps::default(), clock: None }
    }
}

impl RepeatedMeasurement for Measurements {
    fn count(&self) -> u32 {
        self.plan.rounds
    }

    fn interval(&self) -> Duration {
        self.plan.interval
    }

    fn round(&mut self, round: u32, supervision: &Supervision<'_>) -> Result<()> {
        let Measurements { plan, flows, steps, clock } = self;
        let marks = CheckpointTracing::begin();
        let mut calibrated = match clock.take() {
            Some(clock) => clock,
            None => checkpoint_trace::Clock::calibrate(&marks)?,
        };
        calibrated.measure_mark_cost(&marks)?;
        drop(marks);
        *clock = Some(calibrated);
        for flows in flows {
            let rounds = match flows.resident {
                LARGE.. if round.is_multiple_of(plan.large_every) => plan.large_every,
                LARGE.. => continue,
                _ => 1,
            };
            let check_interrupted = || supervision.check_interrupted();
            on_new_thread(|| flows.rounds(rounds, plan.batches, &calibrated, &check_interrupted))?;
        }
        on_new_thread(|| steps.round(&calibrated, plan.batches))
    }

    fn section(&self) -> Section {
        report::section(self)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::bench::Unwatched;

    /// A small run fills the whole section: every published figure of this part has its counterpart, and lists have
    /// their published length.
    #[test]
    fn every_published_figure_has_a_counterpart() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        let sizes: Vec<u32> = (1..=11).collect();
        let batches = Batches { of_flows: 1, of_steps: 1 };
        let plan = Plan { rounds: 2, large_every: 1, interval: Duration::ZERO, batches };
        let mut measured = Measurements::of(&sizes, plan);
        (0..plan.rounds).for_each(|round| measured.round(round, &supervision).unwrap());
        let section = measured.section();
        let mine = |key: &str| {
            ["pan.table2_flow_build", "pan.table3_yessir"]
                .iter()
                .any(|above| published::is_under(key, above))
        };
        for (key, value) in published::measurements().filter(|(key, _)| mine(key)) {
            if section.left_out.iter().any(|(other, _)| other == key) {
                assert_eq!(key, "pan.table3_yessir.kernel_io", "another part measures it");
                continue;
            }
            let entry = section.entries.iter().find(|entry| entry.key == *key);
            let values = &entry.unwrap_or_else(|| panic!("{key}")).values;
            assert_eq!(values.len(), value.as_array().map_or(1, Vec::len), "{key}");
            assert!(values.iter().all(|value| value.median.is_finite()), "{key}");
        }
        assert!(section.tables().all(|table| {
            !table.rows.is_empty() && table.rows.iter().all(|row| row.len() == table.columns.len())
        }));
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(measured.round(2, &supervision).is_err(), "it was interrupted");
    }

    /// A large router has as many values although it is not created in every round.
    #[test]
    fn all_sizes_have_as_many_values() {
        for Plan { rounds, large_every, .. } in [QUICK, FULL] {
            assert!(rounds >= 8 && rounds.is_multiple_of(large_every));
        }
    }
}

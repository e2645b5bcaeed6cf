//! Repetitions of a benchmark, and the checks of their results.

use super::super::section::{Cell, Estimate, Section, Table};
use super::counts::Counts;
use super::simulator::{Caches, OF_THE_PAPER, Run};
use crate::bench::calls::Scenario;
use crate::bench::router::Protocol;

/// A figure computed from the counts.
pub(super) type CountFigure = fn(&Counts) -> f64;

/// The repetitions of one scenario on one kind of processor.
pub(super) struct Sample<'r> {
    pub(super) protocol: Protocol,
    pub(super) scenario: Scenario,
    pub(super) caches: Caches,
    /// At least one repetition.
    pub(super) runs: Vec<&'r Run>,
}

impl Sample<'_> {
    pub(super) fn name(&self) -> String {
        match self.scenario_number() {
            Some(number) => format!("RSVP, scenario {number}"),
            None => self.protocol.name().to_owned(),
        }
    }

    /// Returns the paper's number of the scenario.
    fn scenario_number(&self) -> Option<usize> {
        let place = Scenario::ALL.iter().position(|scenario| *scenario == self.scenario);
        place.filter(|_| self.protocol == Protocol::Rsvp).map(|place| place + 1)
    }

    pub(super) fn processor(&self) -> &'static str {
        if self.caches == OF_THE_PAPER { "the paper's caches" } else { "today's caches" }
    }

    /// Returns the key of the scenario, if it was published and simulated with these caches.
    pub(super) fn key(&self) -> Option<String> {
        let number = self.scenario_number().filter(|_| self.caches == OF_THE_PAPER)?;
        Some(format!("delft.scenario{number}"))
    }

    pub(super) fn estimate(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().map(|run| of(run)).collect();
        Estimate::of(&values)
    }

    pub(super) fn counted(&self, of: CountFigure) -> Option<Estimate> {
        self.estimate(|run| of(&run.profile.counts))
    }
}

/// Adds messages in and out and the remaining state; each run has checked itself.
pub(super) fn check(section: &mut Section, samples: &[Sample<'_>]) {
    let mut table = Table::new(
        "architecture-check",
        "Messages in and out, one draw of scenario 1",
        &["message", "in", "out"],
    );
    let first = samples.iter().find(|sample| sample.key().is_some());
    let Some(run) = first.and_then(|sample| sample.runs.first()) else { return };
    for kind in &run.played.kinds {
        table.row([kind.name.as_str().into(), count(kind.received), count(kind.sent)]);
    }
    section.heading("Is the benchmark right?");
    section.text(
        "In every run each ResvConf, ResvTear and PathTear went on exactly once, each call was told of at least once in both directions, \
         no message was thrown away, and no session and no claim were left when all calls were over; otherwise there would be no result. \
         Path and Resv leave at times of the router's own, so their numbers are near those that came, not equal.",
    );
    section.table(table);
}

fn count(number: u64) -> Cell {
    Cell::Number(number as f64)
}

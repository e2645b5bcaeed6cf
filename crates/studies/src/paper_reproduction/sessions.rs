//! Session load of the Budapest paper (section 6.3): cost of each resident session for message handling, look-ups and
//! soft state in a router; and the cost with the structures of earlier implementations on this machine.

mod counterparts;
mod load;
mod lookups;
mod measurements;
mod regression;
mod report;
mod table9;
mod timers;
mod times;

use std::time::Duration;

use anyhow::Result;

use super::PartOptions;
use super::environment::Environment;
use super::repeated::{on_new_thread, run_rounds};
use super::section::Section;
use crate::bench::Supervision;
use measurements::{Measurements, SECONDS};

/// Numbers of resident sessions.
const SESSIONS: [u32; 6] = [1, 100, 1_000, 10_000, 100_000, 1_000_000];
/// Number of times that all routers and structures are created anew, because memory addresses alone change the
/// slopes.
const GENERATIONS: u32 = 4;
/// Memory from which on a million sessions of all four protocols fit at once, octets: they take 2.6 GB.
const LARGE: u64 = 7_000_000_000;

/// Measures everything. Every round is one second of virtual time, and visits every router and every structure, so
/// that compared values are measured side by side.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    let memory = Environment::of_this_machine().memory;
    let largest = if order.quick || memory < LARGE { 100_000 } else { 1_000_000 };
    let sizes: Vec<u32> = SESSIONS.into_iter().filter(|&sessions| sessions <= largest).collect();
    let mut all = Measurements::default();
    run_rounds(GENERATIONS, Duration::ZERO, supervision, |_| {
        all.add(on_new_thread(|| Measurements::of(&sizes, SECONDS, supervision))?);
        Ok(())
    })?;
    Ok(report::section(&all, GENERATIONS * SECONDS))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::measurements::VISITS;
    use super::*;
    use crate::bench::Unwatched;
    use crate::paper_reproduction::published;

    /// A small run fills the whole section: every published figure of this part has its counterpart.
    #[test]
    fn every_published_figure_has_a_counterpart() {
        let interrupted = AtomicBool::new(false);
        let supervision = Supervision { watcher: &Unwatched, interrupted: &interrupted };
        let generation = || Measurements::of(&[1, 20, 60], 2, &supervision).unwrap();
        let mut measurements = Measurements::default();
        measurements.add(generation());
        measurements.add(generation());
        let times = measurements.lookups.iter().map(|lookups| lookups.times.len() as u32);
        assert!(times.eq([2 * 2 * VISITS; 18]));
        assert!(measurements.loads.iter().all(|load| load.maintenance.len() == 4));
        let section = report::section(&measurements, 4);
        let keys = published::measurements().map(|(key, _)| key);
        for key in keys.filter(|key| published::is_under(key, "budapest.table9_session_load")) {
            let entry = section.entries.iter().find(|entry| entry.key == *key);
            let value = &entry.unwrap_or_else(|| panic!("{key}")).values[0];
            assert!(value.low <= value.median && value.median <= value.high, "{key}");
        }
        assert!(section.tables().all(|table| {
            !table.rows.is_empty() && table.rows.iter().all(|row| row.len() == table.columns.len())
        }));
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(Measurements::of(&[1], 1, &supervision).is_err(), "it was interrupted");
    }
}

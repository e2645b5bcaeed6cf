//! Session load of the Budapest paper (section 6.3): cost of each resident session for message handling, look-ups and
//! soft state in a router; and the cost with the structures of earlier implementations on this machine.

mod load;
mod lookups;
mod regression;
mod report;
mod table9;
mod timers;

use std::time::Duration;

use anyhow::Result;

use super::PartOptions;
use super::baselines::indexes;
use super::checkpoint_trace::{CheckpointTracing, Clock};
use super::environment::Environment;
use super::repeated::{on_new_thread, run_rounds};
use super::section::Section;
use crate::bench::Supervision;
use crate::bench::router::Protocol;
use load::{Costs, Load};
use lookups::Lookups;
use timers::TimerCost;

/// Numbers of resident sessions.
const SESSIONS: [u32; 6] = [1, 100, 1_000, 10_000, 100_000, 1_000_000];
/// Measured time of routers and structures, seconds of virtual time: a whole refresh period, and together with set-up
/// and warm-up less than the 180 s of GIST's routing state here, which no neighbor refreshes.
const SECONDS: u32 = 30;
/// Number of times that all routers and structures are created anew, because memory addresses alone change the
/// slopes.
const GENERATIONS: u32 = 4;
/// Number of measurements of messages and look-ups in each generation.
const VISITS: u32 = 6;
/// Memory from which on a million sessions of all four protocols fit at once, octets: they take 2.6 GB.
const LARGE: u64 = 7_000_000_000;

/// Times with a number of sessions, in order of time.
struct TimesBySize {
    name: &'static str,
    sessions: u32,
    times: Vec<f64>,
}

impl TimesBySize {
    fn new(name: &'static str, sessions: u32) -> TimesBySize {
        TimesBySize { name, sessions, times: Vec::new() }
    }
}

/// All measurements, round by round.
#[derive(Default)]
struct Measurements {
    loads: Vec<Costs>,
    lookups: Vec<TimesBySize>,
    timer_costs: Vec<TimesBySize>,
}

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

impl Measurements {
    /// Measures one generation of routers and structures.
    fn of(sizes: &[u32], rounds: u32, supervision: &Supervision<'_>) -> Result<Measurements> {
        let watcher = supervision.watcher;
        let (mut loads, mut lookups, mut timer_costs) = (Vec::new(), Vec::new(), Vec::new());
        for &sessions in sizes {
            for protocol in Protocol::ALL {
                let name = protocol.name();
                watcher.begin(&format!("sessions: {sessions} of {name}"), sessions.into());
                let check_interrupted = |count: u32| {
                    watcher.reached(count.into());
                    supervision.check_interrupted()
                };
                loads.push(Load::new(protocol, sessions, check_interrupted)?);
            }
            let in_all = u64::from(sessions) * indexes().len() as u64;
            watcher.begin(&format!("sessions: structures with {sessions}"), in_all);
            lookups.extend(lookups::all(sessions, |count| {
                watcher.reached(count);
                supervision.check_interrupted()
            })?);
            timer_costs.extend(timers::all(sessions, || supervision.check_interrupted())?);
        }
        let clock = Clock::calibrate(&CheckpointTracing::begin())?;
        watcher.begin("sessions: rounds", rounds.into());
        for round in 1..=rounds {
            for load in &mut loads {
                supervision.check_interrupted()?;
                load.advance_second();
            }
            for _ in 0..VISITS {
                supervision.check_interrupted()?;
                loads.iter_mut().try_for_each(Load::visit)?;
                lookups.iter_mut().try_for_each(Lookups::round)?;
            }
            loads.iter_mut().try_for_each(|load| load.visit_steps(&clock))?;
            timer_costs.iter_mut().try_for_each(TimerCost::round)?;
            watcher.reached(round.into());
        }
        Ok(Measurements {
            loads: loads.into_iter().map(|load| load.costs).collect(),
            lookups: lookups.into_iter().map(|lookups: Lookups| lookups.timed).collect(),
            timer_costs: timer_costs.into_iter().map(|cost: TimerCost| cost.timed).collect(),
        })
    }

    /// Adds the measurements of a later generation.
    fn add(&mut self, later: Measurements) {
        if self.loads.is_empty() {
            *self = later;
            return;
        }
        self.loads.iter_mut().zip(later.loads).for_each(|(all, later)| all.add(later));
        for (all, later) in
            [(&mut self.lookups, later.lookups), (&mut self.timer_costs, later.timer_costs)]
        {
            all.iter_mut().zip(later).for_each(|(all, later)| all.times.extend(later.times));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

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
            let value = entry.unwrap_or_else(|| panic!("{key}")).values[0];
            assert!(value.low <= value.median && value.median <= value.high, "{key}");
        }
        assert!(section.tables().all(|table| {
            !table.rows.is_empty() && table.rows.iter().all(|row| row.len() == table.columns.len())
        }));
        interrupted.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(Measurements::of(&[1], 1, &supervision).is_err(), "it was interrupted");
    }
}

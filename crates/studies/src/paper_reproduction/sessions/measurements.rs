//! All measurements of routers and structures with resident sessions.

use anyhow::Result;

use super::load::{Costs, Load};
use super::lookups::{self, Lookups};
use super::timers::{self, TimerCost};
use super::times::TimesBySize;
use crate::bench::Supervision;
use crate::bench::router::Protocol;
use crate::paper_reproduction::baselines::indexes;
use crate::paper_reproduction::checkpoint_trace::{CheckpointTracing, Clock};

/// Measured time of routers and structures, seconds of virtual time: a whole refresh period, and together with set-up
/// and warm-up less than the 180 s of GIST's routing state here, which no neighbor refreshes.
pub(super) const SECONDS: u32 = 30;
/// Number of measurements of messages and look-ups in each generation.
pub(super) const VISITS: u32 = 6;

/// All measurements, round by round.
#[derive(Default)]
pub(super) struct Measurements {
    pub(super) loads: Vec<Costs>,
    pub(super) lookups: Vec<TimesBySize>,
    pub(super) timer_costs: Vec<TimesBySize>,
}

impl Measurements {
    /// Measures one generation of routers and structures.
    pub(super) fn of(
        sizes: &[u32],
        rounds: u32,
        supervision: &Supervision<'_>,
    ) -> Result<Measurements> {
        let watcher = supervision.watcher;
        let (mut loads, mut lookups, mut timer_costs) = (Vec::new(), Vec::new(), Vec::new());
        for &sessions in sizes {
            for protocol in Protocol::RESERVING {
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
    pub(super) fn add(&mut self, later: Measurements) {
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

//! Each case under each load, with many seeds.

use anyhow::{Context, Result};
use earmark_scenario::{FlowOutcome, Outcome};
use serde::Serialize;

use super::case::{Case, Load};
use super::play_cases;
use crate::statistics::Median;

/// How long the test flow waits for its reservation, seconds; who has none by then counts with this.
pub(super) const PATIENCE_S: f64 = 300.0;

/// One case under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Which load.
    pub load: Load,
    /// Which case.
    pub case: Case,
    /// How many seeds.
    pub seeds: u64,
    /// Retries in the network in 550 s.
    pub retries: Median,
    /// Share of the runs in which the test flow got its reservation.
    pub completed_share: f64,
    /// How long it waited, seconds; [`PATIENCE_S`] where it got none.
    pub completion_s: Median,
    /// Share of the runs in which it waited no longer than in the published run; where that one got nothing, in which it got
    /// nothing either.
    pub as_lucky: Option<f64>,
    /// How often it tried, beyond the first time at each node, until it had all, or to the end.
    pub tries: Median,
    /// Share of the time in which flows wanted reservations that they had all of them.
    pub served: Median,
    /// Share of what was reserved that was for flows to which another part lacked.
    pub fragmented: Median,
    /// Share of all flows that got their reservation before they ended.
    pub flows_completed: Median,
    /// Retries, each counted at all routers that its message passes on its way from the receiver to the one that decides:
    /// what may have been counted of RSVP.
    pub passed: Median,
    /// The wait of each seed, in their order, as in `completion_s`.
    pub waits: Vec<f64>,
}

/// Plays every row.
pub(super) fn play_all(seeds: u64) -> Result<Vec<Row>> {
    let played = play_cases("rows", seeds, "none")?;
    let rows = played.iter().map(|played| row(played.load, played.case, &played.runs));
    rows.collect::<Option<_>>().context("a row has no seeds")
}

pub(super) fn row(load: Load, case: Case, runs: &[Outcome]) -> Option<Row> {
    let of = |value: &dyn Fn(&Outcome) -> f64| Median::of(runs.iter().map(value));
    // When it ends another begins, too late to ask.
    let asked = |flow: &&FlowOutcome| flow.reserves.is_some();
    let flows: Vec<&FlowOutcome> = runs.iter().flat_map(|run| &run.watched).filter(asked).collect();
    let wait = |flow: &&FlowOutcome| flow.completed_after.unwrap_or(PATIENCE_S);
    let waits: Vec<f64> = flows.iter().map(wait).collect();
    let completed = flows.iter().filter(|flow| flow.completed_after.is_some()).count();
    let as_lucky = case.published(load).map(|then| {
        let as_lucky = |wait: &&f64| match then.completed_after {
            Some(after) => **wait <= after,
            None => **wait >= PATIENCE_S,
        };
        waits.iter().filter(as_lucky).count() as f64 / waits.len() as f64
    });
    Some(Row {
        as_lucky,
        load,
        case,
        seeds: runs.len() as u64,
        retries: of(&|run| run.retries as f64)?,
        completed_share: completed as f64 / flows.len() as f64,
        completion_s: Median::of(waits.iter().copied())?,
        tries: Median::of(flows.iter().map(|flow| flow.retries as f64))?,
        served: of(&|run| run.served)?,
        fragmented: of(&|run| run.fragmented)?,
        flows_completed: of(&|run| run.completed as f64 / (run.wanted as f64).max(1.0))?,
        passed: of(&passed)?,
        waits,
    })
}

/// Routers are n1 to n5, and messages of RSVP come from n5.
fn passed(run: &Outcome) -> f64 {
    let routers = |name: &str| {
        let number = name.trim_start_matches('n').parse::<u32>().unwrap_or(5);
        f64::from(6 - number.clamp(1, 5))
    };
    run.retries_at.iter().map(|(name, retries)| routers(name) * *retries as f64).sum()
}

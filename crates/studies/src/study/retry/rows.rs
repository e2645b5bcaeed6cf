//! Each case under each load, with many seeds.

use anyhow::{Context, Result};
use earmark_scenario::{FlowOutcome, Outcome};
use serde::Serialize;

use super::case::{Case, Load};
use super::play_cases;
use earmark_lab::statistics::Median;

/// Longest wait of the test flow for its reservation, seconds; without one it counts with this time.
pub(super) const TIMEOUT_S: f64 = 300.0;

/// Results of one case under one load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Load.
    pub load: Load,
    /// Case.
    pub case: Case,
    /// Number of seeds.
    pub seeds: u64,
    /// Retries in the network in 550 s.
    pub retries: Median,
    /// Share of the runs in which the test flow got its reservation.
    pub completed_share: f64,
    /// Time until the test flow completed, seconds; [`TIMEOUT_S`] if it never did.
    pub completion_s: Median,
    /// Share of the runs in which the test flow completed no later than in the published run; if that one did not
    /// complete, share of the runs that did not either.
    pub as_lucky: Option<f64>,
    /// Number of the test flow's tries after the first at each node, until completion or the end.
    pub tries: Median,
    /// Share of the flows' requested reservation time in which reservations were complete.
    pub served: Median,
    /// Share of the reserved bandwidth that belonged to incomplete reservations.
    pub fragmented: Median,
    /// Share of all flows that got their reservation before they ended.
    pub flows_completed: Median,
    /// Retries, each counted at all routers on the path of its message from the receiver to the deciding router,
    /// which may be the papers' count for RSVP.
    pub passed: Median,
    /// Waiting times by seed, as in `completion_s`.
    pub waits: Vec<f64>,
}

/// Runs every row.
pub(super) fn play_all(seeds: u64) -> Result<Vec<Row>> {
    let played = play_cases("rows", seeds, "none")?;
    let rows = played.iter().map(|played| row(played.load, played.case, &played.runs));
    rows.collect::<Option<_>>().context("a row has no seeds")
}

pub(super) fn row(load: Load, case: Case, runs: &[Outcome]) -> Option<Row> {
    let of = |value: &dyn Fn(&Outcome) -> f64| Median::of(runs.iter().map(value));
    // A second flow begins when the test flow ends, too late for a request.
    let asked = |flow: &&FlowOutcome| flow.reserves.is_some();
    let flows: Vec<&FlowOutcome> = runs.iter().flat_map(|run| &run.watched).filter(asked).collect();
    let wait = |flow: &&FlowOutcome| flow.completed_after.unwrap_or(TIMEOUT_S);
    let waits: Vec<f64> = flows.iter().map(wait).collect();
    let completed = flows.iter().filter(|flow| flow.completed_after.is_some()).count();
    let as_lucky = case.published(load).map(|then| {
        let as_lucky = |wait: &&f64| match then.completed_after {
            Some(after) => **wait <= after,
            None => **wait >= TIMEOUT_S,
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

/// Counts a retry at every router it passes: routers are n1 to n5, and messages of RSVP come from n5.
fn passed(run: &Outcome) -> f64 {
    let routers = |name: &str| {
        let number = name.trim_start_matches('n').parse::<u32>().unwrap_or(5);
        f64::from(6 - number.clamp(1, 5))
    };
    run.retries_at.iter().map(|(name, retries)| routers(name) * *retries as f64).sum()
}

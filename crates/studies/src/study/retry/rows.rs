//! Each case under each load, with many seeds.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use earmark_scenario::{FlowOutcome, Outcome};
use serde::Serialize;

use super::case::{Case, Load};
use super::play_cases;
use earmark_lab::statistics::Median;

/// Longest wait of the test flow for its reservation, seconds; without one it counts with this time.
pub const TIMEOUT_S: f64 = 300.0;

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
    /// Share of the runs in which the test flow completed no later than published; if it was published as not
    /// made, share of the runs in which it was not either.
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
    /// Nodes that granted the test flow's reservation at its first try.
    pub first_try: Median,
    /// Values by seed.
    #[serde(flatten)]
    pub by_seed: BySeed,
}

/// Values of a row, one for each seed in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BySeed {
    /// Waiting times, as in `completion_s`.
    pub waits: Vec<f64>,
    /// Retries in the network.
    pub retries_by_seed: Vec<f64>,
    /// Tries of the test flow.
    pub tries_by_seed: Vec<f64>,
    /// Nodes that granted at the first try.
    pub first_try_by_seed: Vec<f64>,
}

/// Longest time of a message from one end of the network to the other and back, seconds: what is granted within this
/// time after the request was granted at the first try.
const FIRST_TRY_S: f64 = 1.0;

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
    let by_seed = BySeed {
        retries_by_seed: runs.iter().map(|run| run.retries as f64).collect(),
        tries_by_seed: flows.iter().map(|flow| flow.retries as f64).collect(),
        first_try_by_seed: flows.iter().map(|flow| first_try(flow)).collect(),
        waits,
    };
    let median = |values: &[f64]| Median::of(values.iter().copied());
    Some(Row {
        as_lucky,
        load,
        case,
        seeds: runs.len() as u64,
        retries: median(&by_seed.retries_by_seed)?,
        completed_share: completed as f64 / flows.len() as f64,
        completion_s: median(&by_seed.waits)?,
        tries: median(&by_seed.tries_by_seed)?,
        first_try: median(&by_seed.first_try_by_seed)?,
        served: of(&|run| run.served)?,
        fragmented: of(&|run| run.fragmented)?,
        flows_completed: of(&|run| run.completed as f64 / (run.wanted as f64).max(1.0))?,
        passed: of(&passed)?,
        by_seed,
    })
}

/// Counts the nodes that granted the reservation of a flow at its first try.
fn first_try(flow: &FlowOutcome) -> f64 {
    let until = flow.reserves.unwrap_or(f64::INFINITY) + FIRST_TRY_S;
    let first = flow.attempts.iter().filter(|attempt| attempt.granted && attempt.at < until);
    first.map(|attempt| attempt.node.as_str()).collect::<BTreeSet<&str>>().len() as f64
}

/// Counts a retry at every router it passes: routers are n1 to n5, and messages of RSVP come from n5.
fn passed(run: &Outcome) -> f64 {
    let routers = |name: &str| {
        let number = name.trim_start_matches('n').parse::<u32>().unwrap_or(5);
        f64::from(6 - number.clamp(1, 5))
    };
    run.retries_at.iter().map(|(name, retries)| routers(name) * *retries as f64).sum()
}

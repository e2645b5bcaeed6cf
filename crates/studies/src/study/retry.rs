//! The retry study of Pan and Schulzrinne (*Lightweight Resource Reservation Signaling*, section 3): how refused
//! reservations are completed later, by RSVP, by one pass with refreshes, and with resource grabbing under a
//! threshold T.
//!
//! - [`Case`]: the seven methods of the papers under two loads, and the published results of each.
//! - [`rows`]: each case with many seeds. No packets of flows are sent, because signalling has precedence over them
//!   anyway.
//! - [`sweeps`]: the papers' planned work, and further cases.
//! - [`report`]: tables and drawings.

mod case;
mod drawings;
mod report;
mod rows;
mod sweeps;

use std::collections::BTreeMap;
use std::time::Instant;

use anyhow::{Context, Result};
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Override, Scenario, play};
use serde::Serialize;

use crate::provenance::{Provenance, SCHEMA, Settings};
use earmark_lab::runs;

pub use case::{Case, Load};
pub use report::{drawings, tables};
pub use rows::{BySeed, Row, TIMEOUT_S};
pub use sweeps::{Point, Sweep};

/// Size of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Number of seeds of each row.
    pub seeds: u64,
    /// Number of seeds of each point beyond the papers; 0 leaves these out.
    pub sweep_seeds: u64,
    /// Whether sweeps leave out most of their points, and traces use fluid flows instead of packets.
    pub quick: bool,
}

/// Results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Identifier of the format.
    pub schema: &'static str,
    /// Origin of the results.
    pub run: Provenance,
    /// Results of each case under each load.
    pub rows: Vec<Row>,
    /// Results beyond the papers.
    pub sweeps: Vec<Sweep>,
    /// First seed of each case with the data of all flows: received rate of the test flow, and its attempts.
    #[serde(skip)]
    pub traces: Vec<CaseResults>,
}

/// Runs the study, with a bar for each part.
///
/// # Errors
/// A run failed.
pub fn study(plan: &Plan) -> Result<Results> {
    let rows = rows(plan.seeds)?;
    // A fluid model takes a hundredth of the time of packets.
    let traces = play_cases("traces", 1, if plan.quick { "fluid" } else { "packets" })?;
    let sweeps = match plan.sweep_seeds {
        0 => Vec::new(),
        seeds => sweeps::play_all(seeds, plan.quick)?,
    };
    Ok(Results { schema: SCHEMA, run: provenance(plan), rows, sweeps, traces })
}

fn provenance(plan: &Plan) -> Provenance {
    let Plan { seeds, sweep_seeds, quick } = *plan;
    let mut all = BTreeMap::from([("rows".to_owned(), [1, seeds])]);
    if sweep_seeds > 0 {
        all.insert("sweeps".to_owned(), [1, sweep_seeds]);
    }
    Provenance::of_this_process(Settings::Retry { seeds, sweep_seeds, quick }, all)
}

/// Returns results without cases.
#[cfg(test)]
pub(crate) fn results_of_nothing() -> serde_json::Value {
    let run = provenance(&Plan { seeds: 1, sweep_seeds: 0, quick: true });
    let (rows, sweeps, traces) = (Vec::new(), Vec::new(), Vec::new());
    serde_json::json!(Results { schema: SCHEMA, run, rows, sweeps, traces })
}

/// Runs each case under each load, with `seeds` seeds.
///
/// # Errors
/// A run failed.
pub fn rows(seeds: u64) -> Result<Vec<Row>> {
    rows::play_all(seeds)
}

/// A run to do.
struct Job {
    scenario: Scenario,
    topology: Topology,
    seed: u64,
}

impl Job {
    /// Returns a scenario with other values for some of its keys, once for each seed from 1 on.
    fn each(text: &str, set: &[(&str, &str)], seeds: u64) -> Result<Vec<Job>> {
        let set = set.iter().map(|(key, value)| format!("{key}={value}").parse());
        let set = set.collect::<Result<Vec<Override>, _>>()?;
        let scenario = Scenario::parse_with(text, &set)?;
        let topology = scenario.topology.build(case::file)?;
        let job = |seed| Job { scenario: scenario.clone(), topology: topology.clone(), seed };
        Ok((1..=seeds).map(job).collect())
    }
}

/// Results of one case under one load.
#[derive(Clone, Debug)]
pub struct CaseResults {
    /// Load.
    pub load: Load,
    /// Case.
    pub case: Case,
    /// Network.
    pub topology: Topology,
    /// Outcome of each seed.
    pub runs: Vec<Outcome>,
}

/// Runs every case under every load, with `seeds` seeds and this kind of data.
fn play_cases(part: &str, seeds: u64, data: &str) -> Result<Vec<CaseResults>> {
    let mut jobs = Vec::new();
    let mut played = Vec::new();
    for (load, case) in Load::ALL.into_iter().flat_map(|load| Case::ALL.map(|case| (load, case))) {
        let [protocol, threshold] = case.settings();
        let set = [protocol, threshold, ("data", data)];
        let more = Job::each(load.scenario(), &set, seeds)?;
        let topology = more.first().context("a case has no seeds")?.topology.clone();
        played.push(CaseResults { load, case, topology, runs: Vec::new() });
        jobs.extend(more);
    }
    let mut outcomes = play_jobs(part, &jobs)?.into_iter();
    for case in &mut played {
        case.runs.extend(outcomes.by_ref().take(seeds as usize));
    }
    Ok(played)
}

/// Runs the jobs on all processors; outcomes are in the order of the jobs.
fn play_jobs(part: &str, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let bar = runs::bar(part, jobs.len());
    let outcomes =
        runs::over_all_cores(jobs, &bar, |job| play(&job.scenario, &job.topology, job.seed));
    eprintln!("{part}: {} runs, {:.0} s", jobs.len(), begun.elapsed().as_secs_f64());
    outcomes.into_iter().map(|outcome| outcome.map_err(Into::into)).collect()
}

//! The retry study of Pan and Schulzrinne (*Lightweight Resource Reservation Signaling*, section 3): how reservations that were
//! refused come about after all, by RSVP, by one pass with refreshes, and with resource grabbing under a threshold T.
//!
//! - [`Case`]: the seven ways of the papers under two loads, and what was published of each.
//! - [`rows`]: each case with many seeds. No packets of flows are sent, as signalling goes before them anyway.
//! - [`beyond`]: what the papers planned, and what they did not see.
//! - [`report`]: tables and drawings.

mod beyond;
mod case;
mod report;
mod rows;

use std::time::Instant;

use anyhow::{Context, Result};
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Override, Scenario, play};
use serde::Serialize;

use crate::runs;

pub use beyond::{Point, Sweep};
pub use case::{Case, Load};
pub use report::{drawings, tables};
pub use rows::Row;

/// How much of the study is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seeds of each row.
    pub seeds: u64,
    /// Seeds of each point beyond the papers; none: these are left out.
    pub sweep_seeds: u64,
    /// Whether sweeps leave out most of their points, and traces are made of fluid instead of packets.
    pub quick: bool,
}

/// What came of it.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Each case under each load.
    pub rows: Vec<Row>,
    /// Beyond the papers.
    pub sweeps: Vec<Sweep>,
    /// The first seed of each case with the data of all flows: what the test flow received, and its attempts.
    #[serde(skip)]
    pub traces: Vec<Played>,
}

/// Does the study, with a bar for each part.
///
/// # Errors
/// A run broke off.
pub fn study(plan: &Plan) -> Result<Results> {
    let rows = rows(plan.seeds)?;
    // Packet by packet, or as fluid, which takes a hundredth of the time.
    let traces = play_cases("traces", 1, if plan.quick { "fluid" } else { "packets" })?;
    let sweeps = match plan.sweep_seeds {
        0 => Vec::new(),
        seeds => beyond::play_all(seeds, plan.quick)?,
    };
    Ok(Results { rows, sweeps, traces })
}

/// Each case under each load, with so many seeds.
///
/// # Errors
/// A run broke off.
pub fn rows(seeds: u64) -> Result<Vec<Row>> {
    rows::play_all(seeds)
}

/// One run that is to be.
struct Job {
    scenario: Scenario,
    topology: Topology,
    seed: u64,
}

impl Job {
    /// A scenario in words with other values for some of its keys, once for each seed from 1 on.
    fn each(text: &str, set: &[(&str, &str)], seeds: u64) -> Result<Vec<Job>> {
        let set = set.iter().map(|(key, value)| format!("{key}={value}").parse());
        let set = set.collect::<Result<Vec<Override>, _>>()?;
        let scenario = Scenario::parse_with(text, &set)?;
        let topology = scenario.topology.build(case::file)?;
        let job = |seed| Job { scenario: scenario.clone(), topology: topology.clone(), seed };
        Ok((1..=seeds).map(job).collect())
    }
}

/// What came of one case under one load.
#[derive(Clone, Debug)]
pub struct Played {
    /// Under which load.
    pub load: Load,
    /// Which case.
    pub case: Case,
    /// Where.
    pub topology: Topology,
    /// One for each seed.
    pub runs: Vec<Outcome>,
}

/// Plays every case under every load, with so many seeds and this kind of data.
fn play_cases(part: &str, seeds: u64, data: &str) -> Result<Vec<Played>> {
    let mut jobs = Vec::new();
    let mut played = Vec::new();
    for (load, case) in Load::ALL.into_iter().flat_map(|load| Case::ALL.map(|case| (load, case))) {
        let [protocol, threshold] = case.settings();
        let set = [protocol, threshold, ("data", data)];
        let more = Job::each(load.scenario(), &set, seeds)?;
        let topology = more.first().context("a case has no seeds")?.topology.clone();
        played.push(Played { load, case, topology, runs: Vec::new() });
        jobs.extend(more);
    }
    let mut outcomes = play_jobs(part, &jobs)?.into_iter();
    for case in &mut played {
        case.runs.extend(outcomes.by_ref().take(seeds as usize));
    }
    Ok(played)
}

/// Plays them on all processors; outcomes are in the order of the jobs.
fn play_jobs(part: &str, jobs: &[Job]) -> Result<Vec<Outcome>> {
    let begun = Instant::now();
    let bar = runs::bar(part, jobs.len());
    let outcomes =
        runs::over_all_cores(jobs, &bar, |job| play(&job.scenario, &job.topology, job.seed));
    eprintln!("{part}: {} runs, {:.0} s", jobs.len(), begun.elapsed().as_secs_f64());
    outcomes.into_iter().map(|outcome| outcome.map_err(Into::into)).collect()
}

//! One run of each case with the data of all flows: what the test flow received over time, and its attempts.

use anyhow::Result;
use earmark_scenario::Outcome;
use earmark_scenario::topology::Topology;

use super::case::{Case, Load};
use super::{Job, play_jobs};

/// One run.
#[derive(Clone, Debug)]
pub struct Traced {
    /// Under which load.
    pub load: Load,
    /// Which case.
    pub case: Case,
    /// What came of it.
    pub outcome: Outcome,
    /// Where.
    pub topology: Topology,
}

/// The first seed of each case; packet by packet, or as fluid, which takes a hundredth of the time.
pub(super) fn play_all(fluid: bool) -> Result<Vec<Traced>> {
    let data = if fluid { "fluid" } else { "packets" };
    let mut jobs = Vec::new();
    let mut kinds = Vec::new();
    for load in Load::ALL {
        for case in Case::ALL {
            let mut set = case.settings().to_vec();
            set.push(("data", data));
            jobs.extend(Job::each(load.scenario(), &set, 1)?);
            kinds.push((load, case));
        }
    }
    let outcomes = play_jobs(&jobs)?;
    let traced = kinds.into_iter().zip(outcomes).zip(jobs);
    let traced = traced.map(|(((load, case), outcome), Job { topology, .. })| Traced {
        load,
        case,
        outcome,
        topology,
    });
    Ok(traced.collect())
}

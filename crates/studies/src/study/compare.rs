//! All protocols on equal terms: the same networks, demands, losses, failures and processor times.
//!
//! - [`Network`]: the networks, with the link that the demands are scaled by.
//! - [`Variant`]: the protocols, with their settings.
//! - [`Condition`]: what happens to the network, each for one question.
//! - [`cases`]: all combinations, as scenarios; they can be written to files and played elsewhere ([`export`]).
//! - [`rows`]: one line of JSON for each run, in the order of the cases, whoever has played them.
//! - [`metric`]: what is compared, from the outcomes alone.
//! - [`report`]: tables, drawings, and who wins where.

mod case;
mod condition;
mod export;
mod metric;
mod network;
mod report;
mod rows;
mod variant;

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use crate::provenance::{Provenance, SCHEMA, Settings};

pub use case::{Case, Key, cases};
pub use condition::Condition;
pub use export::export;
pub use metric::{METRICS, Metric};
pub use network::Network;
pub use report::{Comparison, compare, drawings, page};
pub use rows::{Row, missing, play_all, read};
pub use variant::Variant;

/// Cost profile of the routers by default.
pub const PROFILE: &str = "xeon-2026";

/// Size of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Extent {
    /// One network, few flows: seconds.
    Trial,
    /// Networks of up to 100 routers, and up to 3 000 flows: for one machine.
    Outline,
    /// Networks of up to 2 000 routers, and up to a million flows: hours of processor time, for a cluster.
    Full,
}

/// Results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Identifier of the format.
    pub schema: &'static str,
    /// Origin of the results.
    pub run: Provenance,
    /// Comparisons by metric, network and number of flows.
    pub comparisons: Vec<Comparison>,
}

/// Compares the rows of cases.
pub fn results(cases: &[Case], rows: &[Row], settings: Settings) -> Results {
    let seeds = cases.iter().map(|case| {
        let Key { network, flows, .. } = &case.key;
        (format!("{network}, {flows} flows"), [1, case.seeds])
    });
    let seeds: BTreeMap<String, [u64; 2]> = seeds.collect();
    let run = Provenance::of_this_process(settings, seeds);
    Results { schema: SCHEMA, run, comparisons: compare(rows) }
}

impl Extent {
    /// Returns the networks with the numbers of flows in each, and the number of seeds of these.
    fn parts(self) -> &'static [(Network, &'static [(u32, u64)])] {
        match self {
            Extent::Trial => &[(Network::Chain, &[(20, 2)])],
            Extent::Outline => &[
                (Network::Chain, &[(100, 10), (1_000, 10)]),
                (Network::Abilene, &[(100, 10), (1_000, 10), (3_000, 6)]),
                (Network::Waxman100, &[(1_000, 10)]),
            ],
            Extent::Full => &[
                (Network::Chain, &[(100, 10), (1_000, 10)]),
                (
                    Network::Abilene,
                    &[(100, 10), (1_000, 10), (10_000, 6), (100_000, 1), (1_000_000, 1)],
                ),
                (Network::Waxman100, &[(1_000, 10), (3_000, 6)]),
                (Network::Waxman2000, &[(2_000, 6)]),
            ],
        }
    }
}

/// Returns all cases of an extent, whose daemons take the times of a cost profile.
///
/// # Errors
/// The profile cannot be used.
pub fn all_cases(extent: Extent, profile: &str) -> Result<Vec<Case>> {
    let mut all = Vec::new();
    for (network, sizes) in extent.parts() {
        all.extend(cases(*network, sizes, profile)?);
    }
    Ok(all)
}

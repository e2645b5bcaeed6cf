//! `earmark-lab simulate`: plays a scenario, once for each seed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Override, Scenario, load, play};

use crate::runs;

const EXAMPLES: &str = "\
Examples:
  earmark-lab simulate scenarios/retry-high.toml
  earmark-lab simulate scenarios/retry-high.toml --seed 7 --json
  earmark-lab simulate scenarios/retry-high.toml --seeds 30
  earmark-lab simulate scenarios/retry-high.toml --set retry.threshold=3 --set flows.reserved.count=60

A scenario names its topology, its flows, and by what they reserve. One seed gives one outcome, byte for byte.";

/// Plays a scenario in the simulator.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Simulate {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other in number; over all processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// Another value for a key of the scenario, such as retry.threshold=3 or flows.NAME.count=120; can be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Print a line of JSON for each seed.
    #[arg(long)]
    json: bool,
}

impl Simulate {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let (scenario, topology) = load(&self.scenario, &self.set)?;
        let outcomes = self.play_all(&scenario, &topology)?;
        for outcome in &outcomes {
            match self.json {
                true => println!("{}", serde_json::to_string(outcome)?),
                false => println!("{}", describe(outcome)),
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// One run for each seed.
    fn play_all(&self, scenario: &Scenario, topology: &Topology) -> Result<Vec<Outcome>> {
        let seeds: Vec<u64> =
            (0..self.seeds).map(|number| self.seed.wrapping_add(number)).collect();
        let outcomes = runs::over_all_cores(&seeds, &runs::bar(seeds.len()), |&seed| {
            play(scenario, topology, seed)
        });
        outcomes.into_iter().map(|outcome| outcome.map_err(Into::into)).collect()
    }
}

fn describe(outcome: &Outcome) -> String {
    let mut text = format!(
        "{}, seed {}: {} of {} reservations completed, {} attempts, {} of them retries, {} of these refused",
        outcome.scenario,
        outcome.seed,
        outcome.completed,
        outcome.wanted,
        outcome.attempts,
        outcome.retries,
        outcome.refused_retries
    );
    for flow in &outcome.watched {
        let became = match flow.completed_after {
            Some(after) => format!("completed after {after:.1} s"),
            None => "not completed".to_owned(),
        };
        text.push_str(&format!(
            "\n  {} {} to {}: {became}, {} retries",
            flow.flows, flow.from, flow.to, flow.retries
        ));
    }
    text
}

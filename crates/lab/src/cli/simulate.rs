//! Command `earmark-lab simulate`: runs a scenario once for each seed.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use earmark_scenario::topology::Topology;
use earmark_scenario::{Outcome, Override, Scenario, Tap, load, play, play_tapped};

use crate::capture::write_tapped;
use crate::run_output::{Summary, timeline, timeline_svg, write_tables};
use crate::runs;

const EXAMPLES: &str = "\
Examples:
  earmark-lab simulate scenarios/retry-high.toml
  earmark-lab simulate scenarios/retry-high.toml --seed 7 --json
  earmark-lab simulate scenarios/retry-high.toml --seeds 30 --summary
  earmark-lab simulate scenarios/retry-high.toml --seeds 30 --csv tables --timeline attempts.svg
  earmark-lab simulate scenarios/retry-high.toml --pcap backbone.pcap --at n2:n3
  earmark-lab simulate scenarios/retry-high.toml --set retry.threshold=3 --set flows.reserved.count=60

A scenario names its topology, its flows and their reservation protocols. One seed gives one outcome, byte for byte.";

/// Run a scenario in the simulator
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Simulate {
    /// The scenario, a TOML file.
    scenario: PathBuf,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of consecutive seeds, run on all processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// Override a key of the scenario: retry.threshold=3, flows.NAME.count=120. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Override>,
    /// Print a line of JSON for each seed, or the summary as JSON.
    #[arg(long)]
    json: bool,
    /// Print medians over all seeds, with 95 % intervals, instead of each run.
    #[arg(long)]
    summary: bool,
    /// Write runs.csv, flows.csv, attempts.csv and rates.csv into this directory.
    #[arg(long, value_name = "DIRECTORY")]
    csv: Option<PathBuf>,
    /// Write each attempt of the watched flows: as a drawing if the file ends in .svg, else as text.
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Write the signalling at a node or link as pcap; requires a single seed.
    #[arg(long, value_name = "FILE", requires = "at", conflicts_with = "seeds")]
    pcap: Option<PathBuf>,
    /// Node, or link between two nodes, to capture at.
    #[arg(long, value_name = "NODE[:PEER]", requires = "pcap")]
    at: Option<Tap>,
}

impl Simulate {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let (scenario, topology) = load(&self.scenario, &self.set)?;
        let outcomes = match (&self.pcap, &self.at) {
            (Some(file), Some(tap)) => {
                let (outcome, tapped) = play_tapped(&scenario, &topology, self.seed, tap)?;
                let packets = write_tapped(file, &tapped)?;
                eprintln!("{packets} packets are in {}", file.display());
                vec![outcome]
            }
            _ => self.play_all(&scenario, &topology)?,
        };
        self.write(&outcomes, &topology)?;
        self.print(&outcomes)?;
        Ok(ExitCode::SUCCESS)
    }

    fn print(&self, outcomes: &[Outcome]) -> Result<()> {
        if self.summary {
            let summary = Summary::of(outcomes).context("no run has a result")?;
            match self.json {
                true => println!("{}", serde_json::to_string(&summary)?),
                false => println!("{}", summary.describe()),
            }
            return Ok(());
        }
        for outcome in outcomes {
            match self.json {
                true => println!("{}", serde_json::to_string(outcome)?),
                false => println!("{}", describe(outcome)),
            }
        }
        Ok(())
    }

    fn write(&self, outcomes: &[Outcome], topology: &Topology) -> Result<()> {
        if let Some(directory) = &self.csv {
            write_tables(directory, outcomes)?;
        }
        if let Some(file) = &self.timeline {
            let text = match file.extension() == Some("svg".as_ref()) {
                true => timeline_svg(outcomes, topology),
                false => timeline(outcomes, topology),
            };
            let cannot_write = || format!("cannot write {}", file.display());
            std::fs::write(file, text).with_context(cannot_write)?;
        }
        Ok(())
    }

    /// Runs the scenario once for each seed.
    fn play_all(&self, scenario: &Scenario, topology: &Topology) -> Result<Vec<Outcome>> {
        let seeds: Vec<u64> =
            (0..self.seeds).map(|number| self.seed.wrapping_add(number)).collect();
        let outcomes = runs::over_all_cores(&seeds, &runs::bar("simulate", seeds.len()), |&seed| {
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

//! Command `earmark-lab explore`: random networks, flows and faults, and invariants that must hold in all of them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use earmark_scenario::Protocols;
use earmark_scenario::explore::{Exploration, explore_attacked, explore_logged, explore_with};
use earmark_sim::LogEntry;
use serde::Serialize;
use serde_json::json;

use super::BROKEN_PROMISE;
use crate::runs::{bar, over_all_cores};

const EXAMPLES: &str = "\
Examples:
  earmark-lab explore --seeds 200
  earmark-lab explore --seed 17             one run again
  earmark-lab explore --seed 17 --log log.json
  earmark-lab explore --attackers --seeds 200
  earmark-lab explore --seeds 1000 --json

Invariants: ledger, engines and traffic control of every node agree; no link is reserved beyond its reservable bandwidth;
packets arrive while their flow is reserved on its whole path; and no state remains after all flows have ended. With
--attackers, hosts send forged, replayed, changed and truncated messages. Then state stays below its bound, and in
networks without faults reservations stay while their flows last, and requests are answered in time.";

/// Search for faults: random networks of up to 60 routers with flows of all protocols and random faults
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Explore {
    /// Number of consecutive seeds, run on all processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Add one to three attackers to each network; half of the networks have no faults.
    #[arg(long)]
    attackers: bool,
    /// Write what happens at each node, a line of JSON for each event; requires a single seed.
    #[arg(long, value_name = "FILE", conflicts_with = "seeds")]
    log: Option<PathBuf>,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// Results of all runs.
#[derive(Debug, Serialize)]
struct Summary {
    /// First seed.
    first: u64,
    /// Number of seeds.
    seeds: u64,
    /// Flows with a request for a reservation.
    flows: usize,
    /// Packets that attackers sent.
    attack_packets: u64,
    /// Packets that had to arrive.
    reserved_packets: u64,
    /// Events that the simulator processed.
    events: u64,
    /// Runs in which an invariant did not hold, each with the command that replays it.
    broken: Vec<BrokenRun>,
}

#[derive(Debug, Serialize)]
struct BrokenRun {
    replay: String,
    #[serde(flatten)]
    exploration: Exploration,
}

impl Explore {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let began = Instant::now();
        let seeds: Vec<u64> =
            (0..self.seeds).map(|number| self.seed.wrapping_add(number)).collect();
        let protocols = Protocols::default();
        let explore = if self.attackers { explore_attacked } else { explore_with };
        let outcomes = match &self.log {
            Some(file) => vec![self.log(&protocols, file)?],
            None => {
                let bar = bar("explore", seeds.len());
                over_all_cores(&seeds, &bar, |&seed| explore(seed, &protocols))
            }
        };
        let events = outcomes.iter().map(|outcome| outcome.events).sum();
        let reserved_packets = outcomes.iter().map(|outcome| outcome.reserved_packets).sum();
        let attack_packets = outcomes.iter().map(|outcome| outcome.attack_packets).sum();
        let flows = outcomes.iter().map(|outcome| outcome.flows).sum();
        let broken: Vec<BrokenRun> = outcomes
            .into_iter()
            .filter(|outcome| !outcome.breaches.is_empty())
            .map(|exploration| BrokenRun { replay: self.replay(exploration.seed), exploration })
            .collect();
        let Explore { seed: first, seeds, .. } = *self;
        let summary =
            Summary { first, seeds, flows, attack_packets, reserved_packets, events, broken };
        match self.json {
            true => println!("{}", serde_json::to_string(&summary)?),
            false => print!("{}", describe(&summary, began.elapsed().as_secs_f64())),
        }
        let all_is_well = summary.broken.is_empty();
        Ok(if all_is_well { ExitCode::SUCCESS } else { ExitCode::from(BROKEN_PROMISE) })
    }

    /// Explores the seed and writes its log.
    fn log(&self, protocols: &Protocols, file: &Path) -> Result<Exploration> {
        with_log(file, |log| explore_logged(self.seed, protocols, self.attackers, log))
    }

    /// Returns the command that replays a seed.
    fn replay(&self, seed: u64) -> String {
        let attackers = if self.attackers { " --attackers" } else { "" };
        format!("earmark-lab explore{attackers} --seed {seed}")
    }
}

/// Runs something that passes on what happens at each node, and writes that to a file.
pub(super) fn with_log<T>(
    file: &Path,
    run: impl FnOnce(&mut dyn FnMut(&str, &LogEntry)) -> T,
) -> Result<T> {
    let cannot_write = || format!("cannot write {}", file.display());
    let mut out = BufWriter::new(File::create(file).with_context(cannot_write)?);
    let mut written = Ok(());
    let outcome = run(&mut |node, entry| {
        if written.is_ok() {
            let LogEntry { at, what, .. } = entry;
            let line = json!({ "at": at.as_secs_f64(), "node": node, "what": what });
            written = writeln!(out, "{line}");
        }
    });
    written.and_then(|()| out.flush()).with_context(cannot_write)?;
    Ok(outcome)
}

fn describe(summary: &Summary, seconds: f64) -> String {
    let mut text = String::new();
    for BrokenRun { replay, exploration } in &summary.broken {
        let Exploration { seed, nodes, flows, faults, breaches, .. } = exploration;
        text.push_str(&format!("seed {seed}: {nodes} nodes, {flows} flows, {faults} faults\n"));
        for breach in breaches {
            let name = breach.invariant.name();
            text.push_str(&format!(
                "  {:.3} s, {}: {name}: {}\n",
                breach.at, breach.node, breach.what
            ));
        }
        text.push_str(&format!("  again: {replay}\n"));
    }
    let Summary { seeds, flows, attack_packets, reserved_packets, events, broken, .. } = summary;
    let rate = *seeds as f64 / seconds.max(1e-3);
    text.push_str(&format!(
        "{} of {seeds} seeds held ({flows} flows, {reserved_packets} packets expected, {attack_packets} of attackers, {events} events; \
         {rate:.1} seeds/s)\n",
        seeds - broken.len() as u64,
    ));
    text
}

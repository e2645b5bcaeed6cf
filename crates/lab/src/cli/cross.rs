//! Command `earmark-lab cross`: one reservation in every variant of every protocol, with events at every place of its path.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use earmark_scenario::Protocols;
use earmark_scenario::crossing::{Case, Crossing, Event, Violation, play_case, play_logged};
use serde::Serialize;

use super::BROKEN_PROMISE;
use super::explore::with_log;
use crate::runs::{bar, over_all_cores};

/// Maximum number of broken cases printed.
const MAX_PRINTED: usize = 20;

const EXAMPLES: &str = "\
Examples:
  earmark-lab cross --cases 10000
  earmark-lab cross --seed 17               one case again
  earmark-lab cross --cases 100000 --json

Invariants: when the events are over, the reservation is on each link of its path once and nowhere else, or nothing is
anywhere; that is what the applications at both ends were told last; it is there unless an event that took effect could
prevent it; ledger, engines and traffic control agree at any time; and no state remains after the release.";

/// Cross every protocol, transport, style and address family with losses, crashes, failures and refusals at every place
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Cross {
    /// Number of cases, of consecutive seeds, run on all processors.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    cases: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write what happens at each node, a line of JSON for each event; requires a single case.
    #[arg(long, value_name = "FILE", conflicts_with = "cases")]
    log: Option<PathBuf>,
    /// Print one object of JSON.
    #[arg(long)]
    json: bool,
}

/// Results of all cases.
#[derive(Debug, Default, Serialize)]
struct Summary {
    /// First seed.
    first: u64,
    /// Number of cases.
    cases: u64,
    /// Number of cases with a reservation in the end.
    reserved: u64,
    /// Events that the simulator processed.
    events: u64,
    /// Cases by axis and value.
    axes: BTreeMap<&'static str, BTreeMap<String, Counts>>,
    /// Number of broken cases.
    broken: u64,
    /// The first broken cases, each with the command that replays it.
    first_broken: Vec<BrokenCase>,
}

/// Numbers of cases.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    cases: u64,
    /// In how many of them the event took effect; of a value that is no event, any event.
    effective: u64,
    broken: u64,
}

#[derive(Debug, Serialize)]
struct BrokenCase {
    replay: String,
    protocol: &'static str,
    variant: &'static str,
    family: String,
    events: Vec<Event>,
    violations: Vec<Violation>,
}

/// Cases of consecutive seeds that one processor plays.
const BATCH: u64 = 200;

impl Cross {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let began = Instant::now();
        let protocols = Protocols::default();
        let end = self.seed.saturating_add(self.cases);
        let batches: Vec<(u64, u64)> = (self.seed..end)
            .step_by(BATCH as usize)
            .map(|from| (from, end.min(from + BATCH)))
            .collect();
        let bar = bar("cross", batches.len());
        if let Some(file) = &self.log {
            let case = Case::of(self.seed, &protocols);
            let crossing = with_log(file, |log| play_logged(&case, &protocols, log))?;
            let mut one = Summary { first: self.seed, ..Summary::default() };
            one.add(&case, crossing);
            return self.print(&one, began);
        }
        let summaries = over_all_cores(&batches, &bar, |&(from, until)| {
            let mut summary = Summary::default();
            for seed in from..until {
                let case = Case::of(seed, &protocols);
                summary.add(&case, play_case(&case, &protocols));
            }
            summary
        });
        let mut all = Summary { first: self.seed, ..Summary::default() };
        summaries.into_iter().for_each(|summary| all.merge(summary));
        self.print(&all, began)
    }

    fn print(&self, all: &Summary, began: Instant) -> Result<ExitCode> {
        match self.json {
            true => println!("{}", serde_json::to_string(all)?),
            false => print!("{}", describe(all, began.elapsed().as_secs_f64())),
        }
        Ok(if all.broken == 0 { ExitCode::SUCCESS } else { ExitCode::from(BROKEN_PROMISE) })
    }
}

impl Summary {
    fn add(&mut self, case: &Case, crossing: Crossing) {
        let is_broken = !crossing.violations.is_empty();
        self.cases += 1;
        self.reserved += u64::from(crossing.is_reserved);
        self.events += crossing.events;
        self.broken += u64::from(is_broken);
        let took_effect = &crossing.took_effect;
        let mut count = |axis, value, took_effect: bool| {
            let values: &mut BTreeMap<String, Counts> = self.axes.entry(axis).or_default();
            let counts = values.entry(value).or_default();
            counts.cases += 1;
            counts.effective += u64::from(took_effect);
            counts.broken += u64::from(is_broken);
        };
        let any = took_effect.contains(&true);
        count("variant", format!("{}, {}", case.protocol.name(), case.variant.name), any);
        count("family", format!("{:?}", case.family).to_lowercase(), any);
        for (event, &took_effect) in case.events.iter().zip(took_effect) {
            count("event", event.kind.name().to_owned(), took_effect);
            count("place", event.place.name().to_owned(), took_effect);
        }
        if let [one, other] = &case.events[..] {
            let pair = [one, other].map(|event| event.kind.name());
            let both = !took_effect.contains(&false);
            count("pair of events", format!("{}, {}", pair[0], pair[1]), both);
        }
        if is_broken && self.first_broken.len() < MAX_PRINTED {
            self.first_broken.push(BrokenCase {
                replay: format!("earmark-lab cross --seed {}", case.seed),
                protocol: case.protocol.name(),
                variant: case.variant.name,
                family: format!("{:?}", case.family).to_lowercase(),
                events: case.events.clone(),
                violations: crossing.violations,
            });
        }
    }

    fn merge(&mut self, other: Summary) {
        self.cases += other.cases;
        self.reserved += other.reserved;
        self.events += other.events;
        self.broken += other.broken;
        for (axis, values) in other.axes {
            let known = self.axes.entry(axis).or_default();
            for (value, Counts { cases, effective, broken }) in values {
                let counts = known.entry(value).or_default();
                counts.cases += cases;
                counts.effective += effective;
                counts.broken += broken;
            }
        }
        let room = MAX_PRINTED.saturating_sub(self.first_broken.len());
        self.first_broken.extend(other.first_broken.into_iter().take(room));
    }
}

fn describe(summary: &Summary, seconds: f64) -> String {
    let mut text = String::new();
    for broken in &summary.first_broken {
        let BrokenCase { replay, protocol, variant, family, events, violations } = broken;
        text.push_str(&format!("{protocol}, {variant}, {family}\n"));
        for Event { kind, place, from, until } in events {
            text.push_str(&format!(
                "  {:.3} s to {:.3} s: {}, {}\n",
                from.as_secs_f64(),
                until.as_secs_f64(),
                kind.name(),
                place.name()
            ));
        }
        for Violation { kind, at, what } in violations {
            text.push_str(&format!("  {at:.3} s: {}: {what}\n", kind.name()));
        }
        text.push_str(&format!("  again: {replay}\n"));
    }
    for (axis, values) in &summary.axes {
        // Pairs are too many to read.
        if *axis == "pair of events" {
            let fewest = values.values().map(|counts| counts.cases).min().unwrap_or_default();
            let effective = values.values().filter(|counts| counts.effective > 0).count();
            text.push_str(&format!(
                "{axis}: {} of them, each in {fewest} cases or more; {effective} with effects of both\n",
                values.len(),
            ));
            continue;
        }
        let (cases, effective) = ("cases", "with effect");
        text.push_str(&format!("{axis:<46} {cases:>10} {effective:>12} {:>8}\n", "broken"));
        for (value, Counts { cases, effective, broken }) in values {
            text.push_str(&format!("  {value:<44} {cases:>10} {effective:>12} {broken:>8}\n"));
        }
    }
    let Summary { cases, reserved, events, broken, .. } = summary;
    let rate = *cases as f64 / seconds.max(1e-3);
    text.push_str(&format!(
        "{} of {cases} cases held ({reserved} reserved in the end, {events} events; {rate:.0} cases/s)\n",
        cases - broken
    ));
    text
}

//! Command `earmark-studies reproduce`: earlier results, measured again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, ensure};
use clap::ValueEnum;

use super::compare::{Compare, PROFILE_FILE};
use super::progress::{Bar, interruption};
use super::{BROKEN_PROMISE, study};
use crate::bench::Supervision;
use crate::paper_reproduction::{self, Agreement};
use crate::provenance::{Provenance, Settings};
use crate::reproduce::Earlier;
use crate::study::compare::Extent;
use crate::study::retry;

const EXAMPLES: &str = "\
Examples:
  earmark-studies reproduce report/results.json --out again     a report, with its settings
  earmark-studies reproduce retry/results.json --out again      a study, with its seeds
  earmark-studies reproduce compare/results.json --out again    the comparison, with its cost profile

Prints in what version, commit, machine and tools differ, runs the same again, and prints the values whose median lies
outside of the earlier interval.

Exit status: 0 at least nine of ten values lie within; 1 it could not run; 3 fewer do, or a part failed.";

/// Repeat earlier results with their settings and seeds, and compare
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Reproduce {
    /// File results.json of `report`, `study retry` or `study compare`.
    #[arg(value_name = "RESULTS.JSON")]
    results: PathBuf,
    /// Directory of the new results.
    #[arg(long, value_name = "DIRECTORY")]
    out: PathBuf,
}

impl Reproduce {
    pub(super) fn run(self) -> Result<ExitCode> {
        let earlier = Earlier::read(&self.results)?;
        let now =
            Provenance::of_this_process(earlier.run.settings.clone(), earlier.run.seeds.clone());
        println!("Earlier command: {}", earlier.run.command.join(" "));
        match earlier.run.differences(&now).as_slice() {
            [] => println!("Version, commit, machine and tools are the same."),
            differences => differences.iter().for_each(|one| println!("Different {one}")),
        }
        let is_whole = self.repeat(&earlier.run.settings)?;
        let file = self.out.join("results.json");
        let now = serde_json::from_str(&std::fs::read_to_string(file)?)?;
        let agreement = earlier.compare(&now);
        print(&agreement);
        match agreement.is_good() && is_whole {
            true => Ok(ExitCode::SUCCESS),
            false => Ok(ExitCode::from(BROKEN_PROMISE)),
        }
    }

    /// Runs the command again; returns whether every part of it succeeded.
    fn repeat(&self, settings: &Settings) -> Result<bool> {
        match settings {
            Settings::Report { quick, only } => {
                let (interrupted, bar) = (interruption()?, Bar::new());
                let supervision = Supervision { watcher: &bar, interrupted: &interrupted };
                let plan = paper_reproduction::Plan {
                    quick: *quick,
                    only: only.clone(),
                    fresh: true,
                    against: None,
                    out: self.out.clone(),
                };
                let outcome = paper_reproduction::report(&plan, &supervision)?;
                bar.finish();
                for (part, why) in &outcome.broken {
                    eprintln!("{part} failed: {why}");
                }
                Ok(outcome.broken.is_empty())
            }
            &Settings::Retry { seeds, sweep_seeds, quick } => {
                let results = retry::study(&retry::Plan { seeds, sweep_seeds, quick })?;
                study::write(&self.out, &results)?;
                Ok(true)
            }
            Settings::Compare { extent, profile, .. } => {
                let extent = Extent::from_str(extent, false)
                    .map_err(|why| anyhow!("extent {extent}: {why}"))?;
                // A profile from a file is kept beside the results.
                let profile = match profile.ends_with(".toml") {
                    true => self.results.with_file_name(PROFILE_FILE).display().to_string(),
                    false => profile.clone(),
                };
                let rows = self.out.join("rows.jsonl");
                ensure!(
                    !rows.exists(),
                    "{}: these rows would not be played again; give another --out",
                    rows.display()
                );
                Compare::new(self.out.clone(), extent, profile).play()?;
                Ok(true)
            }
        }
    }
}

fn print(agreement: &Agreement) {
    for (key, before, now) in &agreement.outside {
        println!(
            "{key}: {} ({} to {}) before, {} ({} to {}) now",
            before.median, before.low, before.high, now.median, now.low, now.high
        );
    }
    let within = agreement.all - agreement.outside.len();
    println!(
        "{within} of {} values ({:.0} %) lie within the earlier intervals.",
        agreement.all,
        agreement.percent()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_that_cannot_be_repeated_is_refused() {
        let folder = std::env::temp_dir().join(format!("earmark-repeated-{}", std::process::id()));
        let [results, out] = ["results.json", "again"].map(|name| folder.join(name));
        std::fs::create_dir_all(&out).unwrap();
        let reproduce = Reproduce { results, out: out.clone() };
        let refusal = |extent: &str, profile: &str| {
            let [extent, profile] = [extent, profile].map(str::to_owned);
            let settings = Settings::Compare { extent, profile, elsewhere: false };
            reproduce.repeat(&settings).unwrap_err().to_string()
        };
        assert!(refusal("huge", "xeon-2026").starts_with("extent huge: "));
        let error = refusal("trial", "mine.toml");
        assert!(error.contains("profile.toml`: it cannot be read"), "{error}");
        std::fs::write(out.join("rows.jsonl"), "").unwrap();
        let error = refusal("trial", "xeon-2026");
        assert!(error.contains("these rows would not be played again"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

//! Command `earmark-studies study`: published simulations, run again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};

use super::compare::Compare;
use super::knee::Knee;
use crate::study::retry::{self, Plan, Results};

const RETRY_EXAMPLES: &str = "\
Examples:
  earmark-studies study retry --quick           30 seeds a row, the other sweeps in outline; below two minutes on two processors
  earmark-studies study retry --out retry       all of it, an hour of processor time; tables, drawings and results.json in retry/
  earmark-studies study retry --seeds 100 --json

The rows are the papers' cases under regular and high load. Each number is a median with its 95 % interval; what was
published, from several runs of unstated number and without intervals, stands beside it. docs/studies/retry.md explains
the results.";

/// Simulate with the engines of the daemon: published studies again, and comparisons
#[derive(Debug, clap::Subcommand)]
pub(super) enum Study {
    /// Retries of refused reservations (Pan and Schulzrinne).
    Retry(RetryStudy),
    Compare(Compare),
    Knee(Knee),
}

#[derive(Debug, clap::Args)]
#[command(after_help = RETRY_EXAMPLES)]
pub(super) struct RetryStudy {
    /// Fewer seeds, fewer points of further sweeps, and data as fluid.
    #[arg(long)]
    quick: bool,
    /// Seeds of each row of the papers' tables [default: 100; 30 with --quick].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Leave out sweeps that the papers do not have.
    #[arg(long)]
    rows_only: bool,
    /// Directory for tables, drawings and results.json.
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Print rows and sweeps as JSON.
    #[arg(long)]
    json: bool,
}

impl Study {
    pub(super) fn run(&self) -> Result<ExitCode> {
        match self {
            Study::Retry(retry) => retry.run(),
            Study::Compare(compare) => compare.run(),
            Study::Knee(knee) => knee.run(),
        }
    }
}

impl RetryStudy {
    fn run(&self) -> Result<ExitCode> {
        let begun = Instant::now();
        let sweep_seeds = match (self.rows_only, self.quick) {
            (true, _) => 0,
            (false, true) => 6,
            (false, false) => 30,
        };
        let seeds = self.seeds.unwrap_or(if self.quick { 30 } else { 100 });
        let results = retry::study(&Plan { seeds, sweep_seeds, quick: self.quick })?;
        if let Some(directory) = &self.out {
            write(directory, &results)?;
        }
        match self.json {
            true => println!("{}", serde_json::to_string(&results)?),
            false => print!("{}", retry::tables(&results, false)),
        }
        eprintln!("{:.0} s", begun.elapsed().as_secs_f64());
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes tables, drawings and results into a directory.
pub(super) fn write(directory: &Path, results: &Results) -> Result<()> {
    let cannot = |file: &Path| format!("cannot write {}", file.display());
    fs::create_dir_all(directory).with_context(|| cannot(directory))?;
    let mut files = retry::drawings(results);
    files.push(("tables.md".to_owned(), retry::tables(results, true)));
    files.push(("results.json".to_owned(), serde_json::to_string_pretty(results)?));
    for (name, text) in files {
        let file = directory.join(name);
        fs::write(&file, text).with_context(|| cannot(&file))?;
    }
    Ok(())
}

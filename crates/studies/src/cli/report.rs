//! Command `earmark-studies report`: the published overhead studies, measured again.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::progress::{Bar, interruption};
use crate::bench::Supervision;
use crate::paper_reproduction::{self, PARTS, Plan};

const EXAMPLES: &str = "\
Examples:
  earmark-studies report --quick --out report             at most five minutes
  earmark-studies report --out report                     all of it; repeat the command to continue an interrupted report
  earmark-studies report --only yessir,retry --out report   some parts; others are kept as they are
  earmark-studies report --out second --against report/results.json

report/index.html is the page; it opens with verdicts on the papers' claims, which verdicts.csv has as well. results.json has
every value under the key of the published one, with its origin; raw/PART.csv every value behind each estimate; and each table is
in a CSV file of its own. Parts that need network namespaces need root; without root a line says that they were left out.

A value stands beside a published one only if work and setting are the published ones: GIST's 20 000 to 60 000 sessions are held
by the full report alone, which takes more than an hour and a half.

Exit status: 0 everything was measured, or left out with its reason; 1 it could not run; 3 a part failed.";

/// Repeat the published overhead studies, and compare the results
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Report {
    /// Fewer repetitions and fewer points.
    #[arg(long)]
    quick: bool,
    /// Only these parts; see --list.
    #[arg(long, value_name = "PART,...", value_delimiter = ',', value_parser = part)]
    only: Vec<String>,
    /// Measure parts again that are stored already.
    #[arg(long)]
    fresh: bool,
    /// Compare with an earlier report: the number of values within its intervals.
    #[arg(long, value_name = "RESULTS.JSON")]
    against: Option<PathBuf>,
    /// List the parts, and exit.
    #[arg(long)]
    list: bool,
    /// Directory of the report.
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "list")]
    out: Option<PathBuf>,
}

/// Parses the name of a part.
fn part(name: &str) -> Result<String, String> {
    if PARTS.iter().any(|part| part.name == name) {
        return Ok(name.to_owned());
    }
    let names: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
    Err(format!("the parts are {}", names.join(", ")))
}

impl Report {
    pub(super) fn run(self) -> Result<ExitCode> {
        if self.list {
            PARTS.iter().for_each(|part| println!("{:<14}{}", part.name, part.title));
            return Ok(ExitCode::SUCCESS);
        }
        let Report { quick, only, fresh, against, out: Some(out), .. } = self else {
            bail!("no directory for the report\n  help: --out DIRECTORY");
        };
        let (interrupted, bar) = (interruption()?, Bar::new());
        let supervision = Supervision { watcher: &bar, interrupted: &interrupted };
        let outcome =
            paper_reproduction::report(&Plan { quick, only, fresh, against, out }, &supervision)?;
        bar.finish();
        for (part, why) in &outcome.broken {
            eprintln!("{part} failed: {why}");
        }
        println!("{}", outcome.page.display());
        match outcome.broken.is_empty() {
            true => Ok(ExitCode::SUCCESS),
            false => Ok(ExitCode::from(super::BROKEN_PROMISE)),
        }
    }
}

//! Command `earmark-studies bench observed`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::bench::observed::instructions::{self, Instructions};
use crate::bench::observed::{self, Observation};
use crate::bench::router::Protocol;
use crate::bench::table;
use crate::cli::measurement::Measurement;

/// Largest ratio of a refresh's instructions in an observed daemon to those in another.
const MOST_COSTLY: f64 = 1.03;

const EXAMPLES: &str = "\
A daemon holds many sessions, which its neighbours refresh every 300 s. It does so twice: alone, and with metrics that are read
every second, accounting, a client that lists all sessions without a pause, and eight that watch events. Measured are the event loop's
time for a refresh and all that it does in between, its turns, and how soon a short question is answered. Traffic control is off, as
no link has a million classes. Needs root, and two processors for figures that mean something.

Examples:
  earmark-studies bench observed
  earmark-studies bench observed --sessions 100000 --windows 3 --json | jq '.daemons[].refresh_us'

Exit status: 0 all were set up, refreshed and served, 1 it could not run, 3 sessions are missing or were refreshed late, somebody was
not served, or the instructions of a refresh rose by more than 3 %.";

/// Measure a daemon with many sessions that is observed by metrics, accounting, listings and watchers
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct ObservedBench {
    /// Protocol of the sessions: rsvp or nsis.
    #[arg(long, value_enum, default_value = "rsvp")]
    protocol: Protocol,
    /// Number of sessions.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sessions: u32,
    /// Length of a window, seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    window: u64,
    /// Number of windows for each daemon.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    windows: u32,
    /// Number of sessions while valgrind counts instructions, which is slow.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(15..=1_000_000))]
    counted_sessions: u32,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Refresh sessions, to be counted by valgrind
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CountedRefreshes {
    #[arg(long, value_enum)]
    protocol: Protocol,
    #[arg(long, value_parser = clap::value_parser!(u32).range(15..=1_000_000))]
    sessions: u32,
    #[arg(long)]
    observed: bool,
}

impl CountedRefreshes {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        instructions::refresh_counted(self.protocol, self.sessions, self.observed)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Results as one JSON object.
#[derive(Serialize)]
struct Results {
    #[serde(flatten)]
    observation: Observation,
    /// Instructions of refreshes; `None` without valgrind.
    instructions: Option<Instructions>,
}

impl ObservedBench {
    pub(in crate::cli) fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::in_namespaces(self.json, "a real daemon")?;
        let plan = observed::Plan {
            program: std::env::current_exe().context("cannot find this program's own file")?,
            protocol: self.protocol,
            sessions: self.sessions,
            window: Duration::from_secs(self.window),
            windows: self.windows,
        };
        let supervision = measurement.supervision();
        let observation = observed::measure(&plan, &supervision)?;
        measurement.show(|| table::observation(&observation));
        let counted = instructions::count(self.protocol, self.counted_sessions, &supervision)?;
        measurement.show(|| table::instructions(counted.as_ref()));
        let missing =
            || "sessions are missing or were refreshed late, or somebody was not served".to_owned();
        let broken = (!observation.is_whole()).then(missing);
        let ratio = counted.as_ref().map(Instructions::ratio);
        let costly = ratio.filter(|ratio| *ratio > MOST_COSTLY).map(|ratio| {
            format!("a refresh takes {:.1} % more instructions if observed", (ratio - 1.0) * 100.0)
        });
        let results = Results { observation, instructions: counted };
        measurement.finish(&results, broken.or(costly))
    }
}

//! Command `earmark-studies profile`.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use earmark_scenario::processing::{Buffer, CostProfile};

use super::measurement::Measurement;
use crate::bench::cost_profile::{self, Plan};
use crate::bench::router::Protocol;
use crate::paper_reproduction::environment::Environment;

const EXAMPLES: &str = "\
Examples:
  earmark-studies profile --out mine.toml                         all protocols; some three minutes
  earmark-studies profile --out mine.toml --sessions 2000,20000   fewer sessions
  earmark-studies study knee --profile mine.toml                  what a simulated router takes with these times

A scenario uses the file by processing = { profile = \"mine.toml\" }. Leave the machine alone meanwhile.";

/// Measure the times of this machine's daemons for the simulator
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Profile {
    /// File of the profile.
    #[arg(long, value_name = "FILE.toml")]
    out: PathBuf,
    /// Numbers of sessions, ascending.
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_value = "2000,20000,100000", value_parser = clap::value_parser!(u32).range(100..=200_000))]
    sessions: Vec<u32>,
    /// Number of measurements with each number.
    #[arg(long, value_name = "COUNT", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repetitions: u32,
}

/// Receive buffer of a daemon's signalling sockets, octets: twice what the daemon asks for, as the kernel counts.
const BUFFER: u64 = 128 << 20;
/// Octets that the kernel counts for a short message beside its IP packet.
const OVERHEAD: u32 = 768;

impl Profile {
    pub(super) fn run(&self) -> Result<ExitCode> {
        ensure!(
            self.sessions.is_sorted_by(|a, b| a < b),
            "--sessions: give the numbers in ascending order"
        );
        let measurement = Measurement::in_namespaces(false, "daemons")?;
        let plan = Plan {
            protocols: Protocol::RESERVING.to_vec(),
            sessions: self.sessions.clone(),
            repetitions: self.repetitions,
        };
        let turns = cost_profile::measure(&plan, &measurement.supervision())?;
        let Environment { processor, processors, kernel, version, .. } =
            Environment::of_this_machine();
        let machine = format!("{processor}, {processors} processors, {kernel}");
        let source = format!(
            "earmark-studies {version} profile --sessions {}, median of {}; processor time of a daemon without traffic control, \
             whose links have queues = \"none\"",
            self.sessions.iter().map(u32::to_string).collect::<Vec<_>>().join(","),
            self.repetitions
        );
        let buffer = Some(Buffer { octets: BUFFER, overhead: OVERHEAD });
        let profile = CostProfile { buffer, ..CostProfile::new(machine, source, turns) };
        let text = toml::to_string(&profile)?;
        fs::write(&self.out, &text)
            .with_context(|| format!("cannot write {}", self.out.display()))?;
        measurement.show(|| text);
        println!("{}", self.out.display());
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_another_order_are_refused() {
        let profile = Profile {
            out: PathBuf::from("unwritten.toml"),
            sessions: vec![500, 200],
            repetitions: 1,
        };
        let error = profile.run().unwrap_err();
        assert!(error.to_string().contains("--sessions"), "{error}");
        assert!(!profile.out.exists());
    }
}

//! Command `earmark-studies profile`, and profiles that other commands are given.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use earmark_scenario::processing::{Buffer, CostProfile, Processing};

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

/// Loads a profile: a built-in one by its name, or a file.
///
/// # Errors
/// The profile is unknown, or the file is unreadable or no profile.
pub(super) fn load(profile: &str) -> Result<Arc<CostProfile>> {
    let profile = profile.to_owned();
    let mut processing = Processing { profile, nodes: None, speed: 1.0, loaded: None };
    let loaded = processing.load(|file| fs::read_to_string(file));
    let help =
        "`earmark-studies profile --out FILE.toml` writes one with the times of this machine";
    loaded.map_err(|why| anyhow::anyhow!("{}\n  help: {help}", why.to_string().trim_end()))?;
    processing.loaded.context("the profile is loaded")
}

impl Profile {
    pub(super) fn run(&self) -> Result<ExitCode> {
        ensure!(
            self.sessions.is_sorted_by(|a, b| a < b),
            "--sessions: give the numbers in ascending order"
        );
        ensure!(
            self.out.extension().is_some_and(|it| it == "toml"),
            "--out {}: a scenario takes a profile only from a file whose name ends with .toml",
            self.out.display()
        );
        // The file appears when it is complete, and a directory that cannot be written shows before minutes of measuring.
        let partial = self.out.with_extension("toml.partial");
        let cannot = || format!("cannot write {}", self.out.display());
        fs::write(&partial, "").with_context(cannot)?;
        let written = self.measure().and_then(|text| {
            fs::write(&partial, text)
                .and_then(|()| fs::rename(&partial, &self.out))
                .with_context(cannot)
        });
        if written.is_err() {
            // The first error counts.
            let _ = fs::remove_file(&partial);
        }
        written?;
        println!("{}", self.out.display());
        Ok(ExitCode::SUCCESS)
    }

    /// Measures the times; returns the text of the profile.
    fn measure(&self) -> Result<String> {
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
        measurement.show(|| text.clone());
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(out: &str, sessions: [u32; 2]) -> String {
        let profile =
            Profile { out: PathBuf::from(out), sessions: sessions.to_vec(), repetitions: 1 };
        let error = profile.run().unwrap_err();
        assert!(!profile.out.exists());
        format!("{error:#}")
    }

    #[test]
    fn wrong_arguments_are_refused_before_measuring() {
        for (out, sessions, reason) in [
            ("unwritten.toml", [500, 200], "--sessions: give the numbers in ascending order"),
            ("unwritten", [200, 500], "--out unwritten: a scenario takes a profile only from"),
            ("no/such/directory/mine.toml", [200, 500], "cannot write no/such/directory/mine.toml"),
        ] {
            let error = refusal(out, sessions);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn invalid_profiles_are_refused_with_name_and_help() {
        let file =
            std::env::temp_dir().join(format!("earmark-profile-{}.toml", std::process::id()));
        fs::write(&file, "no profile\n").unwrap();
        let file = file.to_str().unwrap();
        for (profile, reason) in [
            ("missing.toml", "it cannot be read: No such file"),
            ("pentium", "give one of xeon-2026, "),
            (file, "TOML parse error at line 1"),
        ] {
            let error = load(profile).unwrap_err().to_string();
            let named = format!("profile `{profile}`");
            let help = "help: `earmark-studies profile --out FILE.toml`";
            assert!([&named, reason, help].iter().all(|part| error.contains(part)), "{error}");
        }
        fs::remove_file(file).unwrap();
        assert!(load("pentium-2001").is_ok());
    }
}

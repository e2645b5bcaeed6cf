//! Command `earmark-studies study knee`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use earmark_lab::statistics::{ENOUGH, Median};
use serde::Serialize;

use super::measurement::Measurement;
use super::profile;
use crate::bench::rates::line::Processors;
use crate::bench::rates::{self, Held, Plan};
use crate::bench::router::Protocol;
use crate::bench::search::Search;
use crate::study::knee;

const EXAMPLES: &str = "\
Examples:
  earmark-studies study knee                                    the machines of the papers
  earmark-studies profile --out mine.toml
  earmark-studies study knee --profile mine.toml --measure      this machine, simulated and measured

A set-up and its release are a pair. The knee is the largest rate of pairs that goes through one router without a loss.
Each is a median with its 95 % interval, over seeds or over repetitions. Simulated and measured knees are compared in messages
a second.

Exit status: 0 done, 1 it could not run, 3 a simulated knee differs from the measured one by more than 20 %.";

/// Find the largest rate of set-ups of simulated routers, by the times of a cost profile
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Knee {
    /// Profiles: names of built-in ones, or files; all that are built in by default.
    #[arg(long, value_name = "PROFILE,...", value_delimiter = ',')]
    profile: Vec<String>,
    /// Measure real daemons on this machine, too, six times each (root; some minutes).
    #[arg(long, requires = "profile")]
    measure: bool,
    /// Number of seeds of each simulated knee.
    #[arg(long, default_value_t = ENOUGH as u64, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    seeds: u64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// A knee, simulated and measured.
#[derive(Debug, Serialize)]
struct Row {
    profile: String,
    #[serde(flatten)]
    simulated: knee::Knee,
    /// Pairs a second of real daemons; missing if they were not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

/// Medians over the repetitions.
#[derive(Clone, Copy, Debug, Serialize)]
struct Measured {
    /// Number of repetitions.
    repetitions: usize,
    /// Pairs a second that went through.
    rate: Median,
    /// Share of its processor that the daemon took, 0 to 1.
    busy: Median,
    /// Pairs a second with all of the processor, by the daemon's time for a pair.
    full: Median,
    /// Messages that the daemon receives for a pair.
    messages: u32,
}

/// Largest difference of a simulated knee from the measured one.
const TOLERANCE: f64 = 0.2;

impl Row {
    /// Simulated by measured messages a second; what the daemon could do with all of its processor, if the ends came to their limit
    /// first. Simulated receivers send reports and confirmations that the measurement has not.
    fn ratio(&self) -> Option<f64> {
        let measured = self.measured?;
        let simulated = self.simulated.rate.median * self.simulated.messages.median;
        Some(simulated / (measured.full.median * f64::from(measured.messages)))
    }
}

impl Knee {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let measurement = match self.measure {
            true => Measurement::in_namespaces(self.json, "daemons")?,
            false => Measurement::begin(self.json)?,
        };
        let built_in = || earmark_scenario::processing::BUILT_IN.map(|(name, _)| name.to_owned());
        let profiles =
            if self.profile.is_empty() { built_in().to_vec() } else { self.profile.clone() };
        for profile in &profiles {
            profile::load(profile)?;
        }
        let supervision = measurement.supervision();
        let mut rows = Vec::new();
        for profile in profiles {
            for protocol in Protocol::RESERVING {
                supervision.check_interrupted()?;
                supervision.watcher.begin(&format!("{}, {profile}", protocol.name()), 1);
                let name = protocol.name_in_settings();
                let Some(simulated) = knee::knee(name, &profile, self.seeds)? else { continue };
                let measured = self.measure.then(|| measure(protocol, &supervision)).transpose()?;
                rows.push(Row {
                    profile: profile.clone(),
                    simulated,
                    measured: measured.flatten(),
                });
            }
        }
        measurement.show(|| table(&rows).to_string());
        let off = |row: &&Row| row.ratio().is_some_and(|ratio| (ratio - 1.0).abs() > TOLERANCE);
        let off: Vec<&str> =
            rows.iter().filter(off).map(|row| row.simulated.protocol.as_str()).collect();
        let broken = format!(
            "the simulated knee is not within 20 % of the measured one: {}",
            off.join(", ")
        );
        measurement.finish(&rows, (!off.is_empty()).then_some(broken))
    }
}

/// Measures the knee of a real daemon.
fn measure(
    protocol: Protocol,
    supervision: &crate::bench::Supervision<'_>,
) -> Result<Option<Measured>> {
    let plan = Plan {
        processors: Processors::available().first().copied().unwrap_or(Processors::One),
        bursts: None,
        rates: Search { first: 8_000, last: 256_000, step: 100, halvings: 3 },
        window: Duration::from_millis(500),
        held: Duration::from_secs(2),
        repetitions: ENOUGH as u32,
        sustained: None,
    };
    let rates = rates::measure(protocol, &[plan], supervision)
        .with_context(|| format!("rates of {}", protocol.name()))?;
    let held = rates.first().map(|rates| rates.held.as_slice()).unwrap_or_default();
    let median = |of: fn(&Held) -> f64| Median::of(held.iter().map(of));
    let medians = (median(|it| it.rate), median(|it| it.processor), median(|it| 1e6 / it.pair_us));
    let (Some(rate), Some(busy), Some(full)) = medians else { return Ok(None) };
    let (repetitions, messages) = (held.len(), protocol.messages_of_a_pair());
    Ok(Some(Measured { repetitions, rate, busy, full, messages }))
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header([
        "profile",
        "protocol",
        "simulated\npairs/s",
        "messages\na pair",
        "busy",
        "measured\npairs/s",
        "messages\na pair",
        "busy",
        "of a whole\nprocessor",
        "simulated\nmessages\nby those",
    ]);
    let dash = || "-".to_owned();
    for row in rows {
        let measured = |of: fn(&Measured) -> String| row.measured.as_ref().map_or_else(dash, of);
        let cells = [
            row.profile.clone(),
            row.simulated.protocol.clone(),
            match row.simulated.is_found {
                true => row.simulated.rate.to_string(),
                false => format!("{} or more", row.simulated.rate),
            },
            format!("{:.2}", row.simulated.messages.median),
            format!("{:.0} %", row.simulated.busy.median * 100.0),
            measured(|it| it.rate.to_string()),
            measured(|it| it.messages.to_string()),
            measured(|it| format!("{:.0} %", it.busy.median * 100.0)),
            measured(|it| it.full.to_string()),
            row.ratio().map_or_else(dash, |ratio| format!("{ratio:.2}")),
        ];
        let cells = cells.into_iter().enumerate().map(|(place, text)| {
            let side = if place < 2 { CellAlignment::Left } else { CellAlignment::Right };
            Cell::new(text).set_alignment(side)
        });
        table.add_row(cells);
    }
    table
}

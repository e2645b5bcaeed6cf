//! `earmark-lab bench`, and the light hosts that it starts.

mod bytes;
mod life;
mod messages;

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::bench::host::{self, Offer};
use crate::bench::network::Set;
use crate::bench::published::{self, Published};
use crate::bench::resident::{self, Residents};
use crate::bench::setup::{self, SetUps};
use crate::bench::{Supervision, Watcher, table};
use crate::testbed::{self, Settings};

const EXAMPLES: &str = "\
Two measurements, with real daemons in network namespaces (needs root):

  resident   s - r1 - r2 - d: so many sessions stand, and r1 and r2 refresh them every R. What do the messages, the
             processor and the memory of each daemon come to? Once with every session refreshed by itself, once with
             refresh reduction where the daemon has it.
  set-up     s - r1 - r2 - r3 - d: sessions are offered at some pace; how long until all are confirmed to the receiver,
             how long did each take, what was lost and recovered, and what did it cost r2?

The hosts s and d are no daemons but one light process each, so that their cost does not count; but they run on the same
machine. Messages are counted by the kernel's interfaces. Processor time contains the kernel's work for the daemon.

Examples:
  earmark-lab bench scale
  earmark-lab bench scale --json | jq '.set_up[].rate'
  earmark-lab bench scale --part set-up --set-ups 10000 --offers 4000,20000,all
  earmark-lab bench scale --sessions 1000 --set-ups 1000 --refresh 2s --window 2s    some seconds: a smoke test

Exit status: 0 every session was installed, 1 it could not run, 3 a session was not installed.";

pub(super) use messages::CountedMessages;

/// Measure real daemons, or one router without I/O
#[derive(Debug, clap::Subcommand)]
pub(super) enum Bench {
    Scale(Scale),
    Messages(messages::Messages),
    Life(life::Life),
    Bytes(bytes::Bytes),
}

/// Many sessions: what they cost while they stand, and how fast they are set up
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Scale {
    /// The protocol.
    #[arg(long, value_enum, default_value = "rsvp")]
    protocol: Protocol,
    /// What to measure; both where nothing is said.
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Resident sessions.
    #[arg(long, value_name = "COUNT", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: u32,
    /// Sessions to set up; one measurement for each number and each offer.
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', default_value = "10000,60000", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    set_ups: Vec<u32>,
    /// How they are offered: so many a second; `all` at once; or as fast as they are answered, with at most so many
    /// unanswered (`unanswered:1000`).
    #[arg(
        long,
        value_name = "OFFER,...",
        value_delimiter = ',',
        default_value = "4000,20000,unanswered:1000,all"
    )]
    offers: Vec<OfferArgument>,
    /// Refresh period R of the daemons.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = super::duration)]
    refresh: Duration,
    /// What the daemons do with the kernel's queues: nothing, so that signalling alone is measured, or one class and a token
    /// bucket for each session.
    #[arg(long, value_enum, default_value = "none")]
    queues: Queues,
    /// Whether sessions are set up with refresh reduction (RFC 2961); resident ones are measured without it and with it.
    #[arg(long, value_enum, default_value = "on")]
    reduction: Reduction,
    /// How long resident sessions are watched, after a warm-up of 1.5 R; at least R makes sense.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::duration)]
    window: Duration,
    /// When to give up a set-up.
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = super::duration)]
    patience: Duration,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Rsvp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Queues {
    None,
    Aggregate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Reduction {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Resident,
    SetUp,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct OfferArgument(Offer);

impl FromStr for OfferArgument {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<OfferArgument, &'static str> {
        const HINT: &str =
            "an offer is a number of sessions a second, `all`, or `unanswered:COUNT`";
        let number = |text: &str| text.parse().ok().filter(|&number| number > 0).ok_or(HINT);
        Ok(OfferArgument(match (text, text.strip_prefix("unanswered:")) {
            ("all", _) => Offer::Flood,
            (_, Some(most)) => Offer::Unanswered(number(most)?),
            _ => Offer::Rate(number(text)?),
        }))
    }
}

/// Be one end of many sessions
#[derive(Debug, clap::Args)]
pub(super) struct LightHost {
    /// What to do, as JSON.
    #[arg(long)]
    order: String,
}

impl LightHost {
    pub(super) fn run(&self) -> Result<ExitCode> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        host::run(serde_json::from_str(&self.order).context("no order")?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// All results, for `--json`.
#[derive(Debug, Default, Serialize)]
struct Report {
    protocol: &'static str,
    resident: Vec<Residents>,
    set_up: Vec<SetUps>,
    published: Vec<Published>,
}

impl Bench {
    pub(super) fn run(&self) -> Result<ExitCode> {
        match self {
            Bench::Scale(scale) => scale.run(),
            Bench::Messages(messages) => messages.run(),
            Bench::Life(life) => life.run(),
            Bench::Bytes(bytes) => bytes.run(),
        }
    }
}

impl Scale {
    fn run(&self) -> Result<ExitCode> {
        if let Some(obstacle) = testbed::obstacle() {
            bail!("{obstacle}; measuring real daemons needs root");
        }
        let interrupted = interruption()?;
        let bar = Bar::new();
        let supervision = Supervision { watcher: &bar, interrupted: &interrupted };
        let mut report = Report { protocol: "rsvp", ..Report::default() };
        if self.part != Some(Part::SetUp) {
            for plan in self.residents() {
                report.resident.push(resident::measure(&plan, &supervision)?);
            }
            report.published.extend(published::RESIDENT);
            self.show(&bar, || table::residents(&report.resident), &published::RESIDENT);
        }
        if self.part != Some(Part::Resident) {
            for plan in self.plans() {
                report.set_up.push(setup::measure(&plan, &supervision)?);
            }
            report.published.extend(published::SET_UP);
            self.show(&bar, || table::set_ups(&report.set_up), &published::SET_UP);
        }
        bar.0.finish_and_clear();
        if self.json {
            println!("{}", serde_json::to_string(&report)?);
        }
        let missing: u32 = report.set_up.iter().map(|s| s.sessions - s.installed).sum();
        if missing == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("{missing} sessions were not installed");
        Ok(ExitCode::from(super::BROKEN_PROMISE))
    }

    /// Tables appear as soon as they are whole.
    fn show(&self, bar: &Bar, own: impl FnOnce() -> String, others: &[Published]) {
        if !self.json {
            bar.0.suspend(|| println!("{}\n{}\n", own(), table::published(others)));
        }
    }

    fn residents(&self) -> [resident::Plan; 2] {
        [("each refreshed", false), ("in summaries", true)].map(|(name, reduction)| {
            resident::Plan {
                sessions: self.sessions,
                name,
                set: Set { reduction, ..self.set(resident::ROUTERS) },
                host_refresh: self.refresh,
                warm_up: self.refresh * 3 / 2,
                window: self.window,
                patience: self.patience,
            }
        })
    }

    fn plans(&self) -> Vec<setup::Plan> {
        let mut plans = Vec::new();
        for &sessions in &self.set_ups {
            plans.extend(self.offers.iter().map(|&OfferArgument(offer)| setup::Plan {
                sessions,
                offer,
                set: self.set(setup::ROUTERS),
                patience: self.patience,
            }));
        }
        plans
    }

    fn set(&self, routers: usize) -> Set {
        let queues = match self.queues {
            Queues::None => "none",
            Queues::Aggregate => "aggregate",
        };
        let settings =
            Settings { interface: format!("queues = \"{queues}\"\n"), ..Settings::default() };
        let reduction = self.reduction == Reduction::On;
        Set { routers, refresh: self.refresh, reduction, settings }
    }
}

/// Is set when somebody wants the program to end.
fn interruption() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}

/// Progress on standard error, on a terminal; elsewhere a line for each step.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Bar {
        let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  {elapsed}");
        Bar(bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar())))
    }
}

impl Watcher for Bar {
    fn begin(&self, what: &str, total: u64) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        }
        self.0.reset();
        self.0.set_length(total.max(1));
        self.0.set_message(what.to_owned());
    }

    fn reached(&self, count: u64) {
        self.0.set_position(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_are_read() {
        let read = |text: &str| text.parse::<OfferArgument>().map(|offer| offer.0);
        assert_eq!(read("4000"), Ok(Offer::Rate(4_000)));
        assert_eq!(read("all"), Ok(Offer::Flood));
        assert_eq!(read("unanswered:100"), Ok(Offer::Unanswered(100)));
        for wrong in ["0", "fast", "unanswered:", "-1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

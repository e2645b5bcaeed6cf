//! Command `earmark-studies bench`, and the light hosts that it starts.

mod bytes;
mod calls;
mod forwarding;
mod life;
mod listing;
mod messages;
mod nsis;
mod observed;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;

use super::measurement::Measurement;
use crate::bench::host::{self, Offer};
use crate::bench::network::Set;
use crate::bench::published::{self, Published};
use crate::bench::resident::{self, Residents};
use crate::bench::set_up::{self, SetUps};
use crate::bench::table;
use earmark_lab::testbed::Settings;

const EXAMPLES: &str = "\
Measurements with real daemons in network namespaces (needs root). With RSVP:

  resident   s - r1 - r2 - d: a number of sessions is installed, and r1 and r2 refresh them every R. Measures messages,
             processor time and memory of each daemon: with individual refreshes, and with refresh reduction.
  set-up     s - r1 - r2 - r3 - d: sessions are offered at a rate. Measures the time until all are confirmed to the
             receiver, the latency of each, losses and recoveries, and the cost for r2.

The hosts s and d are not daemons but lightweight processes, whose cost is not counted; all run on the same machine. Messages are counted by the kernel's interfaces. Processor time contains the kernel's work for the daemon.

With NSIS (--protocol nsis), over h1 - r1 - .. - h2, where h1 is this program and all others are daemons:

  set-up     consecutive reservations by QoS NSLP: latency, and cost for r1. In datagrams, and over TCP and TLS with new and with
             existing associations in every hop.
  resident   a number of reservations is installed, refreshed by QoS NSLP every R and by GIST before their validity ends.
             Measures packets, processor time and memory of each daemon, and round-trip times of pings.
  ping       largest rate of Ping NSLP round trips without a loss.

With NATFW NSLP (--protocol natfw), over the same network, set-up and resident are about pinholes in the packet filter of each
router, over TCP.

Examples:
  earmark-studies bench scale
  earmark-studies bench scale --json | jq '.set_up[].rate'
  earmark-studies bench scale --part set-up --set-ups 10000 --offers 4000,20000,all
  earmark-studies bench scale --sessions 1000 --set-ups 1000 --refresh 2s --window 2s    some seconds: a smoke test
  earmark-studies bench scale --protocol nsis                                            20 minutes
  earmark-studies bench scale --protocol nsis --part set-up --hops 2 --transport datagram
  earmark-studies bench scale --protocol nsis --part resident --sessions 60000 --transport datagram,tcp

Exit status: 0 every session was installed, and none lost; 1 it could not run, 3 a session was not installed, or was lost.";

pub(super) use calls::CountedCalls;
pub(super) use messages::{CountedMessages, CountedTurns};
pub(super) use observed::CountedRefreshes;

/// Measure real daemons, or one router without I/O
#[derive(Debug, clap::Subcommand)]
pub(super) enum Bench {
    Scale(Box<Scale>),
    Messages(messages::Messages),
    Life(life::Life),
    Listing(listing::ListingBench),
    Observed(observed::ObservedBench),
    Bytes(bytes::Bytes),
    Forwarding(forwarding::ForwardingBench),
}

/// Measure many sessions: their cost while installed, and their set-up rate
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Scale {
    /// The protocol.
    #[arg(long, value_enum, default_value = "rsvp")]
    protocol: Protocol,
    /// Part to measure [default: all].
    #[arg(long, value_enum)]
    part: Option<Part>,
    /// Resident sessions; one measurement for each number. [default: 100000; with NSIS 45000,60000]
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    sessions: Vec<u32>,
    /// Sessions to set up; one measurement for each number, and for each offer or transport. [default: 10000,60000; with
    /// NSIS, one after the other, 2000]
    #[arg(long, value_name = "COUNT,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    set_ups: Vec<u32>,
    /// Refresh period R of the daemons; with NSIS that of QoS NSLP.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = super::parse_duration)]
    refresh: Duration,
    /// Traffic control of the daemons: none, so that signalling alone is measured, or one class and a token bucket for each
    /// session.
    #[arg(long, value_enum, default_value = "none")]
    queues: Queues,
    /// Measured time of resident sessions, after a warm-up; at least R.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = super::parse_duration)]
    window: Duration,
    /// Warm-up of resident sessions. [default: 1.5 R; with NSIS the validity]
    #[arg(long, value_name = "TIME", value_parser = super::parse_duration)]
    warm_up: Option<Duration>,
    #[command(flatten)]
    rsvp: RsvpScale,
    #[command(flatten)]
    nsis: nsis::NsisScale,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

/// Options of RSVP.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "RSVP only")]
struct RsvpScale {
    /// Offered load of set-ups: sessions a second; `all` at once; or as fast as they are answered, with a limit of
    /// unanswered ones (`unanswered:1000`).
    #[arg(
        long,
        value_name = "OFFER,...",
        value_delimiter = ',',
        default_value = "4000,20000,unanswered:1000,all"
    )]
    offers: Vec<OfferArgument>,
    /// Whether sessions are set up with refresh reduction (RFC 2961); resident ones are measured without it and with it.
    #[arg(long, value_enum, default_value = "on")]
    reduction: Reduction,
    /// Timeout of a set-up.
    #[arg(long, value_name = "TIME", default_value = "5min", value_parser = super::parse_duration)]
    timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    Rsvp,
    /// QoS NSLP and Ping NSLP.
    Nsis,
    /// NATFW NSLP: pinholes, with the options of NSIS.
    Natfw,
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
    /// NSIS only.
    Ping,
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

/// Run one end of many sessions
#[derive(Debug, clap::Args)]
pub(super) struct LightHost {
    /// Parameters, as JSON.
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
            Bench::Listing(listing) => listing.run(),
            Bench::Observed(observed) => observed.run(),
            Bench::Bytes(bytes) => bytes.run(),
            Bench::Forwarding(forwarding) => forwarding.run(),
        }
    }
}

impl Scale {
    fn run(&self) -> Result<ExitCode> {
        let measurement = Measurement::in_namespaces(self.json, "real daemons")?;
        match self.protocol {
            Protocol::Rsvp => self.run_rsvp(measurement),
            Protocol::Nsis | Protocol::Natfw => self.run_nsis(measurement),
        }
    }

    fn run_rsvp(&self, measurement: Measurement) -> Result<ExitCode> {
        let supervision = &measurement.supervision();
        if self.part == Some(Part::Ping) {
            bail!("RSVP has no pings\n  help: --protocol nsis");
        }
        let mut report = Report { protocol: "rsvp", ..Report::default() };
        if self.part != Some(Part::SetUp) {
            for plan in self.residents() {
                report.resident.push(resident::measure(&plan, supervision)?);
            }
            report.published.extend(published::RESIDENT);
            show(&measurement, || table::residents(&report.resident), &published::RESIDENT);
        }
        if self.part != Some(Part::Resident) {
            for plan in self.plans() {
                report.set_up.push(set_up::measure(&plan, supervision)?);
            }
            report.published.extend(published::SET_UP);
            show(&measurement, || table::set_ups(&report.set_up), &published::SET_UP);
        }
        let missing: u32 = report.set_up.iter().map(|s| s.sessions - s.installed).sum();
        let broken = || format!("{missing} sessions were not installed");
        measurement.finish(&report, (missing > 0).then(broken))
    }

    fn residents(&self) -> Vec<resident::Plan> {
        let plan = |sessions, (name, reduction)| resident::Plan {
            sessions,
            name,
            set: Set { reduction, ..self.set(resident::ROUTERS) },
            host_refresh: self.refresh,
            warm_up: self.warm_up.unwrap_or(self.refresh * 3 / 2),
            window: self.window,
            parts: 1,
            timeout: self.rsvp.timeout,
        };
        let kinds = [("each refreshed", false), ("in summaries", true)];
        let counts = or(&self.sessions, &[100_000]).iter();
        counts.flat_map(|&sessions| kinds.map(|kind| plan(sessions, kind))).collect()
    }

    fn plans(&self) -> Vec<set_up::Plan> {
        let mut plans = Vec::new();
        for &sessions in or(&self.set_ups, &[10_000, 60_000]) {
            plans.extend(self.rsvp.offers.iter().map(|&OfferArgument(offer)| set_up::Plan {
                sessions,
                offer,
                set: self.set(set_up::ROUTERS),
                timeout: self.rsvp.timeout,
            }));
        }
        plans
    }

    fn set(&self, routers: usize) -> Set {
        let settings = Settings { interface: self.interface(), ..Settings::default() };
        let reduction = self.rsvp.reduction == Reduction::On;
        Set { routers, refresh: self.refresh, reduction, settings }
    }

    /// Returns the settings of every `[[interface]]` table.
    fn interface(&self) -> String {
        let queues = match self.queues {
            Queues::None => "none",
            Queues::Aggregate => "aggregate",
        };
        format!("queues = \"{queues}\"\n")
    }
}

/// Shows a table as soon as it is complete, and below it the published figures.
fn show(measurement: &Measurement, own: impl FnOnce() -> String, published: &[Published]) {
    measurement.show(|| own() + "\n");
    if !published.is_empty() {
        measurement.show(|| table::published(published) + "\n");
    }
}

/// Returns the requested values, or the defaults if there are none.
fn or<'l, T>(asked: &'l [T], usual: &'l [T]) -> &'l [T] {
    if asked.is_empty() { usual } else { asked }
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

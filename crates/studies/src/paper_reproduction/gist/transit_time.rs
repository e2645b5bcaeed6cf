//! Two senders over one router: time that messages stay in it, with 20 000 and with 60 000 sessions; with fewer in a
//! quick report.

use anyhow::{Context, Result};

use super::scaling::Scaling;
use crate::bench::Supervision;
use crate::bench::nsis::steady_state::validity;
use crate::bench::nsis::transit::{self, Plan, TransitTimes};
use crate::bench::nsis::{Chain, Set, Times, Transport};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;
use crate::paper_reproduction::section::{Cell, Estimate, Section, Table};

/// Numbers of sessions, as published.
const LOADS: [u32; 2] = [20_000, 60_000];

/// A kind of message: its name, its published key, and its times.
type Kind = (&'static str, &'static str, fn(&TransitTimes) -> &[Times]);
const KINDS: [Kind; 2] = [
    ("Query to Response", "query", |transits| &transits.queries),
    ("Data", "data", |transits| &transits.data),
];

/// Results of the rounds.
pub(super) struct TransitTime {
    scaling: Scaling,
    /// Number of parts of the window of each load in a round.
    parts: u32,
    results: [Vec<TransitTimes>; 2],
}

impl TransitTime {
    /// Creates empty results.
    pub(super) fn new(quick: bool) -> TransitTime {
        let parts = if quick { 3 } else { 8 };
        TransitTime { scaling: Scaling::of_report(quick), parts, results: Default::default() }
    }

    /// Measures both loads, each on a network of its own.
    pub(super) fn round(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        for (load, results) in LOADS.into_iter().zip(&mut self.results) {
            let result = one(self.scaling, load, self.parts, supervision);
            results.push(result.with_context(|| format!("two senders, {load} sessions"))?);
        }
        Ok(())
    }

    pub(super) fn section(&self) -> Section {
        let TransitTime { scaling, ref results, .. } = *self;
        let mut section = introduction(scaling);
        let mut columns = vec!["message", "sessions", "ms in the router", "thousand cycles"];
        if scaling.is_published() {
            columns.extend(["published ms", "published thousand cycles"]);
        }
        let mut table = Table::new("gist-middle", "Time of a message in a router", &columns);
        let mhz = Environment::of_this_machine().mhz;
        let then_mhz = published::number("gist.cpu_mhz");
        for (load, results) in LOADS.into_iter().zip(results) {
            for (name, kind, of) in KINDS {
                let key = format!("gist.gist_{kind}_processing_ms_{load}");
                let parts = results.iter().flat_map(of).filter(|times| times.count > 0);
                let medians: Vec<f64> = parts.map(|times| times.p50_ms).collect();
                let Some(time) = Estimate::over_time(&medians) else {
                    section
                        .leave_out(key, "no such message passed the router while it was watched");
                    continue;
                };
                let mut row: Vec<Cell> = vec![
                    name.into(),
                    f64::from(scaling.sessions(load)).into(),
                    (&time).into(),
                    mhz.map(|mhz| time.times(mhz)).into(),
                ];
                if scaling.is_published() {
                    let then = published::number(&key);
                    let cycles = then.zip(then_mhz).map(|(then, mhz)| then * mhz);
                    row.extend([then.into(), cycles.into()]);
                }
                table.row(row);
                let note = format!("the median message, {}", scaling.note());
                if scaling.admits(&mut section, &key) {
                    section.entries(key, "ms", [time], &*note);
                }
            }
        }
        section.table(table);
        section.table(router(scaling, results));
        section
    }
}

fn one(
    scaling: Scaling,
    load: u32,
    parts: u32,
    supervision: &Supervision<'_>,
) -> Result<TransitTimes> {
    supervision.watcher.begin("the network starts", 1);
    let set = Set { second_sender: true, ..Set::new(2, Transport::Datagram) };
    let chain = Chain::up(&Set { validity: validity(scaling.refresh()), ..set })?;
    let plan = Plan {
        sessions: scaling.sessions(load),
        ping: scaling.ping(),
        settle: scaling.refresh() / 2,
        window: scaling.refresh(),
        parts,
    };
    transit::measure_on(&chain, &plan, supervision)
}

/// Returns the description of the measurement.
fn introduction(scaling: Scaling) -> Section {
    let mut section = Section::default();
    section.heading("Two senders over one router (section IV-C)");
    section.text(format!(
        "Each of two senders has half of the sessions, {}; their messages go over one router to one receiver, in datagrams. How long a \
         message stays in the router is the difference of the kernel's times of the frame that comes in and of the one that goes out: \
         the Response to a Query, or Data with the ping in it as it goes on. Both processors of this machine serve all four nodes, so \
         a message also waits for a processor.",
        scaling.note()
    ));
    section
}

/// Returns a table of the router's other figures.
fn router(scaling: Scaling, results: &[Vec<TransitTimes>; 2]) -> Table {
    let columns = [
        "sessions",
        "pings a second",
        "% of a processor",
        "memory octets/session",
        "round trip ms",
        "pings lost",
        "frames not seen",
    ];
    let mut table = Table::new("gist-router", "The router between two senders", &columns);
    let estimate = |all: &[TransitTimes], of: fn(&TransitTimes) -> f64| {
        Cell::from(Estimate::of(&all.iter().map(of).collect::<Vec<_>>()))
    };
    for all in results {
        let Some(first) = all.first() else { continue };
        let sum = |of: fn(&TransitTimes) -> u64| Cell::from(all.iter().map(of).sum::<u64>() as f64);
        table.row([
            f64::from(first.sessions).into(),
            scaling.pings_a_second(first.sessions).into(),
            estimate(all, |transits| 100.0 * transits.processor),
            estimate(all, |transits| transits.memory_octets.round()),
            estimate(all, |transits| transits.round_trips.p50_ms),
            sum(|transits| transits.lost),
            sum(|transits| transits.unseen),
        ]);
    }
    table
}

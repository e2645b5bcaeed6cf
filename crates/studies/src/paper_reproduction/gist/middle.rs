//! Two senders over one router: time that messages stay in it, with 20 000 and with 60 000 sessions.

use anyhow::{Context, Result};

use super::noted;
use super::scaled::Scaled;
use crate::bench::Supervision;
use crate::bench::nsis::passing::{self, Passings, Plan};
use crate::bench::nsis::standing::validity;
use crate::bench::nsis::{Chain, Set, Times, Transport};
use crate::paper_reproduction::chapter::{Cell, Chapter, Estimate, Table};
use crate::paper_reproduction::environment::Environment;
use crate::paper_reproduction::published;

/// Numbers of sessions, as published.
const LOADS: [u32; 2] = [20_000, 60_000];

/// A kind of message: its name, its published key, and its times.
type Kind = (&'static str, &'static str, fn(&Passings) -> &[Times]);
const KINDS: [Kind; 2] = [
    ("Query to Response", "query", |passings| &passings.queries),
    ("Data", "data", |passings| &passings.data),
];

/// Results of the rounds.
pub(super) struct Middle {
    scaled: Scaled,
    /// Number of parts of the window of each load in a round.
    parts: u32,
    results: [Vec<Passings>; 2],
}

impl Middle {
    /// Creates empty results.
    pub(super) fn new(quick: bool) -> Middle {
        let parts = if quick { 3 } else { 4 };
        Middle { scaled: Scaled::of_report(quick), parts, results: Default::default() }
    }

    /// Measures both loads, each on a network of its own.
    pub(super) fn round(&mut self, supervision: &Supervision<'_>) -> Result<()> {
        for (load, results) in LOADS.into_iter().zip(&mut self.results) {
            let result = one(self.scaled, load, self.parts, supervision);
            results.push(result.with_context(|| format!("two senders, {load} sessions"))?);
        }
        Ok(())
    }

    pub(super) fn tell(&self) -> Chapter {
        let Middle { scaled, ref results, .. } = *self;
        let mut chapter = introduction(scaled);
        let columns = [
            "message",
            "sessions, as published",
            "ms in the router",
            "published ms",
            "thousand cycles",
            "published thousand cycles",
        ];
        let mut table = Table::new("gist-middle", "Time of a message in a router", &columns);
        let mhz = Environment::of_this_machine().mhz;
        let then_mhz = published::number("gist.cpu_mhz");
        for (load, results) in LOADS.into_iter().zip(results) {
            for (name, kind, of) in KINDS {
                let key = format!("gist.gist_{kind}_processing_ms_{load}");
                let then = published::number(&key);
                let parts = results.iter().flat_map(of).filter(|times| times.count > 0);
                let medians: Vec<f64> = parts.map(|times| times.p50_ms).collect();
                let Some(time) = Estimate::over_time(&medians) else {
                    chapter
                        .leave_out(key, "no such message passed the router while it was watched");
                    continue;
                };
                table.row([
                    name.into(),
                    f64::from(load).into(),
                    time.into(),
                    then.into(),
                    Cell::from(mhz.map(|mhz| time.times(mhz))),
                    then.zip(then_mhz).map(|(then, mhz)| then * mhz).into(),
                ]);
                let note = format!("the median message, {}", scaled.note());
                noted(&mut chapter, &key, "ms", vec![time], &note);
            }
        }
        chapter.table(table);
        chapter.table(router(scaled, results));
        chapter
    }
}

fn one(scaled: Scaled, load: u32, parts: u32, supervision: &Supervision<'_>) -> Result<Passings> {
    supervision.watcher.begin("the network starts", 1);
    let set = Set { second_sender: true, ..Set::new(2, Transport::Datagram) };
    let chain = Chain::up(&Set { validity: validity(scaled.refresh()), ..set })?;
    let plan = Plan {
        sessions: scaled.sessions(load),
        ping: scaled.ping(),
        settle: scaled.refresh() / 2,
        window: scaled.refresh(),
        parts,
    };
    passing::measure_on(&chain, &plan, supervision)
}

/// Returns the description of the measurement.
fn introduction(scaled: Scaled) -> Chapter {
    let mut chapter = Chapter::default();
    chapter.heading("Two senders over one router (section IV-C)");
    chapter.text(format!(
        "Each of two senders has half of the sessions, {}; their messages go over one router to one receiver, in datagrams. How long a \
         message stays in the router is the difference of the kernel's times of the frame that comes in and of the one that goes out: \
         the Response to a Query, or Data with the ping in it as it goes on. Both processors of this machine serve all four nodes, so \
         a message also waits for a processor.",
        scaled.note()
    ));
    chapter
}

/// Returns a table of the router's other figures.
fn router(scaled: Scaled, results: &[Vec<Passings>; 2]) -> Table {
    let columns = [
        "sessions, as published",
        "sessions here",
        "% of a processor",
        "memory octets/session",
        "round trip ms",
        "pings lost",
        "frames not seen",
    ];
    let mut table = Table::new("gist-router", "The router between two senders", &columns);
    let estimate = |all: &[Passings], of: fn(&Passings) -> f64| {
        Cell::from(Estimate::of(&all.iter().map(of).collect::<Vec<_>>()))
    };
    for all in results {
        let Some(first) = all.first() else { continue };
        let sum = |of: fn(&Passings) -> u64| Cell::from(all.iter().map(of).sum::<u64>() as f64);
        table.row([
            f64::from(first.sessions * scaled.by).into(),
            f64::from(first.sessions).into(),
            estimate(all, |passings| 100.0 * passings.processor),
            estimate(all, |passings| passings.memory_octets.round()),
            estimate(all, |passings| passings.round_trips.p50_ms),
            sum(|passings| passings.lost),
            sum(|passings| passings.unseen),
        ]);
    }
    table
}

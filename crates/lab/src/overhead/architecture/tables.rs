//! What the benchmark did, and which of its functions takes how much, beside what was published.

use anyhow::Result;

use super::super::chapter::{
    Axis, Cell, Chapter, Entry, Estimate, Figure, Kind, Point, Series, Table,
};
use super::super::published;
use super::Functions;
use super::callgrind::Counts;
use super::metrics;
use super::simulator::{Caches, OF_THE_PAPER, Run};
use crate::bench::calls::Scenario;
use crate::bench::router::Protocol;

/// A figure that comes from what was counted.
pub(super) type Figured = fn(&Counts) -> f64;

/// The repetitions of one scenario on one kind of processor.
pub(super) struct Sample<'r> {
    pub(super) protocol: Protocol,
    pub(super) scenario: Scenario,
    pub(super) caches: Caches,
    /// At least one.
    pub(super) runs: Vec<&'r Run>,
}

impl Sample<'_> {
    pub(super) fn name(&self) -> String {
        match self.scenario_number() {
            Some(number) => format!("RSVP, scenario {number}"),
            None => self.protocol.name().to_owned(),
        }
    }

    /// The paper's number of the scenario.
    fn scenario_number(&self) -> Option<usize> {
        let place = Scenario::ALL.iter().position(|scenario| *scenario == self.scenario);
        place.filter(|_| self.protocol == Protocol::Rsvp).map(|place| place + 1)
    }

    pub(super) fn processor(&self) -> &'static str {
        if self.caches == OF_THE_PAPER { "the paper's caches" } else { "today's caches" }
    }

    /// The key of the scenario, where it was published and simulated like this.
    pub(super) fn key(&self) -> Option<String> {
        let number = self.scenario_number().filter(|_| self.caches == OF_THE_PAPER)?;
        Some(format!("delft.scenario{number}"))
    }

    pub(super) fn estimate(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().map(|run| of(run)).collect();
        Estimate::of(&values)
    }

    pub(super) fn counted(&self, of: Figured) -> Option<Estimate> {
        self.estimate(|run| of(&run.profile.counts))
    }
}

/// Messages in and out, and what is left: each run has checked itself.
pub(super) fn check(chapter: &mut Chapter, samples: &[Sample<'_>]) {
    let mut table = Table::new(
        "architecture-check",
        "Messages in and out, one draw of scenario 1",
        &["message", "in", "out"],
    );
    let first = samples.iter().find(|sample| sample.key().is_some());
    let Some(run) = first.and_then(|sample| sample.runs.first()) else { return };
    for kind in &run.played.kinds {
        table.row([kind.name.as_str().into(), count(kind.received), count(kind.sent)]);
    }
    chapter.heading("Is the benchmark right?");
    chapter.text(
        "In every run each ResvConf, ResvTear and PathTear went on exactly once, each call was told of at least once in both directions, \
         no message was thrown away, and no session and no claim were left when all calls were over; otherwise there would be no result. \
         Path and Resv leave at times of the router's own, so their numbers are near those that came, not equal.",
    );
    chapter.table(table);
}

fn count(number: u64) -> Cell {
    Cell::Number(number as f64)
}

/// Shares of the paper's functions, its Figures 4 and 5.
///
/// # Errors
/// Functions cannot be told apart in this build.
pub(super) fn functions(chapter: &mut Chapter, samples: &[Sample<'_>]) -> Result<()> {
    let published: Vec<&Sample<'_>> =
        samples.iter().filter(|sample| sample.key().is_some()).collect();
    let functions = published
        .iter()
        .map(|sample| sample.runs.iter().map(|run| Functions::of_rsvp(&run.profile)).collect())
        .collect::<Result<Vec<Vec<Functions>>>>()?;
    let share = |scenario: &[Functions], of: fn(&Functions) -> (u64, u64)| {
        let parts = scenario.iter().map(of);
        let shares: Vec<f64> = parts.map(|(part, all)| metrics::percent(part, all)).collect();
        Estimate::of(&shares)
    };
    chapter.heading("Functions");
    chapter.text(
        "Input takes a message from a queue. Parse reads and checks it. Process is all that follows from it: session finds the session and \
         the sender, or makes them; generate and send looks up routes, writes messages and hands them over; state maintenance is the rest, \
         admission control included. Time-out is what timers do. Shares are of instructions; the paper's were of cycles, and its first \
         figure is drawn without numbers.",
    );
    let mut table = Table::new(
        "architecture-functions",
        "Instructions of each function, % of all (below process: % of process)",
        &["function", "scenario 1", "scenario 2", "scenario 3", "published"],
    );
    for (name, of, then) in ROWS {
        let shares = functions.iter().map(|scenario| Cell::from(share(scenario, of)));
        let row = std::iter::once(Cell::from(name)).chain(shares);
        let row: Vec<Cell> = row.chain(std::iter::once(then.into())).collect();
        table.row(row);
    }
    chapter.table(table);
    let bars = |rows: &[usize]| {
        let mut all = Vec::new();
        for (number, scenario) in functions.iter().enumerate() {
            let points = rows
                .iter()
                .enumerate()
                .filter_map(|(place, row)| Some(share(scenario, ROWS[*row].1)?.at(place as f64)));
            let name = format!("scenario {}", number + 1);
            all.push(Series { name, published: false, points: points.collect() });
        }
        all
    };
    figure(
        chapter,
        ("architecture-functions", "Main functions, % of instructions"),
        &MAIN,
        bars(&MAIN),
    );
    let mut series = bars(&SUB);
    for scenario in ["scenario2", "scenario3"] {
        let then = published::number(&format!("delft.generate_share_pct.{scenario}"));
        let at_generate = SUB.len() as f64 - 1.0;
        let points = then.map(|y| Point { x: at_generate, y, interval: None });
        let name = scenario.replace("scenario", "scenario ");
        series.push(Series { name, published: true, points: points.into_iter().collect() });
    }
    figure(
        chapter,
        ("architecture-process", "Parts of process, % of its instructions"),
        &SUB,
        series,
    );
    let [first, second, third] = functions.as_slice() else { return Ok(()) };
    let alone = share(first, |f| (f.process(), f.all() - f.time_out()));
    let note = format!(
        "of instructions; time-outs have the router's own refreshes in them, and without all time-outs it is {:.0} %",
        alone.map_or(0.0, |share| share.median)
    );
    entry(chapter, "delft.process_share_pct", "%", share(first, ROWS[2].1), Some(&note));
    entry(
        chapter,
        "delft.state_and_generate_share_of_process_pct",
        "%",
        share(first, |f| (f.state + f.generate, f.process())),
        Some("of instructions"),
    );
    for (scenario, key) in [(second, "scenario2"), (third, "scenario3")] {
        let key = format!("delft.generate_share_pct.{key}");
        entry(chapter, &key, "%", share(scenario, ROWS[5].1), Some("of instructions"));
    }
    Ok(())
}

/// Part and whole of a share.
type Share = fn(&Functions) -> (u64, u64);

/// Rows of the table of functions; the last column names what was published.
const ROWS: [(&str, Share, &str); 10] = [
    ("input", |f| (f.input, f.all()), ""),
    ("parse", |f| (f.parse, f.all()), "the second"),
    ("process", |f| (f.process(), f.all()), "more than 73"),
    ("process: session", |f| (f.session, f.process()), "the least"),
    ("process: state maintenance", |f| (f.state, f.process()), ""),
    ("process: generate and send", |f| (f.generate, f.process()), "45.2 in scenario 2, 27.8 in 3"),
    ("time-out", |f| (f.time_out(), f.all()), "the least"),
    ("time-out: refreshes that are sent", |f| (f.refresh, f.all()), "not said"),
    ("time-out: asking when the next is due", |f| (f.deadline, f.all()), ""),
    ("time-out: timers and ends", |f| (f.timers, f.all()), ""),
];
/// Those of the first figure,
const MAIN: [usize; 4] = [0, 1, 2, 6];
/// and of the second.
const SUB: [usize; 3] = [3, 4, 5];

fn figure(chapter: &mut Chapter, (name, title): (&str, &str), rows: &[usize], series: Vec<Series>) {
    let names: Vec<&str> =
        rows.iter().map(|row| ROWS[*row].0.trim_start_matches("process: ")).collect();
    chapter.figure(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        across: Axis::named("function", &names),
        up: Axis::linear("%"),
        kind: Kind::Bars,
        series,
    });
}

/// A value beside a published one, with what is different about it.
pub(super) fn entry(
    chapter: &mut Chapter,
    key: &str,
    unit: &str,
    value: Option<Estimate>,
    note: Option<&str>,
) {
    let Some(value) = value else { return };
    let (key, unit, note) = (key.to_owned(), unit.to_owned(), note.map(str::to_owned));
    chapter.entries.push(Entry { key, unit, values: vec![value], note });
}

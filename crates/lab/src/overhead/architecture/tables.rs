//! What was counted, beside what was published.

use anyhow::Result;

use super::super::chapter::{
    Axis, Cell, Chapter, Entry, Estimate, Figure, Kind, Point, Series, Table,
};
use super::super::published;
use super::Functions;
use super::callgrind::Counts;
use super::metrics::{self, Metric, metric};
use super::simulator::{Caches, OF_THE_PAPER, Run};
use crate::bench::calls::Scenario;
use crate::bench::router::Protocol;

/// A figure that comes from what was counted.
type Figured = fn(&Counts) -> f64;

/// The repetitions of one scenario on one kind of processor.
pub(super) struct Sample<'r> {
    pub(super) protocol: Protocol,
    pub(super) scenario: Scenario,
    pub(super) caches: Caches,
    /// At least one.
    pub(super) runs: Vec<&'r Run>,
}

impl Sample<'_> {
    fn name(&self) -> String {
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

    fn processor(&self) -> &'static str {
        if self.caches == OF_THE_PAPER { "the paper's caches" } else { "today's caches" }
    }

    /// The key of the scenario, where it was published and simulated like this.
    fn key(&self) -> Option<String> {
        let number = self.scenario_number().filter(|_| self.caches == OF_THE_PAPER)?;
        Some(format!("delft.scenario{number}"))
    }

    fn estimate(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        let values: Vec<f64> = self.runs.iter().map(|run| of(run)).collect();
        Estimate::of(&values)
    }

    fn counted(&self, of: Figured) -> Option<Estimate> {
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

fn entry(
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

/// The paper's Tables 1 to 3.
pub(super) fn processors(chapter: &mut Chapter, samples: &[Sample<'_>]) {
    chapter.heading("Simulated processors");
    chapter.text(format!(
        "Cycles are an estimate: instructions + {} x misses of the first level + {} x misses of the second + {} x wrong predictions, which is \
         a processor that does one instruction a cycle and waits for everything. The paper's simulator did up to four at a time and went on \
         meanwhile, so its IPC is higher than ours at equal counts. Directions predicted are of conditional branches; next addresses of these \
         and of indirect ones together, as the paper's simulator has it; valgrind does not count direct jumps, calls and returns as \
         branches, so calls and returns have a column of their own. The instruction set is another one too: that of x86-64 has operands in \
         memory, which makes fewer instructions of more loads and stores.",
        metrics::SECOND_LEVEL,
        metrics::MEMORY,
        metrics::WRONG_PREDICTION
    ));
    for sample in samples {
        let Some(key) = sample.key() else { continue };
        for metric in &metrics::ALL {
            let key = format!("{key}.{}", metric.key);
            entry(chapter, &key, metric.unit, sample.counted(metric.of), metric.note);
        }
    }
    let own: [(&str, Figured); 2] = [
        ("indirect targets predicted, %", metrics::targets_predicted),
        ("calls and returns, %", metrics::calls_and_returns),
    ];
    for (name, title, keys, own) in [
        (
            "architecture-table1",
            "Cycles and prediction (Table 1)",
            &["cycles_m", "ipc", "apr_pct", "dpr_pct"][..],
            &own[..1],
        ),
        (
            "architecture-table2",
            "Instructions (Table 2)",
            &["inst_m", "load_pct", "store_pct", "branch_pct"],
            &own[1..],
        ),
        (
            "architecture-table3",
            "Caches (Table 3)",
            &["il1_acc_m", "il1_miss_pct", "dl1_acc_m", "dl1_miss_pct", "ul2_miss_pct"],
            &[],
        ),
    ] {
        let metrics: Vec<&Metric> = keys.iter().filter_map(|key| metric(key)).collect();
        let mut columns = vec!["benchmark", "processor"];
        for metric in &metrics {
            columns.extend([metric.title, "published"]);
        }
        columns.extend(own.iter().map(|(title, _)| *title));
        let mut table = Table::new(name, title, &columns);
        for sample in samples {
            let mut row: Vec<Cell> = vec![sample.name().into(), sample.processor().into()];
            for metric in &metrics {
                let key = sample.key().map(|key| format!("{key}.{}", metric.key));
                row.push(sample.counted(metric.of).into());
                row.push(key.and_then(|key| published::number(&key)).into());
            }
            row.extend(own.iter().map(|(_, of)| Cell::from(sample.counted(*of))));
            table.row(row);
        }
        chapter.table(table);
    }
    others(chapter, samples);
}

/// What all protocols have in common: input, messages, time-outs.
fn others(chapter: &mut Chapter, samples: &[Sample<'_>]) {
    if samples.iter().all(|sample| sample.protocol == Protocol::Rsvp) {
        return;
    }
    let mut table = Table::new(
        "architecture-protocols",
        "One call of each protocol, instructions",
        &[
            "benchmark",
            "messages of a call",
            "all",
            "of a message",
            "input",
            "messages",
            "time-outs",
        ],
    );
    for sample in samples
        .iter()
        .filter(|sample| sample.caches == OF_THE_PAPER && sample.scenario == Scenario::All)
    {
        let per_call = |of: fn(&Functions) -> u64| {
            let of_run =
                |run: &Run| of(&Functions::of(&run.profile)) as f64 / f64::from(run.played.calls);
            Cell::from(sample.estimate(of_run))
        };
        let per_message =
            |run: &Run| run.profile.counts.instructions as f64 / f64::from(run.played.messages);
        let messages = |run: &Run| f64::from(run.played.messages) / f64::from(run.played.calls);
        table.row([
            sample.name().into(),
            sample.estimate(messages).into(),
            per_call(Functions::all),
            sample.estimate(per_message).into(),
            per_call(|f| f.input),
            per_call(|f| f.parse + f.process()),
            per_call(Functions::time_out),
        ]);
    }
    chapter.text(
        "The same calls over the other protocols, as our addition: what sets them up, refreshes them every 30 s, and ends them. Messages of \
         NSIS repeat what the router has said before, so they are written while it runs, which is not counted, but disturbs its caches.",
    );
    chapter.table(table);
}

/// The clock of this machine.
pub(super) fn this_machine(
    chapter: &mut Chapter,
    samples: &[Sample<'_>],
    times: &[Estimate],
    mhz: Option<f64>,
) {
    chapter.heading("This machine");
    chapter.text(
        "The same benchmark, not simulated: time of what is counted, less what looking at the clock takes, each value the median of three \
         plays. Cycles are microseconds by MHz, and IPC is the instructions that valgrind counted by these cycles.",
    );
    let mut table = Table::new(
        "architecture-clock",
        "Time on this machine",
        &[
            "benchmark",
            "ms",
            "us a message",
            "cycles, M",
            "published cycles, M",
            "IPC",
            "published IPC",
        ],
    );
    let timed = samples.iter().filter(|sample| sample.caches == OF_THE_PAPER);
    for (sample, us) in timed.zip(times) {
        let run = sample.runs[0];
        let instructions = run.profile.counts.instructions as f64;
        let cycles = mhz.map(|mhz| us.times(mhz));
        let published = |metric: &str| {
            sample.key().and_then(|key| published::number(&format!("{key}.{metric}")))
        };
        table.row([
            sample.name().into(),
            us.times(1e-3).into(),
            us.times(1.0 / f64::from(run.played.messages)).into(),
            cycles.map(|cycles| cycles.times(1e-6)).into(),
            published("cycles_m").into(),
            cycles.map(|cycles| inverse(cycles, instructions)).into(),
            published("ipc").into(),
        ]);
    }
    chapter.table(table);
}

/// Something by an estimate, whose ends change places.
fn inverse(estimate: Estimate, something: f64) -> Estimate {
    let Estimate { median, low, high, repetitions } = estimate;
    Estimate {
        median: something / median,
        low: something / high,
        high: something / low,
        repetitions,
    }
}

//! Processors, simulated and real: the paper's Tables 1 to 3.

use super::super::published;
use super::super::section::{Axis, Cell, Estimate, Figure, Kind, Section, Series, Table};
use super::clock::ProcessorCounts;
use super::metrics::{self, Metric, metric};
use super::samples::{CountFigure, Sample};
use super::simulator::{OF_THE_PAPER, Run};
use super::{Functions, MESSAGES};
use crate::bench::calls::Scenario;
use crate::bench::router::Protocol;

/// A column without a published counterpart: its heading and its figure.
type UnpublishedColumn = (&'static str, CountFigure);

/// Name, title, columns with published counterparts, and others.
const TABLES: [(&str, &str, &[&str], &[UnpublishedColumn]); 3] = [
    (
        "architecture-table1",
        "Estimated cycles, and simulated prediction (Table 1)",
        &["cycles_m", "ipc", "apr_pct", "dpr_pct"],
        &[("indirect targets predicted, %", metrics::targets_predicted)],
    ),
    (
        "architecture-table2",
        "Counted instructions (Table 2)",
        &["inst_m", "load_pct", "store_pct", "branch_pct"],
        &[("calls and returns, %", metrics::calls_and_returns)],
    ),
    (
        "architecture-table3",
        "Simulated caches (Table 3)",
        &["il1_acc_m", "il1_miss_pct", "dl1_acc_m", "dl1_miss_pct", "ul2_miss_pct"],
        &[],
    ),
];

/// Cost on the real processor.
pub(super) struct MeasuredCost {
    /// Time, microseconds.
    pub(super) us: Estimate,
    /// Performance counters; `None` if they are unavailable or cannot separate the benchmark.
    pub(super) counted: Option<ProcessorCounts>,
}

/// Adds the paper's Tables 1 to 3.
pub(super) fn simulated(section: &mut Section, samples: &[Sample<'_>]) {
    section.heading("Simulated processors");
    section.text(format!(
        "Cycles and IPC in these tables are not measured, neither on this machine nor on another one: they are an estimate for the \
         processor whose caches valgrind simulates. Instructions, loads, stores and branches are counted; misses and predictions are results of \
         the simulation. The estimate is: instructions + {} x misses of the first level + {} x misses of the second + {} x wrong predictions, which is \
         a processor that does one instruction a cycle and waits for everything. The paper's simulator did up to four at a time and went on \
         meanwhile, so its IPC is higher than ours at equal counts. Directions predicted are of conditional branches; next addresses of these \
         and of indirect ones together, as the paper's simulator has it; valgrind does not count direct jumps, calls and returns as \
         branches, so calls and returns have a column of their own. The instruction set is another one too: that of x86-64 has operands in \
         memory, which makes fewer instructions of more loads and stores.",
        metrics::SECOND_LEVEL,
        metrics::MEMORY,
        metrics::WRONG_PREDICTION
    ));
    entries(section, samples);
    figures(section, samples);
    for (name, title, keys, own) in TABLES {
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
        section.table(table);
    }
    others(section, samples);
}

/// Adds figures of Tables 1 to 3: what is counted in millions, and what is a share.
fn figures(section: &mut Section, samples: &[Sample<'_>]) {
    let of_paper: Vec<&Sample<'_>> =
        samples.iter().filter(|sample| sample.key().is_some()).collect();
    for (name, title, up, keys) in [
        (
            "architecture-counts",
            "Scenarios 1 to 3, millions (cycles: an estimate)",
            "millions",
            &["cycles_m", "inst_m", "il1_acc_m", "dl1_acc_m"][..],
        ),
        (
            "architecture-shares",
            "Scenarios 1 to 3, shares (Tables 1 to 3)",
            "%",
            &["apr_pct", "load_pct", "store_pct", "branch_pct", "il1_miss_pct", "dl1_miss_pct"],
        ),
    ] {
        let metrics: Vec<&Metric> = keys.iter().filter_map(|key| metric(key)).collect();
        let names: Vec<&str> =
            metrics.iter().filter_map(|metric| metric.title.split([',', '(']).next()).collect();
        let mut series = Vec::new();
        for sample in &of_paper {
            let places = || metrics.iter().enumerate();
            let ours = places()
                .filter_map(|(place, metric)| Some(sample.counted(metric.of)?.at(place as f64)));
            let then = places().filter_map(|(place, metric)| {
                let key = format!("{}.{}", sample.key()?, metric.key);
                Some(published::value(&key)?.at(place as f64))
            });
            series.push(Series::measured(sample.name(), ours));
            series.push(Series::published(sample.name(), then));
        }
        section.figure(Figure {
            name: name.to_owned(),
            title: title.to_owned(),
            across: Axis::named("", &names),
            up: Axis::linear(up),
            kind: Kind::Bars,
            series,
        });
    }
}

/// Adds values beside the published ones, all of them of the processor with the paper's caches; what this machine has
/// measured stands apart.
fn entries(section: &mut Section, samples: &[Sample<'_>]) {
    for sample in samples.iter().filter(|sample| sample.caches == OF_THE_PAPER) {
        let Some(key) = sample.key() else { continue };
        for metric in &metrics::ALL {
            let (key, value) = (format!("{key}.{}", metric.key), sample.counted(metric.of));
            section.entries_by(metric.basis, key, metric.unit, value, metric.note);
        }
    }
}

/// Adds a table for all protocols: input, messages, timeouts.
fn others(section: &mut Section, samples: &[Sample<'_>]) {
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
    section.text(
        "The same calls over the other protocols, as our addition: what sets them up, refreshes them every 30 s, and ends them. Messages of \
         NSIS repeat what the router has said before, so they are written while it runs, which is not counted, but disturbs its caches.",
    );
    section.table(table);
}

/// Adds the clock of this machine, and its counters.
pub(super) fn this_machine(
    section: &mut Section,
    samples: &[Sample<'_>],
    here: &[MeasuredCost],
    mhz: Option<f64>,
) {
    section.heading("This machine");
    let counters = match here.iter().any(|here| here.counted.is_some()) {
        true => {
            "The counters of the processor, read by perf, have the loop of the benchmark in them; what writing the messages takes is \
             subtracted."
        }
        false => {
            "The counters of the processor were unavailable (no perf, no permission, or a virtual machine without them)."
        }
    };
    section.text(format!(
        "The same benchmark, measured on this machine, whose caches and clock are neither those of the paper nor those of the estimate; \
         published cycles, which are of a simulated processor, do not stand beside these. Time of what is counted, less what looking at the clock takes, each value the median of three \
         plays. Cycles are microseconds by MHz, and IPC is the instructions that valgrind counted by these cycles; where a processor \
         runs faster than the kernel says, cycles are too few, and IPC is too high. {counters}"
    ));
    let mut table = Table::new(
        "architecture-clock",
        "Time on this machine",
        &[
            "benchmark",
            "ms",
            "us a message",
            "cycles, M",
            "cycles by counter, M",
            "IPC",
            "IPC by counters",
        ],
    );
    let timed = samples.iter().filter(|sample| sample.caches == OF_THE_PAPER);
    for (sample, here) in timed.zip(here) {
        let run = sample.runs[0];
        let instructions = run.profile.counts.instructions as f64;
        let cycles = mhz.map(|mhz| here.us.times(mhz));
        table.row([
            sample.name().into(),
            here.us.times(1e-3).into(),
            here.us.times(1.0 / f64::from(run.played.messages)).into(),
            cycles.as_ref().map(|cycles| cycles.times(1e-6)).into(),
            here.counted.as_ref().map(|counted| counted.cycles.times(1e-6)).into(),
            cycles.map(|cycles| cycles.dividing(instructions)).into(),
            here.counted.as_ref().map(|counted| counted.ipc.clone()).into(),
        ]);
    }
    section.table(table);
}

/// Adds a summary of the changes in a quarter of a century.
pub(super) fn conclude(section: &mut Section, samples: &[Sample<'_>], here: &[MeasuredCost]) {
    let first = samples.iter().find(|sample| sample.key().is_some()).zip(here.first());
    let Some((sample, here)) = first else { return };
    let of = |key: &str| metric(key).and_then(|metric| sample.counted(metric.of));
    let then = |key: &str| published::number(&format!("delft.scenario1.{key}"));
    let both = |key: &str| Some((of(key)?.median, then(key)?));
    let all = (both("inst_m"), both("il1_miss_pct"), both("dl1_miss_pct"));
    let (Some(instructions), Some(code), Some(data)) = all else { return };
    let messages = f64::from(sample.runs[0].played.messages);
    section.heading("What has changed");
    section.text(format!(
        "A message of scenario 1 took about {:.0} instructions in the paper and takes {:.0} here, the refreshes that timers send and the \
         question when the next one is due included, in {:.2} us. Finding a session is one keyed hash; a message \
         that repeats what is known changes a time and no more, and looks up no route, to which the paper lays the large share of \
         generate and send in scenario 2. What has grown is the code: of the instructions {:.1} % missed the paper's instruction cache \
         here ({:.1} % there), because a message runs through much code once, and hardly a loop. Of data {:.2} % missed ({:.2} % there): hundreds \
         of calls stand at a time, each with its state, its place in the tables and its timers.",
        instructions.1 * 1e6 / f64::from(MESSAGES),
        instructions.0 * 1e6 / messages,
        here.us.median / messages,
        code.0,
        code.1,
        data.0,
        data.1
    ));
}

//! Shares of the paper's functions: its Figures 4 and 5.

use anyhow::Result;

use super::super::published;
use super::super::section::{
    Axis, Basis, Cell, Estimate, Figure, Kind, Point, Section, Series, Table,
};
use super::functions::Functions;
use super::metrics;
use super::samples::Sample;

/// Part and whole of a share.
type Share = fn(&Functions) -> (u64, u64);

/// Published value of a share.
enum PublishedShare {
    Nothing,
    Words(&'static str),
    Process,
    Generate,
}

/// Rows of the table.
const ROWS: [(&str, Share, PublishedShare); 11] = [
    ("input", |f| (f.input, f.all()), PublishedShare::Nothing),
    ("parse", |f| (f.parse, f.all()), PublishedShare::Words("the second")),
    ("process", |f| (f.process(), f.all()), PublishedShare::Process),
    ("process: session", |f| (f.session, f.process()), PublishedShare::Words("the least")),
    ("process: state maintenance", |f| (f.state, f.process()), PublishedShare::Nothing),
    ("process: generate and send", |f| (f.generate, f.process()), PublishedShare::Generate),
    ("time-out", |f| (f.time_out(), f.all()), PublishedShare::Words("the least")),
    ("time-out: refreshes that are sent", |f| (f.refresh, f.all()), PublishedShare::Nothing),
    ("time-out: asking when the next is due", |f| (f.deadline, f.all()), PublishedShare::Nothing),
    ("time-out: timers and ends", |f| (f.timers, f.all()), PublishedShare::Nothing),
    ("process, of all but time-outs", ALONE, PublishedShare::Process),
];
/// Rows of the first figure.
const MAIN: [usize; 4] = [0, 1, 2, 6];
/// Rows of the second figure.
const SUB: [usize; 3] = [3, 4, 5];

/// Keys of published shares, or the beginning of such keys.
const SHARE_KEYS: [&str; 3] = [
    "delft.process_share_pct",
    "delft.state_and_generate_share_of_process_pct",
    "delft.generate_share_pct",
];

const PROCESS: Share = |f| (f.process(), f.all());
const ALONE: Share = |f| (f.process(), f.all() - f.time_out());
const GENERATE: Share = |f| (f.generate, f.process());
const WITHOUT_SESSION: Share = |f| (f.state + f.generate, f.process());

/// Scenarios with published shares of generate and send.
const PUBLISHED_GENERATE: [(usize, &str); 2] =
    [(2, "delft.generate_share_pct.scenario2"), (3, "delft.generate_share_pct.scenario3")];

impl PublishedShare {
    fn cell(&self) -> Cell {
        match self {
            PublishedShare::Nothing => Cell::Nothing,
            PublishedShare::Words(words) => (*words).into(),
            PublishedShare::Process => published::number("delft.process_share_pct")
                .map(|share| format!("more than {share}"))
                .into(),
            PublishedShare::Generate => {
                let shares = PUBLISHED_GENERATE.iter().filter_map(|(scenario, key)| {
                    Some(format!("{} in scenario {scenario}", published::number(key)?))
                });
                shares.collect::<Vec<String>>().join(", ").into()
            }
        }
    }
}

/// Repetitions of the paper's scenarios.
struct Scenarios(Vec<Vec<Functions>>);

impl Scenarios {
    fn of(samples: &[Sample<'_>]) -> Result<Scenarios> {
        let of_sample = |sample: &Sample<'_>| {
            sample.runs.iter().map(|run| Functions::of_rsvp(&run.profile)).collect()
        };
        let published = samples.iter().filter(|sample| sample.key().is_some());
        published.map(of_sample).collect::<Result<_>>().map(Scenarios)
    }

    /// Returns a share in the scenario with this number, percent.
    fn share(&self, number: usize, of: Share) -> Option<Estimate> {
        let repetitions = self.0.get(number.checked_sub(1)?)?;
        let shares = repetitions.iter().map(of);
        let shares: Vec<f64> = shares.map(|(part, all)| metrics::percent(part, all)).collect();
        Estimate::of(&shares)
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        1..=self.0.len()
    }
}

/// Adds the shares of all functions; says why there are none if the functions are not separate in this build.
pub(super) fn show(section: &mut Section, samples: &[Sample<'_>]) {
    section.heading("Functions");
    let scenarios = match Scenarios::of(samples) {
        Ok(scenarios) => scenarios,
        Err(error) => {
            let reason = error.to_string();
            section.text(format!("No shares: {reason}."));
            for key in SHARE_KEYS.into_iter().chain(["architecture.share_pct"]) {
                section.leave_out(key, reason.as_str());
            }
            return;
        }
    };
    section.text(
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
        let shares = [1, 2, 3].map(|number| scenarios.share(number, of).into());
        let [first, second, third] = shares;
        table.row([name.into(), first, second, third, then.cell()]);
    }
    figures(section, &scenarios);
    section.table(table);
    entries(section, &scenarios);
}

fn figures(section: &mut Section, scenarios: &Scenarios) {
    let bars = |rows: &[usize]| -> Vec<Series> {
        let series = scenarios.numbers().map(|number| {
            let shares = rows.iter().enumerate().filter_map(|(place, row)| {
                Some(scenarios.share(number, ROWS[*row].1)?.at(place as f64))
            });
            Series::measured(format!("scenario {number}"), shares)
        });
        series.collect()
    };
    let title = "Main functions, % of instructions";
    figure(section, ("architecture-functions", title), &MAIN, bars(&MAIN));
    let mut series = bars(&SUB);
    for (scenario, key) in PUBLISHED_GENERATE {
        let x = SUB.len() as f64 - 1.0;
        let points = published::number(key).map(|y| Point { x, y, interval: None });
        series.push(Series::published(format!("scenario {scenario}"), points));
    }
    let title = "Parts of process, % of its instructions";
    figure(section, ("architecture-process", title), &SUB, series);
}

fn figure(section: &mut Section, (name, title): (&str, &str), rows: &[usize], series: Vec<Series>) {
    let names: Vec<&str> =
        rows.iter().map(|row| ROWS[*row].0.trim_start_matches("process: ")).collect();
    section.figure(Figure {
        name: name.to_owned(),
        title: title.to_owned(),
        across: Axis::named("function", &names),
        up: Axis::linear("%"),
        kind: Kind::Bars,
        series,
    });
}

fn entries(section: &mut Section, scenarios: &Scenarios) {
    const OF_INSTRUCTIONS: &str = "of instructions, not of cycles";
    let note = scenarios.share(1, ALONE).map(|alone| {
        format!(
            "{OF_INSTRUCTIONS}; time-outs have the router's own refreshes in them, and of all but time-outs it is {:.0} %",
            alone.median
        )
    });
    let counted = Basis::Counted;
    let share = scenarios.share(1, PROCESS);
    section.entries_by(counted, "delft.process_share_pct", "%", share, note.as_deref());
    let key = "delft.state_and_generate_share_of_process_pct";
    section.entries_by(counted, key, "%", scenarios.share(1, WITHOUT_SESSION), OF_INSTRUCTIONS);
    for (scenario, key) in PUBLISHED_GENERATE {
        let share = scenarios.share(scenario, GENERATE);
        section.entries_by(counted, key, "%", share, OF_INSTRUCTIONS);
    }
    for (name, of) in [
        ("parse", 1),
        ("process", 2),
        ("session", 3),
        ("state", 4),
        ("generate", 5),
        ("time_out", 6),
    ] {
        let key = format!("architecture.share_pct.{name}");
        section.measure(counted, key, "%", scenarios.share(1, ROWS[of].1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_their_wholes() {
        let functions = Functions {
            input: 10,
            parse: 20,
            session: 5,
            state: 15,
            generate: 30,
            refresh: 10,
            deadline: 5,
            timers: 5,
        };
        let scenarios = Scenarios(vec![vec![functions; 3]]);
        let of = |row: usize| scenarios.share(1, ROWS[row].1).map(|share| share.median);
        let expected = [10.0, 20.0, 50.0, 10.0, 30.0, 60.0, 20.0, 10.0, 5.0, 5.0, 62.5];
        for (row, expected) in expected.into_iter().enumerate() {
            assert_eq!(of(row), Some(expected), "{}", ROWS[row].0);
        }
        assert_eq!(scenarios.share(2, PROCESS), None);
        let mut section = Section::default();
        entries(&mut section, &scenarios);
        let values: Vec<f64> = section.entries.iter().map(|entry| entry.values[0].median).collect();
        assert_eq!(values, [50.0, 90.0], "the other scenarios were not played");
    }

    #[test]
    fn published_shares_are_shown() {
        assert_eq!(PublishedShare::Process.cell(), "more than 73".into());
        assert_eq!(
            PublishedShare::Generate.cell(),
            "45.2 in scenario 2, 27.8 in scenario 3".into()
        );
    }
}

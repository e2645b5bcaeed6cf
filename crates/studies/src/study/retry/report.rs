//! Tables and drawings of the study.

use comfy_table::presets::{ASCII_MARKDOWN, UTF8_FULL_CONDENSED};
use comfy_table::{Cell, CellAlignment, Table};
use earmark_scenario::Outcome;

use super::case::{Case, Load};
use super::drawings::{self, Strip};
use super::rows::{Row, TIMEOUT_S};
use super::sweeps::{Point, Sweep};
use super::{CaseResults, Results};
use earmark_lab::plot::chart::{self, Axis, Figure, Kind, Series};
use earmark_lab::run_output::timeline_svg;
use earmark_lab::statistics::Median;

/// Returns all tables, each under its title; as Markdown, or for a terminal.
pub fn tables(results: &Results, markdown: bool) -> String {
    let mut text = String::new();
    for load in Load::ALL {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.load == load).collect();
        let seeds = rows.first().map_or(0, |row| row.seeds);
        let flows = match load {
            Load::Regular => 85,
            Load::High => 120,
        };
        let title =
            format!("{} load: {flows} reservations at a time, {seeds} seeds", capital(load.name()));
        text.push_str(&titled(&title, &cases(&rows, markdown), markdown));
    }
    for sweep in &results.sweeps {
        let seeds = sweep.points.iter().map(|point| point.seeds);
        let (fewest, most) = (seeds.clone().min().unwrap_or(0), seeds.max().unwrap_or(0));
        let seeds = if fewest == most { format!("{most}") } else { format!("{fewest} to {most}") };
        let title = format!("{}, {seeds} seeds", sweep.title);
        text.push_str(&titled(&title, &points(sweep, markdown), markdown));
    }
    text
}

fn titled(title: &str, table: &Table, markdown: bool) -> String {
    let title = if markdown { format!("### {title}\n") } else { title.to_owned() };
    format!("{title}\n{table}\n\n")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

fn table(header: &[&str], markdown: bool) -> Table {
    let mut table = Table::new();
    table.load_style(if markdown { ASCII_MARKDOWN } else { UTF8_FULL_CONDENSED });
    table.set_header(header);
    table
}

fn push(table: &mut Table, cells: Vec<String>) {
    let cells = cells.into_iter().enumerate().map(|(place, text)| {
        let side = if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    });
    table.add_row(cells);
}

/// Returns the table of cases, with the papers' figures in brackets behind ours.
fn cases(rows: &[&Row], markdown: bool) -> Table {
    let header = [
        "case",
        "retries",
        "published",
        "test flow completes",
        "after s",
        "published",
        "as lucky",
        "tries",
        "published",
        "served %",
        "fragmented %",
        "flows completed %",
    ];
    let mut table = table(&header, markdown);
    for row in rows {
        let published = row.case.published(row.load);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let cells = vec![
            row.case.title().to_owned(),
            format!("{:.0}", row.retries),
            or_dash(published.and_then(|then| Some(then.retries?.to_string()))),
            format!("{:.0} %", row.completed_share * 100.0),
            waited(&row.completion_s),
            or_dash(published.map(|then| {
                then.completed_after.map_or("never".to_owned(), |after| format!("{after:.0}"))
            })),
            or_dash(row.as_lucky.map(|share| format!("{:.0} %", share * 100.0))),
            format!("{:.0}", row.tries),
            or_dash(published.map(|then| then.tries.to_string())),
            percent(&row.served),
            percent(&row.fragmented),
            percent(&row.flows_completed),
        ];
        push(&mut table, cells);
    }
    table
}

/// Formats a waiting time; a wait up to the end means at least that time.
fn waited(wait: &Median) -> String {
    let shown = |value: f64| match value {
        value if value >= TIMEOUT_S => "never".to_owned(),
        value => format!("{value:.1}"),
    };
    format!("{} ({} to {})", shown(wait.median), shown(wait.low), shown(wait.high))
}

fn percent(share: &Median) -> String {
    let Median { median, low, high } = *share;
    format!("{:.1} ({:.1} to {:.1})", median * 100.0, low * 100.0, high * 100.0)
}

fn points(sweep: &Sweep, markdown: bool) -> Table {
    let header = ["", sweep.axis, "served %", "completed %", "fragmented %", "wait s", "retries"];
    let mut table = table(&header, markdown);
    for point in &sweep.points {
        let cells = vec![
            point.series.clone(),
            point.x.clone(),
            percent(&point.served),
            percent(&point.completed),
            percent(&point.fragmented),
            format!("{:.1}", point.wait_s),
            format!("{:.0}", point.retries),
        ];
        push(&mut table, cells);
    }
    table
}

/// Returns all drawings, each with the name of its file.
pub fn drawings(results: &Results) -> Vec<(String, String)> {
    let mut drawings = Vec::new();
    for load in Load::ALL {
        drawings.push((format!("completion-{}.svg", load.name()), completion(results, load)));
        let traces: Vec<&CaseResults> =
            results.traces.iter().filter(|traced| traced.load == load).collect();
        if !traces.is_empty() {
            drawings.push((format!("received-{}.svg", load.name()), received(&traces, load)));
        }
    }
    drawings.extend(sequences(&results.traces).map(|svg| ("sequences.svg".to_owned(), svg)));
    for sweep in &results.sweeps {
        for (what, title, value) in [
            ("served", "share of the time with the whole reservation", of_served as Of),
            ("fragmented", "share of what is reserved in vain", of_fragmented),
        ] {
            let svg = sweep_drawing(sweep, title, value);
            drawings.push((format!("{}-{what}.svg", sweep.name), svg));
        }
    }
    drawings
}

fn completion(results: &Results, load: Load) -> String {
    let strip = |row: &Row| Strip {
        name: row.case.title().to_owned(),
        runs: row.by_seed.waits.clone(),
        published: row.case.published(load).map(|then| then.completed_after),
    };
    let rows = results.rows.iter().filter(|row| row.load == load);
    let strips: Vec<Strip> = rows.map(strip).collect();
    let title =
        format!("{} load: how long the test flow waits, each run a dot", capital(load.name()));
    drawings::strips(&title, "seconds; at 300: not made; ring: published", TIMEOUT_S, &strips)
}

fn received(traces: &[&CaseResults], load: Load) -> String {
    let panels: Vec<_> = traces
        .iter()
        .filter_map(|traced| Some((traced, traced.runs.first()?.watched.first()?)))
        .map(|(traced, flow)| {
            let completed = flow.reserves.zip(flow.completed_after).map(|(at, after)| at + after);
            (traced.case.title().to_owned(), &flow.received.rates[..], completed)
        })
        .collect();
    let title = format!(
        "{} load, first seed: what the test flow receives of 100 kbit/s; it asks at 250 s, the line is where it has all",
        capital(load.name())
    );
    drawings::panels(&title, 130_000.0, &panels)
}

/// Draws the attempts of the test flow under regular load, in the three cases of the papers' figure 5.
fn sequences(traces: &[CaseResults]) -> Option<String> {
    let cases = [Case::Rsvp, Case::Refresh, Case::GrabInfinite];
    let of =
        |case| traces.iter().find(|traced| traced.load == Load::Regular && traced.case == case);
    let chosen: Vec<&CaseResults> = cases.into_iter().filter_map(of).collect();
    let named = |traced: &&CaseResults| {
        let mut outcome: Outcome = traced.runs.first()?.clone();
        outcome.watched.retain(|flow| flow.reserves.is_some());
        for flow in &mut outcome.watched {
            flow.flows = traced.case.title().to_owned();
        }
        Some(outcome)
    };
    let outcomes: Vec<Outcome> = chosen.iter().filter_map(named).collect();
    Some(timeline_svg(&outcomes, &chosen.first()?.topology))
}

type Of = fn(&Point) -> Median;

fn of_served(point: &Point) -> Median {
    point.served
}

fn of_fragmented(point: &Point) -> Median {
    point.fragmented
}

fn sweep_drawing(sweep: &Sweep, title: &str, value: Of) -> String {
    let places = names(sweep.points.iter().map(|point| &point.x));
    let series = names(sweep.points.iter().map(|point| &point.series)).into_iter().map(|name| {
        let at = |(x, place): (usize, &String)| {
            let found = |point: &&Point| point.series == name && point.x == *place;
            let Median { median, low, high } =
                value(sweep.points.iter().find(found)?).scaled(100.0);
            Some(chart::Point { x: x as f64, y: median, interval: Some([low, high]) })
        };
        Series::measured(name.as_str(), places.iter().enumerate().filter_map(at))
    });
    chart::svg(&Figure {
        name: sweep.name.to_owned(),
        title: format!("{}: {title}", sweep.title),
        across: Axis::named(sweep.axis, &places),
        up: Axis::percent(),
        kind: Kind::Lines,
        series: series.collect(),
    })
}

/// Returns the names without duplicates, in order of first occurrence.
fn names<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in all {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use earmark_scenario::topology::Topology;
    use earmark_scenario::{Attempted, FlowOutcome, Received};

    use super::super::rows::row;
    use super::*;

    /// A run in which the test flow waits this long; the flow after it starts too late for a request.
    fn run(wait: Option<f64>, retries: u64) -> Outcome {
        let test = FlowOutcome {
            flows: "test".to_owned(),
            from: "n0".to_owned(),
            to: "n6".to_owned(),
            reserves: Some(250.0),
            completed_after: wait,
            retries: 3,
            attempts: vec![Attempted {
                at: 250.0,
                node: "n1".to_owned(),
                granted: false,
                available: Some(0),
            }],
            reports: Vec::new(),
            path: None,
            received: Received {
                sent: 9,
                arrived: 8,
                lost: 1,
                delay: None,
                rates: vec![100_000; 600],
            },
        };
        let retries_at = [("n2".to_owned(), 1), ("n5".to_owned(), 2)].into();
        let late = FlowOutcome::default();
        let watched = vec![test, late];
        Outcome {
            retries,
            retries_at,
            served: 0.4,
            wanted: 4,
            completed: 1,
            watched,
            ..Outcome::default()
        }
    }

    fn results() -> Results {
        let waits = [Some(10.0), Some(20.0), None, Some(40.0), None, None, None];
        let runs: Vec<Outcome> =
            (0..).zip(waits).map(|(seed, wait)| run(wait, 100 + seed)).collect();
        let rows = [(Load::Regular, Case::Rsvp), (Load::High, Case::Grab3)]
            .map(|(load, case)| row(load, case, &runs).expect("there are seeds"));
        let median = Median { median: 0.5, low: 0.4, high: 0.6 };
        let point = |x: &str| Point {
            x: x.to_owned(),
            series: "a < b".to_owned(),
            seeds: 7,
            served: median,
            completed: median,
            fragmented: median,
            wait_s: median,
            retries: median,
        };
        let points = vec![point("0"), point("1")];
        let sweep = Sweep { name: "some", title: "Some", axis: "T", points };
        let topology = Topology::parse(&super::super::case::file("retry.toml").unwrap()).unwrap();
        let traces = Load::ALL.map(|load| {
            let (topology, runs) = (topology.clone(), vec![runs[0].clone()]);
            CaseResults { load, case: Case::Rsvp, topology, runs }
        });
        let run =
            super::super::provenance(&super::super::Plan { seeds: 7, sweep_seeds: 7, quick: true });
        let schema = crate::provenance::SCHEMA;
        Results { schema, run, rows: rows.into(), sweeps: vec![sweep], traces: traces.into() }
    }

    /// Flows that never complete count with the whole waiting time, so that medians are defined.
    #[test]
    fn a_row_has_what_its_runs_gave() {
        let results = results();
        let row = &results.rows[0];
        assert_eq!((row.seeds, row.completed_share), (7, 3.0 / 7.0));
        assert_eq!(row.completion_s, Median { median: 300.0, low: 10.0, high: 300.0 });
        assert_eq!((row.retries.median, row.tries.median), (103.0, 3.0));
        assert_eq!(row.flows_completed.median, 0.25);
        assert_eq!(row.as_lucky, Some(3.0 / 7.0), "150 s were published");
        assert_eq!(row.passed.median, 1.0 * 4.0 + 2.0, "from n5 to n2 it is four routers");
        let json = serde_json::to_value(&results).expect("plain data");
        let row = &json["rows"][1];
        assert_eq!((&row["load"], &row["case"]), (&"high".into(), &"grab_3".into()));
        assert_eq!(row["completion_s"]["high"], 300.0);
        assert_eq!(json["sweeps"][0]["points"][0]["served"]["low"], 0.4);
    }

    #[test]
    fn published_figures_stand_beside_ours() {
        let text = tables(&results(), false);
        assert!(text.contains("Regular load: 85 reservations at a time, 7 seeds"), "{text}");
        assert!(text.contains("103 (100 to 106)") && text.contains("4382"), "{text}");
        assert!(text.contains("never (10.0 to never)") && text.contains("172"), "{text}");
        let markdown = tables(&results(), true);
        assert!(markdown.contains("### Some, 7 seeds") && markdown.contains("|---"), "{markdown}");
    }

    #[test]
    fn drawings_are_whole() {
        let drawings = drawings(&results());
        let names: Vec<&str> = drawings.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "completion-regular.svg",
                "received-regular.svg",
                "completion-high.svg",
                "received-high.svg",
                "sequences.svg",
                "some-served.svg",
                "some-fragmented.svg"
            ]
        );
        for (name, drawing) in &drawings {
            assert!(
                drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>"),
                "{name}"
            );
            assert!(!drawing.contains("NaN") && !drawing.contains("a < b"), "{name}");
        }
        let dots = drawings[0].1.matches("class=\"run\"").count();
        let never = drawings[0].1.matches("class=\"never\"").count();
        assert_eq!((dots, never), (3, 4));
        assert_eq!(drawings[0].1.matches("class=\"then\"").count(), 1, "published");
    }
}

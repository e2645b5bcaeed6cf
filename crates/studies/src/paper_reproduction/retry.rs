//! The retry study in the report: the papers' cases. Further cases are in the study of its own (`earmark-studies study
//! retry`).

use anyhow::Result;

use super::PartOptions;
use super::section::{Axis, Basis, Cell, Estimate, Figure, Kind, Section, Series, Table};
use crate::bench::Supervision;
use crate::study::retry::{self, Case, Load, Row, TIMEOUT_S};
use earmark_lab::statistics::Median;

/// Number of nodes of the published sequences: 1 to 6.
const NODES_NOTE: &str = "nodes that granted the reservation at the first try, of n1 to n5; the published sequence counts \
    nodes 1 to 6, since its last node reserves too";

/// Returns the name of a case in the published figures.
fn published_name(case: Case, load: Load) -> &'static str {
    match (load, case) {
        (_, Case::Rsvp) => "rsvp",
        (Load::Regular, Case::Refresh) => "one_pass_refresh",
        (Load::Regular, Case::GrabInfinite) => "one_pass_grabbing",
        (Load::High, Case::Refresh) => "refresh_only",
        (Load::High, Case::GrabInfinite) => "grabbing_unlimited",
        (_, Case::Grab10) => "grabbing_T10",
        (_, Case::Grab8) => "grabbing_T8",
        (_, Case::Grab3) => "grabbing_T3",
        (_, Case::Grab1) => "grabbing_T1",
    }
}

/// Returns the key of a row: that of its case among the published figures, if it was published.
fn key(row: &Row) -> String {
    format!("pan.{}_load.{}", row.load.name(), published_name(row.case, row.load))
}

/// Runs each case with many seeds.
pub(super) fn measure(order: &PartOptions, supervision: &Supervision<'_>) -> Result<Section> {
    supervision.watcher.begin("retry: the papers' cases", 1);
    let seeds = seeds(order.quick);
    let rows = retry::rows(seeds)?;
    supervision.watcher.reached(1);
    Ok(section(&rows, seeds))
}

/// Returns the number of seeds of each case, which are 1, 2, 3 ..
pub(super) fn seeds(quick: bool) -> u64 {
    if quick { 30 } else { 100 }
}

fn section(rows: &[Row], seeds: u64) -> Section {
    let mut section = Section::default();
    section.text(format!(
        "How often refused reservations are tried again, and how long the test flow waits until it has all of its own. Both papers ran \
         each simulation several times with different seeds; how many times they do not say, nor whether a figure is of one run or a \
         mean, and they print no interval. Here each case was simulated with {seeds} seeds, 1 to {seeds}, with the engines of the \
         daemon. A flow that has not its whole reservation after {TIMEOUT_S:.0} s, when it ends, counts as not made; a median among \
         those is printed as \"not made\". earmark-studies study retry explains what is different, and why."
    ));
    retries_figure(&mut section, rows);
    waits_figure(&mut section, rows);
    section.table(table(rows));
    rows.iter().for_each(|row| entries(&mut section, row));
    section.leave_out(
        "pan.high_load.rsvp.successful_flows",
        "the published number is larger than that of all flows that came in this time; what was counted is not said",
    );
    section
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "retry",
        "Retries in 550 s, and the wait of the test flow",
        &[
            "load",
            "case",
            "retries",
            "published retries",
            "wait, s",
            "published wait, s",
            "not made, % of runs",
            "published as made",
            "tries",
            "published tries",
        ],
    );
    for row in rows {
        let published = row.case.published(row.load);
        let made = published.map(|then| if then.completed_after.is_some() { "yes" } else { "no" });
        table.row([
            row.load.name().into(),
            row.case.title().into(),
            retries(row).into(),
            published.and_then(|then| then.retries).map(f64::from).into(),
            waited(&row.completion_s).into(),
            published.map_or(Cell::Nothing, |then| match then.completed_after {
                Some(after) => after.into(),
                None => NOT_MADE.into(),
            }),
            not_made(row).into(),
            made.into(),
            tries(row).into(),
            published.map(|then| f64::from(then.tries)).into(),
        ]);
    }
    table
}

/// Words for a reservation that was not made before its flow ended.
const NOT_MADE: &str = "not made";

/// Formats a wait; one up to the end is none.
fn waited(wait: &Median) -> String {
    let shown = |value: f64| match value {
        value if value >= TIMEOUT_S => NOT_MADE.to_owned(),
        value => format!("{value:.1}"),
    };
    let Median { median, low, high } = *wait;
    format!("{} ({} to {})", shown(median), shown(low), shown(high))
}

fn entries(section: &mut Section, row: &Row) {
    let key = key(row);
    let published = row.case.published(row.load);
    let is_published = |part: &str| super::published::figure(&format!("{key}.{part}")).is_some();
    let values = [
        ("retries", "retries in 550 s", Some(retries(row))),
        ("completed_after_s", "s", waits(row)),
        ("tries", "tries", Some(tries(row))),
    ];
    for (part, unit, value) in values {
        let key = format!("{key}.{part}");
        match value {
            Some(value) if is_published(part) => {
                section.entries_by(Basis::Simulated, key, unit, [value], None);
            }
            None if is_published(part) => {
                section.leave_out(key, "the test flow was not made in half of the runs or more");
            }
            value => section.measure(Basis::Simulated, key, unit, value),
        }
    }
    let unmade = ("% of the runs in which it was not made", not_made(row));
    match published.filter(|then| then.completed_after.is_none()) {
        Some(_) => {
            let note = "the published outcome is in words: not made, in so many tries";
            let key = format!("{key}.test_flow");
            section.entries_by(Basis::Simulated, key, unmade.0, [unmade.1], note);
        }
        None => section.measure(Basis::Simulated, format!("{key}.not_made"), unmade.0, unmade.1),
    }
    let sequence = match (row.load, row.case) {
        (Load::Regular, Case::Rsvp) => "pan.regular_load.sequence_rsvp",
        (Load::Regular, Case::Refresh) => "pan.regular_load.sequence_one_pass",
        _ => return,
    };
    let first = Estimate::of(&row.by_seed.first_try_by_seed);
    section.entries_by(Basis::Simulated, sequence, "nodes", first, NODES_NOTE);
}

fn retries(row: &Row) -> Estimate {
    estimate(&row.retries, &row.by_seed.retries_by_seed)
}

fn tries(row: &Row) -> Estimate {
    estimate(&row.tries, &row.by_seed.tries_by_seed)
}

/// Returns the wait; `None` if the median run was not made, so that there is no number for it.
fn waits(row: &Row) -> Option<Estimate> {
    let made = row.completion_s.median < TIMEOUT_S;
    made.then(|| estimate(&row.completion_s, &row.by_seed.waits))
}

fn estimate(median: &Median, samples: &[f64]) -> Estimate {
    let Median { median, low, high } = *median;
    Estimate::between(low, median, high, samples.len() as u64).behind(samples)
}

/// Returns the share of runs in which the reservation was not made, percent, with the score interval of Wilson.
fn not_made(row: &Row) -> Estimate {
    /// Quantile of the normal distribution for 95 %.
    const Z: f64 = 1.96;
    let (share, count) = (1.0 - row.completed_share, row.seeds as f64);
    let center = (share + Z * Z / (2.0 * count)) / (1.0 + Z * Z / count);
    let variance = share * (1.0 - share) / count + Z * Z / (4.0 * count * count);
    let reach = Z * variance.sqrt() / (1.0 + Z * Z / count);
    let [low, high] = [center - reach, center + reach].map(|end| 100.0 * end.clamp(0.0, 1.0));
    let outcomes = row.by_seed.waits.iter();
    let outcomes = outcomes.map(|wait| if *wait >= TIMEOUT_S { 100.0 } else { 0.0 });
    let samples: Vec<f64> = outcomes.collect();
    Estimate::between(low.min(100.0 * share), 100.0 * share, high.max(100.0 * share), row.seeds)
        .behind(&samples)
}

fn retries_figure(section: &mut Section, rows: &[Row]) {
    let high: Vec<&Row> = rows.iter().filter(|row| row.load == Load::High).collect();
    let ours = high.iter().enumerate().map(|(place, row)| retries(row).at(place as f64));
    let then = high.iter().enumerate().filter_map(|(place, row)| {
        let retries = row.case.published(row.load)?.retries?;
        Some(Estimate::exact(f64::from(retries)).at(place as f64))
    });
    let names: Vec<&str> = high.iter().map(|row| row.case.title()).collect();
    section.figure(Figure {
        name: "retry-retries".to_owned(),
        title: "Retries in the network in 550 s, high load (Table 1)".to_owned(),
        across: Axis::named("method", &names),
        up: Axis::linear("retries"),
        kind: Kind::Bars,
        series: vec![Series::measured("Earmark", ours), Series::published("ns", then)],
    });
}

fn waits_figure(section: &mut Section, rows: &[Row]) {
    let names: Vec<String> =
        rows.iter().map(|row| format!("{} {}", row.load.name(), row.case.title())).collect();
    let ours = rows.iter().enumerate().map(|(place, row)| not_made(row).at(place as f64));
    section.figure(Figure {
        name: "retry-not-made".to_owned(),
        title: "Runs in which the test flow was not made".to_owned(),
        across: Axis::named("load and method", &names),
        up: Axis::percent(),
        kind: Kind::Bars,
        series: vec![Series::measured("Earmark", ours)],
    });
}

#[cfg(test)]
mod tests {
    use super::super::published;
    use super::*;
    use crate::study::retry::BySeed;

    fn rows(waits: &[f64]) -> Vec<Row> {
        let median = Median::of(waits.iter().copied()).unwrap();
        let made = waits.iter().filter(|wait| **wait < TIMEOUT_S).count();
        let row = |load, case| Row {
            load,
            case,
            seeds: waits.len() as u64,
            retries: median,
            completed_share: made as f64 / waits.len() as f64,
            completion_s: median,
            as_lucky: None,
            tries: median,
            served: median,
            fragmented: median,
            flows_completed: median,
            passed: median,
            first_try: median,
            by_seed: BySeed {
                waits: waits.to_vec(),
                retries_by_seed: waits.to_vec(),
                tries_by_seed: waits.to_vec(),
                first_try_by_seed: waits.to_vec(),
            },
        };
        let cases = Load::ALL.into_iter().flat_map(|load| Case::ALL.map(|case| (load, case)));
        cases.map(|(load, case)| row(load, case)).collect()
    }

    /// Whatever the runs give, every published outcome has a value or a reason, those in words included.
    #[test]
    fn every_published_outcome_has_a_value_or_a_reason() {
        for waits in [[10.0, 20.0, 30.0], [10.0, 300.0, 300.0]] {
            let section = section(&rows(&waits), 3);
            let is_retry = |key: &str| {
                ["pan.regular_load", "pan.high_load"].iter().any(|of| published::is_under(key, of))
            };
            for (key, _) in published::measurements().filter(|(key, _)| is_retry(key)) {
                let values = section.entries.iter().filter(|entry| entry.key == *key).count();
                let reasons = section.left_out.iter().filter(|(other, _)| other == key).count();
                assert_eq!(values + reasons, 1, "{key}");
            }
        }
    }

    #[test]
    fn reservation_that_was_not_made_has_no_invented_wait() {
        let section = section(&rows(&[10.0, 300.0, 300.0]), 3);
        let table = section.tables().next().unwrap();
        let at = |row: usize, column: &str| {
            let place = table.columns.iter().position(|title| title == column).unwrap();
            table.rows[row][place].clone()
        };
        assert_eq!(at(0, "wait, s"), "not made (10.0 to not made)".into());
        assert_eq!(at(0, "published wait, s"), 150.0.into());
        assert_eq!(at(7, "published wait, s"), "not made".into(), "RSVP under high load");
        assert_eq!(at(3, "published wait, s"), Cell::Nothing, "not published");
        let Cell::Estimate(share) = at(0, "not made, % of runs") else { panic!("a share") };
        assert!((share.median - 66.7).abs() < 0.1 && share.low < 30.0 && share.high > 90.0);
    }
}

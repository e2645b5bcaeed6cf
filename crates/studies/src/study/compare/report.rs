//! Tables and drawings of the comparison, and who wins where.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{Cell, CellAlignment, Table};
use earmark_lab::plot::chart::{self, Axis, Figure, Kind, Point, Series};
use earmark_lab::statistics::{ENOUGH, Median};
use serde::Serialize;

use super::condition::Condition;
use super::metric::{METRICS, Metric};
use super::network::Network;
use super::rows::Row;
use super::variant::Variant;

/// A metric in one network with so many flows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Name of the condition.
    pub condition: &'static str,
    /// Name of the metric.
    pub metric: &'static str,
    /// Name of the network.
    pub network: &'static str,
    /// Mean number of flows at a time.
    pub flows: u32,
    /// Number of seeds of the reserving protocol with the fewest.
    pub seeds: usize,
    /// Median of each variant that has values, by its name.
    pub medians: BTreeMap<&'static str, Median>,
    /// The variant whose interval is better than those of all others, if there is one.
    pub winner: Option<&'static str>,
}

/// Compares the protocols by all metrics, in all networks.
pub fn compare(rows: &[Row]) -> Vec<Comparison> {
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.key.flows).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut all = Vec::new();
    for metric in &METRICS {
        for network in Network::ALL {
            let sizes = sizes.iter();
            all.extend(sizes.filter_map(|flows| comparison(metric, network, *flows, rows)));
        }
    }
    all
}

fn comparison(metric: &Metric, network: Network, flows: u32, rows: &[Row]) -> Option<Comparison> {
    let condition = metric.condition.name();
    let values_of = |variant: Variant| -> Vec<f64> {
        let rows = rows.iter().filter(|Row { key, .. }| {
            (key.network.as_str(), key.condition.as_str()) == (network.name(), condition)
                && (key.flows, key.protocol.as_str()) == (flows, variant.name())
        });
        rows.filter_map(metric.value).collect()
    };
    let values: BTreeMap<&'static str, Vec<f64>> =
        Variant::ALL.map(|variant| (variant.name(), values_of(variant))).into();
    let medians: BTreeMap<&'static str, Median> = values
        .iter()
        .filter_map(|(name, values)| Some((*name, Median::of(values.iter().copied())?)))
        .collect();
    if medians.is_empty() {
        return None;
    }
    let reserving = || Variant::reserving().map(Variant::name);
    let seeds = reserving().map(|name| values[name].len()).min()?;
    let beats = |one: &Median, other: &Median| match metric.less_is_better {
        true => one.is_below(other),
        false => other.is_below(one),
    };
    let wins = |name: &&'static str| {
        let mut others = reserving().filter(|other| other != name);
        others.all(|other| beats(&medians[name], &medians[other]))
    };
    // An interval of fewer values does not have its confidence. With so many seeds all have a median.
    let winner = (seeds >= ENOUGH).then(|| reserving().find(wins)).flatten();
    let (condition, name, network) = (condition, metric.name, network.name());
    Some(Comparison { condition, metric: name, network, flows, seeds, medians, winner })
}

/// Returns the page: who wins where, then a table for each condition, as Markdown.
pub fn page(all: &[Comparison]) -> String {
    let mut page = String::from("## Who wins where\n\n");
    let _ = write!(
        page,
        "A protocol wins in a network with so many flows if its 95 % interval of the median is better than those of all others.\n\n{}\n",
        wins(all)
    );
    for condition in Condition::ALL {
        let here: Vec<&Comparison> =
            all.iter().filter(|it| it.condition == condition.name()).collect();
        if here.is_empty() {
            continue;
        }
        let _ = write!(page, "\n## {}\n", condition.question());
        for metric in METRICS.iter().filter(|metric| metric.condition == condition) {
            let rows: Vec<_> = here.iter().filter(|it| it.metric == metric.name).collect();
            if rows.is_empty() {
                continue;
            }
            let _ = write!(page, "\n### {}\n\n", capital(metric.name));
            let mut table = table(&["network", "flows", "seeds"], &Variant::ALL, &["best"]);
            for it in rows {
                let mut cells =
                    vec![it.network.to_owned(), it.flows.to_string(), it.seeds.to_string()];
                let shown = |variant: Variant| match it.medians.get(variant.name()) {
                    Some(median) => format!("{median:.*}", metric.decimals),
                    None => "-".to_owned(),
                };
                cells.extend(Variant::ALL.map(shown));
                let best = Variant::ALL.into_iter().find(|one| it.winner == Some(one.name()));
                cells.push(best.map_or("-", Variant::title).to_owned());
                push(&mut table, cells);
            }
            let _ = writeln!(page, "{table}");
        }
    }
    page
}

/// Returns the table of wins: a row for each metric.
fn wins(all: &[Comparison]) -> Table {
    let reserving: Vec<Variant> = Variant::reserving().collect();
    let mut table = table(&["condition", "metric"], &reserving, &["none"]);
    for metric in &METRICS {
        let of: Vec<&Comparison> = all
            .iter()
            .filter(|it| (it.condition, it.metric) == (metric.condition.name(), metric.name))
            .collect();
        if of.is_empty() {
            continue;
        }
        let won = |by: Option<&str>| of.iter().filter(|it| it.winner == by).count().to_string();
        let mut cells = vec![metric.condition.name().to_owned(), metric.name.to_owned()];
        cells.extend(reserving.iter().map(|variant| won(Some(variant.name()))));
        cells.push(won(None));
        push(&mut table, cells);
    }
    table
}

fn table(before: &[&str], variants: &[Variant], after: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let titles: Vec<&str> = variants.iter().map(|variant| variant.title()).collect();
    table.set_header(before.iter().chain(&titles).chain(after));
    table
}

fn push(table: &mut Table, cells: Vec<String>) {
    let cells = cells.into_iter().enumerate().map(|(place, text)| {
        let side = if place == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    });
    table.add_row(cells);
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Returns a drawing of each metric in each network with several numbers of flows, with its file name.
pub fn drawings(all: &[Comparison]) -> Vec<(String, String)> {
    let mut drawn = Vec::new();
    for (number, metric) in METRICS.iter().enumerate() {
        for network in Network::ALL {
            let of: Vec<&Comparison> = all
                .iter()
                .filter(|it| (it.condition, it.metric) == (metric.condition.name(), metric.name))
                .filter(|it| it.network == network.name())
                .collect();
            if of.len() < 2 {
                continue;
            }
            let name = format!("{}-{}-{}", metric.condition.name(), number + 1, network.name());
            drawn.push((format!("{name}.svg"), chart::svg(&figure(&name, metric, network, &of))));
        }
    }
    drawn
}

fn figure(name: &str, metric: &Metric, network: Network, of: &[&Comparison]) -> Figure {
    let series = Variant::ALL.into_iter().map(|variant| {
        let points = of.iter().filter_map(|it| {
            let Median { median, low, high } =
                *it.medians.get(variant.name()).filter(|it| it.median.is_finite())?;
            let interval = Some([low, high]).filter(|ends| ends[1].is_finite());
            Some(Point { x: f64::from(it.flows), y: median, interval })
        });
        Series::measured(variant.title(), points)
    });
    Figure {
        name: name.to_owned(),
        title: format!(
            "{} ({}, {})",
            capital(metric.name),
            network.name(),
            metric.condition.name()
        ),
        across: Axis::logarithmic("flows at a time"),
        up: Axis::linear(metric.name),
        kind: Kind::Lines,
        series: series.filter(|series| !series.points.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::case::Key;
    use super::*;
    use crate::provenance::Settings;

    /// Six seeds: RSVP is served worse than Boomerang and YESSIR, which overlap; NSIS is better than all.
    fn rows() -> Vec<Row> {
        let served = |protocol: &str| match protocol {
            "rsvp" | "rsvp-plain" => 0.5,
            "nsis" => 0.9,
            _ => 0.7,
        };
        let mut rows = Vec::new();
        for (flows, seed) in
            [100, 1_000].into_iter().flat_map(|it| (1..=6).map(move |seed| (it, seed)))
        {
            for protocol in Variant::reserving().map(Variant::name) {
                let [network, condition] = ["abilene", "overload"].map(str::to_owned);
                let key = Key { network, condition, flows, protocol: protocol.to_owned() };
                let share = served(protocol) + f64::from(seed) / 100.0;
                rows.push(Row::of_value(key, json!({ "served": share })));
            }
        }
        rows
    }

    #[test]
    fn winner_is_better_than_all_others() {
        let all = compare(&rows());
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all.iter().all(|it| it.winner == Some("nsis") && it.seeds == 6), "{all:?}");
        let tied: Vec<Row> = rows().into_iter().filter(|row| row.key.protocol != "nsis").collect();
        assert!(
            compare(&tied).iter().all(|it| it.winner.is_none() && it.seeds == 0),
            "one is missing"
        );
        let page = page(&all);
        assert!(page.contains("| abilene |  1000 |     6 |"), "{page}");
        assert!(page.contains("| 93.5 (91.0 to 96.0) |     - | NSIS |\n"), "{page}");
        let drawings = drawings(&all);
        assert_eq!(drawings.len(), 1);
        assert!(drawings[0].1.contains("YESSIR"), "{drawings:?}");
    }

    #[test]
    fn results_follow_their_schema() {
        let schema: serde_json::Value =
            serde_json::from_str(include_str!("../../../data/schema/results-1.json")).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let [extent, profile] = ["outline", "xeon-2026"].map(str::to_owned);
        let settings = Settings::Compare { extent, profile, elsewhere: false };
        let mut results =
            serde_json::to_value(super::super::results(&[], &rows(), settings)).unwrap();
        let errors: Vec<String> =
            validator.iter_errors(&results).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
        assert_eq!(results["comparisons"][0]["medians"]["nsis"]["median"], 93.5);
        results["comparisons"][0]["medians"]["nsis"]["high"] = "never".into();
        assert!(!validator.is_valid(&results));
    }

    #[test]
    fn few_seeds_win_nothing() {
        let few: Vec<Row> = rows().into_iter().take(4 * Variant::reserving().count()).collect();
        let all = compare(&few);
        assert!(all.iter().all(|it| it.winner.is_none() && it.seeds == 4), "{all:?}");
    }
}

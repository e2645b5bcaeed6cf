//! Published figures: all that the five papers print, by key.

use std::sync::LazyLock;

use serde_json::Value;

use super::section::{Cell, Point};

/// Figures of the papers, as a file for other programs too.
const TEXT: &str = include_str!("../../data/published.toml");

/// Keys, or their prefixes, that hold settings or the machine and no outcome.
const SETTINGS: [&str; 12] = [
    "budapest.cpu_mhz",
    "budapest.repetitions",
    "budapest.loads",
    "pan.cpu_mhz",
    "pan.network",
    "pan.table2_flow_build.flows",
    "delft.messages_per_reservation",
    "delft.scenario_mixes",
    "delft.default_caches",
    "gist.cpu_mhz",
    "gist.refresh_s",
    "gist.table2_refresh_cpu.interval_s",
];

/// A published number, with its confidence interval, or one standard deviation around it, if it was published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// The number; of an interval or a range alone, its middle.
    pub value: f64,
    /// Ends of the interval.
    pub interval: Option<[f64; 2]>,
}

impl Published {
    /// Converts to another unit.
    #[must_use]
    pub fn times(self, factor: f64) -> Published {
        let interval = self.interval.map(|ends| ends.map(|end| end * factor));
        Published { value: self.value * factor, interval }
    }

    /// Returns the number as a point of a drawing.
    pub fn at(self, x: f64) -> Point {
        Point { x, y: self.value, interval: self.interval }
    }
}

impl From<Published> for Cell {
    fn from(published: Published) -> Cell {
        match published.interval {
            Some(ends) => Cell::Interval { value: published.value, ends },
            None => Cell::Number(published.value),
        }
    }
}

/// Returns all figures, each under its dotted key: `budapest.table1_isi_rsvp.path.cp1_median`, in the order of the
/// file.
pub fn figures() -> &'static [(String, Value)] {
    static FIGURES: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
        let all: Value = toml::from_str(TEXT).expect("the file is part of the program, and tested");
        let mut figures = Vec::new();
        flatten("", &all, &mut figures);
        figures
    });
    &FIGURES
}

/// Returns the outcomes: everything but settings.
pub fn measurements() -> impl Iterator<Item = &'static (String, Value)> {
    figures().iter().filter(|(key, _)| !SETTINGS.iter().any(|setting| is_under(key, setting)))
}

/// Returns the value published under a key.
pub fn figure(key: &str) -> Option<&'static Value> {
    figures().iter().find(|(other, _)| other == key).map(|(_, value)| value)
}

/// Returns a single published number; for two, the ends of an interval, the middle.
pub fn number(key: &str) -> Option<f64> {
    match figure(key)? {
        Value::Array(ends) => {
            let [low, high] = ends.as_slice() else { return None };
            Some((low.as_f64()? + high.as_f64()?) / 2.0)
        }
        value => value.as_f64(),
    }
}

/// Tables whose pairs are a mean and its standard deviation; other pairs are the ends of an interval or a range.
const DEVIATIONS: [&str; 1] = ["pan.table3_yessir"];

/// Returns a single published number with its interval. The interval of `cp1_median` is in `cp1_ci`.
pub fn value(key: &str) -> Option<Published> {
    if let Some(of) = key.strip_suffix("_median") {
        let ends = <[f64; 2]>::try_from(numbers(&format!("{of}_ci"))).ok();
        return Some(Published { value: number(key)?, interval: ends });
    }
    match (<[f64; 2]>::try_from(numbers(key)), figure(key)?) {
        (Ok([mean, deviation]), _) if DEVIATIONS.iter().any(|above| is_under(key, above)) => {
            Some(Published { value: mean, interval: Some([mean - deviation, mean + deviation]) })
        }
        (Ok([low, high]), _) => {
            Some(Published { value: (low + high) / 2.0, interval: Some([low, high]) })
        }
        (Err(_), value) => Some(Published { value: value.as_f64()?, interval: None }),
    }
}

/// Returns a published list of numbers.
pub fn numbers(key: &str) -> Vec<f64> {
    let values = figure(key).and_then(Value::as_array);
    values.into_iter().flatten().filter_map(Value::as_f64).collect()
}

/// Returns whether a key equals `above` or is below it.
pub fn is_under(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn flatten(path: &str, value: &Value, figures: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                flatten(&path, value, figures);
            }
        }
        value => figures.push((path.to_owned(), value.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_keys() {
        assert_eq!(number("budapest.table1_isi_rsvp.path.cp1_median"), Some(298.0));
        assert_eq!(
            number("budapest.table3_rsvp_path_steps.create_psb"),
            Some(8.0),
            "of 7.9 and 8.1"
        );
        assert_eq!(numbers("gist.table2_refresh_cpu.cpu_pct").len(), 7);
        assert_eq!((number("no.such"), numbers("no.such")), (None, Vec::new()));
        let interval = |low, value, high| Some(Published { value, interval: Some([low, high]) });
        let median = value("budapest.table1_isi_rsvp.path.cp1_median");
        assert_eq!(median, interval(283.5, 298.0, 302.5));
        assert_eq!(value("gist.rtt_ms_below_50000"), interval(4.8, 5.0, 5.2));
        let [low, high] = value("pan.table3_yessir.kernel_io").unwrap().interval.unwrap();
        assert!((low - 89.56).abs() < 1e-9 && (high - 106.04).abs() < 1e-9);
        assert_eq!(value("gist.rtt_ms_55000"), Some(Published { value: 56.2, interval: None }));
        assert!(is_under("a.b", "a") && is_under("a.b", "a.b") && !is_under("a.bc", "a.b"));
    }

    /// Every setting exists, and the others are outcomes, those in words included.
    #[test]
    fn settings_are_no_outcomes() {
        for setting in SETTINGS {
            assert!(figures().iter().any(|(key, _)| is_under(key, setting)), "{setting}");
        }
        let measurements: Vec<_> = measurements().collect();
        assert!(measurements.len() > 150, "{}", measurements.len());
        assert!(measurements.iter().all(|(key, _)| !key.contains("mhz")));
        for outcome in [
            "pan.regular_load.sequence_rsvp",
            "pan.regular_load.sequence_one_pass",
            "pan.high_load.grabbing_unlimited.test_flow",
            "pan.high_load.grabbing_T10.test_flow",
            "pan.high_load.rsvp.test_flow",
        ] {
            assert!(measurements.iter().any(|(key, _)| key == outcome), "{outcome}");
        }
    }
}

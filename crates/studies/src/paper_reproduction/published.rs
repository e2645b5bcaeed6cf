//! Published figures: all that the five papers print, by key.

use std::sync::LazyLock;

use serde_json::Value;

/// Figures of the papers, as a file for other programs too.
const TEXT: &str = include_str!("../../data/published.toml");

/// Keys, or their prefixes, that hold settings or the machine and no measurements.
const SETTINGS: [&str; 17] = [
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
    "pan.regular_load.sequence_rsvp",
    "pan.regular_load.sequence_one_pass",
    "pan.high_load.grabbing_unlimited.test_flow",
    "pan.high_load.grabbing_T10.test_flow",
    "pan.high_load.rsvp.test_flow",
];

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

/// Returns the measured figures.
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
        assert!(is_under("a.b", "a") && is_under("a.b", "a.b") && !is_under("a.bc", "a.b"));
    }

    /// Every setting exists, and the others are measurements.
    #[test]
    fn settings_are_no_measurements() {
        for setting in SETTINGS {
            assert!(figures().iter().any(|(key, _)| is_under(key, setting)), "{setting}");
        }
        let measurements: Vec<_> = measurements().collect();
        assert!(measurements.len() > 150, "{}", measurements.len());
        assert!(measurements.iter().all(|(key, _)| !key.contains("mhz")));
    }
}

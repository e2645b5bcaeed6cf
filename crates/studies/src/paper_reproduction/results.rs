//! File `results.json`: the measured values, under the keys of the published figures.

use serde_json::{Map, Value, json};

use super::environment::Environment;
use super::published;
use super::section::{Entry, Estimate, Section};
use super::verdicts::Verdict;
use crate::provenance::{Provenance, SCHEMA};

/// Reason for a figure without a counterpart if no other is given.
const UNKNOWN: &str = "it was not measured in this run";

/// Returns the contents: under each key the value with its interval, beside the published one; under `run` the origin,
/// under `measures` values without a published counterpart, under `verdicts` those on the papers' claims, under
/// `environment` the machine, and under `left_out` the reasons for missing values.
pub fn results(
    sections: &[&Section],
    environment: &Environment,
    provenance: &Provenance,
    verdicts: &[Verdict],
) -> Value {
    let mut all = Map::new();
    all.insert("schema".to_owned(), SCHEMA.into());
    all.insert("run".to_owned(), json!(provenance));
    let mut measures = Map::new();
    let mut reasons: Vec<&(String, String)> = Vec::new();
    for section in sections {
        reasons.extend(&section.left_out);
        measures.extend(section.measures.iter().map(|entry| (entry.key.clone(), leaf(entry))));
        for entry in &section.entries {
            insert(&mut all, &entry.key, leaf(entry));
            // A published median has a published interval beside it.
            if let Some(interval) = interval_of(&entry.key) {
                let ends = entry.values.first().map(|value| json!([value.low, value.high]));
                let ends = json!({"values": ends, "unit": entry.unit, "published": published::figure(&interval)});
                insert(&mut all, &interval, ends);
            }
        }
    }
    let measured = |key: &str| pointer(&all, key).is_some();
    let left_out: Map<String, Value> = published::measurements()
        .filter(|(key, _)| !measured(key))
        .map(|(key, _)| {
            let reason = reasons.iter().find(|(above, _)| published::is_under(key, above));
            (key.clone(), reason.map_or(UNKNOWN, |(_, reason)| reason).into())
        })
        .collect();
    all.insert("measures".to_owned(), measures.into());
    all.insert("verdicts".to_owned(), json!(verdicts));
    all.insert("left_out".to_owned(), left_out.into());
    all.insert("environment".to_owned(), json!(environment));
    all.into()
}

/// Returns the values of an earlier `results.json`, by key.
pub fn values(results: &Value) -> Vec<(String, Estimate)> {
    let mut found = Vec::new();
    collect("", results, &mut found);
    found
}

fn collect(path: &str, value: &Value, found: &mut Vec<(String, Estimate)>) {
    let Value::Object(table) = value else { return };
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    if let Some(estimate) = estimate(value) {
        found.push((path.to_owned(), estimate));
    } else if let Some(Value::Array(values)) = table.get("values") {
        let numbered = values.iter().enumerate();
        found.extend(
            numbered
                .filter_map(|(place, value)| Some((join(&place.to_string()), estimate(value)?))),
        );
    } else {
        table.iter().for_each(|(key, value)| collect(&join(key), value, found));
    }
}

fn estimate(value: &Value) -> Option<Estimate> {
    let number = Value::as_f64;
    let interval = value.get("interval")?;
    let [low, high] = [0, 1].map(|end| interval.get(end).and_then(number));
    let median = number(value.get("value")?)?;
    Some(Estimate::between(low?, median, high?, value.get("repetitions")?.as_u64()?))
}

fn leaf(entry: &Entry) -> Value {
    let mut leaf = match entry.values.as_slice() {
        [value] => one(value),
        values => Map::from_iter([("values".to_owned(), values.iter().map(one).collect())]),
    };
    leaf.insert("unit".to_owned(), entry.unit.clone().into());
    leaf.insert("basis".to_owned(), json!(entry.basis));
    if let Some(figure) = published::figure(&entry.key) {
        leaf.insert("published".to_owned(), figure.clone());
    }
    leaf.extend(entry.note.clone().map(|note| ("note".to_owned(), note.into())));
    leaf.into()
}

fn one(value: &Estimate) -> Map<String, Value> {
    let Estimate { median, low, high, repetitions, .. } = *value;
    let all = [
        ("value", json!(median)),
        ("interval", json!([low, high])),
        ("repetitions", json!(repetitions)),
    ];
    all.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Returns the key of the interval: `cp1_median` has its interval in `cp1_ci`.
fn interval_of(key: &str) -> Option<String> {
    let interval = format!("{}_ci", key.strip_suffix("_median")?);
    published::figure(&interval).map(|_| interval)
}

/// Inserts a value at a dotted key.
fn insert(all: &mut Map<String, Value>, key: &str, value: Value) {
    let Some((first, rest)) = key.split_once('.') else {
        all.insert(key.to_owned(), value);
        return;
    };
    let below = all.entry(first).or_insert_with(|| Map::new().into());
    if let Value::Object(below) = below {
        insert(below, rest, value);
    }
}

fn pointer<'a>(all: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let mut parts = key.split('.');
    let first = all.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::section::Basis;
    use super::*;
    use crate::provenance::Settings;

    fn section() -> Section {
        let value = Estimate::between(1.5, 2.0, 2.5, 300);
        let mut section = Section::default();
        section.entry("budapest.table1_isi_rsvp.path.cp1_median", "us", value.clone());
        let values = std::iter::repeat_n(value, 7);
        section.entries("gist.table2_refresh_cpu.cpu_pct", "%", values, None);
        section.leave_out("delft", "there is no valgrind");
        section
    }

    fn results_of(section: &Section) -> Value {
        let settings = Settings::Report { quick: true, only: Vec::new() };
        let provenance = Provenance::of_this_process(settings, BTreeMap::new());
        let verdicts = super::super::verdicts::verdicts([section]);
        results(&[section], &Environment::of_this_machine(), &provenance, &verdicts)
    }

    /// Every published outcome has a value or a reason, whatever was measured.
    #[test]
    fn every_published_outcome_has_a_value_or_a_reason() {
        for section in [section(), Section::default()] {
            let all = results_of(&section);
            for (key, _) in published::measurements() {
                let has_value = pointer(all.as_object().unwrap(), key).is_some();
                let reason = all["left_out"].get(key.as_str()).and_then(Value::as_str);
                assert_ne!(has_value, reason.is_some_and(|reason| !reason.is_empty()), "{key}");
            }
        }
    }

    #[test]
    fn results_follow_their_schema() {
        let schema: Value =
            serde_json::from_str(include_str!("../../data/schema/results-1.json")).unwrap();
        assert_eq!(schema["$id"], SCHEMA);
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let errors = |value: &Value| -> Vec<String> {
            validator.iter_errors(value).map(|error| error.to_string()).collect()
        };
        let mut section = section();
        let value = Estimate::of(&[1.0, 2.0]).unwrap();
        section.measure(Basis::Measured, "messages.rsvp", "us", value);
        let mut all = results_of(&section);
        assert_eq!(errors(&all), Vec::<String>::new());
        all["budapest"]["table1_isi_rsvp"]["path"]["cp1_median"]["value"] = "fast".into();
        assert!(!errors(&all).is_empty(), "a value in words");
        let mut nowhere = results_of(&section);
        nowhere["run"].as_object_mut().unwrap().remove("commit");
        assert!(!errors(&nowhere).is_empty(), "no commit");
        let study = crate::study::retry::results_of_nothing();
        assert_eq!(errors(&study), Vec::<String>::new());
    }

    #[test]
    fn values_have_the_keys_of_the_published_ones() {
        let all = results_of(&section());
        let path = &all["budapest"]["table1_isi_rsvp"]["path"];
        assert_eq!(path["cp1_median"]["value"], 2.0);
        assert_eq!(path["cp1_median"]["published"], 298);
        assert_eq!(path["cp1_median"]["repetitions"], 300);
        assert_eq!(path["cp1_ci"]["values"], json!([1.5, 2.5]));
        let shares = &all["gist"]["table2_refresh_cpu"]["cpu_pct"];
        assert_eq!(shares["values"].as_array().unwrap().len(), 7);
        assert_eq!(shares["unit"], "%");
    }

    #[test]
    fn missing_values_have_a_reason() {
        let all = results_of(&section());
        let left_out = all["left_out"].as_object().unwrap();
        assert_eq!(left_out["delft.scenario1.ipc"], "there is no valgrind");
        assert_eq!(left_out["gist.sessions_max"], UNKNOWN);
        assert!(!left_out.contains_key("budapest.table1_isi_rsvp.path.cp1_ci"));
        assert!(!left_out.contains_key("gist.cpu_mhz"), "it is no measurement");
    }

    #[test]
    fn results_are_read_back() {
        let all = results_of(&section());
        let values = values(&serde_json::from_str(&all.to_string()).unwrap());
        assert_eq!(values.len(), 8);
        assert_eq!(values[0].0, "budapest.table1_isi_rsvp.path.cp1_median");
        assert_eq!(values[1].0, "gist.table2_refresh_cpu.cpu_pct.0");
        assert_eq!(values[7].1.high, 2.5);
    }
}

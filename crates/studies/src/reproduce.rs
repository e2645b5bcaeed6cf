//! Repetition of earlier results: the same command again, and how many of its values agree.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::paper_reproduction::section::Estimate;
use crate::paper_reproduction::{Agreement, results};
use crate::provenance::{Provenance, SCHEMA};

/// Earlier results.
pub struct Earlier {
    /// Origin of the results.
    pub run: Provenance,
    /// Values by key.
    pub values: Vec<(String, Estimate)>,
}

impl Earlier {
    /// Reads a file of results.
    ///
    /// # Errors
    /// The file cannot be read, or does not say where its results come from.
    pub fn read(file: &Path) -> Result<Earlier> {
        let cannot = || format!("cannot read {}", file.display());
        let text = fs::read_to_string(file).with_context(cannot)?;
        Earlier::parse(&text).with_context(cannot)
    }

    fn parse(text: &str) -> Result<Earlier> {
        let all: Value = serde_json::from_str(text)?;
        let schema = all.get("schema").and_then(Value::as_str).unwrap_or("none");
        ensure!(
            schema == SCHEMA,
            "results of the format {schema}, where {SCHEMA} was expected; only results.json of `report`, `study retry` and `study compare` \
             can be reproduced"
        );
        let run = all.get("run").context("no origin of the results (run)")?;
        let run = serde_json::from_value(run.clone()).context("malformed origin (run)")?;
        Ok(Earlier { run, values: values(&all) })
    }

    /// Compares with values of now.
    pub fn compare(&self, now: &Value) -> Agreement {
        Agreement::of(&self.values, &values(now))
    }
}

/// Returns the values of results by key: those of a report, or the medians of a study's rows, points and comparisons.
fn values(all: &Value) -> Vec<(String, Estimate)> {
    let list = |name: &str| all.get(name).and_then(Value::as_array).into_iter().flatten();
    let mut found = results::values(all);
    let seeds = |of: &Value| of.get("seeds").and_then(Value::as_u64).unwrap_or(1);
    for row in list("rows") {
        medians(&named(row, &["load", "case"]), (row, seeds(row)), &mut found);
    }
    for comparison in list("comparisons") {
        let flows = comparison.get("flows").and_then(Value::as_u64).unwrap_or(0);
        let name = named(comparison, &["condition", "network"]);
        let name = format!("{name}.{flows}.{}", named(comparison, &["metric"]));
        let of = comparison.get("medians").unwrap_or(&Value::Null);
        medians(&name, (of, seeds(comparison)), &mut found);
    }
    for sweep in list("sweeps") {
        for point in sweep.get("points").and_then(Value::as_array).into_iter().flatten() {
            let name = format!("{}.{}", named(sweep, &["name"]), named(point, &["series", "x"]));
            medians(&name, (point, seeds(point)), &mut found);
        }
    }
    found
}

fn named(object: &Value, keys: &[&str]) -> String {
    let names = keys.iter().filter_map(|key| object.get(key)?.as_str());
    names.collect::<Vec<&str>>().join(".")
}

/// Adds the members of an object that are medians over so many seeds, with finite intervals.
fn medians(name: &str, (object, seeds): (&Value, u64), found: &mut Vec<(String, Estimate)>) {
    for (key, value) in object.as_object().into_iter().flatten() {
        let [median, low, high] =
            ["median", "low", "high"].map(|part| value.get(part).and_then(Value::as_f64));
        if let (Some(median), Some(low), Some(high)) = (median, low, high) {
            let estimate = Estimate::between(low, median, high, seeds);
            found.push((format!("{name}.{key}"), estimate));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::study::retry;

    #[test]
    fn results_without_origin_are_refused() {
        for (text, reason) in [
            ("", "EOF"),
            ("{}", "format none"),
            (r#"{"schema":"earmark-studies/results-0"}"#, "results-0"),
            (r#"{"schema":"earmark-studies/results-1"}"#, "no origin"),
            (r#"{"schema":"earmark-studies/results-1","run":7}"#, "malformed origin"),
        ] {
            let error = format!("{:#}", Earlier::parse(text).err().expect("it is refused"));
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    /// Medians of a study's rows and points are compared by load and case, or by sweep, series and point.
    #[test]
    fn study_is_compared_by_its_medians() {
        let mut results = retry::results_of_nothing();
        let median = json!({"median": 5.0, "low": 4.0, "high": 6.0});
        results["rows"] = json!([
            {"load": "high", "case": "grab_1", "seeds": 3, "retries": median, "waits": [1.0]},
            {"load": "high", "case": "rsvp", "seeds": 3, "retries": median},
        ]);
        let endless = json!({"median": 5.0, "low": 4.0, "high": null});
        results["sweeps"] = json!([
            {"name": "t", "points": [{"series": "a", "x": "1", "served": median, "wait_s": endless}]}
        ]);
        let earlier = Earlier::parse(&results.to_string()).unwrap();
        let same = earlier.compare(&results);
        assert_eq!((same.all, same.outside.len()), (3, 0), "{:?}", earlier.values);
        results["rows"][0]["retries"]["median"] = 6.5.into();
        let outside = earlier.compare(&results).outside;
        assert_eq!(outside.len(), 1);
        assert_eq!(outside[0].0, "high.grab_1.retries");
    }

    /// A comparison is compared by condition, network, number of flows, metric and variant.
    #[test]
    fn comparison_is_compared_by_its_medians() {
        let median = json!({"median": 5.0, "low": 4.0, "high": 6.0});
        let mut results = retry::results_of_nothing();
        results["comparisons"] = json!([{
            "condition": "light", "metric": "state", "network": "chain", "flows": 20, "seeds": 6,
            "medians": { "rsvp": median, "nsis": {"median": null, "low": 4.0, "high": null} },
        }]);
        let earlier = Earlier::parse(&results.to_string()).unwrap();
        assert_eq!(earlier.compare(&results).all, 1);
        results["comparisons"][0]["medians"]["rsvp"]["median"] = 6.5.into();
        assert_eq!(earlier.compare(&results).outside[0].0, "light.chain.20.state.rsvp");
    }
}

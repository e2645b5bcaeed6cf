//! Rows of the comparison: one line of JSON for each run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use earmark_lab::runs;
use earmark_scenario::{Outcome, play};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::{Case, Key};

/// A run, with its outcome as `earmark-lab simulate --json` prints it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Row {
    /// The case.
    #[serde(flatten)]
    pub key: Key,
    /// Seed of the run.
    pub seed: u64,
    /// Outcome of the run.
    pub outcome: Value,
    /// The line, which is kept as it is: numbers may lose a digit when they are read and written again.
    #[serde(skip)]
    line: String,
}

impl Row {
    /// Parses a line.
    fn parse(line: &str) -> serde_json::Result<Row> {
        Ok(Row { line: line.to_owned(), ..serde_json::from_str(line)? })
    }

    /// Creates the row of a run.
    fn of(key: &Key, seed: u64, outcome: &Outcome) -> serde_json::Result<Row> {
        let run = serde_json::to_string(&Run { key, seed })?;
        let begin = run.trim_end_matches('}');
        Row::parse(&format!("{begin},\"outcome\":{}}}", serde_json::to_string(outcome)?))
    }
}

#[cfg(test)]
impl Row {
    /// Creates a row without a line.
    pub(super) fn of_value(key: Key, outcome: Value) -> Row {
        Row { key, seed: 1, outcome, line: String::new() }
    }
}

/// Beginning of a line.
#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    key: &'a Key,
    seed: u64,
}

/// Reads the rows of a file; none if it does not exist. An incomplete last line, of a program that was killed, is left out.
///
/// # Errors
/// The file is unreadable, or a line of it is not a row.
pub fn read(file: &Path) -> Result<Vec<Row>> {
    if !file.exists() {
        return Ok(Vec::new());
    }
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut rows = Vec::new();
    let last = text.lines().count();
    for (number, line) in text.lines().enumerate() {
        match Row::parse(line) {
            Ok(row) => rows.push(row),
            Err(_) if number + 1 == last && !text.ends_with('\n') => {}
            Err(why) => bail!("{}:{}: {why}", file.display(), number + 1),
        }
    }
    Ok(rows)
}

/// Returns the runs of the cases that have no row.
pub fn missing<'c>(cases: &'c [Case], rows: &[Row]) -> Vec<(&'c Case, u64)> {
    let known: BTreeSet<(&Key, u64)> = rows.iter().map(|row| (&row.key, row.seed)).collect();
    let all = cases.iter().flat_map(|case| (1..=case.seeds).map(move |seed| (case, seed)));
    all.filter(|(case, seed)| !known.contains(&(&case.key, *seed))).collect()
}

/// Plays the runs that have no row in a file, on all processors, and appends each to the file. At the end the file has all rows
/// in the order of the cases, and nothing else. Returns them.
///
/// # Errors
/// A scenario cannot be played, or the file cannot be read or written.
pub fn play_all(cases: &[Case], file: &Path) -> Result<Vec<Row>> {
    let mut rows = read(file)?;
    let cannot = || format!("cannot write {}", file.display());
    // Ends an incomplete line.
    std::fs::write(file, lines(&rows)).with_context(cannot)?;
    let out = Mutex::new(OpenOptions::new().append(true).open(file).with_context(cannot)?);
    let jobs = missing(cases, &rows);
    let bar = runs::bar("runs", jobs.len());
    let played = runs::over_all_cores(&jobs, &bar, |(case, seed)| -> Result<Row> {
        let name = || format!("{:?}, seed {seed}", case.key);
        let (scenario, topology) = case.scenario().with_context(name)?;
        let outcome = play(&scenario, &topology, *seed).with_context(name)?;
        let row = Row::of(&case.key, *seed, &outcome)?;
        let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
        out.write_all(format!("{}\n", row.line).as_bytes()).with_context(cannot)?;
        Ok(row)
    });
    for row in played {
        rows.push(row?);
    }
    let rows = ordered(cases, rows);
    std::fs::write(file, lines(&rows)).with_context(cannot)?;
    Ok(rows)
}

/// Returns the rows of the cases in their order.
fn ordered(cases: &[Case], rows: Vec<Row>) -> Vec<Row> {
    let mut by_run: BTreeMap<(Key, u64), Row> =
        rows.into_iter().map(|row| ((row.key.clone(), row.seed), row)).collect();
    let all = cases.iter().flat_map(|case| (1..=case.seeds).map(move |seed| (case, seed)));
    all.filter_map(|(case, seed)| by_run.remove(&(case.key.clone(), seed))).collect()
}

fn lines(rows: &[Row]) -> String {
    rows.iter().flat_map(|row| [row.line.as_str(), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Extent, all_cases};
    use super::*;

    /// A run that was interrupted continues: what is there is not played again, and the rows are those of one run.
    #[test]
    fn rows_are_the_same_after_an_interruption() {
        let directory =
            std::env::temp_dir().join(format!("earmark-compare-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let cases = all_cases(Extent::Trial, "pentium-ii-2001").unwrap();
        assert_eq!(cases.len(), 4 * 5 + 3, "a row of routers has no link that can fail");
        let [whole, parts] = ["whole.jsonl", "parts.jsonl"].map(|name| directory.join(name));
        let rows = play_all(&cases, &whole).unwrap();
        assert_eq!(rows.len(), cases.len() * 2);
        let text = std::fs::read_to_string(&whole).unwrap();
        assert_eq!(read(&whole).unwrap(), rows);

        // The last rows first, and half a line.
        let mut lines: Vec<&str> = text.lines().collect();
        let cut = lines.split_off(20);
        let half = &lines[19][..100];
        std::fs::write(&parts, format!("{}\n{half}", cut.join("\n"))).unwrap();
        assert_eq!(missing(&cases, &read(&parts).unwrap()).len(), 20);
        assert_eq!(play_all(&cases, &parts).unwrap(), rows);
        assert_eq!(std::fs::read_to_string(&parts).unwrap(), text);

        std::fs::write(&parts, "{\n").unwrap();
        let error = read(&parts).unwrap_err().to_string();
        assert!(error.contains("parts.jsonl:1: "), "{error}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}

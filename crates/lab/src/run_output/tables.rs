//! CSV files of outcomes: one for each kind of row, joined by the seed and the number of the flow in its run, from 0.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use earmark_scenario::{FlowOutcome, Outcome};
use serde::Serialize;

/// Columns of `runs.csv`: one row a run.
const RUNS: &[&str] = &[
    "scenario",
    "seed",
    "events",
    "attempts",
    "retries",
    "refused_retries",
    "served",
    "fragmented",
    "wanted",
    "completed",
    "wait_quartile",
    "wait_median",
    "wait_upper_quartile",
];
/// Columns of `flows.csv`: one row a watched flow. Times are seconds, empty for events that never happened.
const FLOWS: &[&str] = &[
    "seed",
    "flow",
    "flows",
    "from",
    "to",
    "reserves",
    "completed_after",
    "retries",
    "sent",
    "arrived",
];
/// Columns of `attempts.csv`: one row a reservation attempt on a link.
const ATTEMPTS: &[&str] = &["seed", "flow", "at", "node", "granted"];
/// Columns of `rates.csv`: the received rate in each second.
const RATES: &[&str] = &["seed", "flow", "second", "bps"];

/// Writes `runs.csv`, `flows.csv`, `attempts.csv` and `rates.csv` into a directory, which is created if it is
/// missing; each has a header line, even without rows.
///
/// # Errors
/// A failed write, with the name of the file.
pub fn write_tables(directory: &Path, outcomes: &[Outcome]) -> Result<()> {
    let make = || format!("cannot make {}", directory.display());
    std::fs::create_dir_all(directory).with_context(make)?;
    let runs = outcomes.iter().map(|run| {
        let admission = (run.attempts, run.retries, run.refused_retries);
        let shares = (run.served, run.fragmented);
        let waits = match run.waits {
            None => [None; 3],
            Some(waits) => waits.map(Some),
        };
        (&run.scenario, run.seed, run.events, admission, shares, run.wanted, run.completed, waits)
    });
    write(&directory.join("runs.csv"), RUNS, runs)?;
    let rows = watched(outcomes).map(|(seed, number, flow)| {
        let FlowOutcome { flows, from, to, reserves, completed_after, retries, received, .. } =
            flow;
        let times = (reserves, completed_after);
        (seed, number, flows, from, to, times, retries, received.sent, received.arrived)
    });
    write(&directory.join("flows.csv"), FLOWS, rows)?;
    let rows = watched(outcomes).flat_map(|(seed, number, flow)| {
        let attempts = flow.attempts.iter();
        attempts.map(move |attempt| (seed, number, attempt.at, &attempt.node, attempt.granted))
    });
    write(&directory.join("attempts.csv"), ATTEMPTS, rows)?;
    let rows = watched(outcomes).flat_map(|(seed, number, flow)| {
        let rates = flow.received.rates.iter().enumerate();
        rates.map(move |(second, bps)| (seed, number, second, bps))
    });
    write(&directory.join("rates.csv"), RATES, rows)
}

/// Returns all watched flows, with the seeds of their runs and their numbers in these.
fn watched(outcomes: &[Outcome]) -> impl Iterator<Item = (u64, usize, &FlowOutcome)> {
    outcomes.iter().flat_map(|outcome| {
        let flows = outcome.watched.iter().enumerate();
        flows.map(move |(number, flow)| (outcome.seed, number, flow))
    })
}

fn write<R: Serialize>(
    file: &Path,
    headings: &[&str],
    rows: impl Iterator<Item = R>,
) -> Result<()> {
    let write = || -> Result<()> {
        let out = File::create(file)?;
        let mut table = csv::WriterBuilder::new().has_headers(false).from_writer(out);
        table.write_record(headings)?;
        for row in rows {
            table.serialize(row)?;
        }
        Ok(table.flush()?)
    };
    write().with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcomes;
    use super::*;

    #[test]
    fn tables_are_joined_by_seed_and_flow() {
        let directory = std::env::temp_dir().join(format!("earmark-tables-{}", std::process::id()));
        write_tables(&directory, &outcomes()).unwrap();
        let read = |name: &str| std::fs::read_to_string(directory.join(name)).unwrap();
        let [runs, flows, attempts, rates] =
            ["runs.csv", "flows.csv", "attempts.csv", "rates.csv"].map(read);
        write_tables(&directory, &[]).unwrap();
        let empty = read("flows.csv");
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(
            runs,
            "scenario,seed,events,attempts,retries,refused_retries,served,fragmented,wanted,completed,\
             wait_quartile,wait_median,wait_upper_quartile\n\
             \"a, b\",1,100,10,4,2,0.5,0.125,5,3,0.5,1.0,2.0\n\
             \"a, b\",2,200,20,8,4,0.5,0.125,5,4,,,\n"
        );
        assert_eq!(
            flows,
            "seed,flow,flows,from,to,reserves,completed_after,retries,sent,arrived\n\
             1,0,test,h0,h1,1.5,2.25,1,10,9\n2,0,test,h0,h1,1.5,,1,10,9\n"
        );
        assert!(
            attempts.starts_with("seed,flow,at,node,granted\n1,0,1.5,h0,true\n1,0,1.52,r1,false\n")
        );
        assert!(rates.ends_with("\n2,0,0,100000\n2,0,1,96000\n"), "{rates}");
        assert_eq!(empty.lines().count(), 1);
    }
}

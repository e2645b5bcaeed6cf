//! Command `earmark-studies study compare`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::study::compare::{self, Case, Extent, Row};

const EXAMPLES: &str = "\
Examples:
  earmark-studies study compare --out compare                     in outline, on all processors of this machine
  earmark-studies study compare --extent full --export cases      the scenarios of all runs, for a cluster
  earmark-studies study compare --extent full --rows rows.jsonl --out compare     tables and drawings of rows from elsewhere

The directory gets rows.jsonl, a line for each run; a run that is there is not played again, so that an interrupted study continues.
compare.md has the tables, and a drawing stands beside it for each metric and network. The rows do not depend on the number
of processors, nor on the machine. docs/studies/compare.md explains the results.";

/// Compare the protocols on equal terms: cost, set-up time, loss, refusals, failures and overload
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Compare {
    /// Size of the study.
    #[arg(long, value_enum, default_value_t = Extent::Outline)]
    extent: Extent,
    /// Cost profile of all routers: the name of a built-in one, or a file.
    #[arg(long, default_value = compare::PROFILE)]
    profile: String,
    /// Directory for rows, tables and drawings.
    #[arg(long, value_name = "DIRECTORY", required_unless_present = "export")]
    out: Option<PathBuf>,
    /// Rows that were played elsewhere; nothing is played, and all have to be there.
    #[arg(long, value_name = "FILE", requires = "out")]
    rows: Option<PathBuf>,
    /// Write the scenarios of all runs into a directory, and play nothing.
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["out", "rows"])]
    export: Option<PathBuf>,
    /// Print the comparisons as JSON, one line for each metric, network and number of flows.
    #[arg(long)]
    json: bool,
}

impl Compare {
    pub(super) fn run(&self) -> Result<ExitCode> {
        let begun = Instant::now();
        let cases = compare::all_cases(self.extent, &self.profile)?;
        let runs: u64 = cases.iter().map(|case| case.seeds).sum();
        if let Some(directory) = &self.export {
            compare::export(&cases, directory)?;
            eprintln!("{}: {} scenarios, {runs} runs", directory.display(), cases.len());
            return Ok(ExitCode::SUCCESS);
        }
        let directory = self.out.as_deref().context("--out is required")?;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create {}", directory.display()))?;
        let rows = match &self.rows {
            Some(file) => played_elsewhere(&cases, file)?,
            None => compare::play_all(&cases, &directory.join("rows.jsonl"))?,
        };
        let all = compare::compare(&rows);
        let page = compare::page(&all);
        write(directory, "compare.md", &page)?;
        for (name, drawing) in compare::drawings(&all) {
            write(directory, &name, &drawing)?;
        }
        match self.json {
            true => {
                for comparison in &all {
                    println!("{}", serde_json::to_string(comparison)?);
                }
            }
            false => print!("{page}"),
        }
        eprintln!("{} runs, {:.0} s", rows.len(), begun.elapsed().as_secs_f64());
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads rows, each of which has to be there.
fn played_elsewhere(cases: &[Case], file: &Path) -> Result<Vec<Row>> {
    if !file.exists() {
        bail!("{}: there is no such file", file.display());
    }
    let rows = compare::read(file)?;
    let missing = compare::missing(cases, &rows);
    if let Some((case, seed)) = missing.first() {
        let compare::Key { network, condition, flows, protocol } = &case.key;
        bail!(
            "{}: {} runs are missing, the first is {network}, {condition}, {flows} flows, {protocol}, seed {seed}; \
             play them first, or give the --extent that was played",
            file.display(),
            missing.len()
        );
    }
    Ok(rows)
}

fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let file = directory.join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

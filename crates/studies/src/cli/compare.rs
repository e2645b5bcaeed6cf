//! Command `earmark-studies study compare`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use earmark_scenario::processing::CostProfile;

use super::profile;
use crate::study::compare::{self, Case, Extent, Key, Row};

const EXAMPLES: &str = "\
Examples:
  earmark-studies study compare --out compare                     in outline, on all processors of this machine
  earmark-studies study compare --extent full --export cases      the scenarios of all runs, for a cluster
  earmark-studies study compare --extent full --rows rows.jsonl --out compare     tables and drawings of rows from elsewhere

The directory gets rows.jsonl, a line for each run; a run that is there is not played again, so that an interrupted study continues.
profile.toml is the cost profile of its routers.
compare.md has the tables, and a drawing stands beside it for each metric and network. The rows do not depend on the number
of processors, nor on the machine. docs/studies/compare.md explains the results.";

/// File with the cost profile that the rows beside it were played with.
const PROFILE_FILE: &str = "profile.toml";

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
        let profile = self.profile()?;
        let cases = compare::all_cases(self.extent, &self.profile)?;
        let runs: u64 = cases.iter().map(|case| case.seeds).sum();
        if let Some(directory) = &self.export {
            compare::export(&cases, directory)?;
            eprintln!("{}: {} scenarios, {runs} runs", directory.display(), cases.len());
            return Ok(ExitCode::SUCCESS);
        }
        let directory = self.out.as_deref().context("--out is required")?;
        let rows = match &self.rows {
            Some(file) => played_elsewhere(&cases, file)?,
            None => {
                let file = directory.join("rows.jsonl");
                let profile = toml::to_string(&profile)?;
                check_earlier(&cases, &file, &profile)?;
                create(directory)?;
                write(directory, PROFILE_FILE, &profile)?;
                compare::play_all(&cases, &file)?
            }
        };
        let all = compare::compare(&rows);
        let page = compare::page(&all);
        create(directory)?;
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

    /// Loads the cost profile, which has to have times of all protocols.
    fn profile(&self) -> Result<CostProfile> {
        let profile = profile::load(&self.profile)?;
        let without: Vec<&str> =
            compare::PROTOCOLS.into_iter().filter(|it| !profile.has_times(it)).collect();
        ensure!(
            without.is_empty(),
            "profile `{}` has no times of {}, which would cost nothing\n  help: give one with the times of all protocols",
            self.profile,
            without.join(", ")
        );
        Ok(CostProfile::clone(&profile))
    }
}

/// Checks that rows of an earlier run are kept by this one: they are of its cases, and were played with its cost profile.
fn check_earlier(cases: &[Case], file: &Path, profile: &str) -> Result<()> {
    let rows = compare::read(file)?;
    let seeds: BTreeMap<&Key, u64> = cases.iter().map(|case| (&case.key, case.seeds)).collect();
    let is_kept =
        |row: &Row| seeds.get(&row.key).is_some_and(|seeds| (1..=*seeds).contains(&row.seed));
    let others: Vec<&Row> = rows.iter().filter(|row| !is_kept(row)).collect();
    if let Some(Row { key, seed, .. }) = others.first() {
        let Key { network, condition, flows, protocol } = key;
        bail!(
            "{}: {} rows are of runs that this --extent does not have, the first is {network}, {condition}, {flows} flows, \
             {protocol}, seed {seed}; give the --extent that was played, or another --out",
            file.display(),
            others.len()
        );
    }
    let earlier = fs::read_to_string(file.with_file_name(PROFILE_FILE));
    ensure!(
        rows.is_empty() || earlier.is_ok_and(|earlier| earlier == profile),
        "{}: {PROFILE_FILE} beside it is missing or another one; give the --profile that its rows were played with, or another --out",
        file.display()
    );
    Ok(())
}

/// Reads rows, each of which has to be there.
fn played_elsewhere(cases: &[Case], file: &Path) -> Result<Vec<Row>> {
    if !file.exists() {
        bail!("{}: there is no such file", file.display());
    }
    let rows = compare::read(file)?;
    let missing = compare::missing(cases, &rows);
    if let Some((case, seed)) = missing.first() {
        let Key { network, condition, flows, protocol } = &case.key;
        bail!(
            "{}: {} runs are missing, the first is {network}, {condition}, {flows} flows, {protocol}, seed {seed}; \
             play them first, or give the --extent that was played",
            file.display(),
            missing.len()
        );
    }
    Ok(rows)
}

fn create(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    let file = directory.join(name);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(profile: &str, extent: Extent, out: &Path) -> Result<ExitCode> {
        let (profile, out) = (profile.to_owned(), Some(out.to_owned()));
        Compare { extent, profile, out, rows: None, export: None, json: false }.run()
    }

    #[test]
    fn unusable_profile_leaves_no_directory() {
        let out = std::env::temp_dir().join(format!("earmark-unplayed-{}", std::process::id()));
        for (profile, reason) in [
            ("missing.toml", "profile `missing.toml`: it cannot be read"),
            ("pentium-ii-2001", "profile `pentium-ii-2001` has no times of yessir, nsis"),
        ] {
            let error = compare(profile, Extent::Trial, &out).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            let export = Compare {
                extent: Extent::Trial,
                profile: profile.to_owned(),
                out: None,
                rows: None,
                export: Some(out.clone()),
                json: false,
            };
            assert!(export.run().is_err(), "scenarios that nobody can play");
            assert!(!out.exists());
        }
    }

    #[test]
    fn rows_of_another_extent_or_profile_are_kept() {
        let out = std::env::temp_dir().join(format!("earmark-kept-{}", std::process::id()));
        fs::create_dir_all(&out).unwrap();
        let row = r#"{"network":"abilene","condition":"rush","flows":100,"protocol":"nsis","seed":10,"outcome":{}}"#;
        let file = out.join("rows.jsonl");
        fs::write(&file, format!("{row}\n")).unwrap();
        let error = compare("xeon-2026", Extent::Trial, &out).unwrap_err().to_string();
        assert!(error.contains("1 rows are of runs that this --extent does not have"), "{error}");

        fs::write(out.join(PROFILE_FILE), "of another machine").unwrap();
        let error = compare("xeon-2026", Extent::Outline, &out).unwrap_err().to_string();
        assert!(
            error.contains("rows.jsonl: profile.toml beside it is missing or another one"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{row}\n"));
        fs::remove_dir_all(&out).unwrap();
    }
}

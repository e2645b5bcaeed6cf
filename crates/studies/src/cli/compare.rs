//! Command `earmark-studies study compare`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use earmark_scenario::processing::CostProfile;

use super::profile;
use crate::provenance::{Settings, commit};
use crate::study::compare::{self, Case, Extent, Key, Results, Row, Variant};

const EXAMPLES: &str = "\
Examples:
  earmark-studies study compare --out compare                     in outline, on all processors of this machine
  earmark-studies study compare --extent full --export cases      the scenarios of all runs, for a cluster
  earmark-studies study compare --extent full --rows rows.jsonl --out compare     tables and drawings of rows from elsewhere

The directory gets rows.jsonl, a line for each run; a run that is there is not played again, so that an interrupted study continues.
profile.toml is the cost profile of its routers, and program.txt the program that plays.
compare.md has the tables, and a drawing stands beside it for each metric and network; results.json has the same with its origin, for
`earmark-studies reproduce`. The rows do not depend on the number of processors, nor on the machine.
docs/studies/compare.md explains the results.";

/// File with the cost profile that the rows beside it were played with.
pub(super) const PROFILE_FILE: &str = "profile.toml";
/// File with the program that has played the rows beside it.
const PROGRAM_FILE: &str = "program.txt";

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
    /// Creates the command that plays an extent with a profile into a directory.
    pub(super) fn new(out: PathBuf, extent: Extent, profile: String) -> Compare {
        Compare { extent, profile, out: Some(out), rows: None, export: None, json: false }
    }

    pub(super) fn run(&self) -> Result<ExitCode> {
        if let Some(directory) = &self.export {
            self.profile()?;
            let cases = compare::all_cases(self.extent, &self.profile)?;
            let runs: u64 = cases.iter().map(|case| case.seeds).sum();
            compare::export(&cases, directory)?;
            eprintln!("{}: {} scenarios, {runs} runs", directory.display(), cases.len());
            return Ok(ExitCode::SUCCESS);
        }
        let all = self.play()?.comparisons;
        match self.json {
            true => {
                for comparison in &all {
                    println!("{}", serde_json::to_string(comparison)?);
                }
            }
            false => print!("{}", compare::page(&all)),
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Plays what is missing, and writes rows, results, tables and drawings.
    pub(super) fn play(&self) -> Result<Results> {
        let begun = Instant::now();
        let profile = toml::to_string(&self.profile()?)?;
        let cases = compare::all_cases(self.extent, &self.profile)?;
        let directory = self.out.as_deref().context("--out is required")?;
        let rows = match &self.rows {
            Some(file) => {
                let rows = played_elsewhere(&cases, file)?;
                create(directory)?;
                // It may keep the profile of rows of its own.
                if !directory.join(PROFILE_FILE).exists() {
                    write(directory, PROFILE_FILE, &profile)?;
                }
                rows
            }
            None => {
                let file = directory.join("rows.jsonl");
                let beside = [
                    (PROFILE_FILE, "give the --profile", profile),
                    (PROGRAM_FILE, "take the program", program()),
                ];
                check_earlier(&cases, &file, &beside)?;
                create(directory)?;
                for (name, _, text) in &beside {
                    write(directory, name, text)?;
                }
                compare::play_all(&cases, &file)?
            }
        };
        let results = compare::results(&cases, &rows, self.settings());
        write(directory, "results.json", &serde_json::to_string_pretty(&results)?)?;
        write(directory, "compare.md", &compare::page(&results.comparisons))?;
        for (name, drawing) in compare::drawings(&results.comparisons) {
            write(directory, &name, &drawing)?;
        }
        eprintln!("{} runs, {:.0} s", rows.len(), begun.elapsed().as_secs_f64());
        Ok(results)
    }

    fn settings(&self) -> Settings {
        let extent = self.extent.to_possible_value().map(|value| value.get_name().to_owned());
        Settings::Compare {
            extent: extent.unwrap_or_default(),
            profile: self.profile.clone(),
            elsewhere: self.rows.is_some(),
        }
    }

    /// Loads the cost profile, which has to have times of all protocols.
    fn profile(&self) -> Result<CostProfile> {
        let profile = profile::load(&self.profile)?;
        let mut protocols = Variant::ALL.map(Variant::protocol).to_vec();
        protocols.dedup();
        let without: Vec<&str> =
            protocols.iter().copied().filter(|it| !profile.has_times(it)).collect();
        ensure!(
            without.is_empty(),
            "profile `{}` has no times of {}, which would cost nothing\n  help: give one with the times of all protocols",
            self.profile,
            without.join(", ")
        );
        Ok(CostProfile::clone(&profile))
    }
}

/// Describes this program, whose rows may differ from those of another one.
fn program() -> String {
    format!("{} {}, commit {}\n", env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"), commit())
}

/// Checks that rows of an earlier run are kept by this one: they are of its cases, and the files beside them have the same
/// texts. Each has a name, and how to get the same one.
fn check_earlier(cases: &[Case], file: &Path, beside: &[(&str, &str, String)]) -> Result<()> {
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
    for (name, help, text) in beside {
        let earlier = fs::read_to_string(file.with_file_name(name));
        ensure!(
            rows.is_empty() || earlier.is_ok_and(|earlier| earlier == *text),
            "{}: {name} beside it is missing or another one; {help} that its rows were played with, or give another --out",
            file.display()
        );
    }
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
        Compare::new(out.to_owned(), extent, profile.to_owned()).run()
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
            let compare = Compare::new(out.clone(), Extent::Trial, profile.to_owned());
            let export = Compare { export: compare.out, out: None, ..compare };
            assert!(export.run().is_err(), "scenarios that nobody can play");
            assert!(!out.exists());
        }
    }

    #[test]
    fn rows_of_another_extent_profile_or_program_are_kept() {
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
        let profile = profile::load("xeon-2026").unwrap();
        fs::write(out.join(PROFILE_FILE), toml::to_string(&*profile).unwrap()).unwrap();
        fs::write(out.join(PROGRAM_FILE), "earmark-studies 0.0.1, commit abc\n").unwrap();
        let error = compare("xeon-2026", Extent::Outline, &out).unwrap_err().to_string();
        assert!(
            error.contains("program.txt beside it is missing or another one; take the"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{row}\n"));
        fs::remove_dir_all(&out).unwrap();
    }
}

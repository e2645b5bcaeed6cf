//! Cases as files, to be played elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::case::{Case, Key};

/// A run in the list of all runs.
#[derive(Serialize)]
struct Run<'a> {
    #[serde(flatten)]
    key: &'a Key,
    seed: u64,
    /// File of the scenario, beside the list.
    scenario: &'a str,
    /// Files that it refers to: network and cost profile.
    files: &'a [String],
}

/// Writes the scenarios of the cases, the files that they refer to, and `runs.jsonl`, a line for each run in the order of the
/// rows: the columns of the row, the file of the scenario, and the files that it refers to. A line of rows is the
/// run without these files, and with `outcome`, as it is printed by `earmark-lab simulate --json`.
///
/// # Errors
/// A file cannot be written.
pub fn export(cases: &[Case], directory: &Path) -> Result<()> {
    let cannot = |file: &Path| format!("cannot write {}", file.display());
    fs::create_dir_all(directory).with_context(|| cannot(directory))?;
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut runs = String::new();
    for case in cases {
        let Key { network, condition, flows, protocol } = &case.key;
        let scenario = format!("{network}-{condition}-{flows}-{protocol}.toml");
        let mut beside = Vec::new();
        if let Some((name, text)) = case.network.file() {
            beside.push(name.to_owned());
            files.insert(name.to_owned(), text);
        }
        if let Some((file, name)) = case.profile.as_ref().and_then(|it| Some((it, it.file_name()?)))
        {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            let name = name.to_string_lossy().into_owned();
            beside.push(name.clone());
            files.insert(name, text);
        }
        for seed in 1..=case.seeds {
            let run = Run { key: &case.key, seed, scenario: &scenario, files: &beside };
            runs.push_str(&serde_json::to_string(&run)?);
            runs.push('\n');
        }
        files.insert(scenario, case.text.clone());
    }
    files.insert("runs.jsonl".to_owned(), runs);
    for (name, text) in files {
        let file = directory.join(name);
        fs::write(&file, text).with_context(|| cannot(&file))?;
    }
    Ok(())
}

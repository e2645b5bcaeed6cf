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
}

/// Writes the scenarios of the cases, the files that they refer to, and `runs.jsonl`, a line for each run in the order of the
/// rows: the columns of the row, and the file of the scenario. A line of rows is the
/// run without its scenario, and with `outcome`, as it is printed by `earmark-lab simulate --json`.
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
        for seed in 1..=case.seeds {
            let run = Run { key: &case.key, seed, scenario: &scenario };
            runs.push_str(&serde_json::to_string(&run)?);
            runs.push('\n');
        }
        files.insert(scenario, case.text.clone());
        files.extend(case.network.file().map(|(name, text)| (name.to_owned(), text)));
        if let Some((file, name)) = case.profile.as_ref().and_then(|it| Some((it, it.file_name()?)))
        {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            files.insert(name.to_string_lossy().into_owned(), text);
        }
    }
    files.insert("runs.jsonl".to_owned(), runs);
    for (name, text) in files {
        let file = directory.join(name);
        fs::write(&file, text).with_context(|| cannot(&file))?;
    }
    Ok(())
}

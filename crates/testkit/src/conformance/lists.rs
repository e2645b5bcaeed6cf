//! The lists of rules, `docs/conformance/*.md`, checked against the existing cases.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cases::root;
use super::words::Fault;

/// Checks that every case of a protocol that the documents name exists, and that a document names every case. A case
/// appears as `[name](../../conformance/protocol/name)`. Tests appear with their paths, which must exist too.
///
/// # Errors
/// What is missing.
pub fn check(folder: &str, cases: &[String]) -> Result<(), Fault> {
    let root = root();
    let text = documents(&root.join("docs/conformance"))?;
    let named: BTreeSet<&str> = text
        .split(&format!("](../../conformance/{folder}/"))
        .skip(1)
        .filter_map(|rest| rest.split([')', '/']).next())
        .filter(|name| *name != "README.md")
        .collect();
    let there: BTreeSet<&str> = cases.iter().map(String::as_str).collect();
    let unnamed: Vec<_> = there.difference(&named).collect();
    let missing: Vec<_> = named.difference(&there).collect();
    let words = text.split([' ', ',', ';', '\n']).map(|word| word.trim_end_matches(['.', ':']));
    let paths = words.filter(|word| word.starts_with("crates/"));
    let lost: Vec<_> = paths.filter(|path| !root.join(path).exists()).collect();
    if unnamed.is_empty() && missing.is_empty() && lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "cases that no document names: {unnamed:?}; named, but not there: {missing:?} {lost:?}"
    ))
}

/// Returns the text of all documents.
fn documents(folder: &Path) -> Result<String, Fault> {
    let fault = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut text = String::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        text += &fs::read_to_string(entry.map_err(fault)?.path()).map_err(fault)?;
        text += "\n";
    }
    Ok(text)
}

//! The lists of rules, `docs/conformance/*.md`, checked against the existing cases.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::cases::root;
use super::words::Fault;

/// Checks that every case of a protocol that the documents name exists, and that a document names every case. A case
/// appears as `[name](../../conformance/protocol/name)`. Tests appear with their paths, which must exist too; so must the
/// functions that a document names in backticks directly behind the path of their file.
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
    let functions = missing_functions(&root, &text);
    if unnamed.is_empty() && missing.is_empty() && lost.is_empty() && functions.is_empty() {
        return Ok(());
    }
    Err(format!(
        "cases that no document names: {unnamed:?}; named, but not there: {missing:?} {lost:?} {functions:?}"
    ))
}

/// Returns the functions that are named directly behind the path of a source file and that the file does not have, with
/// the path: `crates/core/src/flow.rs` and then one name or several, in backticks and with commas between them.
fn missing_functions(root: &Path, text: &str) -> Vec<String> {
    let mut missing = Vec::new();
    let mut file = None;
    for word in text.split_whitespace() {
        let ends = word.ends_with([';', '.', ':']);
        let bare = word.trim_end_matches([',', ';', '.', ':']);
        if bare.starts_with("crates/") && bare.ends_with(".rs") {
            file = fs::read_to_string(root.join(bare)).ok().map(|source| (bare, source));
        } else if let Some((path, source)) = &file
            && let Some(name) = function_name(bare)
        {
            if !source.contains(&format!("fn {name}(")) {
                missing.push(format!("{path} {name}"));
            }
        } else {
            file = None;
        }
        if ends {
            file = None;
        }
    }
    missing
}

/// Returns the name in a word of backticks that can be that of a test.
fn function_name(word: &str) -> Option<&str> {
    let name = word.strip_prefix('`')?.strip_suffix('`')?;
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (name.contains('_') && name.chars().all(is_part)).then_some(name)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names count directly behind the path of their file; prose, a full stop or a semicolon ends the list.
    #[test]
    fn functions_are_looked_for_in_their_file() {
        let path = "crates/testkit/src/conformance/lists.rs";
        let missing = |names: &str| missing_functions(&root(), &format!("| {path} {names} |"));
        let named = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| format!("{path} {name}")).collect()
        };
        for (names, expected) in [
            ("`missing_functions`, `function_name`", &[][..]),
            ("`no_such_test`", &["no_such_test"]),
            ("`function_name`, `no_such_test`; `nor_this`", &["no_such_test"]),
            ("`function_name`. The setting `no_such_test`", &[]),
            ("shows it, as `no_such_test`", &[]),
            ("`resv-reserves`, `no_such_test`", &[]),
        ] {
            assert_eq!(missing(names), named(expected), "{names}");
        }
    }
}

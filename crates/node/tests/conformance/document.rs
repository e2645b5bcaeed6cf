//! The list of requirements, `docs/conformance/rfc2205.md`, against the cases that there are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::words::Fault;

/// Every case that the document names must exist, and every case must be named in it. A case is named as
/// `[name](../../conformance/rsvp/name)`. Tests are named by their paths, which must exist too.
pub(crate) fn check(root: &Path, cases: &[String]) -> Result<(), Fault> {
    let document = root.join("docs/conformance/rfc2205.md");
    let text = fs::read_to_string(document).map_err(|error| format!("rfc2205.md: {error}"))?;
    let named: BTreeSet<&str> = text
        .split("](../../conformance/rsvp/")
        .skip(1)
        .filter_map(|rest| rest.split([')', '/']).next())
        .collect();
    let there: BTreeSet<&str> = cases.iter().map(String::as_str).collect();
    let unnamed: Vec<_> = there.difference(&named).collect();
    let missing: Vec<_> = named.difference(&there).collect();
    let paths = text.split([' ', ',', ';', '\n']).filter(|word| word.starts_with("crates/"));
    let lost: Vec<_> = paths.filter(|path| !root.join(path).exists()).collect();
    if unnamed.is_empty() && missing.is_empty() && lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "cases that the document does not name: {unnamed:?}; named, but not there: {missing:?} {lost:?}"
    ))
}

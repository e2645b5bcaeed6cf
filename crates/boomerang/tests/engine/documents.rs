//! The requirement list names tests that exist, and all of them.

use std::collections::BTreeSet;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of test functions in a file: those behind `#[test]`, and those in a `proptest!`.
fn tests_in(path: &Path) -> BTreeSet<String> {
    let text = read(path);
    let mut lines = text.lines().map(str::trim).peekable();
    let mut names = BTreeSet::new();
    while let Some(line) = lines.next() {
        if line != "#[test]" {
            continue;
        }
        let function = lines.find_map(|line| line.strip_prefix("fn ")).expect("a test has a name");
        names.extend(function.split('(').next().map(str::to_owned));
    }
    names
}

#[test]
fn the_requirement_list_names_every_test() {
    let root = Path::new(ROOT);
    let list = read(&root.join("docs/conformance/boomerang.md"));
    let word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let named: BTreeSet<&str> = list.split(word).filter(|word| word.contains('_')).collect();
    let mut known = tests_in(&root.join("crates/wire/tests/boomerang/main.rs"));
    known.extend(tests_in(&root.join("crates/wire/tests/boomerang/properties.rs")));
    let files = [
        "node",
        "untrusted_peers",
        "untrusted_origins",
        "credentials",
        "host",
        "changes",
        "multicast",
        "aggregates",
        "offload",
        "model",
        "participation",
        "tokens",
    ];
    for file in files {
        known.extend(tests_in(&root.join(format!("crates/boomerang/tests/engine/{file}.rs"))));
    }
    let missing: Vec<_> = known.iter().filter(|name| !named.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "not in the list: {missing:?}");
    let words = ["NO_ECHO", "untrusted_peers", "untrusted_origins"];
    let unknown: Vec<_> =
        named.iter().filter(|name| !known.contains(**name) && !words.contains(name)).collect();
    assert!(unknown.is_empty(), "no tests: {unknown:?}");
}

//! The lines of the trust model name tests that exist.

use std::collections::BTreeMap;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Returns the tests that a cell names: `path: test, test; path: test`.
fn tests_of(cell: &str) -> Vec<(&str, &str)> {
    let files = cell.split(';').filter_map(|part| part.trim().split_once(": "));
    files.flat_map(|(path, names)| names.split(", ").map(move |name| (path, name.trim()))).collect()
}

#[test]
fn every_line_of_the_trust_model_names_tests_that_exist() {
    let root = Path::new(ROOT);
    let page = std::fs::read_to_string(root.join("docs/security.md")).expect("the page");
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    let mut lines = 0;
    let mut in_list = false;
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", what, tests, ""] = cells[..] else {
            in_list = false;
            continue;
        };
        match what {
            "line" => in_list = tests == "shown by",
            "---" => {}
            _ if !in_list => {}
            _ => {
                lines += 1;
                let tests = tests_of(tests);
                assert!(!tests.is_empty(), "no test: {what}");
                for (path, name) in tests {
                    let text = texts.entry(path).or_insert_with(|| {
                        std::fs::read_to_string(root.join(path))
                            .unwrap_or_else(|error| panic!("{path}: {error}"))
                    });
                    assert!(text.contains(&format!("fn {name}(")), "{path} has no test {name}");
                }
            }
        }
    }
    assert!(lines >= 30, "{lines} lines");
    assert!(!page.contains("not tested"));
}

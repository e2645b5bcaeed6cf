//! Conformance cases of NSIS: the folders of `conformance/nsis/`, each played as a story against GIST on one node in virtual
//! time, with an application that does what the story says.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (what
//! happens, and what the node does about it); `conformance/nsis/README.md` tells the grammar. With `EARMARK_REWRITE=1`
//! stories are written anew as the node plays them; without, every octet must be as it stands there.

#[path = "conformance/application.rs"]
mod application;
#[path = "conformance/message.rs"]
mod message;
#[path = "conformance/story.rs"]
mod story;
#[allow(dead_code)] // shared with the stories of QoS NSLP
#[path = "conformance/topology.rs"]
mod topology;
#[allow(dead_code)] // shared with the stories of the other protocols, which use more of it
#[path = "../../node/tests/conformance/words.rs"]
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use earmark_nsis::gist::machine::{QUERYING, RESPONDING, Table};
use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;
use topology::Topology;

/// Set to 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/nsis");
    let cases = match cases(&folder) {
        Ok(cases) => cases,
        Err(error) => {
            eprintln!("{}: {error}", folder.display());
            return ExitCode::FAILURE;
        }
    };
    let rewrite = std::env::var_os(REWRITE).is_some_and(|value| value == "1");
    let mut trials: Vec<Trial> = cases
        .iter()
        .map(|(name, path)| {
            let path = path.clone();
            Trial::test(format!("nsis/{name}"), move || check(&path, rewrite))
        })
        .collect();
    let names: BTreeSet<String> = cases.into_iter().map(|(name, _)| name).collect();
    trials.push(Trial::test("every_transition_and_example_has_a_case", move || has_all(&names)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// The cases by name, in order.
fn cases(folder: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir()
            && let Some(name) = path.file_name().and_then(|name| name.to_str())
        {
            cases.push((name.to_string(), path.clone()));
        }
    }
    cases.sort();
    Ok(cases)
}

/// Plays one case.
fn check(folder: &Path, rewrite: bool) -> Result<(), Failed> {
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let prose = read("README.md")?;
    if !prose.starts_with("# ") || !prose.contains("RFC ") || !prose.contains("```text") {
        return Err("README.md needs a title, the section of its RFC, and a drawing".into());
    }
    let topology = read("topology.toml")?;
    let topology = Topology::read(&topology).map_err(|fault| format!("topology.toml: {fault}"))?;
    let told = read("story.txt")?;
    let played = story::play(&topology, &told).map_err(|fault| format!("story.txt: {fault}"))?;
    if played == told {
        return Ok(());
    }
    if rewrite {
        return Ok(fs::write(folder.join("story.txt"), played)?);
    }
    let difference = TextDiff::from_lines(&told, &played);
    let difference =
        difference.unified_diff().header("as it is told", "as the node does").to_string();
    Err(format!("story.txt ({REWRITE}=1 rewrites it)\n{difference}").into())
}

/// The examples of RFC 5971: section 3.10 and appendix D.
const EXAMPLES: [&str; 2] = ["example-operation", "example-handshake"];

/// Each numbered transition of RFC 5972, and each example, has the case that shows it.
fn has_all(cases: &BTreeSet<String>) -> Result<(), Failed> {
    let of = |table: &'static Table, name: &'static str| {
        let numbers = table.rows().iter().filter_map(|row| row.rule.parse::<u8>().ok());
        numbers.map(move |number| format!("{name}-{number:02}"))
    };
    let transitions = of(&QUERYING, "querying").chain(of(&RESPONDING, "responding"));
    for wanted in transitions.chain(EXAMPLES.map(String::from)) {
        if !cases.iter().any(|case| case.starts_with(&wanted)) {
            return Err(format!("no case begins with {wanted}").into());
        }
    }
    Ok(())
}

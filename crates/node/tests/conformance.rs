//! Conformance cases: the folders of `conformance/`, each played as a story against a real node in virtual time.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (what
//! happens, and what the node does about it). With `EARMARK_REWRITE=1` stories are written anew as the node plays them,
//! so that what has changed can be read as a difference; without, every octet must be as it stands there.

#[path = "conformance/diagnosis.rs"]
mod diagnosis;
#[path = "conformance/document.rs"]
mod document;
#[path = "conformance/message.rs"]
mod message;
#[path = "conformance/object.rs"]
mod object;
#[path = "conformance/reduction.rs"]
mod reduction;
#[path = "conformance/show.rs"]
mod show;
#[path = "conformance/signing.rs"]
mod signing;
#[path = "conformance/story.rs"]
mod story;
#[path = "conformance/topology.rs"]
mod topology;
#[path = "conformance/words.rs"]
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;
use topology::Topology;

/// Set to 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("conformance/rsvp");
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
            Trial::test(format!("rsvp/{name}"), move || check(&path, rewrite))
        })
        .collect();
    let names: Vec<String> = cases.into_iter().map(|(name, _)| name).collect();
    trials.push(Trial::test("every_case_is_in_the_document", move || {
        document::check(&root, &names).map_err(Failed::from)
    }));
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

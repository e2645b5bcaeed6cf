//! The cases in a folder of `conformance/`, and how a case runs. Shared by all protocols.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;

use crate::words::Fault;

/// Environment variable: with 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

/// Plays a story in a topology, both as text; returns the story with the actual effects.
pub(crate) type Play = fn(&str, &str) -> Result<String, Fault>;

/// A test of all cases together, called with the names in order.
pub(crate) type CheckAll = fn(&[String]) -> Result<(), Failed>;

/// Root folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the cases of a protocol, each as a separate test, and one test of all cases.
pub(crate) fn run(
    protocol: &str,
    play: Play,
    (test_of_all, check_all): (&str, CheckAll),
) -> ExitCode {
    let folder = root().join("conformance").join(protocol);
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
            Trial::test(format!("{protocol}/{name}"), move || check(&path, play, rewrite))
        })
        .collect();
    let names: Vec<String> = cases.into_iter().map(|(name, _)| name).collect();
    trials.push(Trial::test(test_of_all, move || check_all(&names)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Returns the cases in the order of names.
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

/// Plays a case.
fn check(folder: &Path, play: Play, rewrite: bool) -> Result<(), Failed> {
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let prose = read("README.md")?;
    if !prose.starts_with("# ") || !prose.contains("RFC ") || !prose.contains("```text") {
        return Err("README.md needs a title, the section of its RFC, and a drawing".into());
    }
    let (topology, story) = (read("topology.toml")?, read("story.txt")?);
    let played = play(&topology, &story)?;
    if played == story {
        return Ok(());
    }
    if rewrite {
        return Ok(fs::write(folder.join("story.txt"), played)?);
    }
    let difference = TextDiff::from_lines(&story, &played);
    let difference = difference.unified_diff().header("story.txt", "actual effects").to_string();
    Err(format!("story.txt ({REWRITE}=1 rewrites it)\n{difference}").into())
}

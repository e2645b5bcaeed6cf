//! The cases of a folder of `conformance/`: what each must have, and how it is played. The stories of all protocols share it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;

use crate::words::Fault;

/// Set to 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

/// Plays a story in a topology, both as they are written; gives the story with the effects as they are.
pub(crate) type Play = fn(&str, &str) -> Result<String, Fault>;

/// A test of all cases together, which gets their names in order.
pub(crate) type OfAll = fn(&[String]) -> Result<(), Failed>;

/// The folder in which everything is.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Plays the cases of a protocol, each as a test of its own, and one test of all.
pub(crate) fn run(protocol: &str, play: Play, (of_all, check_all): (&str, OfAll)) -> ExitCode {
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
    trials.push(Trial::test(of_all, move || check_all(&names)));
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
fn check(folder: &Path, play: Play, rewrite: bool) -> Result<(), Failed> {
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let prose = read("README.md")?;
    if !prose.starts_with("# ") || !prose.contains("RFC ") || !prose.contains("```text") {
        return Err("README.md needs a title, the section of its RFC, and a drawing".into());
    }
    let (topology, told) = (read("topology.toml")?, read("story.txt")?);
    let played = play(&topology, &told)?;
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

//! The cases in a folder of `conformance/`, and how a case runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;

use super::words::Fault;
use super::{Protocol, lists, play};

/// Environment variable: with 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

/// A test of all cases together: its name, and a function that is called with the names of the cases in order.
pub type CheckAll = (&'static str, fn(&[String]) -> Result<(), Fault>);

/// Returns the root folder of the repository.
pub(super) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs the cases of a protocol, each as a separate test, and a test of all cases: the `main` of a test target without
/// the usual harness.
pub fn run<P: Protocol>((test_of_all, check_all): CheckAll) -> ExitCode {
    let folder = root().join("conformance").join(P::FOLDER);
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
            Trial::test(format!("{}/{name}", P::FOLDER), move || check::<P>(&path, rewrite))
        })
        .collect();
    let names: Vec<String> = cases.into_iter().map(|(name, _)| name).collect();
    trials.push(Trial::test(test_of_all, move || Ok(check_all(&names)?)));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Runs the cases of a protocol, and checks that the lists of rules name each: the `main` of a test target without the
/// usual harness.
pub fn run_listed<P: Protocol>() -> ExitCode {
    run::<P>(("every_case_is_in_the_document", |cases| lists::check(P::FOLDER, cases)))
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
fn check<P: Protocol>(folder: &Path, rewrite: bool) -> Result<(), Failed> {
    let read = |name: &str| {
        fs::read_to_string(folder.join(name)).map_err(|error| format!("{name}: {error}"))
    };
    let prose = read("README.md")?;
    if !prose.starts_with("# ") || !prose.contains(P::CITATION) || !prose.contains("```text") {
        let citation = P::CITATION.trim_end();
        return Err(
            format!("README.md needs a title, its source (`{citation}`) and a drawing").into()
        );
    }
    let (topology, story) = (read("topology.toml")?, read("story.txt")?);
    if !story.lines().any(|line| line.starts_with("=>")) {
        return Err(
            "story.txt has no effects: they are written from the document, not recorded".into()
        );
    }
    let played = play::<P>(&topology, &story)?;
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

//! Conformance cases of QoS NSLP: the folders of `conformance/qos-nslp/`, each played as a story against QoS NSLP on one
//! node in virtual time. Around it is no GIST: the story says which peers there are, and what they send.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (what
//! happens, and what the node does about it); `conformance/qos-nslp/README.md` tells the grammar. With
//! `EARMARK_REWRITE=1` stories are written anew as the node plays them; without, every octet must be as it stands there.

#[path = "qos_conformance/message.rs"]
mod message;
#[path = "qos_conformance/names.rs"]
mod names;
#[path = "qos_conformance/qspec.rs"]
mod qspec;
#[path = "qos_conformance/show.rs"]
mod show;
#[path = "qos_conformance/story.rs"]
mod story;
#[allow(dead_code)] // shared with the stories of GIST
#[path = "conformance/topology.rs"]
mod topology;
#[allow(dead_code)] // shared with the stories of the other protocols, which use more of it
#[path = "../../node/tests/conformance/words.rs"]
mod words;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use similar::TextDiff;
use topology::Topology;

/// Set to 1, stories are rewritten instead of compared.
const REWRITE: &str = "EARMARK_REWRITE";

/// The sections with examples, by what the names of their cases begin with.
const EXAMPLES: [&str; 31] = [
    // RFC 5974 sections 3.2.12 (figures 4 to 6) and 4.
    "path-extension",
    "path-truncation",
    "spurious-reroute-alerting",
    "sender-initiated-",
    "query-",
    "receiver-initiated-",
    "bidirectional-sender-and-sender",
    "bidirectional-sender-and-receiver",
    "aggregation-",
    "message-binding-",
    "proxy-mode",
    // RFC 5975 sections 3.4, 4.2 and 4.3.
    "qspec-example",
    "qspec-error-flag",
    "qspec-not-supported-flag",
    "two-way-case-1",
    "two-way-case-2",
    "two-way-case-3",
    "three-way-case-1",
    "three-way-case-2",
    "three-way-case-3",
    "resource-query",
    "preemption",
    // RFC 5975 section 5.2 and appendix B.
    "parameter-tmod-1",
    "parameter-tmod-2",
    "parameter-path-latency",
    "parameter-path-jitter",
    "parameter-path-loss",
    "parameter-slack-term",
    "parameter-priorities",
    "parameter-excess-treatment",
    "parameter-classes",
];

fn main() -> ExitCode {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/qos-nslp");
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
            Trial::test(format!("qos-nslp/{name}"), move || check(&path, rewrite))
        })
        .collect();
    let names: BTreeSet<String> = cases.into_iter().map(|(name, _)| name).collect();
    trials.push(Trial::test("every_example_has_a_case", move || has_all(&names)));
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

/// Each example has the case that shows it.
fn has_all(cases: &BTreeSet<String>) -> Result<(), Failed> {
    for wanted in EXAMPLES {
        if !cases.iter().any(|case| case.starts_with(wanted)) {
            return Err(format!("no case begins with {wanted}").into());
        }
    }
    Ok(())
}

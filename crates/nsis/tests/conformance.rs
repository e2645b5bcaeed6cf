//! Conformance cases of NSIS: each folder of `conformance/nsis/` is a story that is played against GIST on one node in
//! virtual time, with an application that follows the story.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (inputs
//! and effects); `conformance/nsis/README.md` has the grammar. With `EARMARK_REWRITE=1` stories are rewritten with the
//! actual effects; otherwise every octet must match.

#[path = "conformance/application.rs"]
mod application;
#[path = "../../node/tests/conformance/folder.rs"]
mod folder;
#[path = "conformance/message.rs"]
mod message;
#[path = "conformance/story.rs"]
mod story;
#[path = "conformance/story_effects.rs"]
mod story_effects;
#[allow(dead_code)] // shared with the stories of QoS NSLP
#[path = "conformance/topology.rs"]
mod topology;
#[allow(dead_code)] // shared with the stories of the other protocols, which use more of it
#[path = "../../node/tests/conformance/words.rs"]
mod words;

use std::process::ExitCode;

use earmark_nsis::gist::machine::{QUERYING, RESPONDING, Table};
use libtest_mimic::Failed;
use topology::Topology;
use words::Fault;

fn main() -> ExitCode {
    folder::run("nsis", play, ("every_transition_and_example_has_a_case", has_all))
}

/// Plays one story.
fn play(topology: &str, story: &str) -> Result<String, Fault> {
    let topology = Topology::read(topology).map_err(|fault| format!("topology.toml: {fault}"))?;
    story::play(&topology, story).map_err(|fault| format!("story.txt: {fault}"))
}

/// The examples of RFC 5971: section 3.10 and appendix D.
const EXAMPLES: [&str; 2] = ["example-operation", "example-handshake"];

/// Checks that each numbered transition of RFC 5972 and each example has a case.
fn has_all(cases: &[String]) -> Result<(), Failed> {
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

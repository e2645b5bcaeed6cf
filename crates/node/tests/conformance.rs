//! Conformance cases: each folder of `conformance/` is a story played with a real node in virtual time.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (inputs
//! and the node's effects). With `EARMARK_REWRITE=1` stories are rewritten with the node's actual effects, so that
//! changes appear as a diff; otherwise every octet must be equal.

#[path = "conformance/diagnostics.rs"]
mod diagnostics;
#[path = "conformance/folder.rs"]
mod folder;
#[path = "conformance/message.rs"]
mod message;
#[path = "conformance/object.rs"]
mod object;
#[path = "conformance/refresh_reduction.rs"]
mod refresh_reduction;
#[path = "conformance/requirements.rs"]
mod requirements;
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

use std::process::ExitCode;

use libtest_mimic::Failed;
use topology::Topology;
use words::Fault;

fn main() -> ExitCode {
    folder::run(
        "rsvp",
        play,
        ("every_case_is_in_the_document", |names| {
            requirements::check(&folder::root(), names).map_err(Failed::from)
        }),
    )
}

/// Plays one story.
fn play(topology: &str, story: &str) -> Result<String, Fault> {
    let topology = Topology::read(topology).map_err(|fault| format!("topology.toml: {fault}"))?;
    story::play(&topology, story).map_err(|fault| format!("story.txt: {fault}"))
}

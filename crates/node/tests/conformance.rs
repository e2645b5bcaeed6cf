//! Conformance cases: the folders of `conformance/`, each played as a story against a real node in virtual time.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (what
//! happens, and what the node does about it). With `EARMARK_REWRITE=1` stories are written anew as the node plays them,
//! so that what has changed can be read as a difference; without, every octet must be as it stands there.

#[path = "conformance/diagnosis.rs"]
mod diagnosis;
#[path = "conformance/document.rs"]
mod document;
#[path = "conformance/folder.rs"]
mod folder;
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

use std::process::ExitCode;

use libtest_mimic::Failed;
use topology::Topology;
use words::Fault;

fn main() -> ExitCode {
    folder::run(
        "rsvp",
        play,
        ("every_case_is_in_the_document", |names| {
            document::check(&folder::root(), names).map_err(Failed::from)
        }),
    )
}

/// Plays one story.
fn play(topology: &str, told: &str) -> Result<String, Fault> {
    let topology = Topology::read(topology).map_err(|fault| format!("topology.toml: {fault}"))?;
    story::play(&topology, told).map_err(|fault| format!("story.txt: {fault}"))
}

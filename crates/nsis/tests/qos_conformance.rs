//! Conformance cases of QoS NSLP: each folder of `conformance/qos-nslp/` is a story that is played against QoS NSLP on
//! one node in virtual time. There is no GIST: the story defines the peers and their messages.
//!
//! A case is a `README.md` (the rule and a drawing), a `topology.toml` (the node under test) and a `story.txt` (inputs
//! and effects); `conformance/qos-nslp/README.md` has the grammar. With `EARMARK_REWRITE=1` stories are rewritten with
//! the actual effects; otherwise every octet must match.

#[path = "../../node/tests/conformance/folder.rs"]
mod folder;
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
#[path = "conformance/story_effects.rs"]
mod story_effects;
#[allow(dead_code)] // shared with the stories of GIST
#[path = "conformance/topology.rs"]
mod topology;
#[allow(dead_code)] // shared with the stories of the other protocols, which use more of it
#[path = "../../node/tests/conformance/words.rs"]
mod words;

use std::process::ExitCode;

use libtest_mimic::Failed;
use topology::Topology;
use words::Fault;

/// Sections with examples, by the prefixes of the names of their cases.
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
    folder::run("qos-nslp", play, ("every_example_has_a_case", has_all))
}

/// Plays one story.
fn play(topology: &str, story: &str) -> Result<String, Fault> {
    let topology = Topology::read(topology).map_err(|fault| format!("topology.toml: {fault}"))?;
    story::play(&topology, story).map_err(|fault| format!("story.txt: {fault}"))
}

/// Checks that each example has a case.
fn has_all(cases: &[String]) -> Result<(), Failed> {
    for wanted in EXAMPLES {
        if !cases.iter().any(|case| case.starts_with(wanted)) {
            return Err(format!("no case begins with {wanted}").into());
        }
    }
    Ok(())
}

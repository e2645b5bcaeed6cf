//! Conformance cases of NSIS: each folder of `conformance/nsis/` is a story that is played against GIST on one node in
//! virtual time, with an application that follows the story.
//!
//! `conformance/nsis/README.md` has the grammar of the stories.

#[path = "conformance/application.rs"]
mod application;
#[path = "conformance/message.rs"]
mod message;
#[allow(dead_code)] // shared with the stories of QoS NSLP
#[path = "conformance/settings.rs"]
mod settings;
#[path = "conformance/story.rs"]
mod story;
#[path = "common/task.rs"]
mod task;

use std::process::ExitCode;

use earmark_nsis::gist::machine::{QUERYING, RESPONDING, Table};
use earmark_testkit::conformance::run;
use earmark_testkit::conformance::words::Fault;

fn main() -> ExitCode {
    run::<story::Player>(("every_transition_and_example_has_a_case", has_all))
}

/// The examples of RFC 5971: section 3.10 and appendix D.
const EXAMPLES: [&str; 2] = ["example-operation", "example-handshake"];

/// Checks that each numbered transition of RFC 5972 and each example has a case.
fn has_all(cases: &[String]) -> Result<(), Fault> {
    let of = |table: &'static Table, name: &'static str| {
        let numbers = table.rows().iter().filter_map(|row| row.rule.parse::<u8>().ok());
        numbers.map(move |number| format!("{name}-{number:02}"))
    };
    let transitions = of(&QUERYING, "querying").chain(of(&RESPONDING, "responding"));
    for wanted in transitions.chain(EXAMPLES.map(String::from)) {
        if !cases.iter().any(|case| case.starts_with(&wanted)) {
            return Err(format!("no case begins with {wanted}"));
        }
    }
    Ok(())
}

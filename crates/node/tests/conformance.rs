//! Conformance cases of RSVP: each folder of `conformance/rsvp/` is a story played with a real node in virtual time.
//!
//! `conformance/README.md` has the grammar of the stories.

#[path = "conformance/diagnostics.rs"]
mod diagnostics;
#[path = "conformance/message.rs"]
mod message;
#[path = "conformance/object.rs"]
mod object;
#[path = "conformance/refresh_reduction.rs"]
mod refresh_reduction;
#[path = "conformance/settings.rs"]
mod settings;
#[path = "conformance/show.rs"]
mod show;
#[path = "conformance/signing.rs"]
mod signing;
#[path = "conformance/story.rs"]
mod story;

use std::process::ExitCode;

use earmark_testkit::conformance::run_listed;

fn main() -> ExitCode {
    run_listed::<story::Player>()
}

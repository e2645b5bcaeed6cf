//! Conformance cases of Boomerang: each folder of `conformance/boomerang/` is a story that is played against one node in
//! virtual time.
//!
//! `conformance/boomerang/README.md` has the grammar of the stories.

mod common;
#[path = "conformance/show.rs"]
mod show;
#[path = "conformance/story.rs"]
mod story;

use std::process::ExitCode;

use earmark_testkit::conformance::datagrams::Player;
use earmark_testkit::conformance::run_listed;

fn main() -> ExitCode {
    run_listed::<Player<story::Story>>()
}

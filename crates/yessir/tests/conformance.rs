//! Conformance cases of YESSIR: each folder of `conformance/yessir/` is a story that is played against one node in
//! virtual time.
//!
//! `conformance/yessir/README.md` has the grammar of the stories.

#[path = "conformance/report.rs"]
mod report;
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

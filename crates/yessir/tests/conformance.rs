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

use earmark_testkit::conformance::{Protocol, lists, run};

fn main() -> ExitCode {
    run::<story::Player>(("every_case_is_in_the_document", |cases| {
        lists::check(story::Player::FOLDER, cases)
    }))
}

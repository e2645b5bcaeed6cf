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

use earmark_testkit::conformance::{Protocol, lists, run};

fn main() -> ExitCode {
    run::<story::Player>(("every_case_is_in_the_document", |cases| {
        lists::check(story::Player::FOLDER, cases)
    }))
}

//! Conformance cases of NATFW NSLP: each folder of `conformance/natfw-nslp/` is a story that is played against NATFW NSLP
//! on one node in virtual time. There is no GIST: the story defines the peers and their messages.
//!
//! `conformance/natfw-nslp/README.md` has the grammar of the stories.

#[path = "natfw_conformance/message.rs"]
mod message;
#[path = "natfw_conformance/names.rs"]
mod names;
#[allow(dead_code)] // shared with the stories of QoS NSLP
#[path = "common/nslp_story.rs"]
mod nslp_story;
#[path = "natfw_conformance/objects.rs"]
mod objects;
#[allow(dead_code)] // shared with the stories of QoS NSLP
#[path = "conformance/settings.rs"]
mod settings;
#[path = "natfw_conformance/show.rs"]
mod show;
#[path = "natfw_conformance/story.rs"]
mod story;

use std::process::ExitCode;

use earmark_testkit::conformance::run_listed;

fn main() -> ExitCode {
    run_listed::<story::Player>()
}

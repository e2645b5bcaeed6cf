//! Conformance cases of QoS NSLP: each folder of `conformance/qos-nslp/` is a story that is played against QoS NSLP on
//! one node in virtual time. There is no GIST: the story defines the peers and their messages.
//!
//! `conformance/qos-nslp/README.md` has the grammar of the stories.

#[path = "qos_conformance/message.rs"]
mod message;
#[path = "qos_conformance/names.rs"]
mod names;
#[path = "common/nslp_story.rs"]
mod nslp_story;
#[path = "qos_conformance/qspec.rs"]
mod qspec;
#[path = "conformance/settings.rs"]
mod settings;
#[path = "qos_conformance/show.rs"]
mod show;
#[path = "qos_conformance/story.rs"]
mod story;

use std::process::ExitCode;

use earmark_testkit::conformance::run;
use earmark_testkit::conformance::words::Fault;

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
    run::<story::Player>(("every_example_has_a_case", has_all))
}

/// Checks that each example has a case.
fn has_all(cases: &[String]) -> Result<(), Fault> {
    for wanted in EXAMPLES {
        if !cases.iter().any(|case| case.starts_with(wanted)) {
            return Err(format!("no case begins with {wanted}"));
        }
    }
    Ok(())
}

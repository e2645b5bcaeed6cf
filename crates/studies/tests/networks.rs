//! Measurements with real daemons in network namespaces, each in its smallest form.
//!
//! Without the privileges for namespaces every test is shown as ignored, with the reason. Tests run one after the
//! other, because they measure times and losses; each cleans up after itself, also when it fails.

#[path = "networks/forwarding.rs"]
mod forwarding;
#[path = "networks/forwarding_latency.rs"]
mod forwarding_latency;
#[path = "networks/nsis.rs"]
mod nsis;
#[path = "networks/observed.rs"]
mod observed;
#[path = "networks/profile.rs"]
mod profile;
#[path = "networks/rates.rs"]
mod rates;
#[path = "networks/reduction.rs"]
mod reduction;
#[path = "networks/scale.rs"]
mod scale;

use std::process::ExitCode;

use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Failed>;
type Test = fn() -> Outcome;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let obstacle = testbed::obstacle();
    let tests: [(&str, Test); 18] = [
        ("many_sessions_outlive_a_daemon", reduction::many_sessions_outlive_a_daemon),
        ("nsis_sets_up_by_every_transport", nsis::set_ups_by_every_transport),
        ("nsis_associations_end_without_use", nsis::associations_end_without_use),
        ("natfw_pinholes_are_set_up", nsis::pinholes_are_set_up_one_after_the_other),
        ("nsis_sessions_are_refreshed", nsis::resident_sessions_are_refreshed),
        ("nsis_pings_come_back", nsis::pings_come_back),
        ("messages_pass_both_checkpoints", forwarding_latency::messages_pass_both_checkpoints),
        ("the_offload_sets_up_loops", forwarding_latency::the_offload_sets_up_loops),
        ("nsis_sessions_stand_and_are_pinged", nsis::sessions_stand_and_are_pinged),
        ("nsis_sessions_are_held", nsis::sessions_are_held),
        ("nsis_messages_are_timed_in_a_router", nsis::messages_are_timed_in_a_router),
        ("rates_pairs_of_every_protocol_go_through", rates::pairs_of_every_protocol_go_through),
        ("forwarding_routers_are_compared", forwarding::routers_are_compared),
        (
            "forwarding_flood_takes_nothing_from_a_flow_within_its_rate",
            forwarding::flood_takes_nothing_from_a_flow_within_its_rate,
        ),
        (
            "scale_few_sessions_are_installed_and_counted",
            scale::few_sessions_are_installed_and_counted,
        ),
        ("rates_sessions_of_every_protocol_stand", rates::sessions_of_every_protocol_stand),
        ("profile_interrupted_leaves_the_file", profile::interrupted_leaves_the_file),
        ("observed_daemons_serve_everybody", observed::daemons_are_observed),
    ];
    let trial = |(name, test): (&str, Test)| match &obstacle {
        None => Trial::test(name, test),
        // The runner shows a reason only as part of the name.
        Some(reason) => Trial::test(format!("{name} ({reason})"), test).with_ignored_flag(true),
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

//! What networks do for their streams: groups with branches, routes that change, neighbours that die, IPv6, ten
//! thousand sessions. Real daemons, real traffic control, real packets, each node in a network namespace of its own.
//!
//! Without the privileges for namespaces every test is shown as ignored, with the reason. They run one after the other,
//! since they measure losses; each cleans up what it made, also when it fails, and waits for nothing longer than a bound.

#[path = "networks/changes.rs"]
mod changes;
#[path = "shared/classes.rs"]
mod classes;
#[path = "networks/multicast.rs"]
mod multicast;
#[path = "networks/net.rs"]
mod net;
#[path = "networks/reduction.rs"]
mod reduction;
#[path = "networks/stream.rs"]
mod stream;
#[path = "networks/unicast.rs"]
mod unicast;

use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Failed>;
type Test = fn() -> Outcome;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let obstacle = testbed::obstacle();
    let tests: [(&str, Test); 8] = [
        ("each_branch_of_a_group_has_what_its_receiver_asked", multicast::branches_over_ipv4),
        ("each_branch_of_an_ipv6_group_has_what_its_receiver_asked", multicast::branches_over_ipv6),
        ("senders_share_a_wildcard_reservation", multicast::senders_share),
        ("a_reservation_follows_the_route", changes::a_reservation_follows_the_route),
        ("a_neighbor_that_dies_is_forgotten", changes::a_neighbor_that_dies_is_forgotten),
        ("a_daemon_that_dies_is_passed_over", changes::a_daemon_that_dies_is_passed_over),
        ("a_stream_over_ipv6_keeps_its_rate", unicast::a_stream_over_ipv6_keeps_its_rate),
        ("many_sessions_outlive_a_daemon", reduction::many_sessions_outlive_a_daemon),
    ];
    let trials = tests.into_iter().map(|(name, test)| match &obstacle {
        None => Trial::test(name, test),
        // The runner shows no reason but what is in the name.
        Some(reason) => Trial::test(format!("{name} ({reason})"), test).with_ignored_flag(true),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

//! Streams through networks: groups with branches, changing routes, dying neighbors, IPv6;
//! loops of Boomerang, reservations by YESSIR and by NSIS. Real daemons, real traffic control, real packets, each
//! node in a network namespace of its own.
//!
//! Without the privileges for namespaces every test is shown as ignored, with the reason. Tests run one after the
//! other, because they measure losses; each cleans up after itself, also when it fails, and every wait has a timeout.

#[path = "networks/boomerang.rs"]
mod boomerang;
#[path = "networks/captured.rs"]
mod captured;
#[path = "networks/changes.rs"]
mod changes;
#[path = "networks/claims.rs"]
mod claims;
#[path = "shared/classes.rs"]
mod classes;
#[path = "shared/engine_event.rs"]
mod engine_event;
#[path = "networks/ffmpeg.rs"]
mod ffmpeg;
#[path = "networks/hops.rs"]
mod hops;
#[path = "networks/interworking.rs"]
mod interworking;
#[path = "networks/middleboxes.rs"]
mod middleboxes;
#[path = "networks/multicast.rs"]
mod multicast;
#[path = "networks/net.rs"]
mod net;
#[path = "networks/ospf.rs"]
mod ospf;
#[path = "networks/qos.rs"]
mod qos;
#[path = "networks/readme.rs"]
mod readme;
#[path = "networks/stream.rs"]
mod stream;
#[path = "networks/unicast.rs"]
mod unicast;
#[path = "networks/yessir.rs"]
mod yessir;

use std::process::ExitCode;

use earmark_lab::testbed;
use libtest_mimic::{Arguments, Failed, Trial};

type Outcome = Result<(), Failed>;
type Test = fn() -> Outcome;

fn main() -> ExitCode {
    if readme::is_command() {
        return earmark::cli::main();
    }
    let mut arguments = Arguments::from_args();
    // The tests wait more than they compute.
    arguments.test_threads = arguments.test_threads.or(Some(2));
    let obstacle = testbed::obstacle();
    let tests: [(&str, Test); 30] = [
        (
            "a_path_is_open_while_its_session_lives",
            middleboxes::a_path_is_open_while_its_session_lives,
        ),
        (
            "an_exposed_port_is_reached_by_who_asked",
            middleboxes::an_exposed_port_is_reached_by_who_asked,
        ),
        (
            "a_path_over_ipv6_is_open_while_its_session_lives",
            middleboxes::a_path_over_ipv6_is_open_while_its_session_lives,
        ),
        (
            "a_translated_path_is_reserved_in_both_directions",
            middleboxes::a_translated_path_is_reserved_in_both_directions,
        ),
        ("each_branch_of_a_group_has_what_its_receiver_asked", multicast::branches_over_ipv4),
        ("each_branch_of_an_ipv6_group_has_what_its_receiver_asked", multicast::branches_over_ipv6),
        ("senders_share_a_wildcard_reservation", multicast::senders_share),
        ("a_reservation_follows_the_route", changes::a_reservation_follows_the_route),
        ("a_neighbor_that_dies_is_forgotten", changes::a_neighbor_that_dies_is_forgotten),
        ("a_router_without_its_daemon_is_skipped", changes::a_router_without_its_daemon_is_skipped),
        (
            "a_stream_keeps_the_best_of_its_reservations",
            claims::a_stream_keeps_the_best_of_its_reservations,
        ),
        ("a_stream_over_ipv6_keeps_its_rate", unicast::a_stream_over_ipv6_keeps_its_rate),
        (
            "a_reservation_for_one_security_association",
            unicast::a_reservation_for_one_security_association,
        ),
        (
            "hosts_inside_udp_keep_their_reservation",
            unicast::hosts_inside_udp_keep_their_reservation,
        ),
        ("flows_cross_a_core_in_one_aggregate", interworking::flows_cross_a_core_in_one_aggregate),
        (
            "flows_cross_a_core_in_one_session_of_rsvp",
            interworking::flows_cross_a_core_in_one_session_of_rsvp,
        ),
        (
            "flows_cross_a_core_in_one_session_over_ipv6",
            interworking::flows_cross_a_core_in_one_session_over_ipv6,
        ),
        ("a_loop_reserves_both_ways", boomerang::both_ways_over_ipv4),
        ("a_loop_reserves_both_ways_over_ipv6", boomerang::both_ways_over_ipv6),
        ("each_way_of_a_loop_has_its_own_route", boomerang::each_way_has_its_own_route),
        (
            "a_refused_loop_is_offered_the_available_rate",
            boomerang::a_refusal_offers_the_available_rate,
        ),
        ("silence_ends_a_loop", boomerang::silence_ends_a_loop),
        ("a_loop_to_a_group_is_not_answered", boomerang::a_group_is_reserved_for_without_an_answer),
        ("reports_reserve_for_a_stream", yessir::a_stream_over_ipv4),
        ("reports_reserve_for_a_stream_over_ipv6", yessir::a_stream_over_ipv6),
        (
            "a_stream_may_be_reserved_on_part_of_its_path",
            yessir::a_stream_may_be_reserved_on_part_of_its_path,
        ),
        ("silence_ends_a_stream", yessir::silence_ends_a_stream),
        ("a_reservation_by_nsis_follows_the_route", qos::a_reservation_by_nsis_follows_the_route),
        ("flows_of_all_protocols_are_traced", hops::flows_of_all_protocols_are_traced),
        ("readme_commands_have_the_outcomes_shown", readme::commands_have_the_outcomes_shown),
    ];
    let trial = |(name, test): (&str, Test), obstacle: Option<&String>| match obstacle {
        None => Trial::test(name, test),
        // The runner shows a reason only as part of the name.
        Some(reason) => Trial::test(format!("{name} ({reason})"), test).with_ignored_flag(true),
    };
    let mut trials: Vec<Trial> =
        tests.into_iter().map(|test| trial(test, obstacle.as_ref())).collect();
    let with_tools: [(&str, Test, Option<String>); 4] = [
        ("messages_can_be_read", captured::messages_can_be_read_over_ipv4, captured::obstacle()),
        (
            "messages_can_be_read_over_ipv6",
            captured::messages_can_be_read_over_ipv6,
            captured::obstacle(),
        ),
        (
            "a_stream_of_ffmpeg_is_measured",
            ffmpeg::a_stream_of_ffmpeg_is_measured,
            ffmpeg::obstacle(),
        ),
        ("ospf_adjacency_survives_a_flood", ospf::adjacency_survives_a_flood, ospf::obstacle()),
    ];
    for (name, test, missing) in with_tools {
        trials.push(trial((name, test), obstacle.as_ref().or(missing.as_ref())));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

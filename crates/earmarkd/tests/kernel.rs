//! Daemons as processes, each in a network namespace of its own: start, refusal, service, stop and restart.
//!
//! The tests create their namespaces and remove them even if they fail; without root they are listed as ignored.

#[path = "kernel/both_paths.rs"]
mod both_paths;
#[path = "kernel/change.rs"]
mod change;
#[path = "kernel/clear.rs"]
mod clear;
#[path = "kernel/config_change.rs"]
mod config_change;
#[path = "kernel/flow_routes.rs"]
mod flow_routes;
#[path = "kernel/history.rs"]
mod history;
#[path = "kernel/host.rs"]
mod host;
#[path = "kernel/interfaces.rs"]
mod interfaces;
#[path = "kernel/limits.rs"]
mod limits;
#[path = "kernel/log.rs"]
mod log;
#[path = "kernel/metrics.rs"]
mod metrics;
#[path = "kernel/natfw.rs"]
mod natfw;
#[path = "kernel/newer_state.rs"]
mod newer_state;
#[path = "kernel/nsis.rs"]
mod nsis;
#[path = "kernel/offload.rs"]
mod offload;
#[path = "kernel/outcomes.rs"]
mod outcomes;
#[path = "kernel/packet_filter.rs"]
mod packet_filter;
#[path = "kernel/page.rs"]
mod page;
#[path = "kernel/path.rs"]
mod path;
#[path = "kernel/port_flood.rs"]
mod port_flood;
#[path = "kernel/privileges.rs"]
mod privileges;
#[path = "kernel/process.rs"]
mod process;
#[path = "kernel/reservations.rs"]
mod reservations;
#[path = "kernel/service_manager.rs"]
mod service_manager;
#[path = "kernel/tunnel.rs"]
mod tunnel;

use std::process::ExitCode;

use host::Outcome;
use libtest_mimic::{Arguments, Trial};

type Test = (&'static str, fn() -> Outcome);

const ADDRESS_TRANSLATION: &str = "outcome_behind_address_translation";

/// Tests that run programs that may not be installed.
const NEEDS: [(&str, &str); 12] = [
    ("promtool_finds_no_fault", "promtool"),
    ("prometheus_scrapes_a_daemon_under_load", "prometheus"),
    ("foreign_packet_filter_is_an_error", "nft"),
    ("a_daemon_of_an_ordinary_user_serves_and_adopts", "setpriv"),
    ("unit_is_hardened", "systemd-analyze"),
    ("readers_operators_and_strangers_are_told_apart", "setpriv"),
    ("bandwidth_follows_the_speed", "ethtool"),
    ("segmentation_offload_on_a_slow_link_is_warned_of_once", "ethtool"),
    ("link_without_ethernet_takes_reservations", "python3"),
    ("flow_in_a_tunnel_is_reserved_below", "python3"),
    ("reservations_of_newer_version_are_refused_and_left", "python3"),
    ("packet_filter_of_newer_version_is_refused_and_left", "nft"),
];

fn main() -> ExitCode {
    if host::is_command() {
        return earmark::cli::main();
    }
    let root = rustix::process::geteuid().is_root();
    let mut tests: Vec<Test> = vec![
        (
            "a_daemon_becomes_its_user_and_still_serves",
            process::a_daemon_becomes_its_user_and_still_serves,
        ),
        ("a_daemon_serves_and_ends_in_good_order", process::a_daemon_serves_and_ends_in_good_order),
        (
            "readers_operators_and_strangers_are_told_apart",
            process::readers_operators_and_strangers_are_told_apart,
        ),
        (
            "recording_is_private_and_the_log_has_no_seed",
            process::recording_is_private_and_the_log_has_no_seed,
        ),
        (
            "a_daemon_of_an_ordinary_user_serves_and_adopts",
            privileges::a_daemon_of_an_ordinary_user_serves_and_adopts,
        ),
        ("syscall_filter_can_be_switched_off", privileges::syscall_filter_can_be_switched_off),
        ("unit_is_hardened", privileges::unit_is_hardened),
        (
            "stalled_reader_of_the_log_holds_nothing_up",
            log::stalled_reader_of_the_log_holds_nothing_up,
        ),
        ("level_of_the_log_ends_by_itself", log::level_of_the_log_ends_by_itself),
        (
            "service_manager_is_told_of_start_reload_and_end",
            service_manager::service_manager_is_told_of_start_reload_and_end,
        ),
        (
            "watchdog_hears_from_an_idle_daemon_and_not_from_a_stopped_one",
            service_manager::watchdog_hears_from_an_idle_daemon_and_not_from_a_stopped_one,
        ),
        (
            "settings_are_taken_back_in_time_and_reservations_stay",
            config_change::settings_are_taken_back_in_time_and_reservations_stay,
        ),
        (
            "killed_daemon_is_followed_by_one_with_the_earlier_settings",
            config_change::killed_daemon_is_followed_by_one_with_the_earlier_settings,
        ),
        (
            "daemon_that_has_changed_its_user_has_no_way_back",
            config_change::daemon_that_has_changed_its_user_has_no_way_back,
        ),
        ("a_daemon_serves_without_its_log", process::a_daemon_serves_without_its_log),
        ("a_second_daemon_is_refused", process::a_second_daemon_is_refused),
        ("a_socket_that_is_served_is_refused", process::a_socket_that_is_served_is_refused),
        ("a_killed_daemon_is_replaced", process::a_killed_daemon_is_replaced),
        ("without_privileges_it_says_which", process::without_privileges_it_says_which),
        ("reservation_of_nsis_changes", change::reservation_of_nsis_changes),
        ("reservation_of_boomerang_changes", change::reservation_of_boomerang_changes),
        ("reservation_of_yessir_changes", change::reservation_of_yessir_changes),
        ("reservation_of_rsvp_receiver_changes", change::reservation_of_rsvp_receiver_changes),
        ("announcement_of_rsvp_changes", change::announcement_of_rsvp_changes),
        ("followed_change_ends_with_its_client", change::followed_change_ends_with_its_client),
        ("two_daemons_reserve_and_refuse", reservations::two_daemons_reserve_and_refuse),
        (
            "overhead_of_a_link_is_counted_for_every_protocol",
            reservations::overhead_of_a_link_is_counted_for_every_protocol,
        ),
        ("reservations_show_their_traffic", reservations::reservations_show_their_traffic),
        ("two_daemons_reserve_over_ipv6", reservations::two_daemons_reserve_over_ipv6),
        (
            "a_reservation_survives_kill_and_restart",
            process::a_reservation_survives_kill_and_restart,
        ),
        (
            "a_host_without_raw_sockets_signals_inside_udp",
            reservations::a_host_without_raw_sockets_signals_inside_udp,
        ),
        (
            "the_kernel_refreshes_loops_of_boomerang",
            offload::the_kernel_refreshes_loops_of_boomerang,
        ),
        ("the_kernel_sets_up_loops_of_boomerang", offload::the_kernel_sets_up_loops_of_boomerang),
        ("kernel_and_daemon_agree", both_paths::agree),
        ("kernel_and_daemon_agree_where_they_did_not", both_paths::agree_where_they_did_not),
        ("a_flood_of_loops_is_limited", limits::a_flood_of_loops_is_limited),
        (
            "a_flood_of_loops_is_limited_in_the_kernel_too",
            limits::a_flood_of_loops_is_limited_in_the_kernel_too,
        ),
        ("a_flood_of_reports_is_limited", limits::a_flood_of_reports_is_limited),
        ("port_that_floods_delays_no_other", port_flood::port_that_floods_delays_no_other),
        ("nsis_ping_shows_every_node", nsis::ping_shows_every_node),
        ("nsis_datagrams_reserve_and_refuse", nsis::datagrams_reserve_and_refuse),
        ("nsis_connections_reserve_and_are_shared", nsis::connections_reserve_and_are_shared),
        ("nsis_tls_reserves_for_those_who_are_let_in", nsis::tls_reserves_for_those_who_are_let_in),
        ("nsis_receiver_reserves_the_way_back", nsis::a_receiver_reserves_the_way_back),
        (
            "nsis_neighbor_that_stands_still_hinders_nobody",
            nsis::a_neighbor_that_stands_still_hinders_nobody,
        ),
        ("nsis_daemon_that_comes_back_is_found", nsis::a_daemon_that_comes_back_is_found),
        ("nsis_settings_change", nsis::settings_of_nsis_change),
        (
            "natfw_exposed_port_gets_an_external_address",
            natfw::exposed_port_gets_an_external_address,
        ),
        (
            "natfw_pinhole_lets_data_through_a_guarded_interface",
            natfw::pinhole_lets_data_through_a_guarded_interface,
        ),
        ("natfw_path_is_opened_and_held", natfw::path_is_opened_and_held),
        ("interface_that_comes_late_is_waited_for", interfaces::one_that_comes_late_is_waited_for),
        (
            "interface_that_a_reload_adds_is_waited_for",
            interfaces::one_that_a_reload_adds_is_waited_for,
        ),
        ("interface_that_is_renamed_is_given_back", interfaces::one_that_is_renamed_is_given_back),
        (
            "interface_with_foreign_queues_is_tried_again",
            interfaces::one_with_foreign_queues_is_tried_again,
        ),
        (
            "interface_that_moves_to_another_namespace_comes_back",
            interfaces::one_that_moves_to_another_namespace_comes_back,
        ),
        (
            "interface_that_flaps_is_taken_over_now_and_then",
            interfaces::one_that_flaps_is_taken_over_now_and_then,
        ),
        (
            "carrier_and_address_may_come_later_and_change",
            interfaces::carrier_and_address_may_come_later_and_change,
        ),
        (
            "bandwidth_is_the_speed_that_the_driver_tells",
            interfaces::bandwidth_is_the_speed_that_the_driver_tells,
        ),
        ("bandwidth_follows_the_speed", interfaces::bandwidth_follows_the_speed),
        (
            "segmentation_offload_on_a_slow_link_is_warned_of_once",
            interfaces::segmentation_offload_on_a_slow_link_is_warned_of_once,
        ),
        (
            "what_is_left_is_cleared_once_no_daemon_runs",
            clear::what_is_left_is_cleared_once_no_daemon_runs,
        ),
        ("history_of_every_protocol", history::every_protocol_has_records),
        ("history_says_why_a_reservation_ended", history::records_say_why_a_reservation_ended),
        ("history_continues_after_a_kill", history::records_continue_after_a_kill),
        (
            "history_agrees_with_the_source_after_kills",
            history::records_agree_with_the_source_after_kills,
        ),
        ("history_waits_for_the_database", history::records_wait_for_the_database),
        ("history_in_a_journal_in_use_is_an_error", history::journal_in_use_is_an_error),
        (
            "page_of_an_operator_reserves_and_releases",
            page::page_of_an_operator_reserves_and_releases,
        ),
        ("page_of_a_reader_changes_nothing", page::page_of_a_reader_changes_nothing),
        (
            "page_at_a_unix_socket_has_the_roles_of_the_control_socket",
            page::page_at_a_unix_socket_has_the_roles_of_the_control_socket,
        ),
        (
            "page_token_that_others_may_read_is_an_error",
            page::token_that_others_may_read_is_an_error,
        ),
        ("page_of_five_hundred_tabs_delays_nobody", page::five_hundred_tabs_delay_nobody),
        ("metrics_show_what_is_reserved", metrics::metrics_show_what_is_reserved),
        ("metrics_at_an_address_in_use_are_an_error", metrics::address_in_use_is_an_error),
        ("promtool_finds_no_fault", metrics::promtool_finds_no_fault),
        ("prometheus_scrapes_a_daemon_under_load", metrics::prometheus_scrapes_a_daemon_under_load),
        (
            "failed_start_leaves_only_what_was_reserved",
            clear::failed_start_leaves_only_what_was_reserved,
        ),
        (
            "reservations_of_newer_version_are_refused_and_left",
            newer_state::reservations_of_newer_version_are_refused_and_left,
        ),
        (
            "packet_filter_of_newer_version_is_refused_and_left",
            newer_state::packet_filter_of_newer_version_is_refused_and_left,
        ),
        ("what_is_adopted_in_time_stays", clear::what_is_adopted_in_time_stays),
        (
            "packet_filter_is_adopted_repaired_and_left",
            packet_filter::packet_filter_is_adopted_repaired_and_left,
        ),
        ("foreign_packet_filter_is_an_error", packet_filter::foreign_packet_filter_is_an_error),
        (
            "clearing_is_scheduled_after_the_adoption_time",
            clear::clearing_is_scheduled_after_the_adoption_time,
        ),
        (
            "link_without_ethernet_takes_reservations",
            interfaces::link_without_ethernet_takes_reservations,
        ),
        ("flow_in_a_tunnel_is_reserved_below", tunnel::flow_in_a_tunnel_is_reserved_below),
        ("events_name_interfaces", interfaces::events_name_interfaces),
        ("alternative_name_is_explained", interfaces::alternative_name_is_explained),
        ("outcome_of_only_the_sender", outcomes::only_the_sender_takes_part),
        ("outcome_of_both_ends", outcomes::both_ends_take_part),
        ("outcome_of_one_router", outcomes::one_router_takes_part),
        ("outcome_of_all_routers", outcomes::all_routers_take_part),
        ("outcome_of_everybody", outcomes::everybody_takes_part),
        (ADDRESS_TRANSLATION, outcomes::address_translation_is_named),
        (
            "settings_change_and_reservations_stay",
            reservations::settings_change_and_reservations_stay,
        ),
        (
            "keys_change_and_broken_file_does_not",
            reservations::keys_change_and_broken_file_does_not,
        ),
        (
            "queues_that_are_taken_over_void_reservations",
            reservations::queues_that_are_taken_over_void_reservations,
        ),
    ];
    let by_flow: [Test; 15] = [
        ("path_of_plain_route_is_told", path::plain_route_is_told),
        ("path_of_ipv6_is_told", path::ipv6_is_told),
        ("path_names_the_link_of_real_packets", path::link_of_real_packets_is_named),
        ("path_follows_rules_by_source_and_mark", path::rules_by_source_and_mark_are_followed),
        ("path_that_is_refused_is_said", path::refusals_are_said),
        ("path_names_the_governing_claim", path::claims::governing_claim_is_named),
        ("path_warns_of_reservation_elsewhere", path::claims::reservation_elsewhere_is_warned_of),
        ("path_names_a_foreign_qdisc", path::claims::foreign_qdisc_is_named),
        ("path_of_malformed_question_is_rejected", path::malformed_questions_are_rejected),
        ("rsvp_is_on_the_link_of_its_flow", flow_routes::rsvp_is_on_the_link_of_its_flow),
        ("rsvp_is_on_the_link_of_its_ipv6_flow", flow_routes::rsvp_is_on_the_link_of_its_ipv6_flow),
        (
            "reservations_follow_the_marks_of_the_settings",
            flow_routes::reservations_follow_the_marks_of_the_settings,
        ),
        ("boomerang_is_on_the_link_of_its_flow", flow_routes::boomerang_is_on_the_link_of_its_flow),
        ("yessir_is_on_the_link_of_its_flow", flow_routes::yessir_is_on_the_link_of_its_flow),
        ("nsis_is_on_the_link_of_its_flow", flow_routes::nsis_is_on_the_link_of_its_flow),
    ];
    let without_ip = !flow_routes::has_iproute2();
    let missing = |name: &str| {
        let needs = NEEDS.iter().find(|(needy, _)| *needy == name).map(|(_, tool)| *tool);
        let needs_ip = by_flow.iter().any(|(needy, _)| *needy == name) && without_ip;
        let needs_nft = name == ADDRESS_TRANSLATION && !outcomes::can_translate();
        let needs = needs.filter(|tool| !interfaces::is_installed(tool));
        needs.or(needs_ip.then_some("iproute2")).or(needs_nft.then_some("nft"))
    };
    tests.extend(by_flow);
    let trials = tests.into_iter().map(|(name, test)| {
        if let Some(tool) = missing(name) {
            Trial::test(name, test).with_kind(format!("needs {tool}")).with_ignored_flag(true)
        } else if root {
            Trial::test(name, test)
        } else {
            // The kind is the only reason that the runner prints for an ignored test.
            Trial::test(name, test).with_kind("needs root").with_ignored_flag(true)
        }
    });
    let mut arguments = Arguments::from_args();
    // Most tests wait more than they compute.
    arguments.test_threads = arguments.test_threads.or(Some(4));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

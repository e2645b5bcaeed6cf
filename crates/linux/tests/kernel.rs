//! Tests against the running kernel, in network namespaces of their own.
//!
//! Each test creates the namespaces that it needs and removes them again, also when it fails or hangs: a test that
//! exceeds its time limit fails, and its namespaces are deleted. Without root all tests are reported as ignored.

#[path = "kernel/added_protocol.rs"]
mod added_protocol;
#[path = "kernel/aggregate.rs"]
mod aggregate;
#[path = "kernel/boomerang.rs"]
mod boomerang;
#[path = "kernel/claims.rs"]
mod claims;
#[path = "kernel/classes.rs"]
mod classes;
#[path = "kernel/classification.rs"]
mod classification;
#[path = "kernel/control_traffic.rs"]
mod control_traffic;
#[path = "kernel/encapsulation.rs"]
mod encapsulation;
#[path = "kernel/enforcement.rs"]
mod enforcement;
#[path = "kernel/epoll_set.rs"]
mod epoll_set;
#[path = "kernel/filter_table.rs"]
mod filter_table;
#[path = "kernel/flood.rs"]
mod flood;
#[path = "kernel/flow_routes.rs"]
mod flow_routes;
#[path = "kernel/gist.rs"]
mod gist;
#[path = "kernel/guarded.rs"]
mod guarded;
#[path = "kernel/interception.rs"]
mod interception;
#[path = "kernel/interface.rs"]
mod interface;
#[path = "kernel/lookup.rs"]
mod lookup;
#[path = "kernel/marking.rs"]
mod marking;
#[path = "kernel/mirror.rs"]
mod mirror;
#[path = "kernel/namespaces.rs"]
mod namespaces;
#[path = "kernel/object.rs"]
mod object;
#[path = "kernel/offload.rs"]
mod offload;
#[path = "kernel/packets.rs"]
mod packets;
#[path = "kernel/pinholes.rs"]
mod pinholes;
#[path = "kernel/signalling.rs"]
mod signalling;
#[path = "kernel/source.rs"]
mod source;
#[path = "kernel/support.rs"]
mod support;
#[path = "kernel/traffic_control.rs"]
mod traffic_control;
#[path = "kernel/translation.rs"]
mod translation;
#[path = "kernel/without_bpf.rs"]
mod without_bpf;
#[path = "kernel/yessir.rs"]
mod yessir;

use std::process::ExitCode;

use earmark_linux::ClassifierChoice;
use libtest_mimic::{Arguments, Conclusion, Trial};
use rustix::thread::CapabilitySet;

/// Returns a list of what `make` makes of each test and its name, which is the path of its function.
macro_rules! list {
    ($make:expr; $($module:ident::$test:ident,)*) => {
        vec![$($make(concat!(stringify!($module), "::", stringify!($test)), $module::$test)),*]
    };
}

fn main() -> ExitCode {
    flood::run_as_daemon_if_requested();
    let mut trials = list![trial;
        namespaces::command_runs_inside_the_namespace,
        namespaces::dropped_namespace_is_deleted,
        namespaces::unnamed_namespace_has_no_mount,
        interface::error_message_names_the_interface,
        interface::speed_is_that_of_the_driver,
        interface::unchecked_sources_are_recognized,
        source::packet_reaches_a_socket_unless_a_sink_drops_it,
        source::interface_receives_by_a_thread,
        signalling::message_in_transit_is_intercepted_and_sent_on,
        signalling::message_without_router_alert_is_forwarded,
        signalling::message_longer_than_the_mtu_arrives_whole,
        signalling::message_passes_others_to_silent_addresses,
        signalling::many_messages_in_one_call_arrive_in_order,
        epoll_set::single_message_takes_one_turn,
        epoll_set::many_messages_are_received_in_batches,
        signalling::ipv6_message_in_transit_is_intercepted_and_sent_on,
        signalling::message_to_a_link_local_address_arrives,
        interception::path_to_a_group_is_intercepted_once,
        interception::message_without_router_alert_is_intercepted,
        interception::message_for_a_full_ring_is_counted,
        boomerang::message_in_transit_is_intercepted_both_ways,
        boomerang::message_for_this_host_is_intercepted,
        boomerang::other_ping_is_answered,
        boomerang::ten_thousand_sessions_lose_no_message,
        yessir::message_is_intercepted_in_transit_and_copied_at_its_end,
        yessir::other_packet_is_forwarded,
        yessir::sender_report_is_copied,
        added_protocol::message_through_a_router_is_received_and_forwarded,
        added_protocol::number_in_use_is_refused,
        gist::message_in_transit_is_intercepted,
        gist::other_packet_is_forwarded,
        gist::message_for_this_host_is_intercepted,
        gist::message_without_bpf_is_received_by_raw_sockets,
        gist::port_in_use_is_refused,
        gist::interface_set_without_privilege_is_served,
        offload::entered_session_is_refreshed_by_the_kernel,
        offload::other_message_goes_to_the_daemon,
        offload::message_of_another_origin_goes_to_the_daemon,
        offload::malformed_packet_is_not_offloaded,
        offload::session_is_set_up_and_released_by_the_kernel,
        offload::copy_does_not_wake_the_daemon,
        offload::initiating_node_is_limited_to_its_allowance,
        offload::shares_after_a_flood_are_accounted_for,
        without_bpf::boomerang_message_is_received_by_raw_sockets,
        without_bpf::yessir_message_is_received_by_raw_sockets,
        encapsulation::host_without_raw_sockets_signals_through_its_router,
        encapsulation::interface_without_udp_ignores_messages_inside_udp,
        signalling::second_daemon_is_refused,
        mirror::changed_addresses_and_routes_are_reported,
        mirror::link_that_goes_down_removes_its_routes,
        mirror::burst_that_overflows_the_socket_is_resynchronized,
        mirror::multicast_forwarding_entry_is_reported,
        mirror::unannounced_change_is_found,
        aggregate::reserved_stream_in_a_flood_loses_nothing,
        aggregate::flow_above_its_bucket_harms_no_other,
        aggregate::buckets_after_a_restart_are_adopted,
        aggregate::seventy_thousand_reservations_are_installed,
        aggregate::aggregate_without_bpf_is_refused,
        claims::random_sequence_equals_the_model,
        claims::claim_has_the_time_of_its_installation,
        claims::small_claim_after_adoption_takes_nothing,
        claims::thousand_claims_on_one_flow_are_kept,
        enforcement::change_by_another_program_is_reported,
        enforcement::unannounced_change_is_found,
        enforcement::foreign_qdisc_is_named,
        enforcement::link_beside_a_foreign_qdisc_is_repaired,
        lookup::shared_and_many_claims_are_listed_up_to_the_limit,
        lookup::link_without_classes_reports_priorities,
        marking::only_packets_of_claims_on_an_aggregate_have_its_dscp,
        marking::excess_packets_are_not_marked,
        marking::marking_without_bpf_is_refused,
        control_traffic::forwarded_control_traffic_is_limited,
        control_traffic::foreign_rsvp_is_limited,
        classes::class_of_any_rate_has_that_rate,
        classes::changed_mtu_or_bandwidth_changes_the_classes,
        classes::overhead_of_the_plan_counts_for_the_link_and_best_effort,
        classes::released_classes_are_parked_together,
        classes::reused_class_counts_from_zero,
        pinholes::udp_passes_both_ways_only_while_its_pinhole_stands,
        pinholes::connection_into_the_guarded_network_passes,
        pinholes::tcp_connection_stops_with_its_pinhole,
        pinholes::pinhole_closes_by_itself,
        pinholes::rule_installed_again_loses_no_packet,
        pinholes::rule_installed_again_for_the_same_time_lives_longer,
        pinholes::denied_packets_are_dropped_though_others_allow_them,
        pinholes::rule_matches_only_the_fields_that_it_gives,
        pinholes::icmp_is_matched_by_type_and_errors_by_their_connection,
        pinholes::packet_with_an_spi_is_matched_by_it,
        pinholes::fragments_pass_their_pinhole,
        pinholes::packets_of_a_rule_are_counted,
        translation::source_is_translated_both_ways_until_its_rule_is_removed,
        translation::changed_translation_applies_to_a_running_stream,
        translation::destination_is_translated_from_one_source_and_from_any,
        translation::both_addresses_are_translated_by_one_rule,
        translation::narrowest_translation_applies,
        translation::bindings_removed_together_forget_only_their_connections,
        translation::translation_that_ends_forgets_its_connections,
        translation::impossible_rule_is_refused_and_others_are_installed,
        filter_table::rules_are_adopted_with_their_ends,
        filter_table::full_filter_refuses_further_rules,
        filter_table::guarded_interfaces_can_change,
        filter_table::missing_privilege_is_named,
        traffic_control::changed_classifier_replaces_the_other,
        traffic_control::foreign_qdisc_is_left_alone,
        traffic_control::pool_grows_to_its_limit,
        traffic_control::removed_link_leaves_nothing,
        traffic_control::calls_after_open_need_only_network_capabilities,
    ];
    trials.push(object::trial());
    trials.extend(list![with_ethtool; interface::segmentation_offload_is_recognized,]);
    trials.extend(list![with_python;
        marking::packets_into_a_tunnel_are_marked,
        marking::packets_to_another_link_layer_are_marked,
    ]);
    trials.extend(list![with_nft;
        filter_table::table_is_listed_by_nft,
        filter_table::strays_are_removed_at_adoption,
        filter_table::tables_of_others_are_untouched,
        filter_table::foreign_table_is_refused,
        filter_table::table_of_newer_layout_is_refused,
        filter_table::table_of_earlier_layout_is_replaced,
        filter_table::changes_by_others_are_repaired,
        filter_table::change_after_a_flush_makes_the_table_again,
        filter_table::rule_refused_by_the_kernel_leaves_others,
        filter_table::thousands_of_rules_are_installed_in_batches,
    ]);
    trials.extend(list![with_ip;
        mirror::several_next_hops_rules_and_tables_are_reported,
        mirror::moved_resilient_buckets_are_found,
        flow_routes::multipath_route_is_that_of_the_packets,
        flow_routes::rule_by_source_and_interface_selects_the_route,
        flow_routes::rule_by_mark_selects_the_route,
        flow_routes::flow_without_route_has_none,
        flow_routes::message_is_sent_to_the_chosen_next_hop,
    ]);
    let with_each_classifier = list![with_both;
        flood::reserved_stream_in_a_flood_loses_nothing,
        flood::restart_of_the_daemon_loses_no_packet,
        flood::signalling_passes_a_flood,
        claims::claim_of_another_protocol_takes_nothing,
        lookup::flow_with_claims_of_every_width_has_all_listed,
        control_traffic::hello_passes_a_flood,
        control_traffic::unreserved_packet_is_served_by_its_dscp,
        traffic_control::unclaimed_flow_is_reaped,
        traffic_control::octets_of_reserved_classes_are_counted,
        traffic_control::altered_state_is_reconciled,
        classification::packet_of_every_kind_of_flow_is_classified,
        classification::packet_in_a_range_is_classified,
        classification::packet_with_a_dscp_is_classified,
        classification::ipv6_packet_is_classified,
        classes::neighbour_solicitation_passes_a_full_link,
        classification::packet_with_a_flow_label_is_classified,
        classification::packet_with_an_spi_is_classified,
        traffic_control::flows_that_share_a_class_share_its_rate,
    ];
    trials.extend(with_each_classifier.into_iter().flatten());
    let (floods, others): (Vec<_>, Vec<_>) =
        trials.into_iter().partition(|trial| trial.name().contains("flood"));
    // Most tests wait more than they compute.
    let concluded = run(others, 4);
    // The floods measure time: in parallel they would disturb each other.
    if run(floods, 1).has_failed() || concluded.has_failed() {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Runs tests with this number of threads, unless the command line has another.
fn run(trials: Vec<Trial>, threads: usize) -> Conclusion {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = arguments.test_threads.or(Some(threads));
    libtest_mimic::run(&arguments, trials)
}

/// Returns a test of traffic control for each classifier.
fn with_both(name: &str, test: fn(ClassifierChoice)) -> [Trial; 2] {
    [ClassifierChoice::Bpf, ClassifierChoice::U32]
        .map(|choice| trial(&format!("{name} ({choice:?})"), move || test(choice)))
}

/// Returns a test that needs ethtool.
fn with_ethtool(name: &str, test: fn()) -> Trial {
    with_tool("ethtool", "--version", name, test)
}

/// Returns a test that needs Python.
fn with_python(name: &str, test: fn()) -> Trial {
    with_tool("python3", "--version", name, test)
}

/// Returns a test that needs nft.
fn with_nft(name: &str, test: fn()) -> Trial {
    with_tool("nft", "--version", name, test)
}

/// Returns a test that needs iproute2.
fn with_ip(name: &str, test: fn()) -> Trial {
    with_tool("ip", "-V", name, test)
}

/// Returns a test that is ignored if a program is not installed. `argument`: one with which the program succeeds.
fn with_tool(tool: &str, argument: &str, name: &str, test: fn()) -> Trial {
    let is_there = std::process::Command::new(tool).arg(argument).output().is_ok();
    let name = if is_there { name.to_owned() } else { format!("{name} (needs {tool})") };
    trial(&name, test).with_ignored_flag(!is_there || !is_root())
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    let is_root = is_root();
    let name = if is_root { name.to_owned() } else { format!("{name} (needs root)") };
    Trial::test(name, move || support::with_time_limit(test)).with_ignored_flag(!is_root)
}

fn is_root() -> bool {
    let held = rustix::thread::capabilities(None).map(|held| held.effective);
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    held.is_ok_and(|held| held.contains(needed))
}

//! Daemons as processes, each in a network namespace of its own: start, refusal, service, stop and restart.
//!
//! The tests create their namespaces and remove them even if they fail; without root they are listed as ignored.

#[path = "kernel/both_paths.rs"]
mod both_paths;
#[path = "kernel/clear.rs"]
mod clear;
#[path = "kernel/flow_routes.rs"]
mod flow_routes;
#[path = "kernel/host.rs"]
mod host;
#[path = "kernel/interfaces.rs"]
mod interfaces;
#[path = "kernel/limits.rs"]
mod limits;
#[path = "kernel/nsis.rs"]
mod nsis;
#[path = "kernel/offload.rs"]
mod offload;
#[path = "kernel/outcomes.rs"]
mod outcomes;
#[path = "kernel/path.rs"]
mod path;

use std::net::UdpSocket;
use std::process::{Command, ExitCode};
use std::time::Instant;

use earmark_control::{LinkRow, ListenRequest, ReservationRequest};
use earmark_core::Rate;
use earmark_linux::link;
use host::{ETH0, Host, Outcome, PATIENCE, PROGRAM, check, line, log, pair, until, wait};
use libtest_mimic::{Arguments, Failed, Trial};
use rustix::process::{Pid, Signal, kill_process};

type Test = (&'static str, fn() -> Outcome);

const ADDRESS_TRANSLATION: &str = "outcome_behind_address_translation";

/// Tests that run programs that may not be installed.
const NEEDS: [(&str, &str); 3] = [
    ("bandwidth_follows_the_speed", "ethtool"),
    ("segmentation_offload_on_a_slow_link_is_warned_of_once", "ethtool"),
    ("link_without_ethernet_takes_reservations", "python3"),
];

fn main() -> ExitCode {
    if host::is_command() {
        return earmark::cli::main();
    }
    let root = rustix::process::geteuid().is_root();
    let mut tests: Vec<Test> = vec![
        ("a_daemon_becomes_its_user_and_still_serves", a_daemon_becomes_its_user_and_still_serves),
        ("a_daemon_serves_and_ends_in_good_order", a_daemon_serves_and_ends_in_good_order),
        ("a_second_daemon_is_refused", a_second_daemon_is_refused),
        ("a_socket_that_is_served_is_refused", a_socket_that_is_served_is_refused),
        ("a_killed_daemon_is_replaced", a_killed_daemon_is_replaced),
        ("without_privileges_it_says_which", without_privileges_it_says_which),
        ("two_daemons_reserve_and_refuse", two_daemons_reserve_and_refuse),
        ("reservations_show_their_traffic", reservations_show_their_traffic),
        ("two_daemons_reserve_over_ipv6", two_daemons_reserve_over_ipv6),
        ("a_reservation_survives_kill_and_restart", a_reservation_survives_kill_and_restart),
        (
            "a_host_without_raw_sockets_signals_inside_udp",
            a_host_without_raw_sockets_signals_inside_udp,
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
        (
            "failed_start_leaves_only_what_was_reserved",
            clear::failed_start_leaves_only_what_was_reserved,
        ),
        ("what_is_adopted_in_time_stays", clear::what_is_adopted_in_time_stays),
        (
            "clearing_is_scheduled_after_the_adoption_time",
            clear::clearing_is_scheduled_after_the_adoption_time,
        ),
        (
            "link_without_ethernet_takes_reservations",
            interfaces::link_without_ethernet_takes_reservations,
        ),
        ("events_name_interfaces", interfaces::events_name_interfaces),
        ("alternative_name_is_explained", interfaces::alternative_name_is_explained),
        ("outcome_of_only_the_sender", outcomes::only_the_sender_takes_part),
        ("outcome_of_both_ends", outcomes::both_ends_take_part),
        ("outcome_of_one_router", outcomes::one_router_takes_part),
        ("outcome_of_all_routers", outcomes::all_routers_take_part),
        ("outcome_of_everybody", outcomes::everybody_takes_part),
        (ADDRESS_TRANSLATION, outcomes::address_translation_is_named),
        ("settings_change_and_reservations_stay", settings_change_and_reservations_stay),
        (
            "queues_that_are_taken_over_void_reservations",
            queues_that_are_taken_over_void_reservations,
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
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn a_daemon_serves_and_ends_in_good_order() -> Outcome {
    for signal in [Signal::TERM, Signal::INT] {
        let (mut host, _other) = pair()?;
        host.start(ETH0)?;
        let links = host.client()?.show_links()?.rows;
        check(links.len() == 1 && links[0].interface == "eth0", &format!("{links:?}"))?;
        check(links[0].reservable_bps == Rate::from_bps(7_500_000), &format!("{links:?}"))?;
        let mut watcher = host.client()?;
        watcher.start_watching()?;
        check(host.end(signal)? == Some(0), "status 0")?;
        let last = watcher.next_event(Some(Instant::now() + PATIENCE));
        check(last.is_err_and(|e| e.to_string() == "the daemon stops"), "watchers are told")?;
        check(!host.socket().exists(), "the control socket is gone")?;
    }
    Ok(())
}

fn a_second_daemon_is_refused() -> Outcome {
    let (mut host, _other) = pair()?;
    host.start(ETH0)?;
    let other_socket = host.directory.join("second.toml");
    std::fs::write(
        &other_socket,
        format!("[control]\nsocket = \"{}2\"\n", host.socket().display()),
    )?;
    let (status, said) = host.fail_to_start(&other_socket)?;
    check(status == Some(1) && said.contains("another daemon is running"), &said)?;
    check(host.client()?.show_links().is_ok(), "the first one serves on")
}

fn a_socket_that_is_served_is_refused() -> Outcome {
    let (mut first, second) = pair()?;
    first.start(ETH0)?;
    let config = second.directory.join("c.toml");
    std::fs::write(&config, format!("[control]\nsocket = \"{}\"\n", first.socket().display()))?;
    let (status, said) = second.fail_to_start(&config)?;
    check(status == Some(1) && said.contains("another daemon is serving on"), &said)?;
    check(first.client()?.show_links().is_ok(), "the first one serves on")
}

fn a_killed_daemon_is_replaced() -> Outcome {
    let (mut host, _other) = pair()?;
    host.start(ETH0)?;
    check(host.end(Signal::KILL)?.is_none(), "killed")?;
    check(host.socket().exists(), "it leaves its socket behind")?;
    host.start(ETH0)?;
    check(host.end(Signal::TERM)? == Some(0), "status 0")
}

/// An ordinary user gets one error that names the missing privileges and what to do.
fn without_privileges_it_says_which() -> Outcome {
    use std::os::unix::process::CommandExt;
    let host = Host::new("nobody")?;
    let config = host.configure(ETH0)?;
    // The build directory may be inaccessible to that user.
    let program = host.directory.join("earmarkd");
    std::fs::copy(PROGRAM, &program)?;
    let mut command = Command::new(program);
    command.arg("--config").arg(config).uid(65_534).gid(65_534);
    // The thread's namespace is inherited by the child; entering it takes privileges that the child no longer has.
    let output = host.namespace.run_in(|| command.output())??;
    let said = String::from_utf8_lossy(&output.stderr);
    check(output.status.code() == Some(1), &format!("{:?}", output.status))?;
    check(said.contains("CAP_NET_ADMIN, CAP_NET_RAW"), &said)?;
    check(said.contains("help: start it as root"), &said)
}

/// A complete sequence: listen, reserve, list, exceed the capacity, release.
fn two_daemons_reserve_and_refuse() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let reserve = |rate| ["reserve", "--to", "10.0.1.2:5001", "--rate", rate, "--timeout", "15s"];
    let output = a.earmark(&reserve("2Mbit"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(
        output.status.code() == Some(0),
        &format!("{said}{}", &String::from_utf8_lossy(&output.stderr)),
    )?;
    check(said.starts_with("reserved 2 Mbit/s to 10.0.1.2:5001 in "), &said)?;

    let rows = a.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))?;
    check(rows[0].interface.as_deref() == Some("eth0"), &format!("{rows:?}"))?;
    check(rows[0].traffic.is_some_and(|traffic| traffic.packets == 0), &format!("{rows:?}"))?;
    let neighbors = a.client()?.show_neighbors()?.rows;
    check(
        neighbors.len() == 1 && neighbors[0].address == "10.0.1.2".parse::<std::net::IpAddr>()?,
        "b",
    )?;

    // 2 + 6 Mbit/s do not fit into 7.5, and the refusal comes from the sender's own link.
    b.client()?.listen(ListenRequest::new("10.0.1.2:5002".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5002", "--rate", "6Mbit", "--timeout", "15s"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.code() == Some(3), &said)?;
    check(said.contains("admission control failure"), &said)?;
    check(
        a.client()?.show_links()?.rows[0].held_bps == Rate::from_mbps(2),
        "the first one stands",
    )?;

    // The receiver reserves for a sender that exists, and for one that does not.
    let on = ReservationRequest::new("10.0.1.2:5003".parse()?, Rate::from_mbps(1));
    a.client()?.sender(on)?;
    let output =
        b.earmark(&["reserve", "--to", "10.0.1.2:5003", "--rate", "1Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    let output =
        b.earmark(&["reserve", "--to", "10.0.1.2:5004", "--rate", "1Mbit", "--timeout", "200ms"])?;
    check(output.status.code() == Some(4), &String::from_utf8_lossy(&output.stdout))?;

    a.client()?.release_all()?;
    until("everything is released", || {
        let link = &a.client()?.show_links()?.rows[0];
        Ok((link.held_bps == Rate::ZERO && link.claims == 0).then_some(()))
    })?;
    until("b has heard of it", || Ok(b.client()?.show_sessions()?.rows.is_empty().then_some(())))
}

/// Traffic is counted both with a class for each reservation and with a bucket for each in one class.
fn reservations_show_their_traffic() -> Outcome {
    ["per-flow", "aggregate"].into_iter().try_for_each(traffic_is_shown_with)
}

/// Packets of a reservation are counted in its row, other packets are not. If queues are left alone, and at the receiver,
/// nothing is counted.
fn traffic_is_shown_with(queues: &str) -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{ETH0}queues = \"{queues}\"\n"))?;
    b.start(&format!("{ETH0}queues = \"none\"\n"))?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5001", "--rate", "2Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    // Five datagrams of 1000 octets and their headers (28), and three to another port.
    a.namespace.run_in(|| -> std::io::Result<()> {
        let socket = UdpSocket::bind("10.0.1.1:0")?;
        for (port, count) in [(5001, 5), (5002, 3)] {
            for _ in 0..count {
                socket.send_to(&[0; 1_000], ("10.0.1.2", port))?;
            }
        }
        Ok(())
    })??;
    let traffic = until("all are through", || {
        let rows = a.client()?.show_reservations()?.rows;
        let traffic = rows[0].traffic.ok_or("nothing is counted")?;
        Ok((traffic.backlog_packets == 0 && traffic.packets >= 5).then_some(traffic))
    })?;
    check(
        (traffic.packets, traffic.octets, traffic.drops) == (5, 5 * 1_028, 0),
        &format!("{traffic:?}"),
    )?;
    let rows = b.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].traffic.is_none(), &format!("{rows:?}"))?;
    let counters = a.client()?.show_counters()?;
    for part in ["rsvp", "socket", "traffic_control", "driver", "control"] {
        check(counters[part].is_object(), &format!("{part}: {counters}"))?;
    }
    check(
        counters["socket"]["sent"].as_u64() > Some(0)
            && counters["socket"]["received"].as_u64() > Some(0),
        &counters.to_string(),
    )
}

/// Reservation and release over IPv6.
fn two_daemons_reserve_over_ipv6() -> Outcome {
    let (mut a, mut b) = pair()?;
    link::add_address(&a.namespace, "eth0", "2001:db8::1".parse()?, 64)?;
    link::add_address(&b.namespace, "eth0", "2001:db8::2".parse()?, 64)?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("[2001:db8::2]:5001".parse()?))?;
    let to = ["--to", "[2001:db8::2]:5001"];
    let output = a.earmark(&["reserve", to[0], to[1], "--rate", "2Mbit", "--timeout", "15s"])?;
    let said = String::from_utf8_lossy(&output.stdout);
    check(output.status.code() == Some(0), &said)?;
    check(said.starts_with("reserved 2 Mbit/s to [2001:db8::2]:5001 in "), &said)?;
    let rows = a.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))?;
    check(rows[0].traffic.is_some_and(|traffic| traffic.packets == 0), &format!("{rows:?}"))?;
    let neighbors = a.client()?.show_neighbors()?.rows;
    let there: std::net::IpAddr = "2001:db8::2".parse()?;
    check(neighbors.len() == 1 && neighbors[0].address == there, &format!("{neighbors:?}"))?;
    let output = a.earmark(&["release", "1"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stderr))?;
    until("the reservation is gone", || {
        let links = a.client()?.show_links()?.rows;
        Ok((links[0].held_bps == Rate::ZERO).then_some(()))
    })
}

/// With `daemon.user` the process belongs to that user, keeps two capabilities, and works as before.
fn a_daemon_becomes_its_user_and_still_serves() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(&format!("{ETH0}[daemon]\nuser = \"nobody\"\n"))?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    let output =
        a.earmark(&["reserve", "--to", "10.0.1.2:5001", "--rate", "2Mbit", "--timeout", "15s"])?;
    check(output.status.code() == Some(0), &String::from_utf8_lossy(&output.stdout))?;
    let pid = a.daemon.as_ref().ok_or("no daemon")?.id();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let ids = field("Uid:").unwrap_or_default().split_whitespace();
    check(ids.clone().count() == 4 && ids.clone().all(|id| id == "65534"), &status)?;
    // CAP_NET_ADMIN is bit 12, CAP_NET_RAW bit 13.
    for set in ["CapPrm:", "CapEff:", "CapBnd:"] {
        let bits = u64::from_str_radix(field(set).unwrap_or_default().trim(), 16)?;
        check(bits == 0b11 << 12, &status)?;
    }
    check(a.end(Signal::TERM)? == Some(0), "status 0")
}

/// The router's daemon dies and restarts: the class is adopted, and the refreshes restore the state for it.
fn a_reservation_survives_kill_and_restart() -> Outcome {
    let [mut a, mut r, mut b] = line()?;
    let both = format!("{ETH0}{}", ETH0.replace("eth0", "eth1"));
    a.start(ETH0)?;
    r.start(&both)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.2.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.2.2:5001".parse()?, Rate::from_mbps(2)))?;
    let claims = |r: &Host| -> Result<Option<(u32, u32)>, Failed> {
        let rows = r.client()?.show_links()?.rows;
        let link = rows.iter().find(|link| link.interface == "eth1").ok_or("no eth1")?;
        Ok(Some((link.claims, link.adopted)))
    };
    until("the router has reserved", || Ok(claims(&r)?.filter(|&found| found == (1, 0))))?;

    r.end(Signal::KILL)?;
    r.start(&both)?;
    // The reservation is adopted at once and claimed by the next refreshes, without any other state in between.
    until("the new daemon has claimed what it adopted", || {
        let found = claims(&r)?.ok_or("no answer")?;
        check(found.0 + found.1 == 1, &format!("claims and adopted flows: {found:?}"))?;
        Ok((found == (1, 0)).then_some(()))
    })?;
    let rows = r.client()?.show_reservations()?.rows;
    check(rows.len() == 1 && rows[0].rate_bps == 2_000_000, &format!("{rows:?}"))
}

/// RFC 2205 appendix C: a host without privileges signals inside UDP, its router in both ways, and the other host raw. The data
/// that the host sends is reserved for, and so is the data that it receives.
fn a_host_without_raw_sockets_signals_inside_udp() -> Outcome {
    let [mut a, mut r, mut b] = line()?;
    a.start_as_nobody(&format!("udp_only = true\n{ETH0}queues = \"none\"\n"))?;
    r.start(&format!("{ETH0}udp_encapsulation = true\n{}", ETH0.replace("eth0", "eth1")))?;
    b.start(ETH0)?;
    for (sender, receiver, to, link) in
        [(&a, &b, "10.0.2.2:5001", "eth1"), (&b, &a, "10.0.1.1:5002", "eth0")]
    {
        receiver.client()?.listen(ListenRequest::new(to.parse()?))?;
        let output =
            sender.earmark(&["reserve", "--to", to, "--rate", "2Mbit", "--timeout", "15s"])?;
        let said = String::from_utf8_lossy(&output.stdout);
        check(output.status.code() == Some(0), &said)?;
        let held = |r: &Host| -> Result<Option<Rate>, Failed> {
            let rows = r.client()?.show_links()?.rows;
            Ok(rows.iter().find(|row| row.interface == link).map(|row| row.held_bps))
        };
        check(held(&r)? == Some(Rate::from_mbps(2)), &format!("{link} of the router"))?;
        sender.client()?.release_all()?;
        receiver.client()?.release_all()?;
        until("the router has released it", || Ok((held(&r)? == Some(Rate::ZERO)).then_some(())))?;
    }
    Ok(())
}

/// After SIGHUP the link is wider, a rule refuses the existing reservation, and one more interface takes part. Existing
/// reservations stay and keep their class; new requests are subject to the new settings. A file with an error changes nothing,
/// and the log contains its line.
fn settings_change_and_reservations_stay() -> Outcome {
    let (mut a, mut b) = pair()?;
    a.start(ETH0)?;
    b.start(ETH0)?;
    link::create_veth(&a.namespace, "eth1", &b.namespace, "eth1")?;
    let ask = |port: u16, mbps: u32| -> Outcome {
        b.client()?.listen(ListenRequest::new(([10, 0, 1, 2], port).into()))?;
        a.client()?.sender(ReservationRequest::new(
            ([10, 0, 1, 2], port).into(),
            Rate::from_mbps(mbps.into()),
        ))?;
        Ok(())
    };
    let links = || -> Result<Vec<(String, u64, u64)>, Failed> {
        let rows = a.client()?.show_links()?.rows;
        let row =
            |row: LinkRow| (row.interface, row.reservable_bps.as_bps(), row.held_bps.as_bps());
        Ok(rows.into_iter().map(row).collect())
    };
    let eth0 = |reservable, held| ("eth0".to_owned(), reservable, held);
    let reload = || -> Outcome {
        let daemon = a.daemon.as_ref().ok_or("no daemon")?;
        Ok(kill_process(Pid::from_child(daemon), Signal::HUP)?)
    };
    ask(5001, 2)?;
    until("it is reserved", || Ok((links()? == [eth0(7_500_000, 2_000_000)]).then_some(())))?;
    let removed = || -> Result<serde_json::Value, Failed> {
        Ok(a.client()?.show_counters()?["driver"]["removed"].clone())
    };
    let before = removed()?;

    a.configure("max_sessions = many\n")?;
    reload()?;
    let wide = ETH0.replace("10Mbit", "20Mbit").replace("16", "32");
    let eth1 = "[[interface]]\nname = \"eth1\"\nbandwidth = \"4Mbit\"\nqueues = \"none\"\n";
    let rule = "[[policy.rule]]\naction = \"refuse\"\ndestinations = [\"10.0.1.2/32\"]\n";
    std::thread::sleep(std::time::Duration::from_millis(200));
    check(links()? == [eth0(7_500_000, 2_000_000)], "nothing has changed")?;
    a.configure(&format!("{wide}{eth1}{rule}"))?;
    reload()?;
    let both = [eth0(15_000_000, 2_000_000), ("eth1".to_owned(), 3_000_000, 0)];
    until("the settings are new", || Ok((links()? == both).then_some(())))?;
    ask(5002, 1)?;
    let refused = |log: &str| log.contains("policy");
    until("the rule refuses", || {
        let rows = b.client()?.show_applications()?.rows;
        Ok(rows.iter().any(|row| refused(&format!("{row:?}").to_lowercase())).then_some(()))
    })?;
    // Longer than the lifetime of state that is not refreshed.
    std::thread::sleep(std::time::Duration::from_secs(3));
    check(links()? == both, "the old reservation stays")?;
    check(before.is_u64() && removed()? == before, "and so does its class")?;
    a.configure(&wide)?;
    reload()?;
    until("the rule is gone", || Ok((links()?[0] == eth0(15_000_000, 3_000_000)).then_some(())))?;

    let mut daemon = a.daemon.take().ok_or("no daemon")?;
    kill_process(Pid::from_child(&daemon), Signal::TERM)?;
    check(wait(&mut daemon)? == Some(0), "status 0")?;
    let said = log(&mut daemon);
    for words in ["c.toml:5: rsvp.max_sessions", "interface eth0: classes", "interface eth1, which"]
    {
        check(said.contains(words), &format!("{words}: {said}"))?;
    }
    Ok(())
}

/// Another program replaces the queues of a link: its reservations are void, and reported so, until the daemon's queues
/// are back.
fn queues_that_are_taken_over_void_reservations() -> Outcome {
    let (mut a, mut b) = pair()?;
    let impatient = format!("{ETH0}[daemon]\nreconcile = \"200ms\"\n");
    a.start(&impatient)?;
    b.start(ETH0)?;
    b.client()?.listen(ListenRequest::new("10.0.1.2:5001".parse()?))?;
    a.client()?.sender(ReservationRequest::new("10.0.1.2:5001".parse()?, Rate::from_mbps(2)))?;
    let reservable = |a: &Host| -> Result<(u64, u32), Failed> {
        let rows = a.client()?.show_links()?.rows;
        let link = rows.first().ok_or("no link")?;
        Ok((link.reservable_bps.as_bps(), link.claims))
    };
    until("it is reserved", || Ok((reservable(&a)? == (7_500_000, 1)).then_some(())))?;
    let tc = |arguments: &[&str]| -> Outcome {
        let status = a.namespace.command("tc")?.args(arguments).status()?;
        check(status.success(), &format!("tc {arguments:?}: {status}"))
    };
    tc(&["qdisc", "replace", "dev", "eth0", "root", "handle", "77:", "pfifo", "limit", "9"])?;
    until("nothing is reserved any more", || Ok((reservable(&a)? == (0, 0)).then_some(())))?;
    until("the receiver hears of it", || {
        let rows = b.client()?.show_applications()?.rows;
        Ok(rows.iter().any(|row| format!("{row:?}").contains("raffic")).then_some(()))
    })?;
    tc(&["qdisc", "delete", "dev", "eth0", "root"])?;
    // The receiver requests the reservation again with its next refresh.
    until("it is reserved again", || Ok((reservable(&a)? == (7_500_000, 1)).then_some(())))
}

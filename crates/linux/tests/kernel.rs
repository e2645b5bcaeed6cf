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
#[path = "kernel/control_traffic.rs"]
mod control_traffic;
#[path = "kernel/encapsulation.rs"]
mod encapsulation;
#[path = "kernel/enforcement.rs"]
mod enforcement;
#[path = "kernel/flood.rs"]
mod flood;
#[path = "kernel/flow_routes.rs"]
mod flow_routes;
#[path = "kernel/gist.rs"]
mod gist;
#[path = "kernel/interception.rs"]
mod interception;
#[path = "kernel/interface.rs"]
mod interface;
#[path = "kernel/lookup.rs"]
mod lookup;
#[path = "kernel/mirror.rs"]
mod mirror;
#[path = "kernel/namespaces.rs"]
mod namespaces;
#[path = "kernel/object.rs"]
mod object;
#[path = "kernel/offload.rs"]
mod offload;
#[path = "kernel/one_set.rs"]
mod one_set;
#[path = "kernel/packets.rs"]
mod packets;
#[path = "kernel/signalling.rs"]
mod signalling;
#[path = "kernel/source.rs"]
mod source;
#[path = "kernel/support.rs"]
mod support;
#[path = "kernel/traffic_control.rs"]
mod traffic_control;
#[path = "kernel/without_bpf.rs"]
mod without_bpf;
#[path = "kernel/yessir.rs"]
mod yessir;

use std::process::ExitCode;

use earmark_linux::ClassifierChoice;
use libtest_mimic::{Arguments, Trial};
use rustix::thread::CapabilitySet;

fn main() -> ExitCode {
    flood::be_the_daemon_if_asked();
    let mut arguments = Arguments::from_args();
    // The floods measure time: in parallel they would disturb each other.
    arguments.test_threads = arguments.test_threads.or(Some(1));
    let mut trials = vec![
        object::trial(),
        trial("namespaces: a command runs inside", namespaces::a_command_runs_inside),
        trial("namespaces: a dropped one is gone", namespaces::a_dropped_one_is_gone),
        trial("namespaces: an unnamed one has no mount", namespaces::an_unnamed_one_has_no_mount),
        trial("interface: names in messages", interface::names_stand_in_messages),
        trial("interface: speed", interface::speed_is_what_the_driver_tells),
        with_tool(
            "ethtool",
            trial("interface: segmentation offload", interface::segmentation_offload_is_seen),
        ),
        trial(
            "source: packets reach a socket unless a sink drops them",
            source::packets_reach_a_socket_unless_a_sink_drops_them,
        ),
        trial("source: interface receives by a thread", source::interface_receives_by_a_thread),
        trial("signalling: caught in transit and relayed", signalling::caught_and_relayed),
        trial("signalling: without router alert it flows on", signalling::flows_on),
        trial("signalling: a long message arrives whole", signalling::long_message),
        trial("signalling: many at once", signalling::many_at_once),
        trial("one set: a message takes one turn", one_set::one_turn_for_a_message),
        trial("one set: batches", one_set::batches),
        trial("signalling: IPv6, caught in transit and relayed", signalling::caught_and_relayed6),
        trial("signalling: IPv6, link-local", signalling::link_local),
        trial("interception: groups", interception::groups),
        trial("interception: no router alert", interception::without_router_alert),
        trial("interception: a full ring", interception::overflow),
        trial("boomerang: there and back", boomerang::there_and_back),
        trial("boomerang: for this host", boomerang::for_this_host),
        trial("boomerang: other pings are answered", boomerang::other_pings),
        trial("boomerang: many loops", boomerang::throughput),
        trial("yessir: taken in transit, copied at the end", yessir::taken_and_copied),
        trial("yessir: others pass", yessir::others_pass),
        trial("yessir: sender reports are copied", yessir::sender_reports),
        trial(
            "added protocol: message through a router is received and forwarded",
            added_protocol::message_through_a_router_is_received_and_forwarded,
        ),
        trial("added protocol: number in use is refused", added_protocol::number_in_use_is_refused),
        trial("gist: taken in transit", gist::in_transit),
        trial("gist: others pass", gist::others_pass),
        trial("gist: for this host", gist::for_this_host),
        trial("gist: without BPF", gist::without_bpf),
        trial("gist: the port is somebody else's", gist::port_in_use),
        trial("gist: interfaces that come later", gist::later_interfaces),
        trial("offload: refreshed by the kernel", offload::refreshed_by_the_kernel),
        trial("offload: all else is the daemon's", offload::all_else_is_the_daemons),
        trial("offload: not for what is no packet", offload::not_for_what_is_no_packet),
        trial("offload: set up and released by the kernel", offload::set_up_and_release),
        trial("offload: copies wake nobody", offload::copies_wake_nobody),
        trial("offload: so much for each initiating node", offload::so_much_for_each),
        trial("offload: through a flood", offload::through_a_flood),
        trial("without BPF: boomerang", without_bpf::boomerang),
        trial("without BPF: yessir", without_bpf::yessir),
        trial("encapsulation: a host and its router", encapsulation::host_and_router),
        trial("encapsulation: only where it is wanted", encapsulation::only_where_wanted),
        trial("signalling: a second daemon is refused", signalling::second_daemon),
        trial("mirror: follows addresses and routes", mirror::follows),
        trial("mirror: a link that goes down takes its routes along", mirror::link_down),
        trial("mirror: a burst too long to hear is caught up with", mirror::burst),
        trial("mirror: multicast forwarding entries", mirror::multicast),
        trial("mirror: changes that nobody announces", mirror::silent_changes),
        with_ip("mirror: several next hops, rules and tables", mirror::flows),
        with_ip("mirror: resilient buckets that move", mirror::resilient_buckets),
        with_ip("flow routes: multipath", flow_routes::multipath),
        with_ip("flow routes: rules by source and interface", flow_routes::rules),
        with_ip("flow routes: rules by mark", flow_routes::marks),
        with_ip("flow routes: no answer that fits", flow_routes::no_route),
        with_ip("flow routes: sent to a chosen next hop", flow_routes::chosen_next_hop),
        trial("aggregate: a reserved stream loses nothing", aggregate::reserved_stream),
        trial("aggregate: who exceeds his bucket harms nobody", aggregate::excess),
        trial("aggregate: buckets are adopted", aggregate::adoption),
        trial("aggregate: seventy thousand reservations", aggregate::many),
        trial("aggregate: needs BPF", aggregate::needs_bpf),
        trial("claims: random sequences against a model", claims::random_sequences),
        trial("claims: a small one after adoption takes nothing", claims::after_adoption),
        trial("claims: a thousand on one flow", claims::thousand_claims),
        trial("enforcement: changes by others are told", enforcement::changes_by_others),
        trial("enforcement: silent changes are found", enforcement::silent_changes),
        trial("enforcement: a foreign qdisc is named", enforcement::foreign_qdisc),
        trial(
            "enforcement: a repair beside a foreign qdisc",
            enforcement::repair_beside_a_foreign_qdisc,
        ),
        trial("lookup: shared claims and many", lookup::shared_and_many),
        trial("lookup: links without classes", lookup::without_classes),
        trial("control traffic: forwarded", control_traffic::forwarded),
        trial("control traffic: RSVP of strangers", control_traffic::rsvp_of_strangers),
        trial("classes: any rate is what it should be", classes::any_rate),
        trial("classes: another MTU, another bandwidth", classes::another_link),
        trial("classes: those that were released are parked together", classes::parking),
        trial("classes: the next owner starts afresh", classes::next_owner),
        trial("traffic control: a change of classifiers", traffic_control::other_classifier),
        trial("traffic control: a foreign qdisc is left alone", traffic_control::foreign),
        trial("traffic control: the pool grows to its limit", traffic_control::pool),
        trial("traffic control: teardown leaves nothing", traffic_control::teardown),
        trial("traffic control: needs no other capabilities", traffic_control::capabilities),
    ];
    trials.extend(with_both("flood: a reserved stream loses nothing", flood::reserved_stream));
    trials.extend(with_both("flood: a restart disturbs nobody", flood::restart));
    trials.extend(with_both("flood: signalling gets through", flood::signalling));
    trials.extend(with_both("claims: strangers take nothing", claims::strangers));
    trials.extend(with_both("lookup: claims of every width", lookup::claims_of_every_width));
    trials.extend(with_both("control traffic: hellos pass a flood", control_traffic::hellos));
    trials.extend(with_both("control traffic: services by DSCP", control_traffic::services));
    trials.extend(with_both("traffic control: the unclaimed is reaped", traffic_control::reaping));
    trials.extend(with_both("traffic control: octets of a link", traffic_control::reserved_octets));
    trials.extend(with_both("traffic control: reconciles", traffic_control::reconciling));
    trials.extend(with_both("traffic control: kinds of flows", traffic_control::kinds_of_flows));
    trials.extend(with_both("traffic control: ranges", traffic_control::ranges));
    trials.extend(with_both("traffic control: IPv6", traffic_control::ipv6));
    trials.extend(with_both("classes: neighbours are asked first", classes::neighbors));
    trials.extend(with_both("traffic control: flow labels", traffic_control::flow_labels));
    trials.extend(with_both("traffic control: a shared class", traffic_control::shared_class));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// Returns a test of traffic control for each classifier.
fn with_both(name: &str, test: fn(ClassifierChoice)) -> [Trial; 2] {
    [ClassifierChoice::Bpf, ClassifierChoice::U32]
        .map(|choice| trial(&format!("{name} ({choice:?})"), move || test(choice)))
}

/// Returns the trial, ignored if a program that it runs is not installed.
fn with_tool(tool: &str, trial: Trial) -> Trial {
    let is_there = std::process::Command::new(tool).arg("--version").output().is_ok();
    if is_there { trial } else { trial.with_kind(format!("needs {tool}")).with_ignored_flag(true) }
}

/// Returns a test that needs iproute2.
fn with_ip(name: &str, test: fn()) -> Trial {
    let there = std::process::Command::new("ip").arg("-V").output().is_ok();
    let name = if there { name.to_owned() } else { format!("{name} (needs iproute2)") };
    trial(&name, test).with_ignored_flag(!there || !is_root())
}

fn trial(name: &str, test: impl FnOnce() + Send + 'static) -> Trial {
    let is_root = is_root();
    let name = if is_root { name.to_owned() } else { format!("{name} (needs root)") };
    Trial::test(name, move || support::in_time(test)).with_ignored_flag(!is_root)
}

fn is_root() -> bool {
    let held = rustix::thread::capabilities(None).map(|held| held.effective);
    let needed = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    held.is_ok_and(|held| held.contains(needed))
}

//! Reports of the host: removed links, reservations of a terminated daemon, and failures of traffic control.

mod common;

use std::time::Duration;

use common::*;
use earmark_core::admission::{PreemptionPolicy, Priority};
use earmark_core::{Flow, Interface, InterfaceId, Rate, Time};
use earmark_node::{
    Across, Border, Command, CorePackets, CoreProtocol, Event, HostUpdate, Input, Node, NodeConfig,
    QueueView, SenderName, TunnelProtocol,
};
use earmark_rsvp::policy::{Rule, Settings};
use earmark_rsvp::{Change, Renewal, RestartTimes};
use earmark_wire::rsvp::{
    Body, Dscp, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, Hello, HelloKind, HelloMessage,
    Path, RestartCap, SenderDescriptor, SenderTemplate, Session, SourceSelector,
};

fn the_flow() -> Flow {
    Flow {
        destination: ip(RECEIVER),
        source: Some(ip("10.0.0.1")),
        protocol: 17,
        destination_port: 5_004,
        source_port: 4_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}

/// Returns type and destination of each message.
fn kinds(outcomes: &[Outcome]) -> Vec<(&'static str, std::net::IpAddr)> {
    sent(outcomes).iter().map(|(how, body)| (body.message_type().name(), how.destination)).collect()
}

/// Returns the error of the sent ResvErr.
fn resv_err(outcomes: &[Outcome]) -> Option<ErrorSpec> {
    sent(outcomes).iter().find_map(|(_, body)| match body {
        Body::ResvErr(error) => Some(error.error),
        _ => None,
    })
}

/// Returns a router with a reservation of 2 Mbit/s.
fn reserved() -> (Bench, Vec<Outcome>) {
    let mut router = router();
    let outcomes = router.path(path(None));
    let outcomes = router.resv(&outcomes, &[flow(2)]);
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(2)));
    (router, outcomes)
}

/// An adopted reservation keeps its bandwidth until its flow is claimed; the claim then replaces it, and the bandwidth
/// counts once.
#[test]
fn adopted_reservation_is_taken_over_by_the_claim_of_its_flow() {
    let mut router = router();
    let (interface, flow_left, rate) = (ETH2, the_flow(), Rate::from_mbps(6));
    assert_eq!(
        router.host(HostUpdate::Adopted { interface, flow: flow_left, rate, protocol: None }),
        []
    );
    assert_eq!(router.held("eth2"), Some(rate));
    let mut path = path(None);
    path.sender.tspec = tspec(7);
    let path = router.path(path);
    let outcomes = router.resv(&path, &[flow(7)]);
    assert_eq!(installed(&outcomes).len(), 1, "6 + 7 Mbit/s would be too much: {outcomes:?}");
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(7)));
    let row = router.node.link_rows().find(|row| row.interface == "eth2").expect("a link");
    assert_eq!((row.claims, row.adopted), (1, 0));
    router.host(HostUpdate::AdoptedGone { interface, flow: flow_left });
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(7)), "it has an owner by now");
}

/// Only the protocol of an adopted reservation has preserved state: with those of another one, Hellos of RSVP announce no
/// Recovery Time (RFC 3473 section 9.1).
#[test]
fn adopted_reservation_begins_the_recovery_of_its_protocol_only() {
    let times = |recovery_ms| Some(RestartCap { restart_ms: 30_000, recovery_ms });
    for (protocol, recovery_ms) in [
        (Some(earmark_rsvp::ID), 60_000),
        (Some(earmark_boomerang::ID), 0),
        (Some(earmark_nsis::ID), 0),
        (None, 60_000),
    ] {
        let mut router = router();
        let restart_time = Some(Duration::from_secs(30));
        let restart = RestartTimes { restart_time, ..RestartTimes::default() };
        let renewal = Renewal { restart, ..Renewal::from(earmark_rsvp::Config::default()) };
        let command = earmark_rsvp::Command::Renew(Box::new(renewal));
        router.handle(Input::Command(Command::Rsvp(command)));
        let (interface, flow, rate) = (ETH2, the_flow(), Rate::from_mbps(6));
        router.host(HostUpdate::Adopted { interface, flow, rate, protocol });
        let (kind, source_instance, destination_instance) = (HelloKind::Request, 5, 0);
        let hello = Hello { kind, source_instance, destination_instance };
        let message = HelloMessage { restart_cap: times(0), ..hello.into() };
        let outcomes = router.receive(ETH2, ip("10.0.2.1"), Body::Hello(message));
        let announced = sent(&outcomes).iter().find_map(|(_, body)| match body {
            Body::Hello(hello) => hello.restart_cap,
            _ => None,
        });
        assert_eq!(announced, times(recovery_ms), "{protocol:?}");
    }
}

/// An unclaimed adopted reservation is released when the driver has removed it; one that does not fit is not adopted.
#[test]
fn unclaimed_adopted_reservation_is_released() {
    let mut router = router();
    let (interface, flow_left, rate) = (ETH2, the_flow(), Rate::from_mbps(6));
    router.host(HostUpdate::Adopted { interface, flow: flow_left, rate, protocol: None });
    let other = Flow { source_port: 1, ..flow_left };
    let outcomes =
        router.host(HostUpdate::Adopted { interface, flow: other, rate, protocol: None });
    let events = events(&outcomes);
    assert!(
        matches!(&events[..], [Event::NotAdopted { flow, .. }] if *flow == other),
        "{events:?}"
    );
    router.host(HostUpdate::AdoptedGone { interface, flow: flow_left });
    assert_eq!(router.held("eth2"), Some(Rate::ZERO));
}

/// Reservations end with their link: receiver and previous hop are notified.
#[test]
fn removed_link_ends_its_reservations_with_errors() {
    let gone = HostUpdate::InterfaceGone(ETH2);
    let unused = HostUpdate::Interface(interface(ETH2, &["10.0.2.1"], Rate::ZERO));
    for update in [gone, unused] {
        let (mut router, _) = reserved();
        let outcomes = router.host(update);
        let expected = [("ResvErr", ip(DOWNSTREAM)), ("ResvTear", ip(UPSTREAM))];
        assert_eq!(kinds(&outcomes), expected);
        let error = resv_err(&outcomes).expect("it was found");
        assert_eq!((error.code, error.value), (ErrorCode::TrafficControlSystemError, 19));
        assert_eq!(outcomes.iter().filter(|o| matches!(o, Outcome::Removed(_))).count(), 1);
        let orphaned = events(&outcomes).iter().any(|event| {
            matches!(
                event,
                Event::Rsvp(earmark_rsvp::Event::Reservation { change: Change::Orphaned, .. })
            )
        });
        assert!(orphaned, "{outcomes:?}");
        assert_eq!(router.held("eth2"), None);
        assert_eq!(router.node.reservation_rows(router.now, |_| QueueView::default()).count(), 0);

        // The link returns, and reservations are set up again.
        let back = interface(ETH2, &["10.0.2.1"], Rate::from_mbps(10));
        router.host(HostUpdate::Interface(back));
        router.route("10.0.9.0/24", ETH2, DOWNSTREAM);
        assert_eq!(router.held("eth2"), Some(Rate::ZERO));
        let mut changed = path(None);
        changed.sender.tspec = tspec(3);
        let outcomes = router.path(changed);
        router.resv(&outcomes, &[flow(3)]);
        assert_eq!(router.held("eth2"), Some(Rate::from_mbps(3)));
    }
}

/// Aggregates that have one class in traffic control all end with their link.
#[test]
fn removed_link_ends_the_aggregates_of_one_dscp() {
    let mut router = router();
    let template = SenderTemplate { source: ip("10.0.0.1"), selector: SourceSelector::Aggregator };
    for deaggregator in ["10.0.9.7", "10.0.9.8", "10.0.9.9"] {
        let session = Session::aggregate(ip(deaggregator), Dscp(46));
        let sender = SenderDescriptor { template, ..path(None).sender };
        let outcomes = router.path(Path { session, sender, ..path(None) });
        router.resv(&outcomes, &[FixedFilterFlow { filter: template, ..flow(2) }]);
    }
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(6)));
    let outcomes = router.host(HostUpdate::InterfaceGone(ETH2));
    let messages = kinds(&outcomes);
    let told = |kind| messages.iter().filter(|(message, _)| *message == kind).count();
    assert_eq!((told("ResvErr"), told("ResvTear")), (3, 3), "{messages:?}");
    assert_eq!(router.node.reservation_rows(router.now, |_| QueueView::default()).count(), 0);
}

/// State of a removed interface still refers to it by name.
#[test]
fn removed_interface_keeps_its_last_name() {
    let (mut router, _) = reserved();
    router.host(HostUpdate::InterfaceGone(ETH1));
    assert_eq!(router.node.interface_name(ETH1), "eth1");
    let rows: Vec<_> = router.node.session_rows(router.now).collect();
    assert_eq!(rows[0].incoming.as_deref(), Some("eth1"), "{rows:?}");
    // Names of a flapping interface do not accumulate.
    for index in 100..200 {
        let id = InterfaceId(index);
        router.host(HostUpdate::Interface(interface(id, &[], Rate::ZERO)));
        router.host(HostUpdate::InterfaceGone(id));
    }
    assert_eq!(router.node.interface_name(InterfaceId(199)), "eth199");
    assert_eq!(router.node.interface_name(ETH1), "1");
}

/// Returns the settings of an aggregate through eth2.
fn across(by: CoreProtocol) -> Across {
    Across {
        to: ip("10.0.3.2"),
        range: "10.0.9.0/24".parse().expect("a prefix"),
        by,
        step: Rate::from_mbps(1),
        lowest: Rate::ZERO,
        highest: Rate::from_mbps(5),
        margin: Rate::ZERO,
        shrink_after: Duration::from_secs(30),
        patience: Duration::from_secs(2),
        waiting: 10,
        pause: Duration::from_secs(5),
        recover: Duration::from_secs(5),
    }
}

/// An interface towards a core is removed and returns with other indexes: its aggregate stays the same, and uses the
/// present index.
#[test]
fn aggregate_follows_its_interface_to_a_new_index() {
    let border = Border { across: vec![across(CoreProtocol::Boomerang)], ..Border::default() };
    let borders = [("eth2".to_owned(), border)].into();
    let config = NodeConfig { name: "r1".into(), seed: 7, borders, ..NodeConfig::default() };
    let mut router = Bench { node: Node::new(config), now: Time::from_secs(1_000) };
    let upstream = interface(ETH1, &["10.0.1.2"], Rate::from_mbps(10));
    router.host(HostUpdate::Interface(upstream));
    for index in [2, 7, 8, 9] {
        let id = InterfaceId(index);
        let eth2 = interface(id, &["10.0.2.1"], Rate::from_mbps(10));
        router.host(HostUpdate::Interface(Interface { name: "eth2".into(), ..eth2 }));
        router.route("10.0.0.0/16", id, DOWNSTREAM);
        let rows: Vec<_> = router.node.aggregate_rows().collect();
        assert_eq!(rows.len(), 1, "{rows:?}");
        assert_eq!(rows[0].interface.as_deref(), Some("eth2"));
        let lane = router.node.ledger().lane_to(id, "10.0.9.9/32".parse().expect("a prefix"));
        assert_eq!(router.node.interface_name(lane.expect("it is open")), "eth2");
        router.host(HostUpdate::InterfaceGone(id));
    }
}

/// The session of a tunnel is below the interface, so its flows count with the outer headers. Other aggregates have the
/// overhead of their link themselves.
#[test]
fn lane_of_a_tunnel_has_the_overhead_of_its_interface() {
    let gre = TunnelProtocol { ip_protocol: 47, port: 0 };
    for (by, is_tunnel) in [
        (CoreProtocol::Boomerang, false),
        (CoreProtocol::Rsvp(CorePackets::Dscp(46)), false),
        (CoreProtocol::Rsvp(CorePackets::Tunnel(gre)), true),
    ] {
        let border = Border { across: vec![across(by)], ..Border::default() };
        let borders = [("eth2".to_owned(), border)].into();
        let config = NodeConfig { name: "r1".into(), seed: 7, borders, ..NodeConfig::default() };
        let mut router = Bench { node: Node::new(config), now: Time::from_secs(1_000) };
        for overhead in [24, 40] {
            let eth2 = interface(ETH2, &["10.0.2.1"], Rate::from_mbps(10));
            router.host(HostUpdate::Interface(Interface { name: "eth2".into(), overhead, ..eth2 }));
            let ledger = router.node.ledger();
            let lane = ledger.lane_to(ETH2, "10.0.9.9/32".parse().expect("a prefix"));
            let expected = if is_tunnel { overhead } else { 0 };
            assert_eq!(ledger.overhead(lane.expect("it is open")), expected, "{by:?}");
        }
    }
}

/// Another program has taken over the queues: reservations end, and new ones are refused until the interface is
/// reported again.
#[test]
fn queues_taken_over_end_reservations() {
    let mut router = router();
    let path = router.path(path(None));
    router.resv(&path, &[flow(2)]);
    let ours = router.node.interfaces().by_id(ETH2).cloned().expect("it is there");
    let outcomes = router.host(HostUpdate::QueuesTaken(ETH2));
    let error = resv_err(&outcomes).expect("the receiver gets a ResvErr");
    assert_eq!((error.code, error.value), (ErrorCode::TrafficControlSystemError, 16));
    assert!(kinds(&outcomes).iter().any(|(kind, _)| *kind == "ResvTear"), "{outcomes:?}");
    assert_eq!(router.held("eth2"), Some(Rate::ZERO));
    let outcomes = router.resv(&path, &[flow(2)]);
    assert!(resv_err(&outcomes).is_some(), "{outcomes:?}");
    router.host(HostUpdate::Interface(ours));
    router.resv(&path, &[flow(2)]);
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(2)));
}

/// Traffic control refuses a claim that the ledger granted: the receiver gets the system's error number, and nothing
/// stays reserved.
#[test]
fn refusal_by_traffic_control_releases_the_reservation() {
    let (mut router, outcomes) = reserved();
    let claim = installed(&outcomes)[0].claim;
    let outcomes = router.host(HostUpdate::TrafficControlRefused { claim, errno: 12 });
    assert_eq!(kinds(&outcomes), [("ResvErr", ip(DOWNSTREAM)), ("ResvTear", ip(UPSTREAM))]);
    assert_eq!(resv_err(&outcomes).map(|error| error.value), Some(12));
    assert!(outcomes.contains(&Outcome::Removed(claim)));
    assert_eq!(router.held("eth2"), Some(Rate::ZERO));
    let again = router.host(HostUpdate::TrafficControlRefused { claim, errno: 12 });
    assert_eq!(again, [], "nobody holds it any more");
}

/// Rows of listings.
#[test]
fn listings_show_sessions_reservations_and_links() {
    let (router, _) = reserved();
    let (node, now) = (&router.node, router.now);
    let sessions: Vec<_> = node.session_rows(now).collect();
    let [session] = &sessions[..] else { panic!("one session: {sessions:?}") };
    assert_eq!((session.destination, session.destination_port), (ip(RECEIVER), 5_004));
    assert_eq!((session.source, session.source_port), (ip("10.0.0.1"), 4_000));
    assert_eq!(session.previous_hop, Some(ip(UPSTREAM)));
    assert_eq!(session.incoming.as_deref(), Some("eth1"));
    assert_eq!((&session.outgoing[..], session.here), (&["eth2".to_owned()][..], false));
    assert_eq!((session.rate_bps, session.burst_octets), (2_000_000, 3_000));
    assert_eq!((session.expires_in_s, session.reserved), (Some(157.5), true));

    let reservations: Vec<_> = node.reservation_rows(now, |_| QueueView::default()).collect();
    let [reservation] = &reservations[..] else { panic!("one: {reservations:?}") };
    assert_eq!(reservation.interface.as_deref(), Some("eth2"));
    let sender = SenderName { address: ip("10.0.0.1"), port: 4_000, flow_label: None, spi: None };
    assert_eq!(reservation.senders, [sender]);
    assert_eq!(reservation.next_hop, Some(ip(DOWNSTREAM)));
    assert_eq!((&*reservation.service, &*reservation.style), ("controlled-load", "FF"));
    assert_eq!((reservation.rate_bps, reservation.expires_in_s), (2_000_000, Some(157.5)));

    let links: Vec<_> = node
        .link_rows()
        .map(|row| (row.interface, row.reservable_bps, row.held_bps, row.claims))
        .collect();
    let reservable = Rate::from_bps(7_500_000);
    let eth1 = ("eth1".to_owned(), reservable, Rate::ZERO, 0);
    assert_eq!(links, [eth1, ("eth2".to_owned(), reservable, Rate::from_mbps(2), 1)]);

    let neighbors: Vec<_> = node
        .neighbor_rows(now)
        .map(|row| (row.address, row.interface, row.senders, row.reservations, row.heard_s))
        .collect();
    let upstream = (ip(UPSTREAM), "eth1".to_owned(), 1, 0, 0.0);
    assert_eq!(neighbors, [upstream, (ip(DOWNSTREAM), "eth2".to_owned(), 0, 1, 0.0)]);
    let counted = |name| node.counters().find(|&(_, group, n, _)| group == "received" && n == name);
    assert_eq!(counted("path").map(|(.., count)| count), Some(1));
    assert_eq!(counted("resv").map(|(.., count)| count), Some(1));
}

/// Returns a policy by which the requests of one source displace those of others.
fn important_source() -> Settings {
    let rule = Rule {
        sources: vec!["10.0.0.2/32".parse().expect("a range")],
        priority: Some(Priority::new(5, 5)),
        ..Rule::default()
    };
    let preemption = Some(PreemptionPolicy::default());
    Settings { preemption, rules: vec![rule], ..Settings::default() }
}

/// Preemption enabled at run time applies to the ledger: earlier reservations have the lowest priority and are
/// preempted.
#[test]
fn preemption_enabled_by_reload_applies_to_old_reservations() {
    let (mut router, _) = reserved();
    let important = FilterSpec { source: ip("10.0.0.2"), ..template() };
    let mut path = path(None);
    path.session = Session { port: 5_006, ..session() };
    path.sender.template = important;
    path.sender.tspec = tspec(7);
    let path = router.path(path);
    let flows = [FixedFilterFlow { filter: important, ..flow(7) }];
    let refusal = resv_err(&router.resv(&path, &flows)).expect("2 + 7 Mbit/s are too much");
    assert_eq!(refusal.code, ErrorCode::AdmissionControlFailure);

    let policy = important_source();
    let renewal = Renewal { policy, ..Renewal::from(earmark_rsvp::Config::default()) };
    let command = earmark_rsvp::Command::Renew(Box::new(renewal));
    let outcomes = router.handle(Input::Command(Command::Rsvp(command)));
    assert_eq!((outcomes, router.held("eth2")), (vec![], Some(Rate::from_mbps(2))));
    router.resv(&path, &flows);
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(7)));
}

/// A neighbour that restarts is listed with the time for which its state is kept, and its reservation can be preempted
/// meanwhile (RFC 3473 section 9.5.3).
#[test]
fn restarting_neighbor_is_listed_and_its_reservation_preempted() {
    let (mut router, _) = reserved();
    let restart_time = Some(Duration::from_secs(30));
    let restart = RestartTimes { restart_time, ..RestartTimes::default() };
    let policy = important_source();
    let renewal = Renewal { restart, policy, ..Renewal::from(earmark_rsvp::Config::default()) };
    let command = earmark_rsvp::Command::Renew(Box::new(renewal));
    router.handle(Input::Command(Command::Rsvp(command)));
    for source_instance in [5, 6] {
        let (kind, destination_instance) = (HelloKind::Request, 0);
        let restart_cap = Some(RestartCap { restart_ms: 30_000, recovery_ms: 40_000 });
        let hello = Hello { kind, source_instance, destination_instance };
        let message = HelloMessage { restart_cap, ..hello.into() };
        router.receive(ETH2, ip("10.0.2.1"), Body::Hello(message));
    }
    let rows: Vec<_> = router
        .node
        .neighbor_rows(router.now)
        .map(|row| (row.address, row.hello, row.kept_s))
        .collect();
    let downstream = (ip(DOWNSTREAM), Some("recovering".into()), Some(40.0));
    assert_eq!(rows, [(ip(UPSTREAM), None, None), downstream]);

    let important = FilterSpec { source: ip("10.0.0.2"), ..template() };
    let mut path = path(None);
    path.session = Session { port: 5_006, ..session() };
    path.sender = SenderDescriptor { template: important, tspec: tspec(7), ..path.sender };
    let path = router.path(path);
    router.resv(&path, &[FixedFilterFlow { filter: important, ..flow(7) }]);
    assert_eq!(router.held("eth2"), Some(Rate::from_mbps(7)));
}

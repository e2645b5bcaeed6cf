//! Changes during a reservation: routes, hops, smaller packets, and repeated refusals.

use std::time::Duration;

use earmark_core::{Datagram, Hop, HostEvent, Input, Outgoing, Rate, Route, RouteTable};
use earmark_rsvp::{Application, Change, Command, DropReason, Event};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{Body, ErrorSpec, FixedFilterFlow, FlowDescriptors, ResvErr, Style};

use crate::common::*;

/// Routes the receiver through eth3, or no longer.
fn detour(bench: &mut Bench, there: bool) {
    let hop = Hop { interface: ETH3, gateway: Some(ip("10.0.3.2")), source: None };
    let prefix = "10.0.9.9/32".parse().expect("a prefix");
    if there {
        bench.add_interface(ETH3, "10.0.3.1");
        bench.add_route("10.0.9.9/32", ETH3, Some("10.0.3.2"));
    } else {
        assert!(bench.routes.remove(&Route { prefix, metric: 0, hop }));
    }
    bench.host(HostEvent::RouteChanged(prefix));
}

fn kinds(outcomes: &[Outcome]) -> Vec<&'static str> {
    sent(outcomes).iter().map(|(_, message)| message.body.message_type().name()).collect()
}

fn resv_err(outcomes: &[Outcome]) -> Option<ErrorSpec> {
    sent(outcomes).iter().find_map(|(_, message)| match &message.body {
        Body::ResvErr(ResvErr { error, .. }) => Some(*error),
        _ => None,
    })
}

/// The data leaves its path and returns while the reservation there still exists: the previous hop has the request still,
/// so that nothing is sent at once, and then it is refreshed.
#[test]
fn reservation_after_data_returns_is_refreshed() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    detour(&mut router, true);
    router.receive(ETH1, Body::Path(path()));
    let meanwhile = router.pass(Duration::from_secs(2));
    assert!(!kinds(&meanwhile).contains(&"Resv"), "nothing is reserved on the new way");

    detour(&mut router, false);
    router.receive(ETH1, Body::Path(path()));
    assert_eq!(kinds(&router.pass(Duration::from_millis(1))), [""; 0]);
    for _ in 0..4 {
        router.receive(ETH1, Body::Path(path()));
        router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
        let outcomes = router.pass(Duration::from_secs(46));
        assert!(kinds(&outcomes).contains(&"Resv"), "upstream would forget");
    }
}

/// A sending application gets RESV_EVENT when a route change ends its reservation, and when the reservation is
/// restored.
#[test]
fn sender_is_notified_of_reservation_lost_by_route_change() {
    let application = Application(1);
    let mut host = sender();
    host.command(Command::Session { application, session: session() });
    host.command(Command::Sender { application, template: template(), tspec: tspec(2), ttl: 63 });
    host.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    detour(&mut host, true);
    let gone = Event::ResvGone { application, session: session(), filter: template() };
    let moved =
        Event::PathState { change: Change::Changed, session: session(), template: template() };
    assert_eq!(events(&host.pass(Duration::from_secs(2))), [moved.clone(), gone]);
    detour(&mut host, false);
    let (filter, flowspec) = (template(), flowspec(2));
    let style = Style::FixedFilter;
    let reported = events(&host.pass(Duration::from_secs(2)));
    let [first, Event::Resv { filter: of, style: in_style, flowspec: gets, .. }] = &reported[..]
    else {
        panic!("{reported:?}")
    };
    assert_eq!((of, in_style, gets, first), (&filter, &style, &flowspec, &moved));
}

/// Reservations on an old path end without a message upstream, where another may have replaced them.
#[test]
fn end_of_old_path_sends_nothing_upstream() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    detour(&mut router, true);
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::ResvTear(resv_tear(&[flow(2)])));
    assert_eq!(kinds(&outcomes), Vec::<&str>::new());
    assert_eq!(router.held(), Rate::ZERO);
}

/// RFC 2209, RESV MESSAGE ARRIVES: the cleanup timer is restarted before a change is tried, so a receiver that repeats
/// a refused increase keeps its reservation.
#[test]
fn refused_increase_refreshes_old_reservation() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    for _ in 0..8 {
        router.receive(ETH1, Body::Path(path()));
        let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(8)])));
        assert_eq!(resv_err(&outcomes).map(|error| error.flags), Some(ErrorSpec::IN_PLACE));
        router.pass(Duration::from_secs(30));
    }
    assert_eq!(router.held(), Rate::from_mbps(2));
    router.receive(ETH1, Body::Path(path()));
    router.pass(Duration::from_secs(130));
    assert_eq!(router.held(), Rate::ZERO, "it dies 157.5 s after the last attempt");
}

/// Appendix A.5, InPlace: set for every refusal while an older reservation exists, whatever the reason.
#[test]
fn refusal_with_older_reservation_has_in_place_flag() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let invalid = FlowSpec::ControlledLoad(TokenBucket { depth: f32::NAN, ..tspec(2) });
    let invalid = FixedFilterFlow { flowspec: Some(invalid), ..flow(2) };
    let flags = |outcomes: &[Outcome]| resv_err(outcomes).map(|error| error.flags);
    assert_eq!(flags(&router.receive(ETH2, Body::Resv(resv(&[invalid])))), Some(0));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[invalid])));
    assert_eq!(flags(&outcomes), Some(ErrorSpec::IN_PLACE));
}

/// The request with small packets ends, and the link cannot carry those of the other: the rate still decreases, and the
/// other keeps packets of the admitted size.
#[test]
fn decrease_with_larger_packets_keeps_packet_size() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let small = TokenBucket { max_packet_size: 500, ..tspec(5) };
    let small = [FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(small)), ..flow(5) }];
    router.receive(ETH2, Body::Resv(resv(&small)));
    let jumbo = TokenBucket { max_packet_size: 9_000, min_policed_unit: 800, ..tspec(1) };
    let jumbo = [FixedFilterFlow { flowspec: Some(FlowSpec::ControlledLoad(jumbo)), ..flow(1) }];
    let mut other = resv(&jumbo);
    other.hop.address = ip("10.0.2.3");
    router.receive(ETH2, Body::Resv(other));
    assert_eq!(router.held(), Rate::from_mbps(5));

    let outcomes = router.receive(ETH2, Body::ResvTear(resv_tear(&small)));
    assert_eq!(router.held(), Rate::from_mbps(1));
    let sent = sent(&outcomes);
    let [(_, message)] = &sent[..] else { panic!("one message, not {sent:?}") };
    let Body::Resv(upstream) = &message.body else { panic!("a Resv, not {message:?}") };
    let FlowDescriptors::FixedFilter(flows) = upstream.flows else { panic!("fixed filter") };
    let installed = flows.iter().next().and_then(|flow| flow.flowspec).expect("a flowspec");
    installed.validate().expect("one that makes sense");
    let FlowSpec::ControlledLoad(bucket) = installed else { panic!("controlled load") };
    assert_eq!((bucket.rate, bucket.max_packet_size), (125_000.0, 500));
}

/// All requests merged into a reservation end at once: no intermediate installation, a ResvErr to each next hop, and
/// one ResvTear upstream.
#[test]
fn merged_requests_end_at_once() {
    let merged = || {
        let mut router = router();
        router.receive(ETH1, Body::Path(path()));
        let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
        let flows = [flow(3)];
        let mut other = resv(&flows);
        other.hop.address = ip("10.0.2.3");
        router.receive(ETH2, Body::Resv(other));
        let claim = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Installed(installation) => Some(installation.claim),
            _ => None,
        });
        (router, claim.expect("it was installed"))
    };
    let touches = |outcomes: &[Outcome]| {
        outcomes.iter().filter(|o| matches!(o, Outcome::Installed(_) | Outcome::Removed(_))).count()
    };
    let (mut router, claim) = merged();
    let owner = router.ledger.owner(claim).expect("it is owned");
    let outcomes = router.host(HostEvent::TrafficControlRefused { claim, owner, errno: 12 });
    assert_eq!(kinds(&outcomes), ["ResvErr", "ResvErr", "ResvTear"]);
    assert_eq!(touches(&outcomes), 1, "{outcomes:?}");
    assert_eq!(router.engine.population(), (1, 1, 0));

    let (mut router, _) = merged();
    let outcomes = router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(kinds(&outcomes), ["PathTear"]);
    assert_eq!(touches(&outcomes), 1, "{outcomes:?}");
    let gone: Vec<_> = events(&outcomes)
        .into_iter()
        .filter_map(|event| match event {
            Event::Reservation { change, .. } | Event::PathState { change, .. } => Some(change),
            _ => None,
        })
        .collect();
    assert_eq!(gone, [Change::Orphaned, Change::Torn]);
    assert_eq!(router.engine.population(), (0, 0, 0));
    assert_eq!(router.engine.neighbors().count(), 0);
}

/// A PathTear follows its Path through an interface without RSVP, relayed as by a router without RSVP.
#[test]
fn path_tear_through_interface_without_rsvp_is_relayed() {
    let mut router = router();
    router.add_interface_with(ETH2, &["10.0.2.1"], Rate::ZERO);
    for body in [Body::Path(path()), Body::PathTear(path_tear())] {
        let octets = octets(body, 63);
        let outcomes = router.receive_octets(ETH1, ip(RECEIVER), 63, &octets);
        let [Outcome::Sent(how, passed)] = &outcomes[..] else { panic!("one: {outcomes:?}") };
        assert_eq!((how.destination, how.ttl), (ip(RECEIVER), 62));
        assert_eq!(*passed, octets);
    }
}

/// RFC 2205 appendix C: for hosts without raw sockets an equal PathTear is also sent in UDP.
#[test]
fn path_tear_to_udp_hosts_is_also_encapsulated() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.hop.lih = router.engine.lih(ETH2);
    let payload = octets(Body::Resv(request), 1);
    router.handle(Input::Datagram(Datagram {
        interface: ETH2,
        source: ip(DOWNSTREAM),
        destination: ip("10.0.2.1"),
        ttl: 1,
        router_alert: false,
        encapsulated: true,
        payload: &payload,
    }));
    let outcomes = router.receive(ETH1, Body::PathTear(path_tear()));
    let tears: Vec<_> = sent(&outcomes)
        .into_iter()
        .filter(|(_, message)| matches!(message.body, Body::PathTear(_)))
        .collect();
    let [(inside, first), (raw, second)] = &tears[..] else { panic!("two: {tears:?}") };
    assert!(inside.encapsulated && !raw.encapsulated);
    assert_eq!(*inside, Outgoing { encapsulated: true, ..*raw });
    assert_eq!((raw.interface, raw.destination), (Some(ETH2), ip(RECEIVER)));
    assert_eq!(first.body, second.body);
}

/// A sender without a route at the last lookup is looked up again with its next Path, even if no route change was
/// reported.
#[test]
fn path_without_route_is_dropped_until_route_exists() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let routes = core::mem::take(&mut router.routes);
    router.host(HostEvent::RouteChanged("10.0.9.0/24".parse().expect("a prefix")));
    router.pass(Duration::from_secs(3));
    let dropped = router.receive(ETH1, Body::Path(path()));
    assert!(matches!(events(&dropped)[..], [Event::Dropped { reason: DropReason::NoRoute, .. }]));
    router.routes = routes;
    assert_eq!(events(&router.receive(ETH1, Body::Path(path()))), []);
}

/// Once a sender has a route again its Paths need no lookup, until a route change is reported.
#[test]
fn path_after_route_returns_needs_no_lookup() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let prefix = "10.0.9.0/24".parse().expect("a prefix");
    let routes = core::mem::take(&mut router.routes);
    router.host(HostEvent::RouteChanged(prefix));
    router.pass(Duration::from_secs(3));
    router.routes = routes;
    router.host(HostEvent::RouteChanged(prefix));
    router.pass(Duration::from_secs(3));
    // No route change is reported.
    router.routes = RouteTable::new();
    assert_eq!(router.receive(ETH1, Body::Path(path())), []);
}

//! Local repair after route changes, multicast and unicast (RFC 2205 section 3.6).

use std::time::Duration;

use earmark_core::{Hop, HostEvent, Prefix, Rate, Route};
use earmark_rsvp::{Application, Command, Config, Event, Timing};
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, Path, PathTear, Resv, ResvTear, RsvpHop, SenderDescriptor, Session,
};

use crate::common::*;
use crate::sharing::*;

/// Delay from a route change to the sweep over the senders.
const DELAY: Duration = Duration::from_secs(2);
const SECOND: Duration = Duration::from_secs(1);
/// Delay from the sweep to the end of old paths.
const DEPARTURE: Duration = Duration::from_secs(3);

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

/// Routes unicast data for this prefix through eth3, or no longer.
fn detour(bench: &mut Bench, destinations: &str, there: bool) -> HostEvent {
    let prefix = prefix(destinations);
    if there {
        bench.add_route(destinations, ETH3, Some("10.0.3.2"));
    } else {
        let hop = Hop { interface: ETH3, gateway: Some(ip("10.0.3.2")), source: None };
        assert!(bench.routes.remove(&Route { prefix, metric: 0, hop }));
    }
    HostEvent::RouteChanged(prefix)
}

fn group_changed(source: &str) -> HostEvent {
    HostEvent::MulticastRouteChanged { source: Some(ip(source)), group: group().destination }
}

/// From the neighbour behind eth3.
fn from_eth3<'a>(resv: Resv<'a>) -> Resv<'a> {
    Resv { hop: RsvpHop { address: ip("10.0.3.2"), lih: ETH3.0 }, ..resv }
}

fn held_on(bench: &Bench, interface: earmark_core::InterfaceId) -> Rate {
    bench.ledger.link(interface).expect("a link").held
}

/// A group's data leaves one of two branches. The request upstream decreases at once; the old branch gets a PathTear
/// later, and its reservation ends then.
#[test]
fn branch_that_data_left_is_torn_after_departure_delay() {
    let senders = [template()];
    let mut router = fork();
    branch(&mut router, SENDER, ETH1, &[ETH2, ETH3]);
    router.receive(ETH1, to_group(Body::Path(path())));
    router.receive(ETH2, to_group(Body::Resv(shared(4, &senders))));
    router.receive(ETH3, to_group(Body::Resv(from_eth3(shared(1, &senders)))));
    branch(&mut router, SENDER, ETH1, &[ETH3]);
    assert_eq!(router.host(group_changed(SENDER)), []);
    let outcomes = router.pass(DELAY);
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: SE 1 of 4000"]);
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4), "it may come back");
    let outcomes = router.pass(DEPARTURE);
    assert_eq!(sent_texts(&outcomes), ["PathTear through eth2"]);
    assert_eq!((held_on(&router, ETH2), held_on(&router, ETH3)), (Rate::ZERO, Rate::from_mbps(1)));
}

/// Without a reservation on the new path, the request upstream stays until the old path ends.
#[test]
fn unreserved_new_path_keeps_upstream_request_until_old_path_ends() {
    for wild in [false, true] {
        let senders = [template()];
        let request = if wild { wildcard(4) } else { shared(4, &senders) };
        let mut router = fork();
        branch(&mut router, SENDER, ETH1, &[ETH2]);
        router.receive(ETH1, to_group(Body::Path(path())));
        router.receive(ETH2, to_group(Body::Resv(request)));
        branch(&mut router, SENDER, ETH1, &[ETH3]);
        router.host(group_changed(SENDER));
        assert_eq!(sent_texts(&router.pass(DELAY)), ["Path through eth3"]);
        let end = sent_texts(&router.pass(DEPARTURE));
        let given_back = if wild { "WF 4" } else { "SE 4 of 4000" };
        let given_back = format!("ResvTear to 10.0.1.1: {given_back}");
        assert_eq!(end, ["PathTear through eth2".to_owned(), given_back]);
        assert_eq!(held_on(&router, ETH2), Rate::ZERO);
    }
}

/// A next hop on the old path may release its reservation before that path ends. The ResvTear is sent upstream when the
/// path ends, or when it would have ended if the data has returned to it; unless the new path is reserved by then.
#[test]
fn release_on_old_path_is_sent_upstream_when_path_ends() {
    let nothing = Vec::<String>::new;
    let (flows, senders) = ([flow(4)], [template()]);
    // The flowspec of a ResvTear may be omitted.
    let styles = [
        (resv(&flows), "FF nothing of 4000"),
        (shared(4, &senders), "SE 4 of 4000"),
        (wildcard(4), "WF 4"),
    ];
    for (request, torn) in styles {
        for (comes_back, is_replaced) in [(false, false), (true, false), (false, true)] {
            let mut router = fork();
            branch(&mut router, SENDER, ETH1, &[ETH2]);
            router.receive(ETH1, to_group(Body::Path(path())));
            router.receive(ETH2, to_group(Body::Resv(request)));
            branch(&mut router, SENDER, ETH1, &[ETH3]);
            router.host(group_changed(SENDER));
            assert_eq!(sent_texts(&router.pass(DELAY)), ["Path through eth3"]);
            let tear = Body::ResvTear(ResvTear { session: group(), ..tear_of(request) });
            assert_eq!(sent_texts(&router.receive(ETH2, tear)), nothing(), "{torn}");
            let mut end = vec![format!("ResvTear to 10.0.1.1: {torn}")];
            if is_replaced {
                let replaced = router.receive(ETH3, to_group(Body::Resv(from_eth3(request))));
                assert_eq!(sent_texts(&replaced), nothing(), "the previous hop has it still");
                end.clear();
            }
            if comes_back {
                branch(&mut router, SENDER, ETH1, &[ETH2]);
                router.host(group_changed(SENDER));
                assert_eq!(sent_texts(&router.pass(DELAY)), ["Path through eth2"]);
            } else {
                end.insert(0, "PathTear through eth2".into());
            }
            let rest = if comes_back { DEPARTURE - DELAY } else { DEPARTURE };
            assert_eq!(sent_texts(&router.pass(rest)), end);
            let refreshed = router.pass(Duration::from_secs(46));
            let is_refreshed = |text: &String| text.starts_with("Resv to 10.0.1.1");
            assert_eq!(sent_texts(&refreshed).iter().any(is_refreshed), is_replaced, "{torn}");
        }
    }
}

/// Each branch of a group's data is refreshed in the period R of its own interface, also after one of them has joined.
#[test]
fn branches_are_refreshed_in_their_own_periods() {
    let timing = |seconds| Timing { refresh: Duration::from_secs(seconds), ..Timing::default() };
    let config = Config {
        interfaces: [(ETH2, timing(10)), (ETH3, timing(100))].into(),
        ..Config::default()
    };
    let mut router = with_config(config);
    router.add_interface(ETH3, "10.0.3.1");
    branch(&mut router, SENDER, ETH1, &[ETH2, ETH3]);
    let patient = Path { refresh_ms: 1_000_000, ..path() };
    router.receive(ETH1, to_group(Body::Path(patient)));
    let count = |outcomes: &[Outcome], link: &str| {
        sent_texts(outcomes).iter().filter(|text| text.ends_with(link)).count()
    };
    let outcomes = router.pass(Duration::from_secs(1_000));
    // 0.5 R to 1.5 R apart.
    assert!((67..=200).contains(&count(&outcomes, "eth2")), "{}", count(&outcomes, "eth2"));
    assert!((6..=20).contains(&count(&outcomes, "eth3")), "{}", count(&outcomes, "eth3"));
}

/// Two sources of 1 Mbit/s each share a reservation. If one of them leaves, half of the reservation remains.
#[test]
fn route_change_of_one_source_halves_shared_reservation() {
    let announce = |source| {
        let template = FilterSpec { source: ip(source), ..template() };
        let sender = SenderDescriptor { template, tspec: tspec(1), adspec: None };
        to_group(Body::Path(Path { sender, ..path() }))
    };
    let mut router = fork();
    for source in [SENDER, "10.0.0.2"] {
        branch(&mut router, source, ETH1, &[ETH2]);
        router.receive(ETH1, announce(source));
    }
    router.receive(ETH2, to_group(Body::Resv(wildcard(4))));
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(2));
    for source in [SENDER, "10.0.0.2"] {
        branch(&mut router, source, ETH1, &[ETH3]);
    }
    router.host(group_changed(SENDER));
    let moved = sent_texts(&router.pass(DELAY)).into_iter().filter(|text| text.starts_with("Path"));
    assert_eq!(moved.collect::<Vec<String>>(), ["Path through eth3"]);
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(1));
}

/// More changes than are distinguished: every sender is examined, whenever its change was recorded.
#[test]
fn route_changes_over_limit_repair_every_sender() {
    for own in [0, 99] {
        let mut router = fork();
        router.receive(ETH1, Body::Path(path()));
        for number in 0..100 {
            let changed = if number == own {
                detour(&mut router, "10.0.9.9/32", true)
            } else {
                HostEvent::RouteChanged(prefix(&format!("10.7.{number}.0/24")))
            };
            router.host(changed);
        }
        assert_eq!(sent_texts(&router.pass(DELAY)), ["Path through eth3"]);
    }
}

/// A few changes concern the senders of their routes only, and not those of a route whose change was not reported.
#[test]
fn route_changes_repair_the_senders_of_their_ranges() {
    let mut router = fork();
    let destinations = ["10.0.9.7", "10.0.9.8", "10.0.9.9"];
    for destination in destinations {
        let session = Session { destination: ip(destination), ..session() };
        router.receive(ETH1, Body::Path(Path { session, ..path() }));
    }
    let changes = destinations.map(|it| detour(&mut router, &format!("{it}/32"), true));
    router.host(changes[0]);
    router.host(changes[2]);
    let outcomes = router.pass(DELAY);
    let mut moved: Vec<_> = sent(&outcomes)
        .iter()
        .filter(|(how, _)| how.interface == Some(ETH3))
        .map(|(how, _)| how.destination)
        .collect();
    moved.sort_unstable();
    assert_eq!(moved, [ip(destinations[0]), ip(destinations[2])]);
}

/// A thousand senders are examined in steps, and changes meanwhile are handled afterwards.
#[test]
fn repair_of_many_senders_is_done_in_steps() {
    const MANY: u16 = 1_000;
    let mut router = fork();
    for port in 1..=MANY {
        let mut path = path();
        path.session.port = port;
        path.session.destination = ip(if port % 2 == 0 { "10.0.9.8" } else { RECEIVER });
        router.receive(ETH1, Body::Path(path));
    }
    let repaired = |outcomes: &[Outcome]| {
        sent_texts(outcomes).iter().filter(|text| *text == "Path through eth3").count()
    };
    let first = detour(&mut router, "10.0.9.9/32", true);
    router.host(first);
    let begun = repaired(&router.pass(DELAY));
    assert!((1..500).contains(&begun), "{begun}");
    let second = detour(&mut router, "10.0.9.8/32", true);
    router.host(second);
    let went_on = repaired(&router.pass(Duration::from_millis(100)));
    assert_eq!(begun + went_on, 500);
    assert_eq!(repaired(&router.pass(DELAY + Duration::from_millis(100))), 500);
}

/// The receiver's address moves to this host, and away again: applications here get PATH_EVENT.
#[test]
fn destination_moved_to_host_notifies_applications() {
    let mut router = router();
    router.command(Command::Session { application: Application(1), session: session() });
    router.receive(ETH1, Body::Path(path()));
    let changed = HostEvent::InterfaceChanged(ETH2);
    router.add_interface_with(ETH2, &["10.0.2.1", RECEIVER], Rate::from_mbps(10));
    router.host(changed);
    let reported = events(&router.pass(DELAY));
    assert!(matches!(reported[..], [Event::Path { .. }, Event::PathState { .. }]), "{reported:?}");
    router.add_interface(ETH2, "10.0.2.1");
    router.host(changed);
    let reported = events(&router.pass(DELAY));
    assert!(
        matches!(reported[..], [Event::PathGone { .. }, Event::PathState { .. }]),
        "{reported:?}"
    );
}

/// The route flaps so that the data is back on the old path just when that is about to end, and gone from it before the
/// sweep: the path still ends, but later.
#[test]
fn flapping_route_delays_path_end() {
    let mut router = fork();
    router.receive(ETH1, Body::Path(path()));
    let changed = detour(&mut router, "10.0.9.9/32", true);
    router.host(changed);
    assert_eq!(sent_texts(&router.pass(Duration::from_millis(4_900))), ["Path through eth3"]);
    detour(&mut router, "10.0.9.9/32", false);
    router.host(changed);
    assert_eq!(sent_texts(&router.pass(Duration::from_millis(1_100))), Vec::<String>::new());
    detour(&mut router, "10.0.9.9/32", true);
    router.host(changed);
    assert_eq!(sent_texts(&router.pass(Duration::from_millis(2_100))), ["PathTear through eth2"]);
}

/// A forwarded PathTear contains the objects of the received one, and a PathTear from this node contains none.
#[test]
fn path_tear_contains_only_its_own_objects() {
    let object = [0, 8, 0xfe, 9, 1, 2, 3, 4];
    let carried = |outcomes: &[Outcome]| -> Option<Vec<u8>> {
        sent(outcomes).iter().find_map(|(_, message)| match message.body {
            Body::PathTear(tear) => {
                Some(tear.carried.iter().flat_map(|object| object.bytes.to_vec()).collect())
            }
            _ => None,
        })
    };
    let flows = [flow(2)];
    let with_object = Resv { carried: Carried::Objects(&object), ..resv(&flows) };
    let prepared = || {
        let mut router = fork();
        router.receive(ETH1, Body::Path(path()));
        router.receive(ETH2, Body::Resv(with_object));
        router
    };
    let mut torn = prepared();
    let tear = PathTear { carried: Carried::Objects(&object), ..path_tear() };
    assert_eq!(carried(&torn.receive(ETH1, Body::PathTear(tear))), Some(object.to_vec()));
    let mut torn = prepared();
    assert_eq!(carried(&torn.receive(ETH1, Body::PathTear(path_tear()))), Some(Vec::new()));

    let mut expired = prepared();
    expired.pass(Duration::from_secs(100));
    expired.receive(ETH2, Body::Resv(with_object));
    assert_eq!(carried(&expired.pass(Duration::from_secs(60))), Some(Vec::new()));

    let mut departed = prepared();
    let changed = detour(&mut departed, "10.0.9.9/32", true);
    departed.host(changed);
    departed.pass(DELAY);
    let mut elsewhere = path();
    elsewhere.session.destination = ip("10.0.9.8");
    departed.receive(ETH1, Body::Path(elsewhere));
    let mut again = with_object;
    again.session.destination = ip("10.0.9.8");
    departed.receive(ETH2, Body::Resv(again));
    assert_eq!(carried(&departed.pass(DEPARTURE)), Some(Vec::new()));
}

/// Path of [`path`]'s sender from the neighbour behind eth3, and its PathTear.
fn path_through_eth3() -> (Path<'static>, PathTear<'static>) {
    let hop = RsvpHop { address: ip("10.0.3.2"), lih: 9 };
    (Path { hop, ..path() }, PathTear { hop, ..path_tear() })
}

/// The data comes through eth1 again. The router on the detour refreshes its Path once more before it gets the PathTear: that
/// ends nothing, whatever the style, and the request goes to the previous hop on the present path again.
#[test]
fn refresh_and_tear_on_left_path_keep_sender() {
    let (flows, senders) = ([flow(4)], [template()]);
    let (detour, detour_tear) = path_through_eth3();
    for request in [resv(&flows), shared(4, &senders), wildcard(4)] {
        let mut router = fork();
        router.receive(ETH3, Body::Path(detour));
        router.receive(ETH2, Body::Resv(request));
        router.receive(ETH1, Body::Path(path()));
        router.pass(SECOND);
        router.receive(ETH3, Body::Path(detour));
        let outcomes = router.receive(ETH3, Body::PathTear(detour_tear));
        let sent = sent_texts(&outcomes);
        assert!(sent.iter().any(|text| text.starts_with("Resv to 10.0.1.1")), "{sent:?}");
        assert!(!sent.iter().any(|text| text.contains("Tear")), "{sent:?}");
        assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4));
        // The lifetime is that of the last Path on the present path.
        router.receive(ETH2, Body::Resv(request));
        router.pass(Duration::from_secs(150));
        router.receive(ETH2, Body::Resv(request));
        assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4));
        router.pass(Duration::from_secs(10));
        assert_eq!(held_on(&router, ETH2), Rate::ZERO);
    }
}

/// A PathTear of a node that is neither the previous hop nor the one before it, or through another interface than theirs,
/// ends nothing, and the sender still returns to the hop before.
#[test]
fn tear_of_another_node_changes_nothing() {
    let (flows, (detour, detour_tear)) = ([flow(4)], path_through_eth3());
    let strangers = [
        (ETH3, "10.0.3.9"),
        (ETH1, "10.0.1.9"),
        (ETH2, "10.0.2.2"),
        // The addresses of both hops, each through the interface of the other one.
        (ETH1, "10.0.3.2"),
        (ETH3, "10.0.1.1"),
    ];
    let mut router = fork();
    router.receive(ETH3, Body::Path(detour));
    router.receive(ETH2, Body::Resv(resv(&flows)));
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH3, Body::Path(detour));
    for (interface, address) in strangers {
        let hop = RsvpHop { address: ip(address), lih: 9 };
        router.receive(interface, Body::PathTear(PathTear { hop, ..path_tear() }));
        assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4), "{address} through {interface:?}");
    }
    router.receive(ETH3, Body::PathTear(detour_tear));
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4));
    router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(held_on(&router, ETH2), Rate::ZERO);
}

/// The end of a sender is the PathTear of its previous hop, if no path that the data has left explains it.
#[test]
fn tear_on_present_path_ends_sender() {
    let (flows, [one, two]) = ([flow(4)], [path(), path_through_eth3().0]);
    let tears = [path_tear(), path_through_eth3().1];
    /// Paths of the first or second previous hop, and the seconds before each.
    type Paths = &'static [(usize, u64)];
    /// PathTears of the first or second previous hop, of which only the last one ends the sender.
    type Tears = &'static [usize];
    let cases: [(Paths, Tears); 6] = [
        // The data has left the detour, and ends.
        (&[(1, 0), (0, 1)], &[0]),
        (&[(1, 0), (0, 1)], &[1, 0]),
        // The detour was refreshed, and the present path as well.
        (&[(1, 0), (0, 1), (1, 1), (0, 1)], &[1, 0]),
        (&[(1, 0), (0, 1), (1, 1)], &[1, 0]),
        // The PathTear of the present path overtakes that of the left one.
        (&[(1, 0), (0, 1), (1, 1), (0, 1)], &[0, 1]),
        // The path has changed long ago.
        (&[(1, 0), (0, 1), (1, 7)], &[1]),
    ];
    for (paths, ends) in cases {
        let mut router = fork();
        for &(hop, pause) in paths {
            router.pass(Duration::from_secs(pause));
            router.receive([ETH1, ETH3][hop], Body::Path([one, two][hop]));
            router.receive(ETH2, Body::Resv(resv(&flows)));
        }
        for (number, &hop) in ends.iter().enumerate() {
            router.receive([ETH1, ETH3][hop], Body::PathTear(tears[hop]));
            let rest = held_on(&router, ETH2);
            let is_last = number + 1 == ends.len();
            assert_eq!(rest == Rate::ZERO, is_last, "{paths:?}, {ends:?}: {rest} after {number}");
        }
    }
}

/// Behind a failed link the only route may lead back. The previous hop knows the other path, or will: a Path back to it would make
/// this router its previous hop.
#[test]
fn path_is_not_sent_back_to_its_previous_hop() {
    let flows = [flow(4)];
    let mut router = fork();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&flows)));
    router.add_route("10.0.9.9/32", ETH1, Some(UPSTREAM));
    router.host(HostEvent::RouteChanged(prefix("10.0.9.9/32")));
    let sent = sent_texts(&router.pass(DELAY + DEPARTURE));
    assert_eq!(sent, Vec::<String>::new());
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4), "until the previous hop ends it");
    assert_eq!(sent_texts(&router.receive(ETH1, Body::Path(path()))), Vec::<String>::new());
    let sent = sent_texts(&router.receive(ETH1, Body::PathTear(path_tear())));
    assert_eq!(sent, ["PathTear through eth2"]);
    assert_eq!(held_on(&router, ETH2), Rate::ZERO);
    // Another router on the same link is another way.
    let mut router = fork();
    router.receive(ETH1, Body::Path(path()));
    router.add_route("10.0.9.9/32", ETH1, Some("10.0.1.3"));
    router.host(HostEvent::RouteChanged(prefix("10.0.9.9/32")));
    assert_eq!(sent_texts(&router.pass(DELAY)), ["Path through eth1"]);
}

/// The data goes to the next hop, so it does not come from there, whatever a Path from there says.
#[test]
fn next_hop_does_not_become_previous_hop() {
    let flows = [flow(4)];
    let mut router = fork();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&flows)));
    let hop = RsvpHop { address: ip(DOWNSTREAM), lih: 5 };
    assert_eq!(
        sent_texts(&router.receive(ETH2, Body::Path(Path { hop, ..path() }))),
        Vec::<String>::new()
    );
    router.receive(ETH2, Body::PathTear(PathTear { hop, ..path_tear() }));
    assert_eq!(held_on(&router, ETH2), Rate::from_mbps(4));
    let refreshed = sent_texts(&router.pass(Duration::from_secs(46)));
    assert!(refreshed.contains(&"Resv to 10.0.1.1: FF 4 of 4000".to_owned()), "{refreshed:?}");
}

/// W is that of the interface that the route uses now; changes with another W are neither hurried nor delayed by it.
#[test]
fn each_change_waits_for_the_delay_of_its_interface() {
    let slow = Timing { repair_delay: 10 * SECOND, ..Timing::default() };
    let mut router = with_config(Config { interfaces: [(ETH3, slow)].into(), ..Config::default() });
    router.add_interface(ETH3, "10.0.3.1");
    router.receive(ETH1, Body::Path(path()));
    let paths = |outcomes: &[Outcome]| {
        let sent = sent_texts(outcomes);
        sent.into_iter().filter(|text| text.starts_with("Path through")).collect::<Vec<_>>()
    };
    let nothing = Vec::<String>::new();
    let detoured = detour(&mut router, "10.0.9.0/25", true);
    router.host(detoured);
    // Another route changes, with the usual delay.
    router.add_route("10.0.8.0/24", ETH2, None);
    router.host(HostEvent::RouteChanged(prefix("10.0.8.0/24")));
    assert_eq!(paths(&router.pass(9 * SECOND)), nothing);
    assert_eq!(paths(&router.pass(SECOND)), ["Path through eth3"]);
    // And back over an interface with the usual delay, while a slow change waits.
    router.add_route("10.0.7.0/24", ETH3, None);
    router.host(HostEvent::RouteChanged(prefix("10.0.7.0/24")));
    let back = detour(&mut router, "10.0.9.0/25", false);
    router.host(back);
    assert_eq!(paths(&router.pass(SECOND)), nothing);
    assert_eq!(paths(&router.pass(SECOND)), ["Path through eth2"]);
}

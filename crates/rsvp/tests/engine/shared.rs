//! Shared reservations (SE and WF): requests of next hops, traffic control, and requests upstream.

use std::time::Duration;

use earmark_core::{HostEvent, MulticastRoute, Rate};
use earmark_rsvp::{Application, Command, Config, Event, ReserveRequest};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FlowDescriptors, List, Path, Resv, ResvConf,
    RsvpHop, SenderDescriptor, SourceSelector, Style,
};

use crate::common::*;
use crate::sharing::*;

/// A router with the senders of these ports.
fn router_with(ports: impl IntoIterator<Item = u16>) -> Bench {
    let mut router = router();
    for port in ports {
        router.receive(ETH1, Body::Path(path_of(sender_on(port))));
    }
    router
}

fn nothing() -> Vec<String> {
    Vec::new()
}

/// A previous daemon run has left a reservation that two flows share. A request for both takes over both.
#[test]
fn shared_flows_of_previous_run_are_taken_over() {
    let senders = [sender_on(4000), sender_on(4001)];
    let mut router = router_with([4000, 4001]);
    for (sender, mbps) in senders.into_iter().zip([2, 0]) {
        router
            .ledger
            .adopt(ETH2, flow_of(sender), Rate::from_mbps(mbps), None)
            .expect("there is room");
    }
    let outcomes = router.receive(ETH2, Body::Resv(shared(2, &senders)));
    let [installed, added] = &outcomes[..2] else { panic!("two at least: {outcomes:?}") };
    let Outcome::Installed(installation) = installed else { panic!("{installed:?}") };
    assert_eq!(installation.flow, flow_of(senders[0]));
    assert_eq!(*added, Outcome::Added(installation.claim, flow_of(senders[1])));
    let link = router.ledger.link(ETH2).expect("eth2 is a link");
    assert_eq!((link.held, link.adopted), (Rate::from_mbps(2), 0));
}

/// One next hop may list its senders in several messages; each sender stays as long as it is listed.
#[test]
fn senders_in_several_messages_add_up() {
    let mut router = router_with([4000, 4001, 4002]);
    let name =
        |router: &mut Bench, port| router.receive(ETH2, Body::Resv(shared(2, &[sender_on(port)])));
    assert_eq!(sent_texts(&name(&mut router, 4001)), ["Resv to 10.0.1.1: SE 2 of 4001"]);
    assert_eq!(sent_texts(&name(&mut router, 4000)), ["Resv to 10.0.1.1: SE 2 of 4000 4001"]);
    assert_eq!(sent_texts(&name(&mut router, 4002)), ["Resv to 10.0.1.1: SE 2 of 4000 4001 4002"]);
    for port in [4000, 4001, 4002] {
        assert_eq!(name(&mut router, port), [], "it is a refresh");
        router.receive(ETH1, Body::Path(path_of(sender_on(port))));
    }
    router.pass(Duration::from_secs(60));
    name(&mut router, 4000);
    router.pass(Duration::from_secs(40));
    name(&mut router, 4002);
    let mut ends = |seconds| {
        let outcomes = router.pass(Duration::from_secs(seconds));
        for port in [4000, 4001, 4002] {
            router.receive(ETH1, Body::Path(path_of(sender_on(port))));
        }
        let tears = sent_texts(&outcomes).into_iter().filter(|text| text.starts_with("ResvTear"));
        tears.collect::<Vec<String>>()
    };
    assert_eq!(ends(57), nothing());
    assert_eq!(ends(1), ["ResvTear to 10.0.1.1: SE 2 of 4001"]);
    assert_eq!(ends(60), ["ResvTear to 10.0.1.1: SE 2 of 4000"]);
    assert_eq!(ends(40), ["ResvTear to 10.0.1.1: SE 2 of 4002"]);
}

/// Order and repetition of senders in a message do not matter.
#[test]
fn order_of_senders_is_irrelevant() {
    let jumbled = [sender_on(4001), sender_on(4000), sender_on(4000)];
    let mut router = router_with([4000, 4001]);
    let outcomes = router.receive(ETH2, Body::Resv(shared(2, &jumbled)));
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: SE 2 of 4000 4001"]);
    assert_eq!(router.receive(ETH2, Body::Resv(shared(2, &jumbled))), []);
    // A refused request refreshes the existing one.
    for _ in 0..8 {
        for port in [4000, 4001] {
            router.receive(ETH1, Body::Path(path_of(sender_on(port))));
        }
        let outcomes = router.receive(ETH2, Body::Resv(shared(8, &jumbled)));
        assert_eq!(sent_texts(&outcomes), ["ResvErr to 10.0.2.2: SE 8 of 4001 4000 4000"]);
        let meanwhile = sent_texts(&router.pass(Duration::from_secs(30)));
        assert!(!meanwhile.iter().any(|text| text.starts_with("ResvTear")), "{meanwhile:?}");
    }
    let outcomes = router.receive(ETH2, Body::ResvTear(tear_of(shared(2, &jumbled))));
    assert_eq!(sent_texts(&outcomes), ["ResvTear to 10.0.1.1: SE 2 of 4000 4001"]);
    assert_eq!(router.held(), Rate::ZERO);
}

/// An equal request of a second next hop is merged, and changes nothing.
#[test]
fn equal_requests_of_next_hops_are_merged() {
    let senders = [sender_on(4000), sender_on(4001)];
    let mut router = router_with([4000, 4001]);
    router.receive(ETH2, Body::Resv(shared(2, &senders)));
    let mut other = shared(2, &senders);
    other.hop.address = ip("10.0.2.3");
    assert_eq!(router.receive(ETH2, Body::Resv(other)), []);
}

/// A refused or released request leaves no state, so another style may follow.
#[test]
fn released_style_allows_another() {
    let senders = [sender_on(4000)];
    let mut router = router_with([4000]);
    let outcomes = router.receive(ETH2, Body::Resv(shared(8, &senders)));
    assert_eq!(sent_texts(&outcomes), ["ResvErr to 10.0.2.2: SE 8 of 4000"]);
    let outcomes = router.receive(ETH2, Body::Resv(wildcard(2)));
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: WF 2"]);
    let outcomes = router.receive(ETH2, Body::ResvTear(tear_of(wildcard(2))));
    assert_eq!(sent_texts(&outcomes), ["ResvTear to 10.0.1.1: WF 2"]);
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: FF 2 of 4000"]);
    assert_eq!(router.held(), Rate::from_mbps(2));
}

/// An invalid request is refused, and so is one with more senders than a session may have.
#[test]
fn invalid_shared_request_is_refused() {
    let error = |outcomes: &[Outcome]| {
        sent(outcomes).iter().find_map(|(_, message)| match message.body {
            Body::ResvErr(error) => Some((error.error.code, error.error.value)),
            _ => None,
        })
    };
    let senders = [sender_on(4000), sender_on(4001), sender_on(4002)];
    let mut router = router_with([4000]);
    let invalid = FlowSpec::ControlledLoad(TokenBucket { depth: f32::NAN, ..tspec(2) });
    let flows = FlowDescriptors::SharedExplicit(Some(invalid), List::Items(&senders[..1]));
    let outcomes = router.receive(ETH2, Body::Resv(Resv { flows, ..resv(&[]) }));
    assert_eq!(error(&outcomes), Some((ErrorCode::TrafficControlError, 3)));

    let mut small = with_config(Config { max_senders: 2, ..Config::default() });
    small.receive(ETH1, Body::Path(path_of(senders[0])));
    let outcomes = small.receive(ETH2, Body::Resv(shared(2, &senders)));
    assert_eq!(error(&outcomes), Some((ErrorCode::RsvpSystemError, 0)));
    assert_eq!(sent_texts(&small.receive(ETH2, Body::Resv(shared(2, &senders[..2])))).len(), 1);
}

/// Paths of unicast data never split, so wildcard requests have no SCOPE there, whatever interfaces the data arrives
/// through.
#[test]
fn unicast_wildcard_request_has_no_scope() {
    let mut router = router_with([4000]);
    let mut other = path_of(sender_on(4001));
    other.hop.address = ip("10.0.1.3");
    router.receive(ETH1, Body::Path(other));
    let outcomes = router.receive(ETH2, Body::Resv(wildcard(2)));
    let mut texts = sent_texts(&outcomes);
    texts.sort();
    assert_eq!(texts, ["Resv to 10.0.1.1: WF 2", "Resv to 10.0.1.3: WF 2"]);
}

/// RFC 2205 section 3.4: a request for a group with data from two interfaces lists the senders of each that it is meant
/// for, each host once, limited to the SCOPE from downstream.
#[test]
fn scope_is_limited_by_downstream_scope() {
    let mut router = fork();
    branch(&mut router, SENDER, ETH1, &[ETH2]);
    branch(&mut router, "10.0.8.1", ETH3, &[ETH2]);
    for port in [4000, 4001] {
        router.receive(ETH1, to_group(Body::Path(path_of(sender_on(port)))));
    }
    let mut aside = path_of(FilterSpec { source: ip("10.0.8.1"), ..template() });
    aside.hop.address = ip("10.0.3.2");
    router.receive(ETH3, to_group(Body::Path(aside)));
    let mut ask = |scope: &[std::net::IpAddr]| {
        let scope = Some(List::Items(scope));
        sent_texts(&router.receive(ETH2, to_group(Body::Resv(Resv { scope, ..wildcard(2) }))))
    };
    let (here, there) = (ip(SENDER), ip("10.0.8.1"));
    assert_eq!(ask(&[here]), ["Resv to 10.0.1.1: WF 2 scope 10.0.0.1"]);
    assert_eq!(ask(&[here, there]), ["Resv to 10.0.3.2: WF 2 scope 10.0.8.1"]);
    assert_eq!(ask(&[there]), ["ResvTear to 10.0.1.1: WF 2 scope 10.0.0.1"]);
    assert_eq!(ask(&[here, there]), ["Resv to 10.0.1.1: WF 2 scope 10.0.0.1"]);
    assert_eq!(ask(&[here, there]), nothing());
}

/// SCOPE lists where a request has to be forwarded. A sender of this host gets what is reserved for all, and its
/// application is notified; only other senders are listed upstream.
#[test]
fn local_sender_is_not_in_scope() {
    let mut router = fork();
    branch(&mut router, SENDER, ETH1, &[ETH2]);
    branch(&mut router, "10.0.8.1", ETH3, &[ETH2]);
    router.routes.insert_multicast(MulticastRoute {
        source: Some(ip("10.0.2.1")),
        group: group().destination,
        incoming: None,
        outgoing: vec![ETH2],
    });
    router.receive(ETH1, to_group(Body::Path(path())));
    let mut aside = path_of(FilterSpec { source: ip("10.0.8.1"), ..template() });
    aside.hop.address = ip("10.0.3.2");
    router.receive(ETH3, to_group(Body::Path(aside)));
    let application = Application(1);
    let template = FilterSpec { source: ip("10.0.2.1"), ..template() };
    router.command(Command::Session { application, session: group() });
    router.command(Command::Sender { application, template, tspec: tspec(2), ttl: 63 });

    let scope = [ip(SENDER)];
    let request = Resv { scope: Some(List::Items(&scope)), ..wildcard(2) };
    let outcomes = router.receive(ETH2, to_group(Body::Resv(request)));
    assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: WF 2 scope 10.0.0.1"]);
    let reported = events(&outcomes);
    let mine = |event: &Event| matches!(event, Event::Resv { filter, .. } if *filter == template);
    assert!(reported.iter().any(mine), "{reported:?}");
}

/// Objects of unknown classes are forwarded with shared requests, too, and follow the latest message.
#[test]
fn shared_request_forwards_unknown_objects() {
    let senders = [sender_on(4000)];
    let carried = |outcomes: &[Outcome]| -> Vec<u8> {
        let sent = sent(outcomes);
        let [(_, message)] = &sent[..] else { panic!("one message: {outcomes:?}") };
        let Body::Resv(resv) = message.body else { panic!("a Resv: {message:?}") };
        resv.carried.iter().flat_map(|object| object.bytes.to_vec()).collect()
    };
    let mut router = router_with([4000]);
    let (old, new) = ([0, 8, 0xfe, 9, 1, 2, 3, 4], [0, 8, 0xfe, 9, 5, 6, 7, 8]);
    let with = |octets| Resv { carried: Carried::Objects(octets), ..shared(2, &senders) };
    assert_eq!(carried(&router.receive(ETH2, Body::Resv(with(&old)))), old);
    router.receive(ETH2, Body::Resv(with(&new)));
    let refreshes = router.pass(Duration::from_secs(46));
    let refresh =
        |outcome: &&Outcome| sent_texts(std::slice::from_ref(*outcome))[0].starts_with("Resv to");
    let refresh = refreshes.iter().find(refresh).expect("a Resv is refreshed within 45 s");
    assert_eq!(carried(std::slice::from_ref(refresh)), new);
    let outcomes = router.receive(ETH2, Body::Resv(shared(3, &senders)));
    assert!(carried(&outcomes).is_empty());
    router
        .receive(ETH2, Body::Resv(Resv { carried: Carried::Objects(&new), ..shared(3, &senders) }));
    let outcomes = router
        .receive(ETH2, Body::Resv(Resv { carried: Carried::Objects(&new), ..shared(4, &senders) }));
    assert_eq!(carried(&outcomes), new);
}

/// A repeated RESV_CONFIRM gets another answer although nothing has changed; the sender gets no event.
#[test]
fn repeated_confirmation_request_is_answered() {
    let confirmed = Resv { confirm: Some(ip(RECEIVER)), ..wildcard(2) };
    let mut router = router_with([4000]);
    for _ in 0..2 {
        let outcomes = router.receive(ETH2, Body::Resv(confirmed));
        assert_eq!(sent_texts(&outcomes), ["Resv to 10.0.1.1: WF 2"]);
    }
    let application = Application(1);
    let mut host = sender();
    host.command(Command::Session { application, session: session() });
    host.command(Command::Sender { application, template: template(), tspec: tspec(9), ttl: 63 });
    let reported = |outcomes: &[Outcome]| {
        events(outcomes).iter().filter(|event| matches!(event, Event::Resv { .. })).count()
    };
    let first = host.receive(ETH2, Body::Resv(confirmed));
    assert_eq!((reported(&first), sent_texts(&first)), (1, vec!["ResvConf".into()]));
    let second = host.receive(ETH2, Body::Resv(confirmed));
    assert_eq!((reported(&second), sent_texts(&second)), (0, vec!["ResvConf".into()]));
}

/// A ResvConf for a shared request reaches the applications that have reserved in that style, and no others.
#[test]
fn shared_confirmation_reaches_application() {
    let application = Application(1);
    let mut host = receiver();
    host.command(Command::Session { application, session: session() });
    host.receive(ETH1, Body::Path(path()));
    let request = ReserveRequest::Wildcard { flowspec: flowspec(2) };
    host.command(Command::Reserve { application, request, confirm: true });
    let node = ip(UPSTREAM);
    let confirmation = |flows| ResvConf {
        session: session(),
        error: ErrorSpec { node, flags: 0, code: ErrorCode::Confirmation, value: 0 },
        confirm: ip(RECEIVER),
        carried: Carried::NONE,
        flows,
    };
    let wildcard = FlowDescriptors::Wildcard(Some(flowspec(2)));
    let reported = events(&host.receive(ETH1, Body::ResvConf(confirmation(wildcard))));
    let [Event::Confirmed { style: Style::Wildcard, .. }] = reported[..] else {
        panic!("{reported:?}")
    };
    let senders = [template()];
    let explicit = FlowDescriptors::SharedExplicit(Some(flowspec(2)), List::Items(&senders));
    let reported = events(&host.receive(ETH1, Body::ResvConf(confirmation(explicit))));
    assert!(matches!(reported[..], [Event::Dropped { .. }]), "{reported:?}");
}

/// More senders than fit into a message are sent in several; a wildcard request lists none.
#[test]
fn senders_over_message_size_are_split() {
    const MANY: u16 = 1_100;
    let senders: Vec<FilterSpec> = (1..=MANY).map(sender_on).collect();
    let mut router = router_with(1..=MANY);
    let sender_counts = |outcomes: &[Outcome]| -> Vec<usize> {
        let ports = |text: &String| text.split(" of ").nth(1).map(|ports| ports.split(' ').count());
        sent_texts(outcomes).iter().map(|text| ports(text).unwrap_or(0)).collect()
    };
    for request in [shared(2, &senders), wildcard(2)] {
        let expected = if matches!(request.flows, FlowDescriptors::Wildcard(_)) {
            vec![0]
        } else {
            vec![1_024, 76]
        };
        assert_eq!(sender_counts(&router.receive(ETH2, Body::Resv(request))), expected);
        assert_eq!(
            sender_counts(&router.receive(ETH2, Body::ResvTear(tear_of(request)))),
            expected
        );
    }
}

/// Traffic control refuses a shared reservation: each next hop gets a ResvErr, and upstream a ResvTear.
#[test]
fn shared_reservation_refused_by_traffic_control_is_removed() {
    let senders = [sender_on(4000), sender_on(4001)];
    let mut router = router_with([4000, 4001]);
    let outcomes = router.receive(ETH2, Body::Resv(shared(2, &senders)));
    let Outcome::Installed(installation) = &outcomes[0] else { panic!("{outcomes:?}") };
    let mut other = shared(1, &senders[..1]);
    other.hop.address = ip("10.0.2.3");
    router.receive(ETH2, Body::Resv(other));
    let claim = installation.claim;
    let owner = router.ledger.owner(claim).expect("it is owned");
    let outcomes = router.host(HostEvent::TrafficControlRefused { claim, owner, errno: 12 });
    let mut texts = sent_texts(&outcomes);
    texts.sort();
    assert_eq!(
        texts,
        [
            "ResvErr to 10.0.2.2: SE 2 of 4000 4001",
            "ResvErr to 10.0.2.3: SE 1 of 4000",
            "ResvTear to 10.0.1.1: SE 2 of 4000 4001",
        ]
    );
    assert_eq!(router.held(), Rate::ZERO);
}

/// The senders' traffic increases, so that their shared reservation could be used in full, but the link has no
/// capacity: the existing reservation stays, and those who requested it get an error.
#[test]
fn refused_growth_keeps_shared_reservation() {
    let announce = |mbps| {
        let sender = SenderDescriptor { tspec: tspec(mbps), ..path().sender };
        Path { sender, ..path() }
    };
    let mut router = router();
    router.receive(ETH1, Body::Path(announce(2)));
    router.receive(ETH2, Body::Resv(wildcard(6)));
    assert_eq!(router.held(), Rate::from_mbps(2));
    let mut other = path_of(sender_on(4000));
    other.session.port = 6000;
    router.receive(ETH1, Body::Path(other));
    let five = [flow(5)];
    let mut filling = resv(&five);
    filling.session.port = 6000;
    router.receive(ETH2, Body::Resv(filling));
    assert_eq!(router.held(), Rate::from_mbps(7));
    let outcomes = router.receive(ETH1, Body::Path(announce(6)));
    assert_eq!(router.held(), Rate::from_mbps(7));
    let flags = sent(&outcomes).iter().find_map(|(how, message)| match message.body {
        Body::ResvErr(error) => Some((how.destination, error.error.flags)),
        _ => None,
    });
    assert_eq!(flags, Some((ip(DOWNSTREAM), ErrorSpec::IN_PLACE)));
}

/// Senders at one address are distinguished by their ports.
#[test]
fn ending_sender_leaves_shared_reservation() {
    let senders = [sender_on(4000), sender_on(4001)];
    let mut router = router_with([4000, 4001]);
    let outcomes = router.receive(ETH2, Body::Resv(shared(2, &senders)));
    let Outcome::Installed(installation) = &outcomes[0] else { panic!("{outcomes:?}") };
    let outcomes = router.receive(ETH1, Body::PathTear(path_tear()));
    assert_eq!(
        outcomes.iter().find(|o| matches!(o, Outcome::TakenOut(..))),
        Some(&Outcome::TakenOut(installation.claim, flow_of(senders[0])))
    );
    assert_eq!(sent_texts(&outcomes), ["PathTear through eth2"], "upstream had it first");
    let hop = RsvpHop { address: ip(UPSTREAM), lih: 77 };
    let SourceSelector::Port(4000) = template().selector else { panic!("its port") };
    let last = earmark_wire::rsvp::PathTear { hop, template: senders[1], ..path_tear() };
    router.receive(ETH1, Body::PathTear(last));
    assert_eq!(router.held(), Rate::ZERO);
}

/// An object of an unknown class that every node must forward.
fn object(content: u8) -> [u8; 8] {
    [0, 8, 0xfe, 9, 1, 2, 3, content]
}

/// Destination of each Resv, with the objects in it.
fn objects_to(outcomes: &[Outcome]) -> Vec<(String, Vec<u8>)> {
    let sent = sent(outcomes);
    let resvs = sent.iter().filter_map(|(how, message)| match message.body {
        Body::Resv(resv) => Some((how.destination.to_string(), resv.carried)),
        _ => None,
    });
    resvs.map(|(to, all)| (to, all.iter().map(|object| object.bytes[7]).collect())).collect()
}

/// RFC 2205 section 3.10: forwarded objects are merged with their requests. A previous hop gets those of the requests
/// that list its senders, and no others.
#[test]
fn objects_of_shared_request_go_to_its_senders_only() {
    let mut router = router_with([4000]);
    let hop = RsvpHop { address: ip("10.0.1.9"), lih: 77 };
    router.receive(ETH1, Body::Path(Path { hop, ..path_of(sender_on(4001)) }));
    let mut asks = |next_hop, ports: &[u16], objects: &[u8]| {
        let filters: Vec<_> = ports.iter().map(|&port| sender_on(port)).collect();
        let resv = shared(2, &filters);
        let hop = RsvpHop { address: ip(next_hop), ..resv.hop };
        let carried = Carried::Objects(objects);
        objects_to(&router.receive(ETH2, Body::Resv(Resv { hop, carried, ..resv })))
    };
    let to_first = |objects: &[u8]| ("10.0.1.1".to_owned(), objects.to_vec());
    let to_second = |objects: &[u8]| ("10.0.1.9".to_owned(), objects.to_vec());
    assert_eq!(asks("10.0.2.2", &[4000], &object(1)), [to_first(&[1])]);
    assert_eq!(asks("10.0.2.3", &[4001], &object(2)), [to_second(&[2])]);
    // A request for both; only its objects are new for the previous hops.
    let mut changed = asks("10.0.2.4", &[4000, 4001], &object(3));
    changed.sort_unstable();
    assert_eq!(changed, [to_first(&[3, 1]), to_second(&[3, 2])]);
    let mut refreshed = objects_to(&router.pass(Duration::from_secs(45)));
    refreshed.sort_unstable();
    refreshed.dedup();
    assert_eq!(refreshed, [to_first(&[3, 1]), to_second(&[3, 2])]);
}

/// The wildcard style lists no senders, but not all data uses all interfaces.
#[test]
fn objects_of_wildcard_request_follow_the_data_path() {
    let mut router = fork();
    for (source, previous_hop, outgoing) in
        [(SENDER, UPSTREAM, ETH2), ("10.0.0.2", "10.0.1.9", ETH3)]
    {
        branch(&mut router, source, ETH1, &[outgoing]);
        let mut path = path_of(FilterSpec { source: ip(source), ..template() });
        path.hop.address = ip(previous_hop);
        router.receive(ETH1, to_group(Body::Path(path)));
    }
    let mut asks = |interface: earmark_core::InterfaceId, next_hop, objects: &[u8]| {
        let hop = RsvpHop { address: ip(next_hop), lih: interface.0 };
        let resv = Resv { hop, carried: Carried::Objects(objects), ..wildcard(2) };
        objects_to(&router.receive(interface, to_group(Body::Resv(resv))))
    };
    assert_eq!(asks(ETH2, "10.0.2.2", &object(1)), [(UPSTREAM.to_owned(), vec![1])]);
    assert_eq!(asks(ETH3, "10.0.3.2", &object(2)), [("10.0.1.9".to_owned(), vec![2])]);
}

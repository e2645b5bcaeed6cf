//! DREQ and DREP (RFC 2745) at one router: responses, forwarding, and protection against abuse.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Outgoing;
use earmark_rsvp::diagnostics::Settings;
use earmark_rsvp::{Config, DropReason, Event};
use earmark_wire::rsvp::{
    Body, Carried, DiagResponse, Diagnosis, Diagnostic, FilterSpec, FlowDescriptors, List, Message,
    Object, Path, Resv, Route, RsvpHop, Selected, SenderDescriptor, Session, SourceSelector,
    objects_in,
};
use proptest::prelude::*;

use crate::common::*;

const REQUESTER: &str = "10.0.9.200";

/// DREQ from the receiver, with its response, about the sender of [`path`].
fn diagnostic() -> Diagnostic {
    Diagnostic {
        max_hops: 0,
        hop_count: 1,
        more_fragments: false,
        request_id: 4_711,
        path_mtu: 1_400,
        fragment_offset: 0,
        last_hop: ip(RECEIVER),
        sender: template(),
        requester: FilterSpec { source: ip(REQUESTER), selector: SourceSelector::Port(0) },
    }
}

fn first_response() -> DiagResponse<'static> {
    DiagResponse {
        arrival: 1,
        incoming: ip(RECEIVER),
        outgoing: ip("0.0.0.0"),
        previous_hop: ip("10.0.2.1"),
        ip_hops: 0,
        merged: false,
        error: 0,
        refresh_multiple: 3,
        refresh_s: 30,
        objects: &[],
    }
}

fn dreq<'a>(bench: &Bench, responses: &'a [DiagResponse<'a>]) -> Diagnosis<'a> {
    Diagnosis {
        session: session(),
        hop: RsvpHop { address: ip(DOWNSTREAM), lih: bench.engine.lih(ETH2) },
        diagnostic: diagnostic(),
        select: None,
        route: None,
        responses: List::Items(responses),
        carried: Carried::Objects(&[]),
    }
}

/// A router with a sender and a reservation of 2 Mbit/s for it.
fn reserved() -> Bench {
    reserved_with(Config::default())
}

fn reserved_with(config: Config) -> Bench {
    let mut bench = with_config(config);
    bench.receive(ETH1, Body::Path(path()));
    bench.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    bench
}

/// The only sent message, and its header.
fn one(outcomes: &[Outcome]) -> (Outgoing, Diagnosis<'_>) {
    match sent(outcomes)[..] {
        [(how, Message { body: Body::Dreq(diagnosis) | Body::Drep(diagnosis), .. })] => {
            (how, diagnosis)
        }
        ref others => panic!("one message: {others:?}"),
    }
}

fn is_answer(outcomes: &[Outcome]) -> bool {
    matches!(sent(outcomes)[..], [(_, Message { body: Body::Drep(_), .. })])
}

fn dropped(outcomes: &[Outcome]) -> Option<DropReason> {
    events(outcomes).into_iter().find_map(|event| match event {
        Event::Dropped { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn dreq_at_router_is_forwarded_with_response() {
    let mut bench = reserved();
    let responses = [first_response()];
    let request = Diagnosis {
        route: Some(Route { pointer: 1, nodes: List::Items(&[ip_of_receiver()]) }),
        ..dreq(&bench, &responses)
    };
    let outcomes = bench.receive(ETH2, Body::Dreq(request));
    assert!(!is_answer(&outcomes));
    let (how, onward) = one(&outcomes);
    assert_eq!((how.source, how.destination), (ip("10.0.1.2"), ip(UPSTREAM)));
    assert_eq!(onward.hop, RsvpHop { address: ip("10.0.1.2"), lih: 77 }, "as the Path said");
    assert_eq!((onward.diagnostic.hop_count, onward.diagnostic.path_mtu), (2, 1_400));
    let route = onward.route.expect("it goes with it");
    assert_eq!(route.pointer, 2);
    assert_eq!(route.nodes.iter().collect::<Vec<_>>(), [ip(RECEIVER), ip("10.0.1.2")]);
    let responses_sent: Vec<DiagResponse<'_>> = onward.responses.iter().collect();
    assert_eq!(responses_sent[0], first_response());
    let expected = DiagResponse {
        arrival: 1_000 << 16,
        incoming: ip("10.0.1.2"),
        outgoing: ip("10.0.2.1"),
        previous_hop: ip(UPSTREAM),
        ip_hops: 1,
        ..first_response()
    };
    assert_eq!(DiagResponse { objects: &[], ..responses_sent[1] }, expected);
    let classes: Vec<u8> =
        objects_in(responses_sent[1].objects).map(|o| o.expect("whole").raw.class_num()).collect();
    assert_eq!(classes, [12, 8, 9, 10], "SENDER_TSPEC, STYLE, FLOWSPEC, FILTER_SPEC");
}

fn ip_of_receiver() -> IpAddr {
    ip(RECEIVER)
}

/// DIAG_SELECT: only objects that are listed and known; C-Type 0 matches any.
#[test]
fn dreq_with_diag_select_gets_selected_objects() {
    let mut bench = reserved();
    let responses = [first_response()];
    let wanted = [(11, 0), (3, 1), (3, 2), (9, 1), (13, 0), (15, 0), (200, 0)];
    let wanted = wanted.map(|(class_num, c_type)| Selected { class_num, c_type });
    let request = Diagnosis { select: Some(List::Items(&wanted)), ..dreq(&bench, &responses) };
    let outcomes = bench.receive(ETH2, Body::Dreq(request));
    let (_, onward) = one(&outcomes);
    assert_eq!(onward.select, request.select);
    let responses_sent = onward.responses.iter().last().expect("its own");
    let objects: Vec<Object<'_>> =
        objects_in(responses_sent.objects).map(|o| o.expect("whole").object).collect();
    let hop = RsvpHop { address: ip(UPSTREAM), lih: 77 };
    assert_eq!(objects, [Object::RsvpHop(hop), Object::SenderTemplate(template())]);
}

/// A DREQ becomes a DREP where path state is missing, where enough nodes have answered, and where the hop count
/// overflows.
#[test]
fn dreq_at_end_of_path_becomes_drep() {
    let mut bench = reserved();
    let responses = [first_response()];
    let request = dreq(&bench, &responses);
    let unknown_session = Session { port: 1, ..session() };
    for (diagnosis, error) in [
        (Diagnosis { session: unknown_session, ..request }, DiagResponse::NO_PATH_STATE),
        (Diagnosis { diagnostic: Diagnostic { max_hops: 2, ..diagnostic() }, ..request }, 0),
        (Diagnosis { diagnostic: Diagnostic { hop_count: 254, ..diagnostic() }, ..request }, 0),
    ] {
        let outcomes = bench.receive(ETH2, Body::Dreq(diagnosis));
        assert!(is_answer(&outcomes));
        let (how, answer) = one(&outcomes);
        assert_eq!((how.source, how.destination), (ip("10.0.2.1"), ip(REQUESTER)));
        assert!(!answer.diagnostic.more_fragments);
        let own = answer.responses.iter().last().expect("its own");
        assert_eq!((own.error, own.outgoing), (error, ip("10.0.2.1")));
        // With a ROUTE the DREP goes to the node before.
        let route = Route { pointer: 1, nodes: List::Items(&[ip_of_downstream()]) };
        let outcomes =
            bench.receive(ETH2, Body::Dreq(Diagnosis { route: Some(route), ..diagnosis }));
        let (how, answer) = one(&outcomes);
        assert_eq!(how.destination, ip(DOWNSTREAM));
        assert_eq!(answer.route.map(|route| (route.pointer, route.nodes.len())), Some((0, 1)));
    }
}

fn ip_of_downstream() -> IpAddr {
    ip(DOWNSTREAM)
}

/// A hop decremented the TTL, so it does not support RSVP. With an unknown LIH the outgoing interface is unknown.
#[test]
fn dreq_over_hop_without_rsvp_reports_distance() {
    let mut bench = reserved();
    let responses = [first_response()];
    let mut request = dreq(&bench, &responses);
    request.hop.lih = 12_345;
    let octets = octets(Body::Dreq(request), 64);
    let outcomes = bench.receive_octets(ETH2, ip("10.0.2.1"), 61, &octets);
    let (_, onward) = one(&outcomes);
    let own = onward.responses.iter().last().expect("its own");
    assert_eq!((own.ip_hops, own.outgoing), (4, ip("0.0.0.0")));
    assert!(objects_in(own.objects).all(|o| o.expect("whole").raw.class_num() == 12));
}

/// If the message would become too long, the responses are returned first; if even that is too long, ROUTE is dropped.
#[test]
fn long_dreq_is_returned_in_fragments() {
    let mut bench = reserved();
    let responses = [first_response(); 3];
    let nodes = [ip(RECEIVER); 3];
    let route = Some(Route { pointer: 3, nodes: List::Items(&nodes) });
    let request = Diagnosis { route, ..dreq(&bench, &responses) };
    let length = octets(Body::Dreq(request), 64).len();
    let responses_sent: usize = responses.iter().map(DiagResponse::object_len).sum();
    for (path_mtu, parts, error, pointer) in [
        (length + 1_000, 1, 0, 4),
        (length + 100, 2, DiagResponse::PACKET_TOO_BIG, 4),
        (length, 2, DiagResponse::PACKET_TOO_BIG | DiagResponse::ROUTE_TOO_BIG, 1),
    ] {
        let path_mtu = path_mtu as u16;
        let request = Diagnosis { diagnostic: Diagnostic { path_mtu, ..diagnostic() }, ..request };
        let outcomes = bench.receive(ETH2, Body::Dreq(request));
        let sent = sent(&outcomes);
        assert_eq!(sent.len(), parts);
        if let [(how, Message { body: Body::Drep(part), .. }), _] = &sent[..] {
            assert_eq!(how.destination, ip(RECEIVER));
            assert!(part.diagnostic.more_fragments && part.diagnostic.fragment_offset == 0);
            assert_eq!(part.responses.len(), 3);
            assert_eq!(part.route.map(|route| route.pointer), Some(2));
        }
        let Some((_, Message { body: Body::Dreq(onward), .. })) = sent.last() else {
            panic!("it goes on: {sent:?}");
        };
        let offset = if parts == 2 { responses_sent } else { 0 };
        assert_eq!(usize::from(onward.diagnostic.fragment_offset), offset);
        assert!(!onward.diagnostic.more_fragments);
        assert_eq!(onward.responses.iter().last().map(|own| own.error), Some(error));
        assert_eq!(onward.route.map(|route| route.pointer), Some(pointer));
    }
}

/// A list of filters is cut so that the message is no longer than the path MTU, and has no room for another filter then.
#[test]
fn long_list_of_filters_is_cut_to_path_mtu() {
    /// Room for the address that this node adds to a ROUTE.
    const ADDRESS: usize = 4;
    const FILTER: usize = 12;
    let filters: Vec<FilterSpec> = (1_000..1_200)
        .map(|port| FilterSpec { selector: SourceSelector::Port(port), ..template() })
        .collect();
    let mut bench = router();
    for &template in &filters {
        let sender = SenderDescriptor { template, ..path().sender };
        bench.receive(ETH1, Body::Path(Path { sender, ..path() }));
    }
    let flows = FlowDescriptors::SharedExplicit(Some(flowspec(2)), List::Items(&filters));
    bench.receive(ETH2, Body::Resv(Resv { flows, ..resv(&[]) }));
    let responses = [first_response()];
    let request = dreq(&bench, &responses);
    let diagnostic = Diagnostic { sender: filters[0], ..request.diagnostic };
    for path_mtu in 1_200..1_200 + 2 * FILTER as u16 {
        let diagnostic = Diagnostic { path_mtu, ..diagnostic };
        let outcomes = bench.receive(ETH2, Body::Dreq(Diagnosis { diagnostic, ..request }));
        let sent = sent(&outcomes);
        let Some((_, Message { body: Body::Dreq(onward), .. })) = sent.last() else {
            panic!("{} messages, without a DREQ", sent.len());
        };
        let length = octets(Body::Dreq(*onward), 64).len();
        let room = usize::from(path_mtu) - length;
        assert!(
            (ADDRESS..ADDRESS + FILTER).contains(&room),
            "{room} octets are left of {path_mtu}"
        );
    }
}

/// A link with a small MTU upstream reduces the path MTU; the longest message fits beside IP and UDP.
#[test]
fn dreq_over_small_mtu_reduces_path_mtu() {
    let mut bench = reserved();
    let mut link = bench.interfaces.by_id(ETH1).expect("known").clone();
    link.mtu = 576;
    bench.interfaces.set(link);
    let responses = [first_response()];
    let request = dreq(&bench, &responses);
    let outcomes = bench.receive(ETH2, Body::Dreq(request));
    assert_eq!(one(&outcomes).1.diagnostic.path_mtu, 548);
}

/// DREPs return one node at a time, and from the last one to the requester.
#[test]
fn drep_with_route_returns_hop_by_hop() {
    let mut bench = reserved();
    let responses = [first_response()];
    let nodes = [ip(DOWNSTREAM), ip("10.0.1.2")];
    let answer = |pointer| Diagnosis {
        route: Some(Route { pointer, nodes: List::Items(&nodes) }),
        ..dreq(&reserved(), &responses)
    };
    let outcomes = bench.receive(ETH1, Body::Drep(answer(1)));
    let (how, passed) = one(&outcomes);
    assert_eq!(how.destination, ip(DOWNSTREAM));
    assert_eq!(passed.route.map(|route| route.pointer), Some(0));
    // At the end of the route, or at the LAST-HOP itself, the requester is next.
    let at_last_hop = Diagnosis {
        diagnostic: Diagnostic { last_hop: ip("10.0.2.1"), ..diagnostic() },
        ..answer(2)
    };
    for last in [answer(0), at_last_hop] {
        let outcomes = bench.receive(ETH1, Body::Drep(last));
        assert_eq!(one(&outcomes).0.destination, ip(REQUESTER));
    }
}

/// A requester with a port gets UDP, and need not support RSVP.
#[test]
fn requester_with_port_gets_drep_in_udp() {
    let mut bench = reserved();
    let requester = FilterSpec { source: ip(REQUESTER), selector: SourceSelector::Port(5_353) };
    let diagnostic = Diagnostic { max_hops: 1, requester, ..diagnostic() };
    let responses = [first_response()];
    let request = Diagnosis { diagnostic, ..dreq(&bench, &responses) };
    let outcomes = bench.receive(ETH2, Body::Dreq(request));
    let [Outcome::Sent(how, octets)] = &outcomes[..] else { panic!("one packet: {outcomes:?}") };
    assert_eq!((how.protocol, how.source, how.destination), (17, ip("10.0.2.1"), ip(REQUESTER)));
    assert_eq!(octets[..4], [1_699_u16.to_be_bytes(), 5_353_u16.to_be_bytes()].concat());
    assert_eq!(usize::from(u16::from_be_bytes([octets[4], octets[5]])), octets.len());
    let message = Message::parse(&octets[8..]).expect("an answer inside");
    assert!(matches!(message.body, Body::Drep(answer) if answer.responses.len() == 2));
}

/// A DREQ without responses is on its way to its LAST-HOP, which may not be this node.
#[test]
fn fresh_dreq_is_forwarded_to_last_hop() {
    let mut bench = reserved();
    let request = dreq(&bench, &[]);
    let outcomes = bench.receive(ETH2, Body::Dreq(request));
    let (how, onward) = one(&outcomes);
    assert_eq!((how.destination, onward), (ip(RECEIVER), request));
    // It starts here, so the outgoing interface is that of the data, not that of the DREQ.
    let diagnostic = Diagnostic { last_hop: ip("10.0.1.2"), ..diagnostic() };
    let hop = RsvpHop { address: ip(REQUESTER), lih: 0 };
    let outcomes = bench.receive(ETH1, Body::Dreq(Diagnosis { diagnostic, hop, ..request }));
    let own = one(&outcomes).1.responses.iter().last().expect("its own");
    assert_eq!(own.outgoing, ip("10.0.2.1"));
    assert!(objects_in(own.objects).any(|o| o.expect("whole").raw.class_num() == 9));
}

/// DREPs are not sent to addresses other than unicast, nor beyond the route, nor to nodes without a request.
#[test]
fn invalid_diagnostics_are_dropped() {
    let mut bench = reserved();
    let responses = [first_response()];
    let request = dreq(&bench, &responses);
    for address in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0"] {
        let requester = FilterSpec { source: ip(address), selector: SourceSelector::Port(0) };
        for diagnostic in [
            Diagnostic { requester, ..diagnostic() },
            Diagnostic { last_hop: ip(address), ..diagnostic() },
        ] {
            let request = Diagnosis { diagnostic, ..request };
            for body in [Body::Dreq(request), Body::Drep(request)] {
                assert_eq!(dropped(&bench.receive(ETH2, body)), Some(DropReason::BadHop));
            }
        }
    }
    for (nodes, pointer, reason) in [
        (vec![ip(RECEIVER)], 3, DropReason::Malformed),
        (vec![ip("239.1.1.1")], 1, DropReason::BadHop),
        (vec![ip("10.0.2.1")], 1, DropReason::BadHop),
        (vec![ip("192.0.2.1")], 1, DropReason::NoRoute),
    ] {
        let route = Some(Route { pointer, nodes: List::Items(&nodes) });
        let outcomes = bench.receive(ETH1, Body::Drep(Diagnosis { route, ..request }));
        assert_eq!(dropped(&outcomes), Some(reason));
    }
    let stray = bench.receive(ETH1, Body::Drep(request));
    assert_eq!(dropped(&stray), Some(DropReason::NotForUs));
    let requester = FilterSpec { source: ip("10.0.2.1"), selector: SourceSelector::Port(0) };
    let diagnostic = Diagnostic { requester, ..diagnostic() };
    let unasked = bench.receive(ETH1, Body::Drep(Diagnosis { diagnostic, ..request }));
    assert_eq!(dropped(&unasked), Some(DropReason::NotForUs));
}

#[test]
fn dreqs_over_rate_limit_or_disabled_are_dropped() {
    let diagnostics = Settings { per_second: 5, ..Settings::default() };
    let mut bench = reserved_with(Config { diagnostics, ..Config::default() });
    let responses = [first_response()];
    let request = dreq(&bench, &responses);
    let ask = |bench: &mut Bench| dropped(&bench.receive(ETH2, Body::Dreq(request)));
    let refused = (0..20).filter(|_| ask(&mut bench) == Some(DropReason::Limit)).count();
    assert_eq!(refused, 15);
    bench.now = bench.now + Duration::from_secs(1);
    assert_eq!(ask(&mut bench), None);
    let diagnostics = Settings { answer: false, ..Settings::default() };
    let mut bench = reserved_with(Config { diagnostics, ..Config::default() });
    let request = dreq(&bench, &responses);
    for body in [Body::Dreq(request), Body::Drep(request)] {
        assert_eq!(dropped(&bench.receive(ETH2, body)), Some(DropReason::DiagnosticsOff));
    }
    assert_eq!(bench.engine.counters().received[7..9], [1, 1]);
}

fn address() -> impl Strategy<Value = IpAddr> {
    let known = [UPSTREAM, DOWNSTREAM, SENDER, RECEIVER, REQUESTER, "10.0.1.2", "10.0.2.1"];
    prop_oneof![
        4 => proptest::sample::select(known.to_vec()).prop_map(ip),
        1 => any::<[u8; 4]>().prop_map(IpAddr::from),
    ]
}

/// Any DREQ or DREP of IPv4, mostly about a known sender.
fn diagnostics() -> impl Strategy<Value = Diagnostic> {
    let port = prop_oneof![Just(0), any::<u16>()];
    let numbers = (any::<u8>(), any::<u8>(), any::<bool>(), any::<u16>(), any::<u16>());
    (numbers, address(), address(), port, any::<bool>()).prop_map(
        |((max_hops, hop_count, more, path_mtu, offset), last_hop, to, port, known)| {
            let unknown_session = FilterSpec { source: to, selector: SourceSelector::Port(port) };
            Diagnostic {
                max_hops,
                hop_count,
                more_fragments: more,
                path_mtu,
                fragment_offset: offset,
                last_hop,
                sender: if known { template() } else { unknown_session },
                requester: unknown_session,
                ..diagnostic()
            }
        },
    )
}

proptest! {
    /// For any input: at most two messages, which can be parsed and are no longer than the input plus this node's
    /// response; no state changes.
    #[test]
    fn arbitrary_diagnostics_change_no_state(
        diagnostic in diagnostics(),
        is_question: bool,
        lih in prop_oneof![Just(1_u32), Just(2), any::<u32>()],
        route in proptest::option::of((any::<u8>(), proptest::collection::vec(address(), 0..20))),
        responses_sent in 0_usize..20,
        wanted in proptest::option::of(proptest::collection::vec(any::<(u8, u8)>(), 0..20)),
        ttl: u8,
    ) {
        let mut bench = reserved();
        let before = bench.engine.population();
        let responses = vec![first_response(); responses_sent];
        let wanted: Option<Vec<Selected>> = wanted.map(|wanted| {
            wanted.into_iter().map(|(class_num, c_type)| Selected { class_num, c_type }).collect()
        });
        let diagnosis = Diagnosis {
            hop: RsvpHop { address: ip(DOWNSTREAM), lih: lih.wrapping_add(bench.engine.lih(ETH2)) },
            diagnostic,
            select: wanted.as_deref().map(List::Items),
            route: route.as_ref().map(|(pointer, nodes)| Route {
                pointer: *pointer,
                nodes: List::Items(nodes),
            }),
            ..dreq(&bench, &responses)
        };
        let body = if is_question { Body::Dreq(diagnosis) } else { Body::Drep(diagnosis) };
        let octets = octets(body, 64);
        let outcomes = bench.receive_octets(ETH2, ip("10.0.2.1"), ttl, &octets);
        let mut messages = 0;
        for outcome in &outcomes {
            let Outcome::Sent(how, sent) = outcome else { continue };
            messages += 1;
            let message = if how.protocol == 17 { &sent[8..] } else { &sent[..] };
            prop_assert!(Message::parse(message).is_ok());
            prop_assert!(message.len() <= octets.len() + 200);
        }
        prop_assert!(messages <= 2);
        prop_assert_eq!(bench.engine.population(), before);
    }
}

//! Questions and answers of RFC 2745 at one router: what it adds, where it sends them, and what it does not fall for.

mod common;

use std::net::IpAddr;
use std::time::Duration;

use common::*;
use earmark_core::Outgoing;
use earmark_rsvp::diagnostics::Settings;
use earmark_rsvp::{Config, DropReason, Event};
use earmark_wire::rsvp::{
    Body, Carried, DiagResponse, Diagnosis, Diagnostic, FilterSpec, List, Message, Object, Route,
    RsvpHop, Selected, Session, SourceSelector, objects_in,
};
use proptest::prelude::*;

const REQUESTER: &str = "10.0.9.200";

/// A question from the receiver, which told what it knows, about the sender of [`path`].
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

fn question<'a>(bench: &Bench, responses: &'a [DiagResponse<'a>]) -> Diagnosis<'a> {
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

/// A router that has a sender, and a reservation of 2 Mbit/s for it.
fn reserved() -> Bench {
    reserved_with(Config::default())
}

fn reserved_with(config: Config) -> Bench {
    let mut bench = with_config(config);
    bench.arrives(ETH1, Body::Path(path()));
    bench.arrives(ETH2, Body::Resv(resv(&[flow(2)])));
    bench
}

/// The one message that left, and how.
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
fn a_router_adds_what_it_knows_and_passes_the_question_on() {
    let mut bench = reserved();
    let responses = [first_response()];
    let asked = Diagnosis {
        route: Some(Route { pointer: 1, nodes: List::Items(&[ip_of_receiver()]) }),
        ..question(&bench, &responses)
    };
    let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
    assert!(!is_answer(&outcomes));
    let (how, onward) = one(&outcomes);
    assert_eq!((how.source, how.destination), (ip("10.0.1.2"), ip(UPSTREAM)));
    assert_eq!(onward.hop, RsvpHop { address: ip("10.0.1.2"), lih: 77 }, "as the Path said");
    assert_eq!((onward.diagnostic.hop_count, onward.diagnostic.path_mtu), (2, 1_400));
    let route = onward.route.expect("it goes with it");
    assert_eq!(route.pointer, 2);
    assert_eq!(route.nodes.iter().collect::<Vec<_>>(), [ip(RECEIVER), ip("10.0.1.2")]);
    let told: Vec<DiagResponse<'_>> = onward.responses.iter().collect();
    assert_eq!(told[0], first_response());
    let expected = DiagResponse {
        arrival: 1_000 << 16,
        incoming: ip("10.0.1.2"),
        outgoing: ip("10.0.2.1"),
        previous_hop: ip(UPSTREAM),
        ip_hops: 1,
        ..first_response()
    };
    assert_eq!(DiagResponse { objects: &[], ..told[1] }, expected);
    let classes: Vec<u8> =
        objects_in(told[1].objects).map(|o| o.expect("whole").raw.class_num()).collect();
    assert_eq!(classes, [12, 8, 9, 10], "SENDER_TSPEC, STYLE, FLOWSPEC, FILTER_SPEC");
}

fn ip_of_receiver() -> IpAddr {
    ip(RECEIVER)
}

/// DIAG_SELECT: just what is listed and known, any C-Type for 0.
#[test]
fn a_question_selects_what_it_wants() {
    let mut bench = reserved();
    let responses = [first_response()];
    let wanted = [(11, 0), (3, 1), (3, 2), (9, 1), (13, 0), (15, 0), (200, 0)];
    let wanted = wanted.map(|(class_num, c_type)| Selected { class_num, c_type });
    let asked = Diagnosis { select: Some(List::Items(&wanted)), ..question(&bench, &responses) };
    let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
    let (_, onward) = one(&outcomes);
    assert_eq!(onward.select, asked.select);
    let told = onward.responses.iter().last().expect("its own");
    let objects: Vec<Object<'_>> =
        objects_in(told.objects).map(|o| o.expect("whole").object).collect();
    let hop = RsvpHop { address: ip(UPSTREAM), lih: 77 };
    assert_eq!(objects, [Object::RsvpHop(hop), Object::SenderTemplate(template())]);
}

/// The way ends where nothing is known, where enough nodes have answered, and where no more can be counted.
#[test]
fn the_end_of_the_way_turns_the_question_into_the_answer() {
    let mut bench = reserved();
    let responses = [first_response()];
    let asked = question(&bench, &responses);
    let strange = Session { port: 1, ..session() };
    for (diagnosis, error) in [
        (Diagnosis { session: strange, ..asked }, DiagResponse::NO_PATH_STATE),
        (Diagnosis { diagnostic: Diagnostic { max_hops: 2, ..diagnostic() }, ..asked }, 0),
        (Diagnosis { diagnostic: Diagnostic { hop_count: 254, ..diagnostic() }, ..asked }, 0),
    ] {
        let outcomes = bench.arrives(ETH2, Body::Dreq(diagnosis));
        assert!(is_answer(&outcomes));
        let (how, answer) = one(&outcomes);
        assert_eq!((how.source, how.destination), (ip("10.0.2.1"), ip(REQUESTER)));
        assert!(!answer.diagnostic.more_fragments);
        let own = answer.responses.iter().last().expect("its own");
        assert_eq!((own.error, own.outgoing), (error, ip("10.0.2.1")));
        // Along the route, the same goes to the node before.
        let route = Route { pointer: 1, nodes: List::Items(&[ip_of_downstream()]) };
        let outcomes =
            bench.arrives(ETH2, Body::Dreq(Diagnosis { route: Some(route), ..diagnosis }));
        let (how, answer) = one(&outcomes);
        assert_eq!(how.destination, ip(DOWNSTREAM));
        assert_eq!(answer.route.map(|route| (route.pointer, route.nodes.len())), Some((0, 1)));
    }
}

fn ip_of_downstream() -> IpAddr {
    ip(DOWNSTREAM)
}

/// A hop on the way took some of the TTL: it speaks no RSVP. A handle that is none of ours leaves the way unknown.
#[test]
fn hops_without_rsvp_and_unknown_handles_show() {
    let mut bench = reserved();
    let responses = [first_response()];
    let mut asked = question(&bench, &responses);
    asked.hop.lih = 12_345;
    let octets = octets(Body::Dreq(asked), 64);
    let outcomes = bench.octets_arrive(ETH2, ip("10.0.2.1"), 61, &octets);
    let (_, onward) = one(&outcomes);
    let own = onward.responses.iter().last().expect("its own");
    assert_eq!((own.ip_hops, own.outgoing), (4, ip("0.0.0.0")));
    assert!(objects_in(own.objects).all(|o| o.expect("whole").raw.class_num() == 12));
}

/// What was collected goes back first where the message would grow too long; the ROUTE goes where even that is too much.
#[test]
fn what_is_too_long_goes_back_in_parts() {
    let mut bench = reserved();
    let responses = [first_response(); 3];
    let nodes = [ip(RECEIVER); 3];
    let route = Some(Route { pointer: 3, nodes: List::Items(&nodes) });
    let asked = Diagnosis { route, ..question(&bench, &responses) };
    let length = octets(Body::Dreq(asked), 64).len();
    let told: usize = responses.iter().map(DiagResponse::object_len).sum();
    for (path_mtu, parts, error, pointer) in [
        (length + 1_000, 1, 0, 4),
        (length + 100, 2, DiagResponse::PACKET_TOO_BIG, 4),
        (length, 2, DiagResponse::PACKET_TOO_BIG | DiagResponse::ROUTE_TOO_BIG, 1),
    ] {
        let path_mtu = path_mtu as u16;
        let asked = Diagnosis { diagnostic: Diagnostic { path_mtu, ..diagnostic() }, ..asked };
        let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
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
        let offset = if parts == 2 { told } else { 0 };
        assert_eq!(usize::from(onward.diagnostic.fragment_offset), offset);
        assert!(!onward.diagnostic.more_fragments);
        assert_eq!(onward.responses.iter().last().map(|own| own.error), Some(error));
        assert_eq!(onward.route.map(|route| route.pointer), Some(pointer));
    }
}

/// A link with short packets on the way upstream makes the path MTU smaller; the largest message fits beside IP and UDP.
#[test]
fn the_path_mtu_follows_the_links() {
    let mut bench = reserved();
    let mut link = bench.interfaces.by_id(ETH1).expect("known").clone();
    link.mtu = 576;
    bench.interfaces.set(link);
    let responses = [first_response()];
    let asked = question(&bench, &responses);
    let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
    assert_eq!(one(&outcomes).1.diagnostic.path_mtu, 548);
}

/// Answers go back one node at a time, and from the last one to the requester.
#[test]
fn answers_retrace_the_route() {
    let mut bench = reserved();
    let responses = [first_response()];
    let nodes = [ip(DOWNSTREAM), ip("10.0.1.2")];
    let answer = |pointer| Diagnosis {
        route: Some(Route { pointer, nodes: List::Items(&nodes) }),
        ..question(&reserved(), &responses)
    };
    let outcomes = bench.arrives(ETH1, Body::Drep(answer(1)));
    let (how, passed) = one(&outcomes);
    assert_eq!(how.destination, ip(DOWNSTREAM));
    assert_eq!(passed.route.map(|route| route.pointer), Some(0));
    // With nothing left of the route, or at the LAST-HOP itself, the requester is next.
    let at_last_hop = Diagnosis {
        diagnostic: Diagnostic { last_hop: ip("10.0.2.1"), ..diagnostic() },
        ..answer(2)
    };
    for last in [answer(0), at_last_hop] {
        let outcomes = bench.arrives(ETH1, Body::Drep(last));
        assert_eq!(one(&outcomes).0.destination, ip(REQUESTER));
    }
}

/// A requester with a port listens there, and need not speak RSVP.
#[test]
fn who_speaks_no_rsvp_is_answered_inside_udp() {
    let mut bench = reserved();
    let requester = FilterSpec { source: ip(REQUESTER), selector: SourceSelector::Port(5_353) };
    let diagnostic = Diagnostic { max_hops: 1, requester, ..diagnostic() };
    let responses = [first_response()];
    let asked = Diagnosis { diagnostic, ..question(&bench, &responses) };
    let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
    let [Outcome::Sent(how, octets)] = &outcomes[..] else { panic!("one packet: {outcomes:?}") };
    assert_eq!((how.protocol, how.source, how.destination), (17, ip("10.0.2.1"), ip(REQUESTER)));
    assert_eq!(octets[..4], [1_699_u16.to_be_bytes(), 5_353_u16.to_be_bytes()].concat());
    assert_eq!(usize::from(u16::from_be_bytes([octets[4], octets[5]])), octets.len());
    let message = Message::parse(&octets[8..]).expect("an answer inside");
    assert!(matches!(message.body, Body::Drep(answer) if answer.responses.len() == 2));
}

/// A question that has collected nothing is on its way to its LAST-HOP, which may not be this node.
#[test]
fn questions_find_their_last_hop() {
    let mut bench = reserved();
    let asked = question(&bench, &[]);
    let outcomes = bench.arrives(ETH2, Body::Dreq(asked));
    let (how, onward) = one(&outcomes);
    assert_eq!((how.destination, onward), (ip(RECEIVER), asked));
    // Here it starts: by the way that the data takes, not the one that the question came.
    let diagnostic = Diagnostic { last_hop: ip("10.0.1.2"), ..diagnostic() };
    let hop = RsvpHop { address: ip(REQUESTER), lih: 0 };
    let outcomes = bench.arrives(ETH1, Body::Dreq(Diagnosis { diagnostic, hop, ..asked }));
    let own = one(&outcomes).1.responses.iter().last().expect("its own");
    assert_eq!(own.outgoing, ip("10.0.2.1"));
    assert!(objects_in(own.objects).any(|o| o.expect("whole").raw.class_num() == 9));
}

/// Answers must not be sent where no single node is, nor past the route, nor to those who did not ask.
#[test]
fn what_makes_no_sense_is_dropped() {
    let mut bench = reserved();
    let responses = [first_response()];
    let asked = question(&bench, &responses);
    for address in ["224.0.0.1", "255.255.255.255", "127.0.0.1", "0.0.0.0"] {
        let requester = FilterSpec { source: ip(address), selector: SourceSelector::Port(0) };
        for diagnostic in [
            Diagnostic { requester, ..diagnostic() },
            Diagnostic { last_hop: ip(address), ..diagnostic() },
        ] {
            let asked = Diagnosis { diagnostic, ..asked };
            for body in [Body::Dreq(asked), Body::Drep(asked)] {
                assert_eq!(dropped(&bench.arrives(ETH2, body)), Some(DropReason::BadHop));
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
        let outcomes = bench.arrives(ETH1, Body::Drep(Diagnosis { route, ..asked }));
        assert_eq!(dropped(&outcomes), Some(reason));
    }
    let stray = bench.arrives(ETH1, Body::Drep(asked));
    assert_eq!(dropped(&stray), Some(DropReason::NotForUs));
    let requester = FilterSpec { source: ip("10.0.2.1"), selector: SourceSelector::Port(0) };
    let diagnostic = Diagnostic { requester, ..diagnostic() };
    let unasked = bench.arrives(ETH1, Body::Drep(Diagnosis { diagnostic, ..asked }));
    assert_eq!(dropped(&unasked), Some(DropReason::NotForUs));
}

#[test]
fn so_many_a_second_are_answered_and_none_where_it_is_switched_off() {
    let diagnostics = Settings { per_second: 5, ..Settings::default() };
    let mut bench = reserved_with(Config { diagnostics, ..Config::default() });
    let responses = [first_response()];
    let asked = question(&bench, &responses);
    let ask = |bench: &mut Bench| dropped(&bench.arrives(ETH2, Body::Dreq(asked)));
    let refused = (0..20).filter(|_| ask(&mut bench) == Some(DropReason::Limit)).count();
    assert_eq!(refused, 15);
    bench.now = bench.now + Duration::from_secs(1);
    assert_eq!(ask(&mut bench), None);
    let diagnostics = Settings { answer: false, ..Settings::default() };
    let mut bench = reserved_with(Config { diagnostics, ..Config::default() });
    let asked = question(&bench, &responses);
    for body in [Body::Dreq(asked), Body::Drep(asked)] {
        assert_eq!(dropped(&bench.arrives(ETH2, body)), Some(DropReason::DiagnosticsOff));
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

/// Any question or answer of IPv4, mostly about a sender that is known.
fn diagnostics() -> impl Strategy<Value = Diagnostic> {
    let port = prop_oneof![Just(0), any::<u16>()];
    let numbers = (any::<u8>(), any::<u8>(), any::<bool>(), any::<u16>(), any::<u16>());
    (numbers, address(), address(), port, any::<bool>()).prop_map(
        |((max_hops, hop_count, more, path_mtu, offset), last_hop, to, port, known)| {
            let strange = FilterSpec { source: to, selector: SourceSelector::Port(port) };
            Diagnostic {
                max_hops,
                hop_count,
                more_fragments: more,
                path_mtu,
                fragment_offset: offset,
                last_hop,
                sender: if known { template() } else { strange },
                requester: strange,
                ..diagnostic()
            }
        },
    )
}

proptest! {
    /// Whatever is asked or answered: two messages at most, which can be read, and no longer than what came, but for what
    /// this node adds; no state changes.
    #[test]
    fn nothing_that_is_asked_does_harm(
        diagnostic in diagnostics(),
        is_question: bool,
        lih in prop_oneof![Just(1_u32), Just(2), any::<u32>()],
        route in proptest::option::of((any::<u8>(), proptest::collection::vec(address(), 0..20))),
        told in 0_usize..20,
        wanted in proptest::option::of(proptest::collection::vec(any::<(u8, u8)>(), 0..20)),
        ttl: u8,
    ) {
        let mut bench = reserved();
        let before = bench.engine.population();
        let responses = vec![first_response(); told];
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
            ..question(&bench, &responses)
        };
        let body = if is_question { Body::Dreq(diagnosis) } else { Body::Drep(diagnosis) };
        let octets = octets(body, 64);
        let outcomes = bench.octets_arrive(ETH2, ip("10.0.2.1"), ttl, &octets);
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

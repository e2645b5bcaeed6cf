//! Malicious or faulty neighbours: their messages cost a bounded amount of memory, work and answers.

use std::time::Duration;

use earmark_core::{Datagram, Input, Rate};
use earmark_rsvp::{Config, DropReason, Event, Timing};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{
    Body, Carried, ErrorCode, ErrorSpec, FilterSpec, FixedFilterFlow, FlowDescriptors, Hello,
    HelloKind, List, PathErr, ResvErr, RsvpHop, SourceSelector,
};

use crate::common::*;
use crate::message_ids::{bytes, capable_message};

fn dropped(outcomes: &[Outcome]) -> Vec<DropReason> {
    let reason = |event: &Event| match event {
        Event::Dropped { reason, .. } => Some(*reason),
        _ => None,
    };
    events(outcomes).iter().filter_map(reason).collect()
}

const FAILED: ErrorSpec = ErrorSpec {
    node: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 254)),
    flags: 0,
    code: ErrorCode::AdmissionControlFailure,
    value: 2,
};

fn path_err() -> PathErr<'static> {
    PathErr {
        session: session(),
        error: FAILED,
        carried: Carried::NONE,
        sender: Some((template(), None)),
    }
}

fn resv_err(flows: &[FixedFilterFlow]) -> ResvErr<'_> {
    ResvErr {
        session: session(),
        hop: RsvpHop { address: ip(UPSTREAM), lih: 77 },
        error: FAILED,
        scope: None,
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(flows)),
    }
}

/// `count` different objects of four octets that every node must forward (at most 16 384).
fn objects(count: u16) -> Vec<u8> {
    (0..count).flat_map(|n| [0, 4, 0xc0 | (n >> 8) as u8, n as u8]).collect()
}

/// One host that claims to be many next hops cannot fill the memory: above the limit they are refused, and existing
/// ones stay and can be refreshed.
#[test]
fn next_hops_over_limit_are_refused() {
    let mut router = with_config(Config { max_next_hops: 2, ..Config::default() });
    router.receive(ETH1, Body::Path(path()));
    let flows = [flow(1)];
    let mut codes = Vec::new();
    for hop in ["10.0.2.2", "10.0.2.3", "10.0.2.4", "10.0.2.2"] {
        let mut request = resv(&flows);
        request.hop.address = ip(hop);
        let outcomes = router.receive(ETH2, Body::Resv(request));
        codes.extend(sent(&outcomes).iter().filter_map(|(_, message)| match &message.body {
            Body::ResvErr(error) => Some((error.error.code, error.error.flags)),
            _ => None,
        }));
    }
    assert_eq!(codes, [(ErrorCode::RsvpSystemError, ErrorSpec::IN_PLACE)]);
    assert_eq!(router.engine.population(), (1, 1, 2));
}

/// Senders are limited over all sessions, not only in each session.
#[test]
fn senders_over_total_limit_are_refused() {
    let mut router = with_config(Config { max_sessions: 3, ..Config::default() });
    for (session, sender) in [(1, 1), (1, 2), (2, 1), (1, 3), (3, 1)] {
        let mut path = path();
        path.session.port = session;
        path.sender.template.selector = SourceSelector::Port(sender);
        let outcomes = router.receive(ETH1, Body::Path(path));
        let refused = (session, sender) == (1, 3) || session == 3;
        assert_eq!(dropped(&outcomes) == [DropReason::Limit], refused, "{session} {sender}");
    }
    assert_eq!(router.engine.population(), (2, 3, 0));
}

/// Objects to be stored are limited, in a new Path, in a refresh, and in a Resv.
#[test]
fn objects_over_limit_are_refused() {
    let mut router = with_config(Config { max_kept_octets: 200, ..Config::default() });
    let (few, many) = (objects(50), objects(51));
    let mut fat = path();
    fat.carried = Carried::Objects(&many);
    assert_eq!(dropped(&router.receive(ETH1, Body::Path(fat))), [DropReason::Limit]);
    assert_eq!(router.engine.population(), (0, 0, 0));
    let mut lean = path();
    lean.carried = Carried::Objects(&few);
    assert_eq!(dropped(&router.receive(ETH1, Body::Path(lean))), []);
    assert_eq!(dropped(&router.receive(ETH1, Body::Path(fat))), [DropReason::Limit]);
    assert_eq!(router.receive(ETH1, Body::Path(lean)), [], "the state is what it was");

    let flows = [flow(1)];
    let mut request = resv(&flows);
    request.carried = Carried::Objects(&many);
    assert_eq!(dropped(&router.receive(ETH2, Body::Resv(request))), [DropReason::Refused]);
    assert_eq!(router.held(), Rate::ZERO);
}

/// RFC 2205 section 3.10, rule 3: the objects of all requests are sent upstream, each once; one next hop's objects
/// cannot fill the Resv of all.
#[test]
fn forwarded_objects_are_merged_within_limit() {
    let mut router = with_config(Config { max_kept_octets: 200, ..Config::default() });
    router.receive(ETH1, Body::Path(path()));
    let (own, others) = (objects(3), objects(50));
    let carried = |outcomes: &[Outcome]| match sent(outcomes).last().map(|(_, m)| m.body) {
        Some(Body::Resv(resv)) => resv.carried.iter().count(),
        other => panic!("a Resv, not {other:?}"),
    };
    let flows = [flow(1)];
    let mut request = resv(&flows);
    request.carried = Carried::Objects(&own);
    assert_eq!(carried(&router.receive(ETH2, Body::Resv(request))), 3);
    let flows = [flow(2)];
    let mut request = resv(&flows);
    request.hop.address = ip("10.0.2.3");
    request.carried = Carried::Objects(&others[4..8]);
    assert_eq!(carried(&router.receive(ETH2, Body::Resv(request))), 3, "it is among them");
    request.carried = Carried::Objects(&others[8..]);
    let flows = [flow(3)];
    request.flows = FlowDescriptors::FixedFilter(List::Items(&flows));
    assert_eq!(carried(&router.receive(ETH2, Body::Resv(request))), 50, "two more and one twice");
}

/// One message that repeats a flow many times does not cause as many errors.
#[test]
fn errors_to_one_message_are_limited() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&vec![flow(8); 1_000])));
    assert!(sent(&outcomes).len() <= 342, "{} answers", sent(&outcomes).len());
    assert_eq!(dropped(&outcomes).last(), Some(&DropReason::Limit));
}

/// A large Resv that exceeds the limit of one input is complete after its refresh.
#[test]
fn skipped_flows_are_reserved_by_refresh() {
    let mut router = router();
    let flows: Vec<_> = (1..=600)
        .map(|port| {
            let filter = FilterSpec { selector: SourceSelector::Port(port), ..template() };
            let tspec = TokenBucket { rate: 1_000.0, ..tspec(1) };
            let flowspec = earmark_wire::intserv::FlowSpec::ControlledLoad(tspec);
            FixedFilterFlow { flowspec: Some(flowspec), filter }
        })
        .collect();
    for flow in &flows {
        let mut path = path();
        path.sender.template = flow.filter;
        router.receive(ETH1, Body::Path(path));
    }
    router.receive(ETH2, Body::Resv(resv(&flows)));
    assert!(router.engine.population().2 < 600);
    router.receive(ETH2, Body::Resv(resv(&flows)));
    assert_eq!(router.engine.population().2, 600);
    assert_eq!(router.receive(ETH2, Body::Resv(resv(&flows))), []);
}

/// The Send_TTL of errors decreases at each hop, so that they end even if the states of two nodes name each other. Their
/// packets leave with the largest TTL, which shows the receiver that they come from its link.
#[test]
fn error_in_loop_ends_by_send_ttl() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    let flows = [flow(2)];
    let errors = [
        (ETH2, "10.0.2.1", Body::PathErr(path_err())),
        (ETH1, "10.0.1.2", Body::ResvErr(resv_err(&flows))),
    ];
    for (interface, address, error) in errors {
        for (received, passed) in [(255, 63), (64, 63), (0, 64), (2, 1)] {
            let message = octets(error, received);
            let outcomes = router.receive_octets(interface, ip(address), 255, &message);
            let ttls: Vec<_> =
                sent(&outcomes).iter().map(|(how, m)| (how.ttl, m.send_ttl)).collect();
            assert_eq!(ttls, [(255, passed)], "{received}");
        }
        let outcomes = router.receive_octets(interface, ip(address), 255, &octets(error, 1));
        assert_eq!(dropped(&outcomes), [DropReason::TtlExpired]);
        assert_eq!(sent(&outcomes), []);
    }
}

/// Hops, and receivers in RESV_CONFIRM, must be unicast addresses.
#[test]
fn non_unicast_hop_or_receiver_is_ignored() {
    let mut router = router();
    let mut from_all = path();
    from_all.hop.address = ip("255.255.255.255");
    let outcomes = router.receive(ETH1, Body::Path(from_all));
    assert_eq!(dropped(&outcomes), [DropReason::BadHop]);
    router.receive(ETH1, Body::Path(path()));
    from_all.sender.tspec.rate = f32::NAN;
    let outcomes = router.receive(ETH1, Body::Path(from_all));
    assert_eq!((dropped(&outcomes), sent(&outcomes)), (vec![DropReason::BadHop], vec![]));

    let mut host = sender();
    let application = earmark_rsvp::Application(1);
    host.command(earmark_rsvp::Command::Session { application, session: session() });
    host.command(earmark_rsvp::Command::Sender {
        application,
        template: template(),
        tspec: tspec(2),
        ttl: 63,
    });
    let flows = [flow(2)];
    let mut request = resv(&flows);
    for address in ["255.255.255.255", "127.0.0.1"] {
        request.confirm = Some(ip(address));
        assert_eq!(sent(&host.receive(ETH2, Body::Resv(request))), [], "{address}");
    }
    assert_eq!(host.held(), Rate::from_mbps(2), "the reservation itself is none the worse");
}

/// A default route does not cover broadcast: such sessions are neither unicast nor multicast.
#[test]
fn broadcast_session_has_no_route() {
    let mut router = router();
    router.add_route("0.0.0.0/0", ETH2, Some(DOWNSTREAM));
    let mut to_all = path();
    to_all.session.destination = ip("255.255.255.255");
    let outcomes = router.receive(ETH1, Body::Path(to_all));
    assert_eq!(dropped(&outcomes), [DropReason::NoRoute]);
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// A configured refresh period of zero is handled as a millisecond, as announced to neighbours, and not as a busy loop.
#[test]
fn zero_refresh_period_is_one_millisecond() {
    let timing = Timing { refresh: Duration::ZERO, ..Timing::default() };
    let mut router = with_config(Config { timing, ..Config::default() });
    router.receive(ETH1, Body::Path(path()));
    let refreshes = sent(&router.pass(Duration::from_millis(100))).len();
    assert!((50..=110).contains(&refreshes), "{refreshes} in 100 ms");
}

/// Hosts behind one interface that claim to be thousands of neighbours neither push out a neighbour of another interface nor
/// keep a new one there from refresh reduction.
#[test]
fn flood_of_one_port_leaves_others_their_peers() {
    let mut router = with_config(Config::default());
    router.add_interface(ETH3, "10.0.3.1");
    router.add_route("10.0.0.0/8", ETH3, None);
    let hello = Body::Hello(
        Hello { kind: HelloKind::Request, source_instance: 5, destination_instance: 0 }.into(),
    );
    let payload = bytes(&capable_message(hello, None));
    let mut greet = |interface, source| {
        let destination = router.interfaces.by_id(interface).expect("known").addresses[0];
        let (ttl, router_alert, encapsulated) = (1, false, false);
        let payload = &payload;
        router.handle(Input::Datagram(Datagram {
            interface,
            source,
            destination,
            ttl,
            router_alert,
            encapsulated,
            payload,
        }))
    };
    let claimed = |number: u16| {
        let [high, low] = number.to_be_bytes();
        std::net::Ipv4Addr::new(10, 3, high, low).into()
    };
    let first = |outcomes: &[Outcome]| match sent(outcomes)[0].1.body {
        Body::Hello(answer) => answer.hello.source_instance,
        _ => panic!("no answer: {outcomes:?}"),
    };
    let instance = first(&greet(ETH2, ip(DOWNSTREAM)));
    for number in 0..5_000 {
        greet(ETH3, claimed(number));
    }
    assert_eq!(first(&greet(ETH2, ip(DOWNSTREAM))), instance, "still known");
    for number in 0..20 {
        first(&greet(ETH2, claimed(number)));
    }
}

//! Limits: above them new work is refused with an error message, and existing state stays.

use std::time::Duration;

use earmark_core::{Interface, Rate, Trust};
use earmark_rsvp::{Config, DropReason, limits};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Carried, ErrorCode, ErrorSpec, FlowDescriptors, Path, PathErr, Resv,
    ResvErr, RsvpHop, Session,
};

use crate::common::*;
use crate::message_ids::*;

fn with_limits(limits: limits::Settings) -> Bench {
    with_config(Config { limits, ..Config::default() })
}

fn session_to(port: u16) -> Session {
    Session { port, ..session() }
}

fn announce(bench: &mut Bench, port: u16) -> Vec<Outcome> {
    bench.receive(ETH1, Body::Path(Path { session: session_to(port), ..path() }))
}

fn ask(bench: &mut Bench, port: u16, mbps: u32) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    bench.receive(ETH2, Body::Resv(Resv { session: session_to(port), ..resv(&flows) }))
}

/// Sent errors: code and value.
fn errors(outcomes: &[Outcome]) -> Vec<(ErrorCode, u16)> {
    let errors = sent(outcomes).into_iter().filter_map(|(_, message)| match message.body {
        Body::PathErr(PathErr { error, .. }) | Body::ResvErr(ResvErr { error, .. }) => {
            Some((error.code, error.value))
        }
        _ => None,
    });
    errors.collect()
}

fn dropped(bench: &Bench, reason: DropReason) -> u64 {
    bench.engine.counters().dropped[reason as usize]
}

#[test]
fn message_of_unknown_neighbor_is_dropped() {
    let only = |range: &str| limits::Interface {
        neighbors: vec![range.parse().expect("a range")],
        ..limits::Interface::default()
    };
    let interfaces =
        [("eth1".to_owned(), only("10.0.1.1/32")), ("eth2".to_owned(), only("10.0.2.0/30"))];
    let mut bench =
        with_limits(limits::Settings { interfaces: interfaces.into(), ..Default::default() });
    let unknown_hop = RsvpHop { address: ip("10.0.1.3"), lih: 77 };
    let outcomes = bench.receive(ETH1, Body::Path(Path { hop: unknown_hop, ..path() }));
    assert!(sent(&outcomes).is_empty());
    assert_eq!(
        (bench.engine.population(), dropped(&bench, DropReason::UnknownNeighbor)),
        ((0, 0, 0), 1)
    );
    announce(&mut bench, 1);
    let unknown_hop = RsvpHop { address: ip("10.0.2.9"), lih: ETH2.0 };
    let flows = [flow(1)];
    let resv = Resv { session: session_to(1), hop: unknown_hop, ..resv(&flows) };
    assert!(sent(&bench.receive(ETH2, Body::Resv(resv))).is_empty());
    assert_eq!(
        (bench.engine.population(), dropped(&bench, DropReason::UnknownNeighbor)),
        ((1, 1, 0), 2)
    );
    ask(&mut bench, 1, 1);
    // Other neighbours cannot end state either.
    let mut tear = path_tear();
    (tear.session, tear.hop.address) = (session_to(1), ip("10.0.1.3"));
    bench.receive(ETH1, Body::PathTear(tear));
    assert_eq!((bench.engine.population(), bench.held()), ((1, 1, 1), Rate::from_mbps(1)));
}

#[test]
fn reservation_over_interface_limit_is_refused() {
    let mut bench = with_limits(limits::Settings::default());
    bench.ledger.set_largest(ETH2, Some(Rate::from_mbps(3)));
    announce(&mut bench, 1);
    let too_large = [(ErrorCode::AdmissionControlFailure, 2)];
    assert_eq!(errors(&ask(&mut bench, 1, 4)), too_large);
    assert_eq!(errors(&ask(&mut bench, 1, 3)), []);
    assert_eq!(errors(&ask(&mut bench, 1, 4)), too_large);
    assert_eq!(bench.held(), Rate::from_mbps(3), "what was there stays");
    assert_eq!(errors(&ask(&mut bench, 1, 2)), []);
}

/// The minimum packet size of these flows is 100 octets.
#[test]
fn link_overhead_is_claimed() {
    let mut bench = with_limits(limits::Settings::default());
    bench.ledger.set_overhead(ETH2, 50);
    announce(&mut bench, 1);
    announce(&mut bench, 2);
    let outcomes = ask(&mut bench, 1, 4);
    assert_eq!(bench.held(), Rate::from_mbps(6));
    let installed = outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Installed(installation) => Some(installation.demand),
        _ => None,
    });
    assert_eq!(
        installed.map(|demand| (demand.rate, demand.burst)),
        Some((Rate::from_mbps(4), 3_000)),
        "the class has the rate of the flow"
    );
    // Upstream gets the original request and adds the overhead of its own links.
    let upstream = sent(&outcomes).iter().find_map(|(_, message)| match message.body {
        Body::Resv(Resv { flows: FlowDescriptors::FixedFilter(flows), .. }) => {
            flows.iter().next()?.flowspec
        }
        _ => None,
    });
    assert_eq!(upstream, Some(flowspec(4)));
    assert_eq!(errors(&ask(&mut bench, 2, 1)), []);
    assert_eq!(errors(&ask(&mut bench, 2, 2)), [(ErrorCode::AdmissionControlFailure, 2)]);
}

#[test]
fn state_of_neighbor_is_limited() {
    let mut bench = with_limits(limits::Settings { per_neighbor: Some(2), ..Default::default() });
    let refused = [(ErrorCode::RsvpSystemError, 0)];
    for (port, expected) in [(1, &[][..]), (2, &[]), (3, &refused), (1, &[])] {
        assert_eq!(errors(&announce(&mut bench, port)), expected, "{port}");
    }
    let other =
        Path { session: session_to(4), hop: RsvpHop { address: ip("10.0.1.3"), lih: 7 }, ..path() };
    assert_eq!(errors(&bench.receive(ETH1, Body::Path(other))), [], "another neighbour");
    for (port, mbps, expected) in
        [(1, 1, &[][..]), (2, 1, &[]), (4, 1, &refused), (1, 2, &[]), (1, 2, &[])]
    {
        assert_eq!(errors(&ask(&mut bench, port, mbps)), expected, "{port}");
    }
    assert_eq!(bench.engine.population(), (3, 3, 2));
    assert_eq!(bench.held(), Rate::from_mbps(3));
}

/// An interface has limits of its own for its neighbours, larger or smaller ones; those that it does not have are the general
/// ones.
#[test]
fn interface_has_limits_of_its_own_for_neighbors() {
    let own = |per_neighbor| limits::Interface { per_neighbor, ..Default::default() };
    let interfaces = [("eth1".to_owned(), own(Some(3))), ("eth2".to_owned(), own(None))];
    let limits = limits::Settings {
        interfaces: interfaces.into(),
        per_neighbor: Some(2),
        ..Default::default()
    };
    let mut bench = with_limits(limits.clone());
    let refused = [(ErrorCode::RsvpSystemError, 0)];
    for (port, expected) in [(1, &[][..]), (2, &[]), (3, &[]), (4, &refused)] {
        assert_eq!(errors(&announce(&mut bench, port)), expected, "sender {port}");
    }
    for (port, expected) in [(1, &[][..]), (2, &[]), (3, &refused)] {
        assert_eq!(errors(&ask(&mut bench, port, 1)), expected, "request {port}");
    }
    let mut slow = limits;
    slow.interfaces.entry("eth1".to_owned()).or_default().changes_per_second = Some(1);
    let mut bench = with_limits(slow);
    assert_eq!(errors(&announce(&mut bench, 1)), []);
    assert_eq!(errors(&announce(&mut bench, 2)), refused, "too fast");
    for mbps in 1..=3 {
        assert_eq!(errors(&ask(&mut bench, 1, mbps)), [], "no such limit here");
    }
}

#[test]
fn changes_of_neighbor_are_rate_limited() {
    let mut bench =
        with_limits(limits::Settings { changes_per_second: Some(5), ..Default::default() });
    let refused = |outcomes: &[Outcome]| !errors(outcomes).is_empty();
    let announced =
        |bench: &mut Bench| (1..=20).filter(|&port| !refused(&announce(bench, port))).count();
    assert_eq!(announced(&mut bench), 5);
    // Refreshes are not limited, so existing senders are unaffected.
    assert_eq!(announced(&mut bench), 5);
    bench.pass(Duration::from_secs(1));
    assert_eq!(announced(&mut bench), 10);
    for mbps in 1..=5 {
        assert!(!refused(&ask(&mut bench, 1, mbps)));
    }
    assert!(refused(&ask(&mut bench, 1, 6)));
    assert!(!refused(&ask(&mut bench, 1, 5)), "a refresh");
    assert_eq!(bench.held(), Rate::from_mbps(5));
}

/// A refused message is not acknowledged, or its sender would list it in summary refreshes that this node cannot
/// process. An accepted one is acknowledged with the next message in that direction.
#[test]
fn refused_message_is_not_acknowledged() {
    let mut bench = with_limits(limits::Settings { per_neighbor: Some(1), ..Default::default() });
    let announce = |bench: &mut Bench, port: u16, id: u32| {
        receive_path_with_id(bench, Path { session: session_to(port), ..path() }, message_id(id))
    };
    let acknowledges = |name| vec![acknowledgement(AcknowledgementKind::Ack, name)];
    announce(&mut bench, 1, 11);
    assert_eq!(acknowledged(&bench.pass(20 * MS)), acknowledges(message_id(11)));
    let outcomes = announce(&mut bench, 2, 12);
    assert_eq!(errors(&outcomes), [(ErrorCode::RsvpSystemError, 0)]);
    assert_eq!((acknowledged(&outcomes), acknowledged(&bench.pass(SECOND))), (vec![], vec![]));
    summary(&mut bench, ETH1, &[11, 12]);
    let unknown = acknowledgement(AcknowledgementKind::Nack, message_id(12));
    assert_eq!(acknowledged(&bench.pass(20 * MS)), [unknown]);

    announce(&mut bench, 1, 13);
    let outcomes = announce(&mut bench, 2, 14);
    assert_eq!(acknowledged(&outcomes), acknowledges(message_id(13)), "the PathErr takes it along");
    let ask = |bench: &mut Bench, mbps: u32, id: u32| {
        let flows = [flow(mbps)];
        let hop = RsvpHop { address: ip(DOWNSTREAM), lih: bench.engine.lih(ETH2) };
        let resv = Resv { session: session_to(1), hop, ..resv(&flows) };
        receive(bench, ETH2, &capable_message(Body::Resv(resv), Some(message_id(id))))
    };
    ask(&mut bench, 1, 21);
    assert_eq!(acknowledged(&bench.pass(20 * MS)), acknowledges(message_id(21)));
    let outcomes = ask(&mut bench, 9, 22);
    assert_eq!(errors(&outcomes), [(ErrorCode::AdmissionControlFailure, 2)]);
    assert!(acknowledged(&outcomes).is_empty() && acknowledged(&bench.pass(SECOND)).is_empty());
}

/// A message that is dropped without an answer takes no other acknowledgement with it.
#[test]
fn dropped_message_leaves_other_acknowledgements() {
    let mut bench = with_config(Config::default());
    receive_path_with_id(&mut bench, path(), message_id(31));
    receive_path_with_id(&mut bench, Path { refresh_ms: 0, ..path() }, message_id(32));
    let expected = acknowledgement(AcknowledgementKind::Ack, message_id(31));
    assert_eq!(acknowledged(&bench.pass(SECOND)), [expected]);
}

/// A next hop that answers a Path with an error has received it. The Path is neither retransmitted nor listed in
/// summary refreshes, but refreshed as in RFC 2205 until the next hop accepts it.
#[test]
fn path_refused_by_next_hop_is_refreshed_by_message() {
    for acknowledged_too in [false, true] {
        let mut bench = with_config(Config::default());
        introduce(&mut bench);
        let id = path_id(&receive_path_with_id(&mut bench, path(), message_id(1)))
            .expect("it takes part");
        if acknowledged_too {
            acks(&mut bench, ETH2, &[acknowledgement(AcknowledgementKind::Ack, id)]);
        }
        let error = ErrorSpec {
            node: ip(DOWNSTREAM),
            flags: 0,
            code: ErrorCode::RsvpSystemError,
            value: 0,
        };
        let sender = Some((template(), Some(path().sender.tspec)));
        let carried = Carried::Objects(&[]);
        let error = PathErr { session: session(), error, carried, sender };
        let outcomes = receive(&mut bench, ETH2, &capable_message(Body::PathErr(error), None));
        assert_eq!(errors(&outcomes), [(ErrorCode::RsvpSystemError, 0)], "the sender hears of it");
        let outcomes = bench.pass(14 * SECOND);
        let paths = |outcomes: &[Outcome]| {
            sent(outcomes).iter().filter(|(_, m)| matches!(m.body, Body::Path(_))).count()
        };
        assert_eq!((paths(&outcomes), summary_ids(&outcomes)), (0, vec![]));
        let mut outcomes = Vec::new();
        while paths(&outcomes) == 0 {
            outcomes = bench.pass(100 * MS);
        }
        assert!(bench.now < earmark_core::Time::from_secs(1_046), "within 1.5 R");
        let again = path_id(&outcomes).expect("it takes part");
        acks(&mut bench, ETH2, &[acknowledgement(AcknowledgementKind::Ack, again)]);
        assert!(summary_ids(&bench.pass(30 * SECOND)).contains(&again.id));
    }
}

/// Messages between other nodes that ask for this router's attention, with router alert, take at most half of the signalling
/// class of a link, those of all kinds together. Between routers of one administration there is no such limit.
#[test]
fn messages_for_other_nodes_keep_to_their_share_of_signalling() {
    let flows = [flow(2)];
    let whole = octets(Body::Resv(resv(&flows)), 64);
    let mut malformed = whole.clone();
    malformed[10] ^= 0xff;
    for (trust, is_limited) in [(Trust::ACCESS, true), (Trust::CORE, false)] {
        let mut router = router();
        router.add_route("10.0.9.0/24", ETH2, None);
        let port = router.interfaces.by_id(ETH1).expect("an interface").clone();
        router.interfaces.set(Interface { trust, ..port });
        let link = router.interfaces.by_id(ETH2).expect("the link");
        let share = link.requests_per_second() as usize;
        let relayed = (0..1_000).filter(|number| {
            let octets = if number % 2 == 0 { &whole } else { &malformed };
            let outcomes = router.receive_octets(ETH1, ip("10.0.9.77"), 64, octets);
            outcomes.iter().any(|outcome| matches!(outcome, Outcome::Sent(..)))
        });
        assert_eq!(relayed.count(), if is_limited { share } else { 1_000 });
        assert!(share < 1_000);
    }
}

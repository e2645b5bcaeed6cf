//! Neighbours that deviate from the standards. What is unambiguous is accepted, counted and shown for each neighbour; a
//! strict node refuses it.

use earmark_rsvp::{Config, Deviations, Event, Tolerated};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::iana::TrafficControlError;
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, ErrorCode, Message, MessageType, Path, SenderDescriptor,
};

use crate::chain::*;
use crate::common::*;
use crate::message_ids::*;

/// An ADSPEC with these services behind the general parameters, each without data.
fn adspec_of(services: &[u8]) -> Vec<u8> {
    let mut body = adspec();
    body.truncate(4 + 36); // message header and general parameters
    for service in services {
        body.extend([*service, 0, 0, 0]);
    }
    let words = (body.len() as u16 - 4) / 4;
    body[2..4].copy_from_slice(&words.to_be_bytes());
    body
}

fn path_with(adspec: &[u8]) -> Path<'_> {
    let path = path();
    Path { sender: SenderDescriptor { adspec: Some(adspec), ..path.sender }, ..path }
}

/// Services in the ADSPEC that the router forwards.
fn services_forwarded(outcomes: &[Outcome]) -> Option<Vec<u8>> {
    let mut forwarded = sent(outcomes).into_iter().filter_map(|(_, message)| match message.body {
        Body::Path(path) => path.sender.adspec.map(<[u8]>::to_vec),
        _ => None,
    });
    let body = forwarded.next()?;
    assert!(Adspec::is_ordered(&body), "{body:?}");
    let adspec = Adspec::parse(&body).expect("it can be read");
    let guaranteed = adspec.guaranteed.map(|_| 2);
    let load = adspec.controlled_load.map(|_| 5);
    let others = adspec.others.iter().map(|other| other.service);
    Some(guaranteed.into_iter().chain(load).chain(others).collect())
}

fn error_value(outcomes: &[Outcome]) -> Option<(ErrorCode, u16)> {
    sent(outcomes).into_iter().find_map(|(_, message)| match message.body {
        Body::PathErr(error) => Some((error.error.code, error.error.value)),
        _ => None,
    })
}

fn tolerated_of(router: &Bench, address: &str) -> Vec<Tolerated> {
    let neighbor = router.engine.neighbors().find(|neighbor| neighbor.address == ip(address));
    neighbor.map_or(Deviations::default(), |neighbor| neighbor.tolerated).iter().collect()
}

const BAD_ADSPEC: Option<(ErrorCode, u16)> =
    Some((ErrorCode::TrafficControlError, TrafficControlError::BadAdspec.code()));

/// RFC 2210 section 3.3: "Data fragments must always appear in an ADSPEC in service_number order". Each service still has
/// one meaning in another order, so the Path is accepted, and forwarded in order.
#[test]
fn unordered_adspec_is_accepted_and_forwarded_in_order() {
    for (received, forwarded) in [
        (&[5, 2][..], &[2, 5][..]),
        (&[130, 5, 2, 129], &[2, 5, 129, 130]),
        (&[5, 2, 131], &[2, 5, 131]),
    ] {
        let mut router = router();
        let body = adspec_of(received);
        let outcomes = router.receive(ETH1, Body::Path(path_with(&body)));
        assert_eq!(services_forwarded(&outcomes).as_deref(), Some(forwarded), "{received:?}");
        assert_eq!(tolerated_of(&router, UPSTREAM), [Tolerated::AdspecOrder]);
        let count = |router: &Bench| router.engine.counters().tolerated;
        assert_eq!(count(&router)[Tolerated::AdspecOrder as usize], 1);
        let outcomes = router.receive(ETH1, Body::Path(path_with(&body)));
        assert!(sent(&outcomes).is_empty(), "an unchanged refresh");
        assert_eq!(count(&router)[Tolerated::AdspecOrder as usize], 1);
    }
}

/// A service that occurs twice has two meanings.
#[test]
fn adspec_with_one_service_twice_is_refused() {
    for services in [&[2, 2][..], &[5, 2, 5], &[130, 129, 130], &[2, 1]] {
        let mut router = router();
        let body = adspec_of(services);
        let outcomes = router.receive(ETH1, Body::Path(path_with(&body)));
        assert_eq!(error_value(&outcomes), BAD_ADSPEC, "{services:?}");
        assert_eq!(router.engine.population(), (0, 0, 0));
    }
}

/// A strict node answers an unordered ADSPEC with the error, of a new sender and of a known one, whose state stays.
#[test]
fn strict_node_refuses_unordered_adspec() {
    let mut router = with_config(Config { strict: true, ..Config::default() });
    let (ordered, unordered) = (adspec_of(&[2, 5]), adspec_of(&[5, 2]));
    let outcomes = router.receive(ETH1, Body::Path(path_with(&unordered)));
    assert_eq!(error_value(&outcomes), BAD_ADSPEC);
    assert_eq!(router.engine.population(), (0, 0, 0));
    let outcomes = router.receive(ETH1, Body::Path(path_with(&ordered)));
    assert_eq!(services_forwarded(&outcomes), Some(vec![2, 5]));
    let outcomes = router.receive(ETH1, Body::Path(path_with(&unordered)));
    assert_eq!(error_value(&outcomes), BAD_ADSPEC);
    assert_eq!(router.engine.population(), (1, 1, 0));
    assert_eq!(tolerated_of(&router, UPSTREAM), []);
}

/// A deviation is shown for the neighbour that shows it, also if it is the new previous hop of a known sender.
#[test]
fn deviation_is_shown_for_new_previous_hop() {
    let mut router = router();
    let (ordered, unordered) = (adspec_of(&[2, 5]), adspec_of(&[5, 2]));
    router.receive(ETH1, Body::Path(path_with(&ordered)));
    assert_eq!(tolerated_of(&router, UPSTREAM), []);
    let mut moved = path_with(&unordered);
    moved.hop.address = ip("10.0.1.9");
    router.receive(ETH1, Body::Path(moved));
    assert_eq!(tolerated_of(&router, "10.0.1.9"), [Tolerated::AdspecOrder]);
    assert_eq!(tolerated_of(&router, UPSTREAM), []);
}

/// A chain whose router neither sends nor reads Bundles. Only node `from` sends some.
fn chain_with_reader_of_no_bundles(from: usize) -> Chain {
    let mut chain = Chain::new(Config::default());
    chain.nodes[MIDDLE].config.reduction.bundle = false;
    chain.restart_middle(2);
    chain.fate = Box::new(move |sight| match (sight.from, sight.kind) {
        (node, MessageType::Bundle) if node == from => Fate::IsLost,
        _ => Fate::Arrives,
    });
    chain.open(1);
    chain.pass(SECOND);
    chain
}

/// A neighbour that claims refresh reduction must read Bundles (RFC 2961 section 3.3). If one does not, the first
/// retransmission of each message is sent alone, and later messages are never bundled.
#[test]
fn messages_to_reader_of_no_bundles_are_sent_alone() {
    for from in [LEFT, RIGHT] {
        let mut chain = chain_with_reader_of_no_bundles(from);
        let neighbor = if from == LEFT { "10.0.1.2" } else { "10.0.2.1" };
        chain.open_together(2..=20);
        chain.pass(600 * MS);
        assert_eq!(chain.confirmed.len(), 20, "from {from}");
        let (mark, start) = (chain.seen.len(), chain.now);
        chain.open_together(21..=40);
        chain.pass(100 * MS);
        assert_eq!(chain.confirmed.len(), 40, "from {from}, without loss");
        let of_node = chain.seen[mark..].iter().filter(|sight| sight.from == from);
        assert!(of_node.clone().all(|sight| sight.kind != MessageType::Bundle), "{start:?}");
        let node = &chain.nodes[from].engine;
        let view = node.neighbors().find(|view| view.address == ip(neighbor)).expect("known");
        let tolerated: Vec<_> = view.tolerated.iter().collect();
        assert_eq!(tolerated, [Tolerated::UnreadBundles]);
        assert_eq!(node.counters().tolerated[Tolerated::UnreadBundles as usize], 1);
    }
}

/// If only the first Bundle was lost, Bundles are sent again once the neighbour has sent one itself.
#[test]
fn neighbor_that_sends_bundles_gets_them_again() {
    let mut chain = Chain::new(Config::default());
    chain.open(1);
    chain.pass(SECOND);
    let mut lost = false;
    chain.fate = Box::new(move |sight| {
        if (sight.from, sight.kind) == (LEFT, MessageType::Bundle) && !lost {
            lost = true;
            return Fate::IsLost;
        }
        Fate::Arrives
    });
    chain.open_together(2..=20);
    chain.pass(SECOND);
    assert_eq!(chain.confirmed.len(), 20);
    let mark = chain.seen.len();
    chain.open_together(21..=40);
    chain.pass(100 * MS);
    assert_eq!(chain.confirmed.len(), 40);
    let bundles = chain.seen[mark..].iter().filter(|sight| sight.kind == MessageType::Bundle);
    assert!(bundles.clone().any(|sight| sight.from == LEFT));
    let mut tolerated = chain.nodes[LEFT].engine.neighbors().flat_map(|view| view.tolerated.iter());
    assert_eq!(tolerated.next(), None);
}

/// A neighbour that claims refresh reduction but acknowledges nothing is shown; the state is refreshed by messages.
#[test]
fn neighbor_that_acknowledges_nothing_is_shown() {
    let mut router = router();
    introduce(&mut router);
    receive_path_with_id(&mut router, path(), message_id(1));
    let is_path = |message: &Message<'_>| matches!(message.body, Body::Path(_));
    let outcomes = router.pass(20 * SECOND);
    assert!(sent(&outcomes).iter().any(|(_, message)| is_path(message)), "retransmissions");
    assert_eq!(tolerated_of(&router, DOWNSTREAM), [Tolerated::NoAcknowledgements]);
    let outcomes = router.pass(46 * SECOND);
    assert!(sent(&outcomes).iter().any(|(_, message)| is_path(message)), "refreshes");
    assert!(!events(&outcomes).iter().any(|event| matches!(event, Event::Dropped { .. })));
    // Its first acknowledgement ends the record.
    let id = path_id(&receive_path_with_id(&mut router, other_path(), message_id(2)));
    let id = id.expect("named");
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, id)]);
    assert_eq!(tolerated_of(&router, DOWNSTREAM), []);
}

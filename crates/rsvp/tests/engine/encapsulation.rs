//! Neighbours that signal inside UDP (RFC 2205 appendix C).

use earmark_core::{Datagram, Input, InterfaceId, Trust};
use earmark_rsvp::{Config, HelloTiming};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Hello, HelloKind, List, Message, MessageType, Path, PathTear,
    RsvpHop, SenderDescriptor, Session,
};

use crate::common::*;
use crate::message_ids::*;

/// Delivers a message of a host inside UDP.
fn receive_inside_udp(
    router: &mut Bench,
    interface: InterfaceId,
    message: &Message<'_>,
) -> Vec<Outcome> {
    let payload = bytes(message);
    let destination = router.interfaces.by_id(interface).expect("known").addresses[0];
    let source = ip(if interface == ETH1 { UPSTREAM } else { DOWNSTREAM });
    let (ttl, router_alert, encapsulated) = (64, false, true);
    router.handle(Input::Datagram(Datagram {
        interface,
        source,
        destination,
        ttl,
        router_alert,
        encapsulated,
        payload: &payload,
    }))
}

/// Returns a router with hosts behind its interfaces.
fn edge_router(config: Config) -> Bench {
    let mut router = with_config(config);
    for id in [ETH1, ETH2] {
        let mut interface = router.interfaces.by_id(id).expect("an interface").clone();
        interface.trust = Trust::default();
        router.interfaces.set(interface);
    }
    router
}

/// Types of the messages sent to a neighbour, and whether each was inside UDP.
fn sent_to(outcomes: &[Outcome], neighbor: &str) -> Vec<(MessageType, bool)> {
    let sent = sent(outcomes).into_iter().filter(|(how, _)| how.destination == ip(neighbor));
    sent.map(|(how, message)| (message.body.message_type(), how.encapsulated)).collect()
}

/// Acknowledgements, summary refreshes and Hellos reach a host inside UDP, with or without a reservation. If they were
/// sent raw, the host would lose its state.
#[test]
fn messages_of_refresh_reduction_reach_hosts_inside_udp() {
    for has_reservation in [false, true] {
        let hello = HelloTiming { interval: Some(40 * SECOND), ..HelloTiming::default() };
        let mut router = edge_router(Config { hello, ..Config::default() });
        let introduction = Body::Hello(
            Hello { kind: HelloKind::Ack, source_instance: 5, destination_instance: 0 }.into(),
        );
        receive_inside_udp(&mut router, ETH2, &capable_message(introduction, None));
        let announced = capable_message(Body::Path(path()), Some(message_id(1)));
        let outcomes = receive_inside_udp(&mut router, ETH1, &announced);
        let paths: Vec<_> = sent(&outcomes)
            .into_iter()
            .filter(|(_, message)| matches!(message.body, Body::Path(_)))
            .collect();
        assert!(paths.iter().any(|(how, _)| how.encapsulated));
        let id = paths[0].1.message_id.expect("the next hop takes part");
        let acknowledgements = [acknowledgement(AcknowledgementKind::Ack, id)];
        let acknowledgements = List::Items(&acknowledgements);
        let ack = capable_message(Body::Ack, None);
        receive_inside_udp(&mut router, ETH2, &Message { acknowledgements, ..ack });
        if has_reservation {
            let flows = [flow(2)];
            let mut resv = resv(&flows);
            resv.hop.lih = router.engine.lih(ETH2);
            let resv = capable_message(Body::Resv(resv), Some(message_id(100)));
            receive_inside_udp(&mut router, ETH2, &resv);
        }
        let outcomes = router.pass(90 * SECOND);
        let downstream = sent_to(&outcomes, DOWNSTREAM);
        let upstream = sent_to(&outcomes, UPSTREAM);
        let kinds = |sent: &[(MessageType, bool)], kind| {
            let found = sent.iter().filter(|(sent, _)| *sent == kind);
            (found.clone().count() > 0, found.clone().all(|(_, encapsulated)| *encapsulated))
        };
        assert_eq!(kinds(&downstream, MessageType::Srefresh), (true, true), "{downstream:?}");
        assert_eq!(kinds(&downstream, MessageType::Hello), (true, true), "{downstream:?}");
        assert_eq!(kinds(&upstream, MessageType::Hello), (true, true), "{upstream:?}");
        assert!(kinds(&upstream, MessageType::Ack).1, "{upstream:?}");
        if has_reservation {
            assert_eq!(kinds(&downstream, MessageType::Ack), (true, true), "{downstream:?}");
            assert_eq!(kinds(&upstream, MessageType::Resv), (true, true), "{upstream:?}");
        }
    }
}

/// A host whose Path is refused has no state, but gets the PathErr inside UDP.
#[test]
fn refusal_reaches_host_inside_udp() {
    let mut router = edge_router(Config::default());
    let sender = SenderDescriptor { tspec: tspec(0), ..path().sender };
    let mut refused = Path { sender, ..path() };
    refused.sender.tspec.rate = f32::NAN;
    let refused = capable_message(Body::Path(refused), Some(message_id(1)));
    let outcomes = receive_inside_udp(&mut router, ETH1, &refused);
    assert_eq!(sent_to(&outcomes, UPSTREAM), [(MessageType::PathErr, true)]);
}

/// Messages inside UDP in the name of a neighbour that sends raw IP do not divert what is sent to it: it would miss its
/// summary refreshes, and lose its state. The neighbour is behind a core interface, or is known to be on the link.
#[test]
fn messages_inside_udp_divert_nothing_from_a_neighbor_that_sends_raw() {
    for is_core in [true, false] {
        let mut router = if is_core { router() } else { edge_router(Config::default()) };
        introduce(&mut router);
        let id = path_id(&receive_path_with_id(&mut router, path(), message_id(1)));
        let id = id.expect("the next hop is a peer");
        acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, id)]);
        let session = Session { port: 5_006, ..session() };
        let hop = RsvpHop { address: ip(DOWNSTREAM), lih: 1 };
        let forged = Body::PathTear(PathTear { session, hop, ..path_tear() });
        let forged = capable_message(forged, None);
        let mut downstream = Vec::new();
        for _ in 0..100 {
            receive_inside_udp(&mut router, ETH2, &forged);
            summary(&mut router, ETH1, &[1]);
            downstream.extend(sent_to(&router.pass(SECOND), DOWNSTREAM));
        }
        assert!(downstream.contains(&(MessageType::Srefresh, false)), "{downstream:?}");
        assert!(downstream.iter().all(|(_, encapsulated)| !encapsulated), "{downstream:?}");
    }
}

//! Hello (RFC 3209 section 5): requests, and neighbours that are lost or have restarted.

use earmark_core::{Datagram, Input};
use earmark_rsvp::{Config, DropReason, Event, HelloTiming, Liveness};
use earmark_wire::rsvp::{Body, Hello, HelloKind, Message};

use crate::common::*;
use crate::message_ids::*;

fn hello(kind: HelloKind, source_instance: u32, destination_instance: u32) -> Body<'static> {
    Body::Hello(Hello { kind, source_instance, destination_instance }.into())
}

/// Hello objects in sent messages.
fn hellos(outcomes: &[Outcome]) -> Vec<Hello> {
    let hello = |(_, message): &(_, Message<'_>)| match message.body {
        Body::Hello(message) => Some(message.hello),
        _ => None,
    };
    sent(outcomes).iter().filter_map(hello).collect()
}

fn lost(outcomes: &[Outcome]) -> bool {
    events(outcomes).iter().any(|event| matches!(event, Event::NeighborLost { .. }))
}

fn router_with_hello() -> Bench {
    let hello = HelloTiming { interval: Some(SECOND), ..HelloTiming::default() };
    with_config(Config { hello, ..Config::default() })
}

/// RFC 3209 section 5.3: every request is answered, with both instances; RFC 4558: from the destination address of the
/// request.
#[test]
fn hello_request_is_acknowledged_without_hello_interval() {
    let mut router = router();
    let request = capable_message(hello(HelloKind::Request, 5, 0), None);
    let outcomes = receive(&mut router, ETH2, &request);
    let [answer] = hellos(&outcomes)[..] else { panic!("one answer") };
    assert_eq!((answer.kind, answer.destination_instance), (HelloKind::Ack, 5));
    assert_ne!(answer.source_instance, 0);
    let how = sent(&outcomes)[0].0;
    assert_eq!((how.source, how.destination, how.ttl), (ip("10.0.2.1"), ip(DOWNSTREAM), 1));
    let node = ip("10.0.1.2"); // an address of another interface stands for the node
    let outcomes = router.receive_octets(ETH2, node, 1, &bytes(&request));
    assert_eq!(sent(&outcomes)[0].0.source, node);
    assert!(hellos(&router.pass(60 * SECOND)).is_empty(), "nobody is asked");
}

/// 3.5 intervals without a Hello.
#[test]
fn silent_neighbor_is_lost() {
    let mut router = router_with_hello();
    receive_resv_with_id(&mut router, 2, None);
    let [request] = hellos(&router.pass(SECOND))[..] else { panic!("one a second") };
    assert_eq!((request.kind, request.destination_instance), (HelloKind::Request, 0));
    let answer = capable_message(hello(HelloKind::Ack, 9, request.source_instance), None);
    assert!(!lost(&receive(&mut router, ETH2, &answer)));
    let liveness = |router: &Bench| router.engine.neighbors().next().expect("it is known").hello;
    assert_eq!(liveness(&router), Liveness::Alive);
    assert!(!lost(&router.pass(3_400 * MS)));
    assert!(lost(&router.pass(1_100 * MS)));
    assert_eq!(liveness(&router), Liveness::Lost);
    // The next request has a new instance.
    let [request_after, ..] = hellos(&router.pass(SECOND))[..] else { panic!("one a second") };
    assert_ne!(request_after.source_instance, request.source_instance);
    assert_eq!(request_after.destination_instance, 0);
}

/// A neighbour that is silent and without state is asked no more, and makes room for another one of its link.
#[test]
fn silent_neighbor_without_state_is_not_asked_for_ever() {
    let hello_timing = HelloTiming { interval: Some(SECOND), ..HelloTiming::default() };
    let mut config = Config { hello: hello_timing, ..Config::default() };
    config.reduction.max_peers = 1;
    let mut router = with_config(config);
    let request = capable_message(hello(HelloKind::Request, 5, 0), None);
    receive(&mut router, ETH2, &request);
    let payload = bytes(&request);
    let other = Datagram {
        interface: ETH2,
        source: ip("10.0.2.9"),
        destination: ip("10.0.2.1"),
        ttl: 1,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    };
    let outcomes = router.handle(Input::Datagram(other));
    assert!(matches!(events(&outcomes)[..], [Event::Dropped { reason: DropReason::Limit, .. }]));
    assert!(!hellos(&router.pass(6 * SECOND)).is_empty(), "it may come back");
    router.pass(4 * SECOND);
    assert!(hellos(&router.pass(60 * SECOND)).is_empty());
    assert_eq!(hellos(&router.handle(Input::Datagram(other))).len(), 1);
    // Any message of a neighbour with refresh reduction begins again.
    router.pass(60 * SECOND);
    receive_resv_with_id(&mut router, 2, None);
    assert!(!hellos(&router.pass(SECOND)).is_empty());
}

/// A changed instance is a restart: the neighbour gets all state again.
#[test]
fn restarted_neighbor_gets_full_resend() {
    let (mut router, path, _) = acknowledged_router();
    receive(&mut router, ETH2, &capable_message(hello(HelloKind::Request, 5, 0), None));
    assert!(sent(&router.pass(10 * MS)).is_empty());
    let outcomes =
        receive(&mut router, ETH2, &capable_message(hello(HelloKind::Request, 6, 0), None));
    assert!(lost(&outcomes));
    assert_eq!(path_id(&router.pass(2 * MS)).map(|id| id.id > path.id), Some(true));
}

/// A neighbour that sends requests gets none.
#[test]
fn neighbor_requests_suppress_own_requests() {
    let mut router = router_with_hello();
    receive(&mut router, ETH2, &capable_message(hello(HelloKind::Request, 5, 0), None));
    for _ in 0..8 {
        let requests = hellos(&router.pass(500 * MS));
        assert!(requests.iter().all(|hello| hello.kind == HelloKind::Ack), "{requests:?}");
        let mine = hellos(&receive(
            &mut router,
            ETH2,
            &capable_message(hello(HelloKind::Request, 5, 0), None),
        ));
        assert_eq!(mine.len(), 1);
    }
}

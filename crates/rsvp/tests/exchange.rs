//! The rules of refresh reduction and Hello at one router, message by message.

mod common;
#[path = "common/naming.rs"]
mod naming;

use std::time::Duration;

use common::*;
use earmark_core::{Input, MulticastRoute};
use earmark_rsvp::{Config, DropReason, Event, HelloTiming, Liveness};
use earmark_wire::rsvp::{
    AcknowledgementKind, Body, Bundle, Hello, HelloKind, List, Message, MessageId,
    MulticastRefresh, Path, RefreshIds, RefreshList, Resv, Session, SourceRefresh, SourceSelector,
    Srefresh,
};
use naming::*;

/// A node that has said nothing yet might refuse a MESSAGE_ID, so it gets none; all messages have the flag.
#[test]
fn the_first_path_has_no_name_and_the_next_one_has() {
    let mut router = router();
    let outcomes = path_named(&mut router, path(), named(1));
    assert_eq!(path_id(&outcomes), None);
    assert!(sent(&outcomes).iter().all(|(_, m)| m.flags == Message::REFRESH_REDUCTION));
    resv_named(&mut router, 2, None);
    let id = path_id(&path_named(&mut router, other_path(), named(2))).expect("a name");
    assert_eq!(id.flags, MessageId::ACK_DESIRED);
}

#[test]
fn who_takes_no_part_gets_plain_messages() {
    let mut router = router();
    router.arrives(ETH1, Body::Path(path()));
    let outcomes = router.arrives(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(sent(&outcomes)[0].1.message_id, None);
    let outcomes = router.arrives(ETH1, Body::Path(other_path()));
    assert_eq!(path_id(&outcomes), None);
}

/// An acknowledgement goes along with a message for the same neighbour, else by itself a little later.
#[test]
fn acknowledgements_go_along_or_by_themselves() {
    let mut router = router();
    path_named(&mut router, path(), named(1));
    let outcomes = resv_named(&mut router, 2, Some(named(100)));
    let upstream = acknowledgement(AcknowledgementKind::Ack, named(1));
    assert_eq!(acknowledged(&outcomes), [upstream], "with the Resv");
    let outcomes = router.pass(10 * MS);
    let downstream = acknowledgement(AcknowledgementKind::Ack, named(100));
    let messages = sent(&outcomes);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].0.destination, ip(DOWNSTREAM));
    assert_eq!(messages[0].1.body, Body::Ack);
    assert_eq!(acknowledged(&outcomes), [downstream]);
}

/// RFC 2961 section 4.6: no acknowledgement that was not asked for, and none for what cannot be read.
#[test]
fn nothing_else_is_acknowledged() {
    let mut router = router();
    path_named(&mut router, path(), unasked(1));
    let mut broken = bytes(&front(Body::Path(path()), Some(named(2))));
    *broken.last_mut().expect("octets") ^= 1;
    router.octets_arrive(ETH1, ip(RECEIVER), 64, &broken);
    assert!(acknowledged(&router.pass(SECOND)).is_empty());
}

/// Sent again after 500 ms and 1 s under the same name; not after the acknowledgement, and not by summary before.
#[test]
fn a_path_is_repeated_until_it_is_acknowledged() {
    let mut router = router();
    introduce(&mut router);
    let id = path_id(&path_named(&mut router, path(), named(1)));
    assert!(sent(&router.pass(499 * MS)).iter().all(|(_, m)| m.body == Body::Ack));
    assert_eq!(path_id(&router.pass(2 * MS)), id);
    assert_eq!(path_id(&router.pass(1_001 * MS)), id);
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, id.expect("named"))]);
    let outcomes = router.pass(100 * SECOND);
    let messages = sent(&outcomes);
    assert!(messages.len() >= 3);
    for (how, message) in messages {
        let Body::Srefresh(srefresh) = message.body else { panic!("{:?}", message.body) };
        assert_eq!((how.destination, how.router_alert), (ip(DOWNSTREAM), false));
        let list = srefresh.lists.iter().next().expect("a list");
        assert_eq!(list.ids, RefreshIds::Messages(List::Items(&[id.expect("named").id])));
    }
}

/// An acknowledgement counts only from where the message went to.
#[test]
fn strangers_cannot_acknowledge() {
    let mut router = router();
    introduce(&mut router);
    let id = path_id(&path_named(&mut router, path(), named(1))).expect("a name");
    let stale = MessageId { epoch: id.epoch ^ 1, ..id };
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, id)]);
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, stale)]);
    assert_eq!(path_id(&router.pass(501 * MS)), Some(id), "it still waits");
}

#[test]
fn messages_that_were_overtaken_are_dropped() {
    let (mut router, _, _) = settled();
    let dropped = |outcomes: &[Outcome]| {
        events(outcomes)
            .iter()
            .any(|e| matches!(e, Event::Dropped { reason: DropReason::Overtaken, .. }))
    };
    assert!(dropped(&path_named(&mut router, path(), named(1))));
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, tspec(3));
    let tear = front(Body::PathTear(path_tear()), Some(named(1)));
    assert!(dropped(&arrives(&mut router, ETH1, &tear)));
    resv_named(&mut router, 1, Some(named(99)));
    assert_eq!(router.engine.reservations().next().expect("it stands").flowspec, flowspec(2));
    let flows = [flow(2)];
    let mut tear = resv_tear(&flows);
    tear.hop.lih = router.engine.lih(ETH2);
    assert!(dropped(&arrives(&mut router, ETH2, &front(Body::ResvTear(tear), Some(named(99))))));
    assert_eq!(router.engine.population(), (1, 1, 1));
}

/// Neither a new epoch nor the end of the numbers makes a message an old one.
#[test]
fn epochs_and_wraps_are_not_taken_for_the_past() {
    let (mut router, _, _) = settled();
    path_named(&mut router, path(), MessageId { epoch: EPOCH - 1, ..named(1) });
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, path().sender.tspec);
    path_named(&mut router, other_path(), named(u32::MAX));
    path_named(&mut router, path(), named(3));
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, path().sender.tspec);
}

/// A summary is as good as the messages that it names: nothing times out.
#[test]
fn summaries_keep_state_alive() {
    let (mut router, _, _) = settled();
    for _ in 0..20 {
        router.pass(30 * SECOND);
        summary(&mut router, ETH1, &[2]);
        summary(&mut router, ETH2, &[100]);
    }
    assert_eq!(router.engine.population(), (1, 1, 1));
    assert_eq!(router.engine.counters().reduction.refreshed, 40);
    router.pass(158 * SECOND);
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// The lifetime of what a summary refreshes follows from the R of the neighbour that refreshes it.
#[test]
fn a_summary_extends_by_the_period_that_was_announced() {
    let mut router = router();
    path_named(&mut router, Path { refresh_ms: 300_000, ..path() }, named(1));
    summary(&mut router, ETH1, &[1]);
    router.pass(1_574 * SECOND);
    assert_eq!(router.engine.population(), (1, 1, 0));
    router.pass(2 * SECOND);
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// Section 5.4: what means nothing here is told back by its name, in few messages.
#[test]
fn unknown_names_are_told_back() {
    let (mut router, _, _) = settled();
    // An old name of the same state, one that never was, and another neighbour's.
    summary(&mut router, ETH1, &[1, 2, 7, 100]);
    let nacks: Vec<_> = [1, 7, 100]
        .map(|id| acknowledgement(AcknowledgementKind::Nack, named(id)))
        .into_iter()
        .collect();
    let outcomes = router.pass(10 * MS);
    assert_eq!(acknowledged(&outcomes), nacks);
    assert_eq!(sent(&outcomes).len(), 1);
}

/// Senders that follow each other in memory need not be of the same neighbour, nor need their names follow each other.
#[test]
fn names_in_a_row_are_told_apart() {
    let mut router = router();
    let of = |port, hop| {
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(port);
        path.hop.address = ip(hop);
        path
    };
    path_named(&mut router, of(1, UPSTREAM), named(1));
    path_named(&mut router, of(2, "10.0.1.3"), named(2));
    path_named(&mut router, of(3, UPSTREAM), named(9));
    path_named(&mut router, of(4, UPSTREAM), named(3));
    router.pass(10 * MS);
    summary(&mut router, ETH1, &[1, 2, 9, 3, 4]);
    let nacks = [2, 4].map(|id| acknowledgement(AcknowledgementKind::Nack, named(id)));
    assert_eq!(acknowledged(&router.pass(10 * MS)), nacks);
    // Those that were named live on, the other one does not.
    router.pass(150 * SECOND);
    summary(&mut router, ETH1, &[3, 9, 1]);
    router.pass(100 * SECOND);
    assert_eq!(router.engine.population().1, 3);
}

/// Lists as long as a datagram, again and again: bounded answers, no state, nothing kept.
#[test]
fn endless_lists_have_bounded_answers() {
    let mut router = router();
    let ids: Vec<u32> = (0..16_000).collect();
    for _ in 0..3 {
        summary(&mut router, ETH1, &ids);
    }
    let outcomes = router.pass(10 * MS);
    assert_eq!(acknowledged(&outcomes).len(), 4_096);
    assert!(sent(&outcomes).iter().all(|(_, message)| message.buffer_len() <= 1_400));
    assert!(router.pass(SECOND).is_empty());
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// Section 5.3: unknown Path state of a group is asked for only where packets of that source would be passed on.
#[test]
fn names_of_groups_are_told_back_only_on_their_way() {
    let mut router = router();
    let group = ip("239.1.2.3");
    let (near, far) = (ip("10.0.0.1"), ip("10.0.9.1"));
    for (source, incoming) in [(near, ETH1), (far, ETH2)] {
        router.routes.insert_multicast(MulticastRoute {
            source: Some(source),
            group,
            incoming: Some(incoming),
            outgoing: vec![if incoming == ETH1 { ETH2 } else { ETH1 }],
        });
    }
    let sources = [SourceRefresh { id: 1, source: near }, SourceRefresh { id: 2, source: far }];
    let names = RefreshIds::Sources(List::Items(&sources));
    let lists = [RefreshList { epoch: EPOCH, ids: names }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    router.octets_arrive(ETH1, group, 64, &bytes(&front(body, None)));
    let expected = [acknowledgement(AcknowledgementKind::Nack, named(1))];
    assert_eq!(acknowledged(&router.pass(10 * MS)), expected);

    let item = |id, source| MulticastRefresh { id, source, destination: group };
    let items = [item(3, near), item(4, far)];
    let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Multicast(List::Items(&items)) }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    arrives(&mut router, ETH1, &front(body, None));
    let expected = [acknowledgement(AcknowledgementKind::Nack, named(3))];
    assert_eq!(acknowledged(&router.pass(10 * MS)), expected);
}

/// Section 5.4: whoever does not know a name is told the whole message at once, under the same name, once.
#[test]
fn a_nack_brings_the_whole_message() {
    let (mut router, path, resv) = settled();
    let nack = acknowledgement(AcknowledgementKind::Nack, path);
    acks(&mut router, ETH2, &[nack; 50]);
    let outcomes = router.pass(MS);
    assert_eq!(path_id(&outcomes), Some(path));
    // From where nobody was told there is nothing to ask for.
    let strange = acknowledgement(AcknowledgementKind::Nack, resv);
    acks(&mut router, ETH2, &[strange]);
    assert!(sent(&router.pass(10 * MS)).is_empty());
    acks(&mut router, ETH1, &[strange]);
    assert_eq!(sent(&router.pass(MS))[0].1.message_id, Some(resv));
}

/// A neighbour with a new epoch has restarted, and is told all again at once.
#[test]
fn a_new_epoch_is_told_everything() {
    let (mut router, path, _) = settled();
    resv_named(&mut router, 2, Some(MessageId { epoch: EPOCH + 1, ..named(5) }));
    assert_eq!(path_id(&router.pass(2 * MS)).map(|id| id.id > path.id), Some(true));
}

/// A driver may serve timers every 10 ms, although the next 16 messages may go after 1 ms. What it misses is made up for,
/// up to a limit.
#[test]
fn who_looks_seldom_does_not_tell_slowly() {
    let mut router = router();
    introduce(&mut router);
    let mut told = Vec::new();
    for port in 1..=1_000 {
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(port);
        let id = path_id(&path_named(&mut router, path, named(port.into())));
        told.push(acknowledgement(AcknowledgementKind::Ack, id.expect("it takes part")));
    }
    acks(&mut router, ETH2, &told);
    resv_named(&mut router, 1, Some(named(1)));
    router.pass(20 * MS);
    resv_named(&mut router, 1, Some(MessageId { epoch: EPOCH + 1, ..named(5) }));
    let mut paths_after = |pause: Duration| {
        router.now = router.now + pause;
        let outcomes = router.handle(Input::Expire);
        sent(&outcomes).iter().filter(|(_, m)| matches!(m.body, Body::Path(_))).count()
    };
    for _ in 0..3 {
        let paths = paths_after(10 * MS);
        assert!((144..=176).contains(&paths), "{paths}");
    }
    assert_eq!(paths_after(300 * MS), 256);
}

/// Section 2: who no longer says that it takes part gets plain messages, and refreshes of RFC 2205.
#[test]
fn who_stops_taking_part_is_refreshed_plainly() {
    let (mut router, _, _) = settled();
    router.arrives(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(path_id(&router.pass(2 * MS)), None, "told once more, without a name");
    let outcomes = router.pass(100 * SECOND);
    let to_downstream = |how: &earmark_core::Outgoing| {
        how.interface == Some(ETH2) || how.destination == ip(DOWNSTREAM)
    };
    let sent = sent(&outcomes);
    let messages: Vec<_> = sent.iter().filter(|(how, _)| to_downstream(how)).collect();
    assert!(messages.len() >= 2);
    assert!(
        messages.iter().all(|(_, m)| matches!(m.body, Body::Path(_)) && m.message_id.is_none())
    );
}

/// Section 3.4: each message as if it had come alone, with the TTL of the Bundle.
#[test]
fn a_bundle_is_its_messages() {
    let mut router = router();
    let other = Session { port: 9, ..session() };
    let mut octets = bytes(&front(Body::Path(path()), Some(named(1))));
    octets.extend(bytes(&Message::new(7, Body::Path(Path { session: other, ..path() }))));
    let bundle = Bundle::new(&octets).expect("two messages");
    let outcomes = arrives(&mut router, ETH1, &front(Body::Bundle(bundle), None));
    let sent = sent(&outcomes);
    let sessions: Vec<_> = sent
        .iter()
        .filter_map(|(_, message)| match message.body {
            Body::Path(path) => Some(path.session),
            _ => None,
        })
        .collect();
    assert_eq!(sessions, [session(), other]);
    assert_eq!(router.engine.population().1, 2);
    assert_eq!(acknowledged(&router.pass(10 * MS)).len(), 1);
}

/// Where refresh reduction is switched off, nothing says otherwise, and what needs it is unknown.
#[test]
fn it_can_be_switched_off() {
    let mut config = Config::default();
    config.reduction.enabled = false;
    let mut router = with_config(config);
    let outcomes = path_named(&mut router, path(), named(1));
    assert_eq!(sent(&outcomes)[0].1.flags, 0);
    assert!(acknowledged(&router.pass(SECOND)).is_empty());
    let outcomes = summary(&mut router, ETH1, &[1]);
    assert!(matches!(
        events(&outcomes)[..],
        [Event::Dropped { reason: DropReason::Malformed, .. }]
    ));
}

fn hello(kind: HelloKind, source_instance: u32, destination_instance: u32) -> Body<'static> {
    Body::Hello(Hello { kind, source_instance, destination_instance })
}

/// The Hellos in what was sent.
fn hellos(outcomes: &[Outcome]) -> Vec<Hello> {
    let hello = |(_, message): &(_, Message<'_>)| match message.body {
        Body::Hello(hello) => Some(hello),
        _ => None,
    };
    sent(outcomes).iter().filter_map(hello).collect()
}

fn lost(outcomes: &[Outcome]) -> bool {
    events(outcomes).iter().any(|event| matches!(event, Event::NeighborLost { .. }))
}

fn watching() -> Bench {
    let hello = HelloTiming { interval: Some(SECOND), ..HelloTiming::default() };
    with_config(Config { hello, ..Config::default() })
}

/// RFC 3209 section 5.3: every request is answered, with both instances; RFC 4558: from where it went to.
#[test]
fn a_hello_is_answered_even_by_who_does_not_ask() {
    let mut router = router();
    let request = front(hello(HelloKind::Request, 5, 0), None);
    let outcomes = arrives(&mut router, ETH2, &request);
    let [answer] = hellos(&outcomes)[..] else { panic!("one answer") };
    assert_eq!((answer.kind, answer.destination_instance), (HelloKind::Ack, 5));
    assert_ne!(answer.source_instance, 0);
    let how = sent(&outcomes)[0].0;
    assert_eq!((how.source, how.destination, how.ttl), (ip("10.0.2.1"), ip(DOWNSTREAM), 1));
    let node = ip("10.0.1.2"); // an address of another interface stands for the node
    let outcomes = router.octets_arrive(ETH2, node, 1, &bytes(&request));
    assert_eq!(sent(&outcomes)[0].0.source, node);
    assert!(hellos(&router.pass(60 * SECOND)).is_empty(), "nobody is asked");
}

/// 3.5 intervals of silence after the last sign of life.
#[test]
fn a_neighbor_that_falls_silent_is_lost() {
    let mut router = watching();
    resv_named(&mut router, 2, None);
    let [request] = hellos(&router.pass(SECOND))[..] else { panic!("one a second") };
    assert_eq!((request.kind, request.destination_instance), (HelloKind::Request, 0));
    let answer = front(hello(HelloKind::Ack, 9, request.source_instance), None);
    assert!(!lost(&arrives(&mut router, ETH2, &answer)));
    let liveness = |router: &Bench| router.engine.neighbors().next().expect("it is known").hello;
    assert_eq!(liveness(&router), Liveness::Alive);
    assert!(!lost(&router.pass(3_400 * MS)));
    assert!(lost(&router.pass(1_100 * MS)));
    assert_eq!(liveness(&router), Liveness::Lost);
    // It is asked again, by a new instance.
    let [request_after, ..] = hellos(&router.pass(SECOND))[..] else { panic!("one a second") };
    assert_ne!(request_after.source_instance, request.source_instance);
    assert_eq!(request_after.destination_instance, 0);
}

/// A changed instance is a restart: the neighbour is told all again.
#[test]
fn a_neighbor_that_restarts_is_told_everything() {
    let (mut router, path, _) = settled();
    arrives(&mut router, ETH2, &front(hello(HelloKind::Request, 5, 0), None));
    assert!(sent(&router.pass(10 * MS)).is_empty());
    let outcomes = arrives(&mut router, ETH2, &front(hello(HelloKind::Request, 6, 0), None));
    assert!(lost(&outcomes));
    assert_eq!(path_id(&router.pass(2 * MS)).map(|id| id.id > path.id), Some(true));
}

/// Whoever asks us need not be asked.
#[test]
fn requests_answer_our_own() {
    let mut router = watching();
    arrives(&mut router, ETH2, &front(hello(HelloKind::Request, 5, 0), None));
    for _ in 0..8 {
        let requests = hellos(&router.pass(500 * MS));
        assert!(requests.iter().all(|hello| hello.kind == HelloKind::Ack), "{requests:?}");
        let mine =
            hellos(&arrives(&mut router, ETH2, &front(hello(HelloKind::Request, 5, 0), None)));
        assert_eq!(mine.len(), 1);
    }
}

/// A reservation for two senders in one message has one name for two states: it is no name for either.
#[test]
fn one_name_does_not_stand_for_two_states() {
    let mut router = router();
    let mut second = path();
    second.sender.template.selector = earmark_wire::rsvp::SourceSelector::Port(4001);
    path_named(&mut router, path(), named(1));
    path_named(&mut router, second, named(2));
    let other = earmark_wire::rsvp::FixedFilterFlow { filter: second.sender.template, ..flow(1) };
    let flows = [flow(1), other];
    let both = Resv {
        hop: earmark_wire::rsvp::RsvpHop { lih: router.engine.lih(ETH2), ..resv(&flows).hop },
        ..resv(&flows)
    };
    arrives(&mut router, ETH2, &front(Body::Resv(both), Some(named(100))));
    router.pass(20 * MS);
    summary(&mut router, ETH2, &[100]);
    let expected = [acknowledgement(AcknowledgementKind::Nack, named(100))];
    assert_eq!(acknowledged(&router.pass(10 * MS)), expected);
}

//! Rules of refresh reduction at one router, message by message.

use std::time::Duration;

use earmark_core::{Datagram, Input, MulticastRoute};
use earmark_rsvp::{Config, DropReason, Event};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Bundle, List, Message, MessageId, MulticastRefresh,
    Path, RefreshIds, RefreshList, Resv, Session, SourceRefresh, SourceSelector, Srefresh,
};

use crate::common::*;
use crate::message_ids::*;

/// A node that has sent nothing yet might reject MESSAGE_ID, so it gets none; all messages have the flag.
#[test]
fn path_to_unknown_next_hop_has_no_message_id() {
    let mut router = router();
    let outcomes = receive_path_with_id(&mut router, path(), message_id(1));
    assert_eq!(path_id(&outcomes), None);
    assert!(sent(&outcomes).iter().all(|(_, m)| m.flags == Message::REFRESH_REDUCTION));
    receive_resv_with_id(&mut router, 2, None);
    let id =
        path_id(&receive_path_with_id(&mut router, other_path(), message_id(2))).expect("a name");
    assert_eq!(id.flags, MessageId::ACK_DESIRED);
}

#[test]
fn neighbor_without_refresh_reduction_gets_no_message_id() {
    let mut router = router();
    router.receive(ETH1, Body::Path(path()));
    let outcomes = router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
    assert_eq!(sent(&outcomes)[0].1.message_id, None);
    let outcomes = router.receive(ETH1, Body::Path(other_path()));
    assert_eq!(path_id(&outcomes), None);
}

/// An acknowledgement is sent with a message to the same neighbour, or alone after a delay.
#[test]
fn acknowledgement_is_sent_with_message_or_after_delay() {
    let mut router = router();
    receive_path_with_id(&mut router, path(), message_id(1));
    let outcomes = receive_resv_with_id(&mut router, 2, Some(message_id(100)));
    let upstream = acknowledgement(AcknowledgementKind::Ack, message_id(1));
    assert_eq!(acknowledged(&outcomes), [upstream], "with the Resv");
    let outcomes = router.pass(10 * MS);
    let downstream = acknowledgement(AcknowledgementKind::Ack, message_id(100));
    let messages = sent(&outcomes);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].0.destination, ip(DOWNSTREAM));
    assert_eq!(messages[0].1.body, Body::Ack);
    assert_eq!(acknowledged(&outcomes), [downstream]);
}

/// RFC 2961 section 4.6: only messages that request it are acknowledged, and malformed ones are not.
#[test]
fn message_without_ack_request_is_not_acknowledged() {
    let mut router = router();
    receive_path_with_id(&mut router, path(), message_id_without_ack(1));
    let mut broken = bytes(&capable_message(Body::Path(path()), Some(message_id(2))));
    *broken.last_mut().expect("octets") ^= 1;
    router.receive_octets(ETH1, ip(RECEIVER), 64, &broken);
    assert!(acknowledged(&router.pass(SECOND)).is_empty());
}

/// Retransmitted after 500 ms and 1 s with the same MESSAGE_ID; not after the acknowledgement, and in no summary
/// refresh before.
#[test]
fn unacknowledged_path_is_retransmitted() {
    let mut router = router();
    introduce(&mut router);
    let id = path_id(&receive_path_with_id(&mut router, path(), message_id(1)));
    assert!(sent(&router.pass(499 * MS)).iter().all(|(_, m)| m.body == Body::Ack));
    assert_eq!(path_id(&router.pass(2 * MS)), id);
    assert_eq!(path_id(&router.pass(1_001 * MS)), id);
    let epoch = id.map(|id| id.epoch);
    let state = |router: &Bench| (Some(router.engine.reduction().0), router.engine.reduction().1);
    assert_eq!(state(&router), (epoch, 1));
    let acknowledged = |router: &Bench| router.engine.counters().reduction.acknowledged;
    assert_eq!(acknowledged(&router), 0);
    for _ in 0..2 {
        acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, id.expect("named"))]);
    }
    router.pass(10 * SECOND);
    assert_eq!(state(&router), (epoch, 0));
    assert_eq!(acknowledged(&router), 1, "once, however often it comes");
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

/// An acknowledgement counts only from the receiver of the message, and over its link.
#[test]
fn acknowledgement_of_other_node_is_ignored() {
    let mut router = router();
    introduce(&mut router);
    let id = path_id(&receive_path_with_id(&mut router, path(), message_id(1))).expect("a name");
    let stale = MessageId { epoch: id.epoch ^ 1, ..id };
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, id)]);
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, stale)]);
    let forged = [acknowledgement(AcknowledgementKind::Ack, id)];
    let acknowledgements = List::Items(&forged);
    let forged = Message { acknowledgements, ..capable_message(Body::Ack, None) };
    receive_with_ttl(&mut router, ETH2, 254, &forged);
    assert_eq!(router.engine.counters().dropped[DropReason::FromFar as usize], 1);
    assert_eq!(path_id(&router.pass(501 * MS)), Some(id), "it still waits");
}

/// Acknowledgements of other nodes than the receiver are counted: of peers, and of nodes without refresh reduction. Those
/// of the receiver are not, however late and often they come, and neither are those of an earlier run.
#[test]
fn foreign_acknowledgements_are_counted() {
    let (mut router, path, resv) = acknowledged_router();
    let count = |router: &Bench| router.engine.counters().foreign_acknowledgements;
    let [path, resv] = [path, resv].map(|id| acknowledgement(AcknowledgementKind::Ack, id));
    let error = Body::PathTear(path_tear());
    let outcomes = receive(&mut router, ETH1, &capable_message(error, Some(message_id(3))));
    let is_tear = |message: &Message<'_>| matches!(message.body, Body::PathTear(_));
    let tear = sent(&outcomes).iter().find(|(_, message)| is_tear(message)).expect("a tear").1;
    let tear = acknowledgement(AcknowledgementKind::Ack, tear.message_id.expect("a name"));
    // The state has ended, and with it what its acknowledgements name.
    for _ in 0..2 {
        acks(&mut router, ETH2, &[path]);
        acks(&mut router, ETH1, &[resv]);
    }
    assert_eq!(count(&router), 0);
    acks(&mut router, ETH1, &[tear]);
    assert_eq!(count(&router), 1, "of the previous hop");
    acks(&mut router, ETH2, &[tear, tear]);
    acks(&mut router, ETH2, &[tear]);
    assert_eq!(count(&router), 1);

    let (mut router, path, resv) = acknowledged_router();
    let [path, resv] = [path, resv].map(|id| acknowledgement(AcknowledgementKind::Ack, id));
    let stale = Acknowledgement { epoch: path.epoch ^ 1, ..path };
    acks(&mut router, ETH2, &[path, path, stale]);
    acks(&mut router, ETH1, &[resv, stale]);
    assert_eq!(count(&router), 0);
    acks(&mut router, ETH1, &[path]);
    acks(&mut router, ETH2, &[resv, resv]);
    assert_eq!(count(&router), 3);
    let nack = Acknowledgement { kind: AcknowledgementKind::Nack, ..path };
    acks(&mut router, ETH1, &[nack]);
    assert_eq!(count(&router), 4);
    // The receiver through another core interface.
    router.add_interface(ETH3, "10.0.3.1");
    let payload =
        Message { acknowledgements: List::Items(&[path]), ..capable_message(Body::Ack, None) };
    let payload = bytes(&payload);
    let detour = Datagram {
        interface: ETH3,
        source: ip(DOWNSTREAM),
        destination: ip("10.0.3.1"),
        ttl: 255,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    };
    router.handle(Input::Datagram(detour));
    assert_eq!(count(&router), 4);
    // A node that is no peer.
    let acknowledgements = [path, stale];
    let acknowledgements = List::Items(&acknowledgements);
    let plain = Message { flags: 0, acknowledgements, ..capable_message(Body::Ack, None) };
    receive(&mut router, ETH3, &plain);
    assert_eq!(count(&router), 5);
}

#[test]
fn overtaken_message_is_dropped() {
    let (mut router, _, _) = acknowledged_router();
    let dropped = |outcomes: &[Outcome]| {
        events(outcomes)
            .iter()
            .any(|e| matches!(e, Event::Dropped { reason: DropReason::Overtaken, .. }))
    };
    assert!(dropped(&receive_path_with_id(&mut router, path(), message_id(1))));
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, tspec(3));
    let tear = capable_message(Body::PathTear(path_tear()), Some(message_id(1)));
    assert!(dropped(&receive(&mut router, ETH1, &tear)));
    receive_resv_with_id(&mut router, 1, Some(message_id(99)));
    assert_eq!(router.engine.reservations().next().expect("it stands").flowspec, flowspec(2));
    let flows = [flow(2)];
    let mut tear = resv_tear(&flows);
    tear.hop.lih = router.engine.lih(ETH2);
    assert!(dropped(&receive(
        &mut router,
        ETH2,
        &capable_message(Body::ResvTear(tear), Some(message_id(99)))
    )));
    assert_eq!(router.engine.population(), (1, 1, 1));
}

/// A new epoch or a wrap of the identifiers does not make a message an old one.
#[test]
fn new_epoch_and_wrapped_id_are_accepted() {
    let (mut router, _, _) = acknowledged_router();
    receive_path_with_id(&mut router, path(), MessageId { epoch: EPOCH - 1, ..message_id(1) });
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, path().sender.tspec);
    receive_path_with_id(&mut router, other_path(), message_id(u32::MAX));
    receive_path_with_id(&mut router, path(), message_id(3));
    assert_eq!(router.engine.senders().next().expect("it stands").tspec, path().sender.tspec);
}

/// A summary refresh replaces the messages that it lists: nothing expires.
#[test]
fn summary_refresh_keeps_state() {
    let (mut router, _, _) = acknowledged_router();
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

/// A message from another link in the name of a neighbour on this one (RFC 5082) does not count as one of the neighbour: its
/// summary refreshes keep the state as before.
#[test]
fn message_from_another_link_leaves_the_neighbor_as_it_is() {
    let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Messages(List::Items(&[100])) }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    let summary_of_next_hop = capable_message(body, None);
    let flows = [flow(1)];
    for ttl in [254, 64, 1] {
        let (mut router, _, _) = acknowledged_router();
        receive_with_ttl(&mut router, ETH2, 255, &summary_of_next_hop);
        let mut forged = Resv { refresh_ms: 1, ..resv(&flows) };
        forged.hop.lih = router.engine.lih(ETH2);
        let id = MessageId { epoch: EPOCH + 1, ..message_id(1) };
        let forged = capable_message(Body::Resv(forged), Some(id));
        receive_with_ttl(&mut router, ETH2, ttl, &forged);
        assert_eq!(router.engine.counters().dropped[DropReason::FromFar as usize], 1, "{ttl}");
        for _ in 0..20 {
            router.pass(30 * SECOND);
            summary(&mut router, ETH1, &[2]);
            receive_with_ttl(&mut router, ETH2, 255, &summary_of_next_hop);
        }
        assert_eq!(router.engine.population(), (1, 1, 1), "{ttl}");
    }
}

/// The lifetime of state in a summary refresh follows from the R of the neighbour that sends it.
#[test]
fn summary_refresh_extends_state_by_announced_period() {
    let mut router = router();
    receive_path_with_id(&mut router, Path { refresh_ms: 300_000, ..path() }, message_id(1));
    summary(&mut router, ETH1, &[1]);
    router.pass(1_574 * SECOND);
    assert_eq!(router.engine.population(), (1, 1, 0));
    router.pass(2 * SECOND);
    assert_eq!(router.engine.population(), (0, 0, 0));
}

/// Section 5.4: unknown identifiers are returned in NACKs, in few messages.
#[test]
fn unknown_message_ids_get_nack() {
    let (mut router, _, _) = acknowledged_router();
    // A former identifier of the same state, one that was never used, and another neighbour's.
    summary(&mut router, ETH1, &[1, 2, 7, 100]);
    let nacks: Vec<_> = [1, 7, 100]
        .map(|id| acknowledgement(AcknowledgementKind::Nack, message_id(id)))
        .into_iter()
        .collect();
    let outcomes = router.pass(10 * MS);
    assert_eq!(acknowledged(&outcomes), nacks);
    assert_eq!(sent(&outcomes).len(), 1);
}

/// Adjacent senders in memory need not have the same neighbour, nor consecutive identifiers.
#[test]
fn consecutive_message_ids_refresh_their_own_state() {
    let mut router = router();
    let of = |port, hop| {
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(port);
        path.hop.address = ip(hop);
        path
    };
    receive_path_with_id(&mut router, of(1, UPSTREAM), message_id(1));
    receive_path_with_id(&mut router, of(2, "10.0.1.3"), message_id(2));
    receive_path_with_id(&mut router, of(3, UPSTREAM), message_id(9));
    receive_path_with_id(&mut router, of(4, UPSTREAM), message_id(3));
    router.pass(10 * MS);
    summary(&mut router, ETH1, &[1, 2, 9, 3, 4]);
    let nacks = [2, 4].map(|id| acknowledgement(AcknowledgementKind::Nack, message_id(id)));
    assert_eq!(acknowledged(&router.pass(10 * MS)), nacks);
    // Those that were listed remain, the other one expires.
    router.pass(150 * SECOND);
    summary(&mut router, ETH1, &[3, 9, 1]);
    router.pass(100 * SECOND);
    assert_eq!(router.engine.population().1, 3);
}

/// Repeated lists of maximum length: limited answers, no state, no memory.
#[test]
fn long_srefresh_has_bounded_nacks() {
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

/// Section 5.3: unknown Path state of a group causes a NACK only if packets of that source would be forwarded.
#[test]
fn unknown_multicast_message_id_gets_nack_on_its_path_only() {
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
    router.receive_octets(ETH1, group, 255, &bytes(&capable_message(body, None)));
    let expected = [acknowledgement(AcknowledgementKind::Nack, message_id(1))];
    assert_eq!(acknowledged(&router.pass(10 * MS)), expected);

    let item = |id, source| MulticastRefresh { id, source, destination: group };
    let items = [item(3, near), item(4, far)];
    let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Multicast(List::Items(&items)) }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    receive(&mut router, ETH1, &capable_message(body, None));
    let expected = [acknowledgement(AcknowledgementKind::Nack, message_id(3))];
    assert_eq!(acknowledged(&router.pass(10 * MS)), expected);
}

/// Section 5.4: a neighbour that does not know an identifier gets the whole message at once, with the same MESSAGE_ID,
/// once.
#[test]
fn nack_causes_one_full_message() {
    let (mut router, path, resv) = acknowledged_router();
    let nack = acknowledgement(AcknowledgementKind::Nack, path);
    acks(&mut router, ETH2, &[nack; 50]);
    let outcomes = router.pass(MS);
    assert_eq!(path_id(&outcomes), Some(path));
    // A NACK from another node than the receiver has no effect.
    let nack_elsewhere = acknowledgement(AcknowledgementKind::Nack, resv);
    acks(&mut router, ETH2, &[nack_elsewhere]);
    assert!(sent(&router.pass(10 * MS)).is_empty());
    acks(&mut router, ETH1, &[nack_elsewhere]);
    assert_eq!(sent(&router.pass(MS))[0].1.message_id, Some(resv));
}

/// A neighbour with a new epoch has restarted, and gets all state at once.
#[test]
fn new_epoch_causes_full_resend() {
    let (mut router, path, _) = acknowledged_router();
    receive_resv_with_id(&mut router, 2, Some(MessageId { epoch: EPOCH + 1, ..message_id(5) }));
    assert_eq!(path_id(&router.pass(2 * MS)).map(|id| id.id > path.id), Some(true));
}

/// A driver may serve timers every 10 ms, although the next 16 messages may be sent after 1 ms. Missed bursts are made
/// up for, up to a limit.
#[test]
fn late_timer_makes_up_for_missed_bursts() {
    let mut router = router();
    introduce(&mut router);
    let mut acknowledgements = Vec::new();
    for port in 1..=1_000 {
        let mut path = path();
        path.sender.template.selector = SourceSelector::Port(port);
        let id = path_id(&receive_path_with_id(&mut router, path, message_id(port.into())));
        acknowledgements
            .push(acknowledgement(AcknowledgementKind::Ack, id.expect("it takes part")));
    }
    acks(&mut router, ETH2, &acknowledgements);
    receive_resv_with_id(&mut router, 1, Some(message_id(1)));
    router.pass(20 * MS);
    receive_resv_with_id(&mut router, 1, Some(MessageId { epoch: EPOCH + 1, ..message_id(5) }));
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

/// Section 2: a neighbour that no longer sets the flag gets messages without MESSAGE_ID, and refreshes of RFC 2205.
#[test]
fn neighbor_without_capability_flag_gets_refresh_messages() {
    let (mut router, _, _) = acknowledged_router();
    router.receive(ETH2, Body::Resv(resv(&[flow(2)])));
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

/// Section 3.4: each message is handled as if received alone, with the TTL of the Bundle.
#[test]
fn bundle_is_handled_as_its_messages() {
    let mut router = router();
    let other = Session { port: 9, ..session() };
    let mut octets = bytes(&capable_message(Body::Path(path()), Some(message_id(1))));
    octets.extend(bytes(&Message::new(7, Body::Path(Path { session: other, ..path() }))));
    let bundle = Bundle::new(&octets).expect("two messages");
    let outcomes = receive(&mut router, ETH1, &capable_message(Body::Bundle(bundle), None));
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

/// With refresh reduction disabled the flag is not set, and its message types are unknown.
#[test]
fn disabled_refresh_reduction_drops_its_messages() {
    let mut config = Config::default();
    config.reduction.enabled = false;
    let mut router = with_config(config);
    let outcomes = receive_path_with_id(&mut router, path(), message_id(1));
    assert_eq!(sent(&outcomes)[0].1.flags, 0);
    assert!(acknowledged(&router.pass(SECOND)).is_empty());
    let outcomes = summary(&mut router, ETH1, &[1]);
    assert!(matches!(
        events(&outcomes)[..],
        [Event::Dropped { reason: DropReason::Malformed, .. }]
    ));
}

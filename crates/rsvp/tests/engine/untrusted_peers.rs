//! What a message in the name of a refresh-reduction peer changes if another node may have sent it (RFC 5082): the state that
//! it describes, and nothing of the peer.

use earmark_core::{Datagram, Input, InterfaceId};
use earmark_rsvp::DropReason;
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Carried, ErrorCode, ErrorSpec, FixedFilterFlow,
    FlowDescriptors, List, Message, MessageId, MessageType, PathErr, ResvConf,
};

use crate::common::*;
use crate::message_ids::*;
use crate::sharing::{path_of, sender_on, shared};

/// An identifier of another run of a neighbour.
const OTHER_RUN: MessageId =
    MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH ^ 1, id: 1 << 20 };

fn error_spec(code: ErrorCode) -> ErrorSpec {
    ErrorSpec { node: ip("10.0.0.254"), flags: 0, code, value: 0 }
}

/// Delivers a ResvConf for a receiver in the name of a neighbour.
fn confirm_from(
    router: &mut Bench,
    (interface, neighbor): (InterfaceId, &str),
    receiver: &str,
    ttl: u8,
    id: MessageId,
) -> Vec<Outcome> {
    let flows = [flow(2)];
    let confirmation = ResvConf {
        session: session(),
        error: error_spec(ErrorCode::Confirmation),
        confirm: ip(receiver),
        carried: Carried::NONE,
        flows: FlowDescriptors::FixedFilter(List::Items(&flows)),
    };
    let payload = bytes(&capable_message(Body::ResvConf(confirmation), Some(id)));
    router.handle(Input::Datagram(Datagram {
        interface,
        source: ip(neighbor),
        destination: ip(receiver),
        ttl,
        router_alert: true,
        encapsulated: false,
        payload: &payload,
    }))
}

/// Delivers a ResvConf for the downstream receiver in the name of the upstream neighbour.
fn confirm(router: &mut Bench, ttl: u8, id: MessageId) -> Vec<Outcome> {
    confirm_from(router, (ETH1, UPSTREAM), RECEIVER, ttl, id)
}

/// Delivers a PathErr of the downstream neighbour.
fn refuse(router: &mut Bench, id: MessageId) -> Vec<Outcome> {
    let path_err = PathErr {
        session: session(),
        error: error_spec(ErrorCode::AdmissionControlFailure),
        carried: Carried::NONE,
        sender: Some((template(), Some(tspec(3)))),
    };
    receive(router, ETH2, &capable_message(Body::PathErr(path_err), Some(id)))
}

fn count(outcomes: &[Outcome], kind: MessageType) -> usize {
    sent(outcomes).iter().filter(|(_, message)| message.body.message_type() == kind).count()
}

/// Delivers an acknowledgement of a neighbour on eth1.
fn acks_from(router: &mut Bench, neighbor: &str, acknowledgement: Acknowledgement) {
    let acknowledgements = List::Items(core::slice::from_ref(&acknowledgement));
    let payload = bytes(&Message { acknowledgements, ..capable_message(Body::Ack, None) });
    let destination = router.interfaces.by_id(ETH1).expect("known").addresses[0];
    router.handle(Input::Datagram(Datagram {
        interface: ETH1,
        source: ip(neighbor),
        destination,
        ttl: 255,
        router_alert: false,
        encapsulated: false,
        payload: &payload,
    }));
}

/// Delivers the known Path in the name of the upstream neighbour, as another node sends it.
fn forge_path(
    router: &mut Bench,
    flags: u8,
    id: Option<MessageId>,
    acknowledgements: &[Acknowledgement],
) -> Vec<Outcome> {
    let acknowledgements = List::Items(acknowledgements);
    let body = Body::Path(other_path());
    let message = Message { flags, acknowledgements, ..capable_message(body, id) };
    receive_with_ttl(router, ETH1, 64, &message)
}

/// A router with [`acknowledged_router`]'s reservation whose two neighbours are known to be on its links.
fn router_between_known_neighbors() -> Bench {
    let (router, ..) = acknowledged_router();
    router
}

/// A ResvConf comes from the far end: its TTL proves nothing. One with an identifier far ahead would make all later errors
/// of the neighbour count as repeated.
#[test]
fn confirmation_from_elsewhere_suppresses_no_error() {
    let mut router = router_between_known_neighbors();
    confirm_from(&mut router, (ETH2, DOWNSTREAM), SENDER, 60, message_id(1 << 20));
    assert_eq!(count(&refuse(&mut router, message_id(200)), MessageType::PathErr), 1);
    assert_eq!(count(&refuse(&mut router, message_id(200)), MessageType::PathErr), 0, "again");
}

/// A ResvConf that was sent again is forwarded once, wherever it comes from; each copy is acknowledged. One that somebody
/// else sends suppresses only those with its own identifier.
#[test]
fn confirmation_is_forwarded_once() {
    for ttl in [255, 60] {
        let mut router = router_between_known_neighbors();
        let mut forwarded = |id| count(&confirm(&mut router, ttl, id), MessageType::ResvConf);
        assert_eq!(forwarded(message_id(300)), 1, "TTL {ttl}");
        assert_eq!(forwarded(message_id(300)), 0, "TTL {ttl}, again");
        assert_eq!(forwarded(message_id(299)), 1, "TTL {ttl}, overtaken");
        assert_eq!(forwarded(message_id(299)), 0, "TTL {ttl}, overtaken and again");
        assert_eq!(router.engine.counters().dropped[DropReason::Repeated as usize], 2);
        let again = acknowledgement(AcknowledgementKind::Ack, message_id(300));
        let acknowledged = acknowledged(&router.pass(10 * MS));
        assert_eq!(acknowledged.iter().filter(|ack| **ack == again).count(), 2, "TTL {ttl}");
    }
    let mut router = router_between_known_neighbors();
    confirm(&mut router, 60, message_id(1 << 20));
    confirm(&mut router, 60, OTHER_RUN);
    assert_eq!(count(&confirm(&mut router, 60, message_id(301)), MessageType::ResvConf), 1);
}

/// A Path in the name of a neighbour that is said to have restarted, or to have given up refresh reduction, concerns the
/// reservation of its own sender only: the neighbour gets that again, and nothing else.
#[test]
fn path_from_elsewhere_resends_only_its_own_reservation() {
    let capable = Message::REFRESH_REDUCTION;
    for (flags, id) in [(capable, Some(OTHER_RUN)), (0, None)] {
        let mut router = router_between_known_neighbors();
        for port in [7_001, 7_002, 7_003] {
            receive_path_with_id(
                &mut router,
                path_of(sender_on(port)),
                message_id(u32::from(port)),
            );
            let flows = [FixedFilterFlow { filter: sender_on(port), ..flow(2) }];
            let mut resv = resv(&flows);
            resv.hop.lih = router.engine.lih(ETH2);
            let id = Some(message_id(200 + u32::from(port)));
            let outcomes = receive(&mut router, ETH2, &capable_message(Body::Resv(resv), id));
            let id = sent(&outcomes).last().and_then(|(_, message)| message.message_id);
            let ack = acknowledgement(AcknowledgementKind::Ack, id.expect("a MESSAGE_ID"));
            acks(&mut router, ETH1, &[ack]);
        }
        router.pass(20 * MS);
        forge_path(&mut router, flags, id, &[]);
        let outcomes = router.pass(400 * MS);
        assert_eq!(count(&outcomes, MessageType::Resv), 1, "{id:?}");
        for again in 0..3 {
            let id = id.map(|id| MessageId { id: id.id + again, ..id });
            forge_path(&mut router, flags, id, &[]);
        }
        assert_eq!(count(&router.pass(50 * MS), MessageType::Resv), 0, "{id:?}, again");
        // The neighbour is still a peer: it gets MESSAGE_IDs and acknowledgements.
        receive_path_with_id(&mut router, path_of(sender_on(7_009)), message_id(9_000));
        let acknowledged = acknowledged(&router.pass(10 * MS));
        let last = acknowledgement(AcknowledgementKind::Ack, message_id(9_000));
        assert!(acknowledged.contains(&last), "{id:?}");
    }
}

/// The address of a Path is the receiver's, so a peer acknowledges nothing with it (RFC 2961 section 4.6).
#[test]
fn acknowledgement_from_elsewhere_ends_no_retransmission() {
    let mut router = router();
    receive_path_with_id(&mut router, other_path(), message_id(1));
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, OTHER_RUN)]);
    let outcomes = receive_resv_with_id(&mut router, 2, Some(message_id(100)));
    let id = sent(&outcomes)[0].1.message_id.expect("a MESSAGE_ID");
    let forged = [acknowledgement(AcknowledgementKind::Ack, id)];
    forge_path(&mut router, Message::REFRESH_REDUCTION, Some(message_id(2)), &forged);
    assert_eq!(count(&router.pass(600 * MS), MessageType::Resv), 1, "it still waits");
    assert_eq!(router.engine.counters().foreign_acknowledgements, 1);
}

/// The reservation that senders share is sent again to the previous hop of the Path, and to no other one.
#[test]
fn path_from_elsewhere_resends_only_its_own_shared_reservation() {
    let mut router = router();
    let senders = [(7_001, UPSTREAM), (7_002, "10.0.1.9")];
    let filters = senders.map(|(port, _)| sender_on(port));
    for ((port, hop), filter) in senders.into_iter().zip(filters) {
        let mut path = path_of(filter);
        path.hop.address = ip(hop);
        receive_path_with_id(&mut router, path, message_id(u32::from(port)));
        let known = acknowledgement(AcknowledgementKind::Ack, OTHER_RUN);
        acks_from(&mut router, hop, known);
    }
    let mut resv = shared(2, &filters);
    resv.hop.lih = router.engine.lih(ETH2);
    let outcomes =
        receive(&mut router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(300))));
    for (how, message) in sent(&outcomes) {
        let Some(id) = message.message_id else { continue };
        let hop = how.destination.to_string();
        acks_from(&mut router, &hop, acknowledgement(AcknowledgementKind::Ack, id));
    }
    assert_eq!(count(&router.pass(600 * MS), MessageType::Resv), 0, "both are acknowledged");
    let forged = path_of(filters[0]);
    receive_path_with_id(&mut router, forged, OTHER_RUN);
    let outcomes = router.pass(400 * MS);
    assert_eq!(count(&outcomes, MessageType::Resv), 1);
    let to: Vec<_> = sent(&outcomes)
        .iter()
        .filter(|(_, message)| matches!(message.body, Body::Resv(_)))
        .map(|(how, _)| how.destination)
        .collect();
    assert_eq!(to, [ip(UPSTREAM)]);
}

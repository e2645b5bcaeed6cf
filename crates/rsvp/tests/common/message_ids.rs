//! Neighbours with refresh reduction: messages with MESSAGE_ID, acknowledgements and summary refreshes.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use earmark_core::{HostEvent, Interface, InterfaceId};
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Hello, HelloKind, List, Message, MessageId, Path,
    RefreshIds, RefreshList, Srefresh,
};

use crate::common::*;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const EPOCH: u32 = 0x00ab_cdef;

pub fn message_id(id: u32) -> MessageId {
    MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH, id }
}

pub fn message_id_without_ack(id: u32) -> MessageId {
    MessageId { flags: 0, ..message_id(id) }
}

pub fn acknowledgement(kind: AcknowledgementKind, id: MessageId) -> Acknowledgement {
    Acknowledgement { kind, epoch: id.epoch, id: id.id }
}

/// Message of a neighbour with refresh reduction.
pub fn capable_message(body: Body<'_>, message_id: Option<MessageId>) -> Message<'_> {
    let flags = Message::REFRESH_REDUCTION;
    Message { flags, message_id, ..Message::new(64, body) }
}

pub fn bytes(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

pub fn receive(router: &mut Bench, interface: InterfaceId, message: &Message<'_>) -> Vec<Outcome> {
    let is_along_path = matches!(message.body, Body::Path(_) | Body::PathTear(_));
    receive_with_ttl(router, interface, if is_along_path { 64 } else { 255 }, message)
}

pub fn receive_with_ttl(
    router: &mut Bench,
    interface: InterfaceId,
    ttl: u8,
    message: &Message<'_>,
) -> Vec<Outcome> {
    let here = router.interfaces.by_id(interface).expect("known").addresses[0];
    let destination = match &message.body {
        Body::Path(path) => path.session.destination,
        Body::PathTear(tear) => tear.session.destination,
        _ => here,
    };
    router.receive_octets(interface, destination, ttl, &bytes(message))
}

pub fn receive_path_with_id(router: &mut Bench, path: Path<'_>, id: MessageId) -> Vec<Outcome> {
    receive(router, ETH1, &capable_message(Body::Path(path), Some(id)))
}

pub fn receive_resv_with_id(router: &mut Bench, mbps: u32, id: Option<MessageId>) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    let mut resv = resv(&flows);
    resv.hop.lih = router.engine.lih(ETH2);
    receive(router, ETH2, &capable_message(Body::Resv(resv), id))
}

pub fn acks(router: &mut Bench, interface: InterfaceId, acks: &[Acknowledgement]) -> Vec<Outcome> {
    let message =
        Message { acknowledgements: List::Items(acks), ..capable_message(Body::Ack, None) };
    receive(router, interface, &message)
}

pub fn summary(router: &mut Bench, interface: InterfaceId, ids: &[u32]) -> Vec<Outcome> {
    let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Messages(List::Items(ids)) }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    receive(router, interface, &capable_message(body, None))
}

/// Acknowledgements in all sent messages.
pub fn acknowledged(outcomes: &[Outcome]) -> Vec<Acknowledgement> {
    sent(outcomes).iter().flat_map(|(_, message)| message.acknowledgements.iter()).collect()
}

/// MESSAGE_ID of the only sent Path.
pub fn path_id(outcomes: &[Outcome]) -> Option<MessageId> {
    let sent = sent(outcomes);
    let paths: Vec<_> = sent.iter().filter(|(_, m)| matches!(m.body, Body::Path(_))).collect();
    assert_eq!(paths.len(), 1);
    paths[0].1.message_id
}

/// A router with refresh reduction on both sides and one reservation, with the MESSAGE_IDs of its Path and of its Resv;
/// both are acknowledged.
pub fn acknowledged_router() -> (Bench, MessageId, MessageId) {
    let mut router = router();
    receive_path_with_id(&mut router, path(), message_id(1));
    let outcomes = receive_resv_with_id(&mut router, 2, Some(message_id(100)));
    let resv = sent(&outcomes)[0].1.message_id.expect("upstream takes part");
    // The next hop was not known when the first Path was sent. A changed Path has a MESSAGE_ID.
    let path =
        path_id(&receive_path_with_id(&mut router, other_path(), message_id(2))).expect("a name");
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, path)]);
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, resv)]);
    router.pass(20 * MS);
    (router, path, resv)
}

/// Introduces the next hop by a Hello, which shows that it supports refresh reduction.
pub fn introduce(router: &mut Bench) {
    receive(
        router,
        ETH2,
        &capable_message(
            Body::Hello(
                Hello { kind: HelloKind::Ack, source_instance: 5, destination_instance: 0 }.into(),
            ),
            None,
        ),
    );
}

pub fn other_path() -> Path<'static> {
    let mut path = path();
    path.sender.tspec = tspec(3);
    path
}

/// Message_Identifiers in all sent summary refreshes.
pub fn summary_ids(outcomes: &[Outcome]) -> Vec<u32> {
    let mut names = Vec::new();
    for (_, message) in sent(outcomes) {
        let Body::Srefresh(srefresh) = message.body else { continue };
        for list in srefresh.lists {
            if let RefreshIds::Messages(ids) = list.ids {
                names.extend(ids);
            }
        }
    }
    names
}

/// Changes a property of an interface.
pub fn change(router: &mut Bench, id: InterfaceId, change: impl FnOnce(&mut Interface)) {
    let mut interface = router.interfaces.by_id(id).expect("it is known").clone();
    change(&mut interface);
    router.interfaces.set(interface);
    router.host(HostEvent::InterfaceChanged(id));
}

//! Neighbours that take part in refresh reduction: messages with names, acknowledgements and summaries.
#![allow(dead_code, unreachable_pub)]

use std::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, Hello, HelloKind, List, Message, MessageId, Path,
    RefreshIds, RefreshList, Srefresh,
};

use crate::common::*;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);
pub const EPOCH: u32 = 0x00ab_cdef;

pub fn named(id: u32) -> MessageId {
    MessageId { flags: MessageId::ACK_DESIRED, epoch: EPOCH, id }
}

pub fn unasked(id: u32) -> MessageId {
    MessageId { flags: 0, ..named(id) }
}

pub fn acknowledgement(kind: AcknowledgementKind, id: MessageId) -> Acknowledgement {
    Acknowledgement { kind, epoch: id.epoch, id: id.id }
}

/// A message of a neighbour that takes part.
pub fn front(body: Body<'_>, message_id: Option<MessageId>) -> Message<'_> {
    let flags = Message::REFRESH_REDUCTION;
    Message { flags, message_id, ..Message::new(64, body) }
}

pub fn bytes(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it fits");
    octets
}

pub fn arrives(router: &mut Bench, interface: InterfaceId, message: &Message<'_>) -> Vec<Outcome> {
    let here = router.interfaces.by_id(interface).expect("known").addresses[0];
    let destination = match &message.body {
        Body::Path(path) => path.session.destination,
        Body::PathTear(tear) => tear.session.destination,
        _ => here,
    };
    router.octets_arrive(interface, destination, 64, &bytes(message))
}

pub fn path_named(router: &mut Bench, path: Path<'_>, id: MessageId) -> Vec<Outcome> {
    arrives(router, ETH1, &front(Body::Path(path), Some(id)))
}

pub fn resv_named(router: &mut Bench, mbps: u32, id: Option<MessageId>) -> Vec<Outcome> {
    let flows = [flow(mbps)];
    let mut resv = resv(&flows);
    resv.hop.lih = router.engine.lih(ETH2);
    arrives(router, ETH2, &front(Body::Resv(resv), id))
}

pub fn acks(router: &mut Bench, interface: InterfaceId, acks: &[Acknowledgement]) -> Vec<Outcome> {
    let message = Message { acknowledgements: List::Items(acks), ..front(Body::Ack, None) };
    arrives(router, interface, &message)
}

pub fn summary(router: &mut Bench, interface: InterfaceId, ids: &[u32]) -> Vec<Outcome> {
    let lists = [RefreshList { epoch: EPOCH, ids: RefreshIds::Messages(List::Items(ids)) }];
    let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
    arrives(router, interface, &front(body, None))
}

/// The acknowledgements in what was sent, all messages together.
pub fn acknowledged(outcomes: &[Outcome]) -> Vec<Acknowledgement> {
    sent(outcomes).iter().flat_map(|(_, message)| message.acknowledgements.iter()).collect()
}

/// The name of the one Path that was sent.
pub fn path_id(outcomes: &[Outcome]) -> Option<MessageId> {
    let sent = sent(outcomes);
    let paths: Vec<_> = sent.iter().filter(|(_, m)| matches!(m.body, Body::Path(_))).collect();
    assert_eq!(paths.len(), 1);
    paths[0].1.message_id
}

/// A router whose neighbours both take part and have one reservation between them, with the names that it gave to its
/// Path and to its Resv; both are acknowledged.
pub fn settled() -> (Bench, MessageId, MessageId) {
    let mut router = router();
    path_named(&mut router, path(), named(1));
    let outcomes = resv_named(&mut router, 2, Some(named(100)));
    let resv = sent(&outcomes)[0].1.message_id.expect("upstream takes part");
    // The next hop was not known when the first Path left. A Path that says something new has a name.
    let path = path_id(&path_named(&mut router, other_path(), named(2))).expect("a name");
    acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, path)]);
    acks(&mut router, ETH1, &[acknowledgement(AcknowledgementKind::Ack, resv)]);
    router.pass(20 * MS);
    (router, path, resv)
}

/// The next hop says Hello, and so that it takes part.
pub fn introduce(router: &mut Bench) {
    arrives(
        router,
        ETH2,
        &front(
            Body::Hello(Hello {
                kind: HelloKind::Ack,
                source_instance: 5,
                destination_instance: 0,
            }),
            None,
        ),
    );
}

pub fn other_path() -> Path<'static> {
    let mut path = path();
    path.sender.tspec = tspec(3);
    path
}

/// The numbers in all summaries that were sent.
pub fn names_in(outcomes: &[Outcome]) -> Vec<u32> {
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

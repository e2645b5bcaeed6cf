//! Messages with one MESSAGE_ID for several states: a Resv of the fixed-filter style that lists several senders (RFC 2205 section
//! 3.1.4), as other implementations send it.

use earmark_core::Rate;
use earmark_wire::rsvp::{
    Acknowledgement, AcknowledgementKind, Body, FilterSpec, FixedFilterFlow, Path, PathTear,
    SourceSelector,
};

use crate::common::*;
use crate::message_ids::*;

fn sender(port: u16) -> FilterSpec {
    FilterSpec { selector: SourceSelector::Port(port), ..template() }
}

fn path_of(port: u16) -> Path<'static> {
    let mut path = path();
    path.sender.template = sender(port);
    path
}

/// Delivers a Resv for both senders under one MESSAGE_ID, with this much for each.
fn receive_joint_resv(router: &mut Bench, id: u32, mbps: [u32; 2]) -> Vec<Outcome> {
    let flows = [1, 2]
        .map(|port| FixedFilterFlow { filter: sender(port), ..flow(mbps[usize::from(port) - 1]) });
    let mut resv = resv(&flows);
    resv.hop.lih = router.engine.lih(ETH2);
    receive(router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(id))))
}

fn joint() -> Bench {
    let mut router = router();
    receive_path_with_id(&mut router, path_of(1), message_id(1));
    receive_path_with_id(&mut router, path_of(2), message_id(2));
    receive_joint_resv(&mut router, 100, [1, 2]);
    let ack = acknowledgement(AcknowledgementKind::Ack, message_id(100));
    assert!(acknowledged(&router.pass(20 * MS)).contains(&ack));
    router
}

/// Answers to a summary refresh of the downstream neighbour, while upstream refreshes the senders.
fn answers(router: &mut Bench, ids: &[u32]) -> Vec<Acknowledgement> {
    summary(router, ETH1, &[1, 2]);
    summary(router, ETH2, ids);
    acknowledged(&router.pass(20 * MS))
}

#[test]
fn message_for_several_senders_is_refreshed_by_its_message_id() {
    let mut router = joint();
    for round in 1..=20 {
        router.pass(20 * SECOND);
        assert_eq!(answers(&mut router, &[100]), []);
        assert_eq!(router.engine.population(), (1, 2, 2));
        let reduction = router.engine.counters().reduction;
        // One identifier of downstream, and two of upstream.
        assert_eq!((reduction.refreshed, reduction.unknown), (3 * round, 0));
    }
    // The whole message, too, is a refresh; a changed one has another identifier, and the old one stands for nothing.
    assert!(sent(&receive_joint_resv(&mut router, 100, [1, 2])).is_empty());
    assert!(!sent(&receive_joint_resv(&mut router, 101, [3, 2])).is_empty());
    router.pass(SECOND);
    assert_eq!(answers(&mut router, &[101]), []);
    let nack = |id| [acknowledgement(AcknowledgementKind::Nack, message_id(id))];
    assert_eq!(answers(&mut router, &[100]), nack(100));
    assert!(sent(&receive_joint_resv(&mut router, 100, [1, 2])).is_empty(), "overtaken");
    router.pass(SECOND);
    assert_eq!(router.held(), Rate::from_mbps(5));
    router.pass(300 * SECOND);
    assert_eq!(router.engine.population().2, 0, "nothing refreshes it any more");
}

/// When one of the states ends, or changes by a message of its own, the identifier stands for none of them: the answer makes the
/// neighbour send the whole message.
#[test]
fn message_for_several_senders_stands_for_all_or_none() {
    let nack = [acknowledgement(AcknowledgementKind::Nack, message_id(100))];
    let ends: [fn(&mut Bench); 3] = [
        |router| {
            let tear = PathTear { template: sender(2), ..path_tear() };
            receive(router, ETH1, &capable_message(Body::PathTear(tear), Some(message_id(3))));
        },
        |router| {
            let flows = [FixedFilterFlow { filter: sender(1), ..flow(1) }];
            let mut tear = resv_tear(&flows);
            tear.hop.lih = router.engine.lih(ETH2);
            receive(router, ETH2, &capable_message(Body::ResvTear(tear), Some(message_id(101))));
        },
        |router| {
            let flows = [FixedFilterFlow { filter: sender(1), ..flow(3) }];
            let mut resv = resv(&flows);
            resv.hop.lih = router.engine.lih(ETH2);
            receive(router, ETH2, &capable_message(Body::Resv(resv), Some(message_id(101))));
        },
    ];
    for end in ends {
        let mut router = joint();
        end(&mut router);
        router.pass(SECOND);
        let answers = answers(&mut router, &[100]);
        assert!(answers.contains(&nack[0]), "{answers:?}");
    }
    // A message of which a part is refused stands for nothing.
    let mut router = joint();
    receive_joint_resv(&mut router, 102, [2, 8]);
    router.pass(SECOND);
    let nack = [acknowledgement(AcknowledgementKind::Nack, message_id(102))];
    assert_eq!(answers(&mut router, &[102]), nack);
}

//! Refresh reduction when an interface changes: what neighbours get again, and what not.

use earmark_wire::rsvp::{AcknowledgementKind, Body, Message};

use crate::common::*;
use crate::message_ids::*;

/// Path messages contain address, MTU and bandwidth of an interface.
#[test]
fn changed_interface_causes_resend() {
    let (mut router, path, _) = acknowledged_router();
    change(&mut router, ETH2, |interface| interface.mtu -= 100);
    let message_id = path_id(&router.pass(10 * MS)).expect("it takes part");
    assert!(message_id.id > path.id);
}

/// An IPv6 address is added a second or two after the link is up, when duplicate address detection has finished. IPv4
/// neighbours do not get all sessions again for that, only for a changed IPv4 address.
#[test]
fn irrelevant_interface_change_causes_no_resend() {
    let (mut router, path, resv) = acknowledged_router();
    for interface in [ETH1, ETH2] {
        let address = "fe80::1".parse().expect("an address");
        change(&mut router, interface, |interface| interface.addresses.push(address));
    }
    let outcomes = router.pass(300 * MS);
    assert_eq!(sent(&outcomes), []);
    let outcomes = router.pass(30 * SECOND);
    let names = summary_ids(&outcomes);
    assert!(names.contains(&path.id) && names.contains(&resv.id), "{names:?}");
    change(&mut router, ETH2, |interface| interface.addresses[0] = ip("10.0.2.77"));
    assert!(path_id(&router.pass(10 * MS)).expect("it takes part").id > path.id);
}

/// The kernel announces that a link is up some time after it has begun to carry packets. State that neighbours have got
/// by then is not sent again, unless the link was down or its MTU has changed.
#[test]
fn late_link_up_causes_no_resend() {
    let up = |router: &mut Bench, up| {
        change(router, ETH2, |interface| interface.up = up);
        let outcomes = router.pass(300 * MS);
        let is_path = |(_, message): &&(_, Message<'_>)| matches!(message.body, Body::Path(_));
        sent(&outcomes).iter().filter(is_path).count()
    };
    let announced_late = || {
        let mut router = router();
        change(&mut router, ETH2, |interface| interface.up = false);
        introduce(&mut router);
        let path = path_id(&receive_path_with_id(&mut router, path(), message_id(1)))
            .expect("it takes part");
        acks(&mut router, ETH2, &[acknowledgement(AcknowledgementKind::Ack, path)]);
        router.pass(20 * MS);
        router
    };
    let mut router = announced_late();
    assert_eq!([up(&mut router, false), up(&mut router, true), up(&mut router, true)], [0; 3]);
    assert_eq!([up(&mut router, false), up(&mut router, false), up(&mut router, true)], [0, 0, 1]);
    let mut router = announced_late();
    change(&mut router, ETH2, |interface| interface.mtu -= 100);
    assert_eq!([up(&mut router, false), up(&mut router, true)], [0, 1]);
}

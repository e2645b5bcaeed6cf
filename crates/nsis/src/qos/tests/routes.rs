//! Route changes (RFC 5974 sections 3.2.12 and 5.2.5): nodes 0, 1, 2 and 3 in a row, and 4 beside 1 or behind 3.

use std::time::Duration;

use earmark_wire::qos_nslp::iana::Success;
use earmark_wire::qos_nslp::{Answers, Extra, GenericFlags, InfoSpec, Outcome, Response};

use super::*;
use crate::qos::DropReason;

/// Creates a reservation from 0 over 1 and 2 to 3; node 4 is not part of it yet.
fn network_before_change() -> Net {
    let mut net = Net::of(5);
    net.right[3] = None;
    net.reserve(0, request(0, of_node(3), mbps(2)));
    net.lines();
    net.events(0);
    net
}

fn path() -> Mri {
    mri(0, of_node(3), Direction::Downstream)
}

/// Node 4 replaces 1 as the next node of 0; node 2 follows both. Packets of 4 leave to the left, because that link
/// leads to 2.
#[test]
fn new_branch_is_reserved_before_the_old_one_is_torn_down() {
    let mut net = network_before_change();
    (net.right[0], net.right[4], net.left[4], net.left[2]) = (Some(4), Some(2), Some(0), Some(4));
    net.notify(0, path(), Net::good(4));
    let expected = [
        "0>4 RESERVE 2 qspec rii",
        "4>2 RESERVE 0 qspec rii",
        // The old previous node is notified, and the RESERVE goes to the end because it requests a response from there.
        "2>1! NOTIFY route change",
        "2>3 RESERVE 0 qspec rii",
        "1>0 NOTIFY route change",
        "3>2 RESPONSE refresh successful",
        "2>4 RESPONSE refresh successful",
        "4>0 RESPONSE refresh successful",
        "0>1! RESERVE 1 tear",
        "1>2 RESERVE 1 tear",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.nodes[1].qos.session_count(), 0);
    assert_eq!(net.held(4, LEFT), mbps(2));
    assert_eq!(
        (net.held(0, RIGHT), net.held(1, RIGHT), net.held(2, RIGHT)),
        (mbps(2), Rate::ZERO, mbps(2))
    );
    net.advance(Duration::from_secs(600));
    assert_eq!(net.nodes[2].qos.session_count(), 1);
}

/// The new branch has not answered yet. Explicitly routed messages of the node on the old one count, and those of others do not.
#[test]
fn node_of_the_old_branch_is_heard_until_it_is_torn_down() {
    let mut net = network_before_change();
    net.right[0] = Some(4);
    net.unreachable = [4].into();
    net.notify(0, path(), Net::good(4));
    let response = Message::Response(Response {
        flags: GenericFlags::default(),
        answers: Some(Answers::Rii(1)),
        info: InfoSpec::new(Outcome::Success(Success::Reservation)),
        summary: None,
        qspec: None,
        extra: Extra::NONE,
    });
    let data = earmark_testkit::messages::qos_nslp::emit(&response);
    for (from, reason) in [(1, DropReason::Unasked), (3, DropReason::OtherPeer)] {
        net.nodes[0].events.clear();
        net.deliver((from, 0, NSLPID), SESSION, path().inverted(), &data, true);
        let dropped = net.nodes[0].events.iter().filter_map(|event| match event {
            Event::Dropped { reason, .. } => Some(*reason),
            _ => None,
        });
        assert_eq!(dropped.collect::<std::vec::Vec<_>>(), [reason], "node {from}");
    }
}

/// The route changes, and back again before the state on the other branch expires, with the tear of the old branch
/// received or lost.
#[test]
fn route_change_and_back_restores_the_old_branch() {
    for is_lost in [false, true] {
        let mut net = network_before_change();
        (net.right[0], net.right[4], net.left[4], net.left[2]) =
            (Some(4), Some(2), Some(0), Some(4));
        net.unreachable = if is_lost { [1].into() } else { [].into() };
        net.notify(0, path(), Net::good(4));
        net.unreachable.clear();
        assert_eq!(net.nodes[1].qos.session_count(), usize::from(is_lost));
        (net.right[0], net.left[2]) = (Some(1), Some(1));
        net.advance(Duration::from_secs(1));
        net.lines();
        net.notify(0, path(), Net::good(1));
        let lines = net.lines();
        assert!(lines.contains(&"2>1 RESPONSE refresh successful".into()), "{lines:?}");
        assert_eq!(net.nodes[4].qos.session_count(), 0, "the other branch is torn down");
        net.advance(Duration::from_secs(600));
        assert_eq!(net.all_held()[..4], [2, 2, 2, 0], "lost: {is_lost}");
        net.command(0, Command::Release { application: APP });
        net.advance(Duration::from_secs(1));
        net.assert_nothing_left();
    }
}

/// Figure 6 of RFC 5974: the handle changes, the node is the same.
#[test]
fn new_handle_of_the_same_node_tears_nothing_down() {
    let mut net = network_before_change();
    // The same node under another handle: the tear goes to the old handle, and is older than the RESERVE under the new
    // one.
    net.notify(0, path(), Net::good(4));
    let lines = net.lines();
    assert_eq!(lines[0], "0>1 RESERVE 2 qspec rii");
    net.advance(Duration::from_secs(600));
    assert_eq!(net.all_held()[..4], [2, 2, 2, 0]);
}

/// Figure 4 of RFC 5974: the last node finds a next one.
#[test]
fn path_extension_is_reserved() {
    let mut net = Net::of(3);
    net.right[1] = None;
    net.reserve(0, request(0, address(FAR), mbps(2)));
    assert_eq!(net.all_held(), [2, 2, 0]);
    net.lines();
    net.right[1] = Some(2);
    net.notify(1, mri(0, address(FAR), Direction::Downstream), Net::good(2));
    let expected = [
        "1>2 RESERVE 2 qspec rii",
        "2>- RESERVE 0 qspec rii",
        "2>1 RESPONSE reservation successful",
    ];
    assert_eq!(net.lines(), expected);
    assert_eq!(net.all_held(), [2, 2, 2]);
}

/// Figure 5: the last node leaves the path.
#[test]
fn path_truncation_releases_the_last_node() {
    let mut net = Net::of(3);
    let path = mri(0, address(FAR), Direction::Downstream);
    net.reserve(0, request(0, address(FAR), mbps(2)));
    net.lines();
    net.right[1] = None;
    net.notify(1, path, Notification::LastNode);
    assert_eq!(net.lines()[0], "1>2! RESERVE 1 tear");
    assert_eq!(net.all_held(), [2, 2, 0]);
    assert_eq!(net.nodes[1].qos.session(SESSION).expect("there").role, "qnr");
    net.advance(Duration::from_secs(600));
    assert_eq!(net.all_held(), [2, 2, 0]);
}

/// Section 3.2.12: a QUERY of the sender's side shows the receiver's side the new path, and is answered where it joins
/// the reservation.
#[test]
fn receiver_initiated_reservation_follows_a_route_change() {
    let mut net = Net::of(5);
    net.right[3] = None;
    let listen = crate::qos::Listen::default();
    net.command(3, Command::Listen { application: PEER_APP, listen });
    let request = request(0, of_node(3), mbps(2));
    net.command(0, Command::Invite { application: APP, request });
    assert_eq!(net.all_held()[..4], [2, 2, 2, 0]);
    net.lines();
    (net.right[0], net.right[4], net.left[4], net.left[2]) = (Some(4), Some(2), Some(0), Some(4));
    net.notify(0, path(), Net::good(4));
    let lines = net.lines();
    assert_eq!(
        lines[..4],
        [
            "0>4 QUERY reserve",
            "4>2 QUERY reserve",
            "2>4 RESERVE 2 qspec rii",
            "4>0 RESERVE 0 qspec rii",
        ]
    );
    assert!(lines.contains(&"2>1! RESERVE 1 tear".into()), "{lines:?}");
    assert!(!lines.iter().any(|line| line.starts_with("2>3 QUERY")), "it goes no further");
    assert_eq!(net.nodes[1].qos.session_count(), 0);
    // GIST takes the old node for the latest one again: it is torn down once more (section 5.2.5.4).
    net.notify(2, path().inverted(), Net::good(1));
    assert_eq!(net.lines(), ["2>1! RESERVE 1 tear"]);
    net.advance(Duration::from_secs(600));
    assert_eq!(
        (net.held(0, RIGHT), net.held(4, LEFT), net.held(2, RIGHT)),
        (mbps(2), mbps(2), mbps(2))
    );
}

/// Section 5.2.5.4: the nodes of the old branch still refresh for a while, and are ignored.
#[test]
fn old_branch_refreshes_are_ignored() {
    let mut net = network_before_change();
    (net.right[0], net.right[4], net.left[4], net.left[2]) = (Some(4), Some(2), Some(0), Some(4));
    // The tear of the old branch is lost.
    net.unreachable = [1].into();
    net.notify(0, path(), Net::good(4));
    net.unreachable.clear();
    assert_eq!(net.nodes[2].qos.session(SESSION).expect("there").back, Some(handle(4)));
    net.advance(Duration::from_secs(100));
    assert_eq!(net.nodes[2].qos.session(SESSION).expect("there").back, Some(handle(4)));
    assert!(net.nodes[2].qos.counters().dropped[&crate::qos::DropReason::OtherPeer] > 0);
    net.advance(Duration::from_secs(300));
    assert_eq!(net.nodes[1].qos.session_count(), 0);
    assert_eq!(net.nodes[2].qos.session_count(), 1);
}

/// Section 5.4.1: the same session with another flow replaces the old reservation, or shares it if REPLACE is not set.
#[test]
fn moved_host_keeps_its_session() {
    for (replace, control) in [
        (true, &["remove", "install 2 2 Mbit/s"][..]),
        (false, &["remove", "install 2 2 Mbit/s", "add 5000"]),
    ] {
        let mut net = network_before_change();
        let index = net.nodes[0].qos.store.find(SESSION).expect("there");
        let session = net.nodes[0].qos.store.session_mut(index);
        session.mri.source_port = Some(6_001);
        session.flags.set(crate::qos::state::Flags::REPLACE, replace);
        net.nodes[1].control.clear();
        net.command(0, Command::Modify { application: APP, qos: RequestedQos::of(mbps(2)) });
        assert_eq!(net.nodes[1].control, control);
        assert_eq!(net.all_held()[..4], [2, 2, 2, 0]);
        assert_eq!(net.nodes[2].qos.session(SESSION).expect("there").mri.source_port, Some(6_001));
    }
}

/// A new link without enough bandwidth: the QNI is notified.
#[test]
fn new_link_without_bandwidth_notifies_the_qni() {
    let mut net = network_before_change();
    let capacity = LinkCapacity { bandwidth: mbps(10), reservable: mbps(1), mtu: 1_500 };
    net.nodes[1].ledger.set_link(LEFT, capacity);
    let hop = Hop { interface: LEFT, gateway: Some(of_node(2)), source: None };
    let prefix = Prefix::host(of_node(3));
    let old = Hop { interface: RIGHT, ..hop };
    assert!(net.nodes[1].routes.remove(&Route { prefix, metric: 0, hop: old }));
    net.nodes[1].routes.insert(Route { prefix, metric: 0, hop });
    net.advance(Duration::from_secs(60));
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Lost { .. }, Event::Released { .. }]), "{events:?}");
    assert_eq!(net.held(1, RIGHT), Rate::ZERO);
}

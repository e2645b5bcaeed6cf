//! Route changes (RFC 5971 section 7.1), from node to node in virtual time, in the network of [`crate::common::diamond`].

use std::time::Duration;

use earmark_core::{HostEvent, InterfaceId};
use earmark_nsis::nslp::{Notification, PeerHandle, Validity};
use earmark_wire::gist::{MessageType, Mri};

use crate::common::application::{Call, Handle, Task};
use crate::common::diamond::{Family, flow_of, report_route, route_to};
use crate::common::{Network, address, flow, session};

const SECOND: Duration = Duration::from_secs(1);

/// Creates the network of two paths, and its IPv4 flow.
fn diamond() -> (Network, Vec<Handle>, Mri) {
    let (network, handles) = crate::common::diamond::diamond();
    (network, handles, flow_of(Family::Four))
}

/// Sets up a session at n0, whose peer is n1; returns the handle of the peer.
fn set_up(network: &mut Network, app: &Handle, mri: Mri, number: u8) -> PeerHandle {
    app.send(mri, session(number), b"one.");
    network.run(SECOND);
    let good = |calls| match calls {
        Call::Notified {
            what: Notification::RoutingStatusChange { status: Validity::Good, peer },
            ..
        } => peer,
        _ => None,
    };
    app.calls().into_iter().find_map(good).expect("a peer")
}

fn statuses(app: &Handle) -> Vec<Notification> {
    let what = |calls| match calls {
        Call::Notified { what, .. } => Some(what),
        _ => None,
    };
    app.calls().into_iter().filter_map(what).collect()
}

fn other_way(network: &mut Network) {
    route_to(network, Family::Four, 2);
    report_route(network, Family::Four);
}

/// The next hop changes: tentative state, a Query at once, the new peer, and the old one off the path.
#[test]
fn route_change_discovers_the_new_peer_at_once() {
    let (mut network, apps, mri) = diamond();
    let old = set_up(&mut network, &apps[0], mri, 1);
    other_way(&mut network);
    network.run(SECOND);
    let calls = statuses(&apps[0]);
    let [
        Notification::RoutingStatusChange { status: Validity::Tentative, peer: None },
        Notification::RoutingStatusChange { status: Validity::Good, peer: Some(new) },
        Notification::RouteDeletion(gone),
    ] = calls[..]
    else {
        panic!("{calls:?}")
    };
    assert!(gone == old && new != old);
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    assert_eq!(apps[2].received(), [b"two."]);
    assert_eq!(network.engine(0).gist().counters().rerouted, 1);
    // The old peer can still be reached.
    let bye = crate::common::application::message(mri, session(1));
    let bye = earmark_nsis::nslp::SendMessage { to: Some(old), ..bye };
    apps[0].task(Task::Send(bye, b"bye.".to_vec()));
    network.run(SECOND);
    assert_eq!(apps[1].received().last().map(Vec::as_slice), Some(&b"bye."[..]));
}

/// A route that changes back, or for other destinations, causes no Query.
#[test]
fn unchanged_route_causes_no_query() {
    let (mut network, apps, mri) = diamond();
    set_up(&mut network, &apps[0], mri, 1);
    let before = network.seen.len();
    for prefix in ["10.0.2.0/23", "0.0.0.0/0", "10.7.0.0/16", "::/0"] {
        network.host(0, HostEvent::RouteChanged(prefix.parse().expect("a prefix")));
        network.run(SECOND);
    }
    network.set_route(0, "10.9.0.0/16", 2, Some("10.0.1.2"));
    network.host(0, HostEvent::RouteChanged("10.9.0.0/16".parse().expect("a prefix")));
    network.run(SECOND);
    assert_eq!(network.seen.len(), before);
    assert!(statuses(&apps[0]).is_empty());
}

/// After a change of an interface, routes are checked at the next use.
#[test]
fn interface_change_is_detected_with_the_next_message() {
    let (mut network, apps, mri) = diamond();
    set_up(&mut network, &apps[0], mri, 1);
    network.set_route(0, "10.0.2.0/23", 2, Some("10.0.1.2"));
    network.host(0, HostEvent::InterfaceChanged(InterfaceId(1)));
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 1);
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 2);
    apps[0].send(mri, session(1), b"tri.");
    network.run(SECOND);
    assert_eq!(apps[2].received(), [b"tri."]);
}

/// All sessions of a changed range are checked, some at a time; others are not.
#[test]
fn all_sessions_of_a_changed_range_are_checked() {
    let (mut network, apps, mri) = diamond();
    let Mri::PathCoupled(there) = mri else { panic!("{mri:?}") };
    let neighbor = flow(address("10.0.0.1"), address("10.0.0.2"));
    apps[0].send(neighbor, session(1), b"one.");
    for number in 0..2_000_u32 {
        let port = Some(number as u16);
        let name = earmark_wire::gist::SessionId(u128::from(number).to_be_bytes());
        let mri = Mri::PathCoupled(earmark_wire::gist::PathCoupled { source_port: port, ..there });
        apps[0].send(mri, name, b"one.");
    }
    network.run(SECOND);
    let asked = |network: &Network| network.engine(0).gist().counters().query.sent;
    assert_eq!(asked(&network), 2_001);
    other_way(&mut network);
    // A second change before all are checked: none is skipped, and none is queried twice.
    network.host(0, HostEvent::RouteChanged("10.0.0.0/8".parse().expect("a prefix")));
    network.run(SECOND);
    assert_eq!(asked(&network), 4_001);
    assert_eq!(network.engine(0).gist().counters().rerouted, 2_000);
}

/// Sessions end between two inputs that check a range, in either order, among them the one that is due next: each of the others is
/// checked.
#[test]
fn check_of_a_changed_range_goes_on_after_sessions_that_ended() {
    let name = |number: u32| earmark_wire::gist::SessionId(u128::from(number).to_be_bytes());
    let ended = (0..600).filter(|number| number % 5 != 0);
    for order in [ended.clone().collect::<Vec<_>>(), ended.rev().collect()] {
        let (mut network, apps, mri) = diamond();
        for number in 0..600 {
            apps[0].send(mri, name(number), b"one.");
        }
        network.run(SECOND);
        other_way(&mut network);
        for number in order {
            apps[0].task(Task::Lifetime(mri, name(number), Duration::ZERO));
        }
        network.run(SECOND);
        let states = network.engine(0).gist().routing_states(0);
        let peers = states.map(|(_, state)| state.peer.map(|peer| peer.interface));
        assert_eq!(peers.collect::<Vec<_>>(), [Some(InterfaceId(2)); 120]);
    }
}

/// An application doubts the next hop: nothing changes until it is urgent; if the state is bad, messages wait.
#[test]
fn application_invalidates_routing_state() {
    let (mut network, apps, mri) = diamond();
    set_up(&mut network, &apps[0], mri, 1);
    apps[0].task(Task::Invalidate(mri, Validity::Tentative, false));
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 1);
    apps[0].task(Task::Invalidate(mri, Validity::Tentative, true));
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 2);
    apps[0].task(Task::Invalidate(mri, Validity::Bad, false));
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 2);
    let before = network.seen.len();
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    assert_eq!(
        network.log(before),
        ["n0 Query", "n1 Response", "n0 Data"],
        "it is asked for before anything is sent"
    );
    apps[0].task(Task::Invalidate(mri, Validity::Bad, true));
    network.run(SECOND);
    assert_eq!(network.sent(0, MessageType::Query).len(), 4);
    assert_eq!(apps[1].received(), [b"one.", b"two."]);
}

/// The responder sees the change too: the Query arrives on another interface, from another node.
#[test]
fn responder_learns_its_new_peer_from_the_confirm() {
    let (mut network, apps, mri) = diamond();
    apps[1].send(mri, session(1), b"one.");
    network.run(SECOND);
    apps[3].calls();
    // n2 is on the path now, as its Query shows and its Confirm proves.
    apps[2].send(mri, session(1), b"two.");
    network.run(SECOND);
    let calls = apps[3].calls();
    let peers = |calls: &Call| {
        matches!(
            calls,
            Call::Notified {
                what: Notification::RouteDeletion(_)
                    | Notification::RoutingStatusChange { status: Validity::Good, .. },
                ..
            }
        )
    };
    assert_eq!(calls.iter().filter(|calls| peers(calls)).count(), 2, "{calls:?}");
    assert!(matches!(calls.last(), Some(Call::Received { data, .. }) if data == b"two."));
}

/// Behind a failed link the only route may lead back to the peer that the flow comes from. It counts as none: a Query would make
/// that peer the next one. When the flow has a route again, the next peer is queried for at once.
#[test]
fn route_back_to_the_previous_peer_counts_as_none() {
    for family in Family::ALL {
        let (mut network, apps) = crate::common::diamond::diamond();
        let mri = flow_of(family);
        set_up(&mut network, &apps[0], mri, 1);
        set_up(&mut network, &apps[1], mri, 1);
        let before = network.sent(1, MessageType::Query).len();
        let destination = mri.addresses().1;
        let range = format!("{destination}/{}", if destination.is_ipv4() { 32 } else { 128 });
        let changed = || HostEvent::RouteChanged(range.parse().expect("a prefix"));
        network.set_route(1, &range, 1, Some(&family.host(0, 1)));
        network.host(1, changed());
        network.run(SECOND);
        assert_eq!(network.sent(1, MessageType::Query).len(), before, "{family:?}");
        let tentative =
            Notification::RoutingStatusChange { status: Validity::Tentative, peer: None };
        assert_eq!(statuses(&apps[1])[..], [tentative], "{family:?}");
        network.set_route(1, &range, 2, None);
        network.host(1, changed());
        network.run(SECOND);
        assert_eq!(network.sent(1, MessageType::Query).len(), before + 1, "{family:?}");
        assert_eq!(apps[0].received(), Vec::<Vec<u8>>::new(), "{family:?}");
    }
}

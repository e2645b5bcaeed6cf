//! Routes that change while a handshake is under way (RFC 5971 sections 6.2, 7.1.3 and 8.5): its Response installs the
//! peer only if the flow still takes the route of the Query. Each test covers both families, in datagrams (D-mode) and
//! over associations (C-mode).

use std::time::Duration;

use earmark_core::InterfaceId;
use earmark_nsis::Config;
use earmark_nsis::gist::Installation;
use earmark_nsis::gist::machine::State;
use earmark_nsis::nslp::{Attributes, Notification, Validity};
use earmark_wire::gist::{
    self, Body, Error, ErrorCode, ErrorData, Extensions, Message, MessageType, Mode, Mri,
    NetworkLayerInformation,
};
use earmark_wire::udp;

use crate::common::application::{Call, Handle, Task};
use crate::common::diamond::{
    Family, diamond, diamond_of, flow_of, report_interface, report_route, route_to,
};
use crate::common::forged::packet;
use crate::common::{Network, address, session, states};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const CASES: [(Family, bool); 4] =
    [(Family::Four, false), (Family::Four, true), (Family::Six, false), (Family::Six, true)];

fn send(app: &Handle, mri: Mri, reliable: bool, data: &[u8]) {
    app.send_with(mri, session(1), data, Attributes { reliable, secure: false });
}

/// Sets up a session at n0, whose peer is n1.
fn set_up(family: Family, reliable: bool) -> (Network, Vec<Handle>, Mri) {
    let (mut network, apps) = diamond();
    let mri = flow_of(family);
    send(&apps[0], mri, reliable, b"one.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"one."]);
    assert_eq!(peer(&network), Some(1));
    apps[0].calls();
    (network, apps, mri)
}

/// Returns the node that is the peer of n0 in its only routing state.
fn peer(network: &Network) -> Option<usize> {
    let (_, state) = network.engine(0).gist().routing_states(0).next().expect("a routing state");
    state.peer.map(|peer| peer.interface.0 as usize)
}

/// Returns how many halves of routing states use the associations of a node.
fn users_of_associations(network: &Network, node: usize) -> u32 {
    network.engine(node).gist().associations().map(|association| association.uses).sum()
}

/// Loses what a node sends to n0 from now on; [`deliver_late`] delivers it.
fn hold_back(network: &mut Network, node: usize) {
    network.loss = Some(Box::new(move |seen, _| seen.node == node));
}

/// Delivers the lost Responses of a node to n0, oldest first.
fn deliver_late(network: &mut Network, node: usize) {
    network.loss = None;
    let late: Vec<_> = network
        .sent(node, MessageType::Response)
        .into_iter()
        .filter(|seen| seen.lost)
        .map(|seen| seen.packet.clone())
        .collect();
    assert!(!late.is_empty(), "the node has sent no Response");
    for packet in late {
        network.inject(0, node as u32, packet);
    }
}

/// Returns how many times n0's application was told that the state is good, or that a peer has left the path.
fn changes(app: &Handle) -> usize {
    let is_change = |call: &Call| {
        matches!(
            call,
            Call::Notified {
                what: Notification::RouteDeletion(_)
                    | Notification::RoutingStatusChange { status: Validity::Good, peer: Some(_) },
                ..
            }
        )
    };
    app.calls().iter().filter(|call| is_change(call)).count()
}

/// Checks that messages of n0 reach n1, and none reaches n2.
fn assert_path_through_first(network: &mut Network, apps: &[Handle], mri: Mri, reliable: bool) {
    send(&apps[0], mri, reliable, b"two.");
    network.run(2 * SECOND);
    assert_eq!(peer(network), Some(1));
    assert_eq!(apps[1].received(), [b"two."]);
    assert_eq!(apps[2].received(), Vec::<Vec<u8>>::new());
}

/// The route returns, and the late Response comes before the routing states are checked.
#[test]
fn late_response_after_the_route_returned_installs_nothing() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(100 * MILLISECOND);
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        deliver_late(&mut network, 2);
        assert_eq!(peer(&network), Some(1), "{family:?} reliable={reliable}");
        network.run(SECOND);
        assert_eq!(changes(&apps[0]), 1, "{family:?}: the state is good again, with the same peer");
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// An Error about a Query is no better than a Response: the end of the path that it reports is that of the old route.
#[test]
fn late_error_after_the_route_returned_ends_nothing() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(100 * MILLISECOND);
        let query = network.sent(0, MessageType::Query).last().expect("a Query").packet.clone();
        let query = udp::Packet::parse(&query.octets).expect("UDP").payload;
        let query = gist::datagram(query).expect("GIST").to_vec();
        let code = ErrorCode::EndpointFound;
        let error = ErrorData::error_data_about(&query, Mode::D, code, 0).expect("an Error");
        let source = address(&family.host(1, 2));
        let nli = NetworkLayerInformation {
            peer_identity: b"n2..",
            ip_ttl: 0,
            interface_address: source,
            routing_state_validity: 30_000,
        };
        let body = Body::Error(Error { nat_traversal: None, nli: Some(nli), error });
        let extensions = Extensions::NONE;
        let error = Message { hops: 1, nslpid: 0, source_is_peer: true, body, extensions };
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        let own = address(&family.host(1, 1));
        network.inject(0, 2, packet(source, own, 255, &error));
        assert_eq!(peer(&network), Some(1), "{family:?} reliable={reliable}");
        network.loss = None;
        network.run(SECOND);
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// The route comes back after the answer of the old peer.
#[test]
fn late_response_after_the_answer_of_the_old_peer_installs_nothing() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(100 * MILLISECOND);
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        network.run(SECOND);
        deliver_late(&mut network, 2);
        network.run(SECOND);
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// A change of an interface is reported without the routes: the Response itself shows that its route is old.
#[test]
fn late_response_after_a_change_of_the_interface_installs_nothing() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(100 * MILLISECOND);
        route_to(&mut network, family, 1);
        report_interface(&mut network);
        deliver_late(&mut network, 2);
        assert_eq!(peer(&network), Some(1), "{family:?} reliable={reliable}");
        network.run(SECOND);
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// A retransmission takes the present route; a Response to the Query before it does not count.
#[test]
fn response_to_a_query_before_the_retransmission_on_another_route_installs_nothing() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(100 * MILLISECOND);
        // Nothing reports the change, and the answer of n1 is lost.
        route_to(&mut network, family, 1);
        network.loss = Some(Box::new(|seen, _| seen.node == 1));
        network.run(600 * MILLISECOND);
        let queries = network.sent(0, MessageType::Query);
        assert_eq!(queries.last().map(|seen| seen.interface), Some(InterfaceId(1)));
        deliver_late(&mut network, 2);
        assert_eq!(peer(&network), Some(1), "{family:?} reliable={reliable}");
        network.run(3 * SECOND);
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// The state is bad, so that messages wait: the search follows the route at once, and back.
#[test]
fn search_follows_the_route_and_back() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        hold_back(&mut network, 2);
        route_to(&mut network, family, 2);
        apps[0].task(Task::Invalidate(mri, Validity::Bad, true));
        network.run(100 * MILLISECOND);
        let before = network.sent(0, MessageType::Query).len();
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        network.run(MILLISECOND);
        assert_eq!(network.sent(0, MessageType::Query).len(), before + 1, "{family:?}");
        deliver_late(&mut network, 2);
        network.run(SECOND);
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// A first search whose route changes: the new next node is asked at once, and the old one is not installed.
#[test]
fn first_search_follows_the_route() {
    for (family, reliable) in CASES {
        let (mut network, apps) = diamond();
        let mri = flow_of(family);
        route_to(&mut network, family, 2);
        hold_back(&mut network, 2);
        send(&apps[0], mri, reliable, b"one.");
        network.run(100 * MILLISECOND);
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        network.run(MILLISECOND);
        deliver_late(&mut network, 2);
        network.run(300 * MILLISECOND);
        assert_eq!(apps[1].received(), [b"one."], "{family:?} reliable={reliable}");
        assert_eq!(apps[2].received(), Vec::<Vec<u8>>::new());
        assert_eq!(peer(&network), Some(1));
    }
}

/// The association with the new peer is being opened when the route returns: the old peer is asked at once, and nothing
/// goes to the new one, whose association is no longer used.
#[test]
fn route_returns_while_the_association_is_opened() {
    for (family, hangs) in
        [(Family::Four, false), (Family::Four, true), (Family::Six, false), (Family::Six, true)]
    {
        let (mut network, apps, mri) = set_up(family, true);
        network.connections_hang = hangs;
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        // The Response of n2 has arrived, and its connection is not yet open.
        network.run(3 * MILLISECOND);
        assert_eq!(peer(&network), Some(2), "{family:?}");
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        network.run(Duration::ZERO);
        assert_eq!(users_of_associations(&network, 0), 0, "{family:?} hangs={hangs}");
        network.connections_hang = false;
        network.run(SECOND);
        assert_eq!(peer(&network), Some(1), "{family:?} hangs={hangs}");
        assert_path_through_first(&mut network, &apps, mri, true);
    }
}

/// An association with the old peer opens before anything has reported the change of the route.
#[test]
fn unreported_return_of_the_route_is_detected_when_the_association_is_open() {
    for family in Family::ALL {
        let (mut network, apps, mri) = set_up(family, true);
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(3 * MILLISECOND);
        assert_eq!(peer(&network), Some(2), "{family:?}");
        route_to(&mut network, family, 1);
        report_interface(&mut network);
        network.run(SECOND);
        assert_eq!(peer(&network), Some(1), "{family:?}");
        assert_path_through_first(&mut network, &apps, mri, true);
    }
}

/// A route that vanishes and returns is good again after one Query.
#[test]
fn route_that_vanishes_and_returns_is_good_again() {
    for (family, reliable) in CASES {
        let (mut network, apps, mri) = set_up(family, reliable);
        let queries = network.sent(0, MessageType::Query).len();
        let prefix = family.pair(2).parse().expect("a prefix");
        let routes = &mut network.nodes[0].routes;
        let gone = routes.iter().find(|route| route.prefix == prefix).copied();
        assert!(gone.is_some_and(|route| routes.remove(&route)));
        report_route(&mut network, family);
        network.run(MILLISECOND);
        route_to(&mut network, family, 1);
        report_route(&mut network, family);
        network.run(SECOND);
        assert_eq!(network.sent(0, MessageType::Query).len(), queries + 1, "{family:?}");
        assert_eq!(changes(&apps[0]), 1, "{family:?} reliable={reliable}");
        assert_path_through_first(&mut network, &apps, mri, reliable);
    }
}

/// Two nodes before n3 send for one session, as while a route changes. Data of the one that n3 has not heard last are
/// answered with an Error, not black-holed (RFC 5971 section 4.4.6): its next message arrives.
#[test]
fn data_of_a_former_peer_are_answered_so_that_the_next_ones_arrive() {
    for (family, reliable) in CASES {
        let (mut network, apps) = diamond();
        let mri = flow_of(family);
        for (node, data) in [(1, b"one."), (2, b"two.")] {
            send(&apps[node], mri, reliable, data);
            network.run(SECOND);
        }
        assert_eq!(apps[3].received(), [b"one.", b"two."]);
        send(&apps[1], mri, reliable, b"lost");
        network.run(SECOND);
        apps[3].received();
        send(&apps[1], mri, reliable, b"next");
        network.run(SECOND);
        assert_eq!(apps[3].received(), [b"next"], "{family:?} reliable={reliable}");
    }
}

/// The flow leaves n0 towards n2: n1 is not the node after n0, although the source of the flow is on its link.
#[test]
fn upstream_query_beside_the_route_of_the_flow_is_refused() {
    for (family, reliable) in CASES {
        let (mut network, apps) = diamond();
        let mri = flow_of(family);
        route_to(&mut network, family, 2);
        send(&apps[1], mri.inverted(), reliable, b"one.");
        network.run(SECOND);
        assert_eq!(apps[0].received(), Vec::<Vec<u8>>::new(), "{family:?} reliable={reliable}");
        assert_eq!(network.engine(1).gist().routing_state_count(), 0);
        route_to(&mut network, family, 1);
        send(&apps[1], mri.inverted(), reliable, b"two.");
        network.run(SECOND);
        assert_eq!(apps[0].received(), [b"two."], "{family:?} reliable={reliable}");
    }
}

/// The routing state at n3 waits for the Confirm of n2, which is lost, when its lifetime is over: it ends "regardless of whether
/// a No_Confirm timer is running" (RFC 5971 section 6.3). Meanwhile it does not use the association of its former peer (RFC 5972
/// appendix A.2, transition 7).
#[test]
fn state_that_waits_for_a_confirm_expires() {
    for (family, reliable) in CASES {
        let mut config = Config::default();
        config.gist.installation = Installation::Confirmed;
        let (mut network, apps) = diamond_of(&config);
        let mri = flow_of(family);
        send(&apps[1], mri, reliable, b"one.");
        network.run(SECOND);
        network.loss = Some(Box::new(|seen, _| {
            seen.node == 1 || seen.message_type() == Some(MessageType::Confirm)
        }));
        network.connections_hang = true;
        network.run(28 * SECOND);
        send(&apps[2], mri, reliable, b"two.");
        network.run(SECOND);
        assert_eq!(states(&network, 3), [State::WaitConfirm], "{family:?} reliable={reliable}");
        assert_eq!(users_of_associations(&network, 3), 0, "{family:?}");
        network.loss = Some(Box::new(|_, _| true));
        network.run(20 * SECOND);
        assert_eq!(states(&network, 3), [], "{family:?} reliable={reliable}");
    }
}

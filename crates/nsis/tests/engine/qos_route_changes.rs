//! Route changes of sessions in networks with alternatives, on GIST (RFC 5974 sections 3.2.12 and 5.2.5): a reservation that
//! its application wants survives them, and stands on the present path only.

use std::time::Duration;

use earmark_core::{HostEvent, Interface, InterfaceId, Rate, Route, Transport};
use earmark_nsis::Config;
use earmark_nsis::gist::{Installation, UpstreamQueries};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{Command, Event, Request, RequestedQos, Rule};
use earmark_wire::gist::{Body, MessageType};
use earmark_wire::qos_nslp::Message;

use crate::common::diamond::{Family, diamond_of, report_route, route_to};
use crate::common::ladder::{ladder, prefix, route_through};
use crate::common::qos::SESSION;
use crate::common::qos::{
    APP, LISTENER, all_held, command, events_of, listener, make_reservable, request, session_counts,
};
use crate::common::{Network, Seen, address};

const SECOND: Duration = Duration::from_secs(1);
const MILLISECOND: Duration = Duration::from_millis(1);
const CLEAR: Attributes = Attributes { reliable: false, secure: false };
const RELIABLE: Attributes = Attributes { reliable: true, secure: false };
const SECURE: Attributes = Attributes { reliable: true, secure: true };
const INSTALLATIONS: [Installation; 3] =
    [Installation::Delayed, Installation::Confirmed, Installation::Immediate];

/// All families, transports and installation policies.
fn cases() -> impl Iterator<Item = (Family, Attributes, Config)> {
    Family::ALL.into_iter().flat_map(|family| {
        [CLEAR, RELIABLE, SECURE].into_iter().flat_map(move |attributes| {
            INSTALLATIONS.into_iter().map(move |installation| {
                let mut config = Config::default();
                config.gist.installation = installation;
                config.gist.associations.tls_port = Some(271);
                (family, attributes, config)
            })
        })
    })
}

fn diamond(config: &Config) -> Network {
    let (mut network, _) = diamond_of(config);
    make_reservable(&mut network);
    network.nodes.iter_mut().for_each(|node| node.listens.push((271, Transport::Tls)));
    network
}

fn request_to(family: Family, net: u8, attributes: Attributes) -> Request {
    let request = request(address(&family.host(net, 2)), Rate::from_mbps(2));
    Request { attributes: Some(attributes), ..request }
}

fn reserve(network: &mut Network, request: Request) {
    command(network, 0, Command::Reserve { application: APP, request });
}

fn invite(network: &mut Network, request: Request) {
    command(network, 0, Command::Invite { application: APP, request });
}

fn listen(network: &mut Network) {
    let last = network.nodes.len() - 1;
    command(network, last, Command::Listen { application: LISTENER, listen: listener() });
}

/// Lets a node of a ladder take another node, and reports it.
fn reroute(network: &mut Network, family: Family, node: usize, next: usize) {
    route_through(network, family, node, next);
    let prefix = prefix(family, crate::common::ladder::DESTINATION).parse().expect("a prefix");
    network.host(node, HostEvent::RouteChanged(prefix));
}

fn is_bad_news(event: &Event) -> bool {
    matches!(
        event,
        Event::Refused { .. } | Event::TimedOut { .. } | Event::Gone { .. } | Event::Lost { .. }
    )
}

fn is_tear(seen: &Seen) -> bool {
    let Some(message) = seen.packet.message() else { return false };
    let Body::Data(data) = message.body else { return false };
    matches!(Message::parse(data.nslp_data), Ok(Message::Reserve(reserve)) if reserve.tear)
}

/// The Query for the first next node is on its way when the route changes.
#[test]
fn claim_of_a_new_session_follows_the_route_of_its_first_peer() {
    for (family, attributes, config) in cases() {
        let mut network = diamond(&config);
        reserve(&mut network, request_to(family, 2, attributes));
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(SECOND);
        assert_eq!(all_held(&network), [2, 0, 2, 0], "{family:?} {attributes:?}");
        let view = network.engine(0).qos().session(SESSION).expect("a session");
        assert_eq!(view.interface.map(|interface| interface.0), Some(2), "{family:?}");
    }
}

/// Takes an interface of a node away: its routes, its link with all claims, and then itself, as the host reports them.
fn remove_interface(network: &mut Network, node: usize, interface: InterfaceId) -> Vec<Route> {
    let routes = &mut network.nodes[node].routes;
    let gone = routes.iter().filter(|route| route.hop.interface == interface).copied().collect();
    routes.remove_interface(interface);
    for (claim, owner) in network.nodes[node].ledger.remove_link(interface).claims {
        network.host(node, HostEvent::TrafficControlRefused { claim, owner, errno: 19 });
    }
    network.nodes[node].interfaces.remove(interface);
    network.host(node, HostEvent::InterfaceChanged(interface));
    gone
}

fn return_interface(network: &mut Network, node: usize, interface: Interface, routes: &[Route]) {
    let id = interface.id;
    network.nodes[node].interfaces.set(interface);
    make_reservable(network);
    network.host(node, HostEvent::InterfaceChanged(id));
    for route in routes {
        network.nodes[node].routes.insert(*route);
        network.host(node, HostEvent::RouteChanged(route.prefix));
    }
}

/// The interface that a reservation leaves through disappears at its first node or at a router. With another route, sooner or
/// later, the reservation moves there; without, it is made again when the interface is back.
#[test]
fn reservation_survives_an_interface_that_disappears() {
    for (family, attributes, mut config) in cases() {
        // What the lost claim has used up is free again.
        config.qos.policy = vec![Rule { total: Some(Rate::from_mbps(2)), ..Rule::default() }];
        for (node, has_detour) in [(0, true), (0, false), (1, false)] {
            let mut network = diamond(&config);
            reserve(&mut network, request_to(family, 2, attributes));
            network.run(2 * SECOND);
            assert_eq!(all_held(&network), [2, 2, 0, 0]);
            let id = InterfaceId(if node == 0 { 1 } else { 2 });
            let interface = network.nodes[node].interfaces.by_id(id).cloned().expect("there");
            let routes = remove_interface(&mut network, node, id);
            network.run(100 * MILLISECOND);
            if has_detour {
                route_to(&mut network, family, 2);
                report_route(&mut network, family);
            } else {
                return_interface(&mut network, node, interface, &routes);
            }
            network.run(60 * SECOND);
            let events = events_of(&network, 0);
            let what = format!("{family:?} {attributes:?} {:?} {node}", config.gist.installation);
            assert!(!events.iter().any(is_bad_news), "{what} {has_detour}: {events:?}");
            network.run(200 * SECOND);
            let held = if has_detour { [2, 0, 2, 0] } else { [2, 2, 0, 0] };
            assert_eq!(all_held(&network), held, "{what} {has_detour}");
        }
    }
}

/// Nodes that the path has left check their routes, too, and GIST takes them for the latest peers again where their paths
/// meet the new one.
#[test]
fn reservation_of_a_sender_survives_two_route_changes() {
    for (family, attributes, config) in cases() {
        for (delay, keep_old_branch) in [0, 20, 3_000].map(|delay| (delay, delay == 20)) {
            let mut network = ladder(&config, delay);
            let request = request_to(family, 6, attributes);
            reserve(&mut network, Request { keep_old_branch, ..request });
            network.run(100 * MILLISECOND);
            reroute(&mut network, family, 1, 4);
            network.run(Duration::from_millis(delay));
            reroute(&mut network, family, 0, 2);
            network.run(60 * SECOND);
            let events = events_of(&network, 0);
            let what = format!("{family:?} {attributes:?} {:?} {delay}", config.gist.installation);
            assert!(!events.iter().any(is_bad_news), "{what}: {events:?}");
            network.run(200 * SECOND);
            assert_eq!(all_held(&network), [2, 0, 2, 2, 0, 0], "{what}");
        }
    }
}

#[test]
fn reservation_of_a_receiver_survives_a_route_change_between_routers() {
    for (family, attributes, config) in cases() {
        let mut network = ladder(&config, 114);
        listen(&mut network);
        invite(&mut network, request_to(family, 6, attributes));
        network.run(200 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 0, 2, 0, 0]);
        reroute(&mut network, family, 1, 4);
        network.run(60 * SECOND);
        for node in [0, 5] {
            let events = events_of(&network, node);
            assert!(!events.iter().any(is_bad_news), "{family:?} {attributes:?} {events:?}");
        }
        assert_eq!(all_held(&network), [2, 2, 0, 0, 2, 0], "{family:?} {attributes:?}");
    }
}

/// The tears of the old branch are lost for some time: its node is torn down when it makes itself felt again.
#[test]
fn old_branch_of_a_receiver_ends_after_lost_tears() {
    for (family, _, config) in cases().filter(|(_, attributes, _)| *attributes == CLEAR) {
        let mut network = diamond(&config);
        listen(&mut network);
        invite(&mut network, request_to(family, 2, CLEAR));
        network.run(2 * SECOND);
        network.loss = Some(Box::new(|seen, _| seen.node == 3 && is_tear(seen)));
        route_to(&mut network, family, 2);
        report_route(&mut network, family);
        network.run(10 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        network.loss = None;
        network.run(240 * SECOND);
        assert_eq!(all_held(&network), [2, 0, 2, 0], "{family:?} {config:?}");
        assert!(!events_of(&network, 0).iter().any(is_bad_news), "{:?}", events_of(&network, 0));
    }
}

/// The sender takes another node before the first RESERVE has reached it, which the node on the old path has forwarded.
#[test]
fn branch_without_an_answer_is_torn_down() {
    for (family, attributes, config) in cases() {
        for delay in 5..16 {
            let mut network = ladder(&config, 38);
            listen(&mut network);
            invite(&mut network, request_to(family, 6, attributes));
            network.run(delay * MILLISECOND);
            reroute(&mut network, family, 0, 2);
            network.run(260 * SECOND);
            let what = format!("{family:?} {attributes:?} {:?} {delay}", config.gist.installation);
            assert_eq!(all_held(&network), [2, 0, 2, 2, 0, 0], "{what}");
        }
    }
}

/// The old branch is kept (REPLACE not set), and is refreshed with the old rate.
#[test]
fn refresh_of_a_kept_branch_does_not_restore_the_old_rate() {
    for (family, attributes, config) in cases() {
        for seed in 0..4 {
            let mut network = ladder(&config, seed);
            let request = request_to(family, 6, attributes);
            reserve(&mut network, Request { keep_old_branch: true, ..request });
            network.run(2 * SECOND);
            reroute(&mut network, family, 0, 2);
            network.run(20 * SECOND);
            assert_eq!(all_held(&network), [2, 2, 2, 2, 0, 0], "{family:?} {attributes:?}");
            let qos = RequestedQos::of(Rate::from_mbps(3));
            command(&mut network, 0, Command::Modify { application: APP, qos });
            network.run(20 * SECOND);
            for _ in 0..110 {
                assert_eq!(all_held(&network), [3, 2, 3, 3, 0, 0], "{family:?} {attributes:?}");
                network.run(SECOND);
            }
        }
    }
}

/// Nobody shows the receiver the way to the sender any more, and nothing of its reservation is left.
#[test]
fn receiver_whose_refreshes_are_lost_releases() {
    for family in Family::ALL {
        let mut config = Config::default();
        config.gist.upstream_queries = UpstreamQueries::Never;
        let mut network = diamond(&config);
        listen(&mut network);
        invite(&mut network, request_to(family, 2, CLEAR));
        network.run(2 * SECOND);
        network.stop(0);
        network.stop(1);
        network.run(300 * SECOND);
        let events = events_of(&network, 3);
        assert!(events.iter().any(|event| matches!(event, Event::Lost { .. })), "{events:?}");
        assert_eq!(network.engine(3).qos().session_count(), 0, "{family:?}");
    }
}

/// The sender releases its request, which leaves the reservation to the receiver, and requests the session again.
#[test]
fn request_for_a_standing_session_of_a_receiver_is_answered() {
    for (family, attributes, config) in cases() {
        let mut network = diamond(&config);
        listen(&mut network);
        invite(&mut network, request_to(family, 2, attributes));
        network.run(60 * SECOND);
        command(&mut network, 0, Command::Release { application: APP });
        invite(&mut network, request_to(family, 2, attributes));
        network.run(60 * SECOND);
        let events = events_of(&network, 0);
        let is_last = matches!(events.last(), Some(Event::Incoming { .. }));
        assert!(is_last, "{family:?} {attributes:?} {events:?}");
        assert_eq!(session_counts(&network), [1, 1, 0, 1]);
    }
}

/// The first RESERVE of the receiver reaches the sender while its packets take another route for a moment.
#[test]
fn claim_of_the_sender_follows_its_route_back() {
    for (family, attributes, config) in cases() {
        for delay in 3..12 {
            let mut network = diamond(&config);
            listen(&mut network);
            invite(&mut network, request_to(family, 2, attributes));
            network.run(delay * MILLISECOND);
            route_to(&mut network, family, 2);
            network.run(100 * MILLISECOND);
            route_to(&mut network, family, 1);
            network.run(60 * SECOND);
            let view = network.engine(0).qos().session(SESSION).expect("a session");
            let interface = view.interface.map(|interface| interface.0);
            assert_eq!(interface, Some(1), "{family:?} {attributes:?} {delay}");
        }
    }
}

/// Two routes change while the receiver reserves, so that it asks the sender for another transport, and reserves after all: the
/// sender is not told of a refusal.
#[test]
fn request_that_stands_is_not_refused() {
    for family in Family::ALL {
        for (first, second) in (1..20).flat_map(|first| (1..20).map(move |second| (first, second)))
        {
            let mut config = Config::default();
            config.gist.upstream_queries = UpstreamQueries::Never;
            let mut network = ladder(&config, 11_520);
            listen(&mut network);
            invite(&mut network, request_to(family, 6, CLEAR));
            network.run(first * MILLISECOND);
            reroute(&mut network, family, 0, 2);
            network.run(second * MILLISECOND);
            reroute(&mut network, family, 1, 4);
            network.run(60 * SECOND);
            let events = events_of(&network, 0);
            let is_told = matches!(events.last(), Some(Event::Incoming { .. }));
            let stands = all_held(&network)[0] > 0;
            assert_eq!(is_told, stands, "{family:?} {first} {second} {events:?}");
        }
    }
}

/// A node is gone, and the receiver stops for some time, so that the node between lets the session expire. It is reserved again
/// before its tear is answered: the new next node is learned.
#[test]
fn session_that_is_reserved_again_after_its_tear_knows_its_next_node() {
    for (family, seed) in
        Family::ALL.into_iter().flat_map(|family| (0..20).map(move |seed| (family, seed)))
    {
        let mut config = Config::default();
        config.gist.installation = Installation::Confirmed;
        config.gist.piggyback = false;
        let mut network = ladder(&config, seed);
        listen(&mut network);
        invite(&mut network, request_to(family, 6, CLEAR));
        network.run(100 * MILLISECOND);
        network.stop(1);
        network.loss = Some(Box::new(|seen, _| {
            seen.node == 0 && seen.message_type() == Some(MessageType::Query)
        }));
        network.nodes[5].paused_until = Some(network.now + 100 * SECOND);
        network.run(100 * SECOND);
        network.start(1, crate::common::ladder::engine(&config, seed, 1, 1));
        network.loss = None;
        network.run(300 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 0, 2, 0, 0], "{family:?}");
        let view = network.engine(3).qos().session(SESSION).expect("a session");
        let peer = view.on.and_then(|on| network.engine(3).gist().peer(on));
        assert_eq!(peer.map(|peer| peer.interface.0), Some(1), "{family:?}");
    }
}

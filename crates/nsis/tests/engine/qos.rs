//! QoS NSLP on GIST, from node to node in virtual time.

use std::time::Duration;

use earmark_core::admission::LinkCapacity;
use earmark_core::{HostEvent, InterfaceId, Rate, Transport};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{AggregateRule, Application, Command, Event, OnRefusal, Request};
use earmark_nsis::{Config, gist, qos};
use earmark_wire::gist::{MessageType, SessionId};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use crate::common::qos::{
    APP, LISTENER, all_held, command, events_of, listener, request, reservable_line,
    reservable_line_of,
};
use crate::common::{Network, Place, address, forged};

const SECOND: Duration = Duration::from_secs(1);
const TLS_PORT: u16 = 4_270;

fn mbps(mbps: u64) -> Rate {
    Rate::from_mbps(mbps)
}

fn aware(count: usize) -> Network {
    reservable_line_of(count, &Config::default())
}

fn reserve(network: &mut Network, request: Request) {
    command(network, 0, Command::Reserve { application: APP, request });
}

fn is_reserved(event: &Event, rate: Rate) -> bool {
    matches!(event, Event::Reserved { application: APP, rate: calls, .. } if *calls == rate)
}

fn dropped(network: &Network, node: usize) -> u64 {
    network.engine(node).qos().counters().dropped.values().sum()
}

#[test]
fn reservation_over_four_nodes_lasts_until_released() {
    for end in ["10.0.2.2", "fd00:2::2"] {
        let mut network = aware(4);
        reserve(&mut network, request(address(end), mbps(2)));
        network.run(SECOND);
        let events = events_of(&network, 0);
        assert!(events.len() == 1 && is_reserved(&events[0], mbps(2)), "{events:?}");
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        network.run(1_800 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 2, 0]);
        for node in 0..4 {
            assert_eq!(dropped(&network, node), 0, "node {node}: {:?}", events_of(&network, node));
            assert_eq!(network.engine(node).qos().counters().expired, 0);
        }
        command(&mut network, 0, Command::Release { application: APP });
        network.run(SECOND);
        assert_eq!(events_of(&network, 0).last(), Some(&Event::Released { application: APP }));
        assert_eq!(all_held(&network), [0, 0, 0, 0]);
        for node in 0..4 {
            assert_eq!(network.engine(node).qos().session_count(), 0);
        }
    }
}

/// Associations change nothing in the result.
#[test]
fn reliable_messages_reserve_too() {
    let mut network = aware(4);
    for node in &mut network.nodes {
        let ports = gist::Config::default().associations;
        node.listens.extend(ports.tcp_port.map(|port| (port, Transport::Tcp)));
    }
    let attributes = Some(Attributes { reliable: true, secure: false });
    reserve(&mut network, Request { attributes, ..request(address("10.0.2.2"), mbps(2)) });
    network.run(5 * SECOND);
    let events = events_of(&network, 0);
    assert!(events.iter().any(|event| is_reserved(event, mbps(2))), "{events:?}");
    assert_eq!(all_held(&network), [2, 2, 2, 0]);
    assert!(network.connections.len() >= 2, "there are connections");
}

#[test]
fn refusal_returns_available_rate() {
    let mut network = aware(4);
    let link = LinkCapacity { bandwidth: mbps(10), reservable: mbps(1), mtu: 1_500 };
    network.nodes[2].ledger.set_link(InterfaceId(2), link);
    reserve(&mut network, request(address("10.0.2.2"), mbps(2)));
    network.run(SECOND);
    let events = events_of(&network, 0);
    let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
    assert!(
        matches!(
            &events[0],
            Event::Refused { outcome, available: Some(available), reaction: OnRefusal::Release, .. }
                if *outcome == failure && *available == mbps(1)
        ),
        "{events:?}"
    );
    network.run(60 * SECOND);
    assert_eq!(all_held(&network), [0, 0, 0, 0]);
}

/// A router without NSIS in between is detected; one behind the last node ends the signalling.
#[test]
fn routers_without_nsis_are_detected() {
    let aware = Place::Aware(Config::default());
    let mut network = reservable_line(&[aware.clone(), Place::Plain, aware.clone(), Place::Plain]);
    reserve(&mut network, request(address("10.0.2.2"), mbps(2)));
    network.run(60 * SECOND);
    let events = events_of(&network, 0);
    assert!(
        matches!(events[..], [Event::Reserved { rate, breaks: true, .. }] if rate == mbps(2)),
        "{events:?}"
    );
    assert_eq!(all_held(&network), [2, 0, 2, 0]);
    network.run(600 * SECOND);
    assert_eq!(all_held(&network), [2, 0, 2, 0]);
    command(&mut network, 0, Command::Release { application: APP });
    network.run(60 * SECOND);
    assert_eq!(all_held(&network), [0; 4]);
}

#[test]
fn receiver_reserves_on_request() {
    let mut network = aware(4);
    command(&mut network, 3, Command::Listen { application: LISTENER, listen: listener() });
    let request = request(address("10.0.2.2"), mbps(2));
    command(&mut network, 0, Command::Invite { application: APP, request });
    network.run(2 * SECOND);
    assert_eq!(all_held(&network), [2, 2, 2, 0], "{:?}", events_of(&network, 3));
    assert!(matches!(events_of(&network, 0)[..], [Event::Incoming { application: APP, .. }]));
    assert!(matches!(events_of(&network, 3)[..], [Event::Reserved { application: LISTENER, .. }]));
    network.run(1_800 * SECOND);
    assert_eq!(all_held(&network), [2, 2, 2, 0]);
    command(&mut network, 3, Command::Release { application: LISTENER });
    network.run(2 * SECOND);
    assert_eq!(all_held(&network), [0; 4]);
    assert!(matches!(events_of(&network, 0).last(), Some(Event::Gone { application: APP, .. })));
}

#[test]
fn query_returns_available_rate() {
    let mut network = aware(4);
    let request = request(address("10.0.2.2"), mbps(100));
    command(&mut network, 0, Command::Query { application: APP, request });
    network.run(2 * SECOND);
    let events = events_of(&network, 0);
    assert!(
        matches!(events[..], [Event::Offered { rate, latency_us: Some(30), breaks: false, .. }] if rate == mbps(8)),
        "{events:?}"
    );
    assert_eq!(network.engine(1).qos().session_count(), 0);
}

/// Every tenth message is lost.
#[test]
fn lost_messages_are_recovered() {
    let mut network = aware(4);
    let mut count = 0;
    network.loss = Some(Box::new(move |_, _| {
        count += 1;
        count % 10 == 3
    }));
    reserve(&mut network, request(address("10.0.2.2"), mbps(2)));
    network.run(60 * SECOND);
    assert!(events_of(&network, 0).iter().any(|event| is_reserved(event, mbps(2))));
    network.run(3_600 * SECOND);
    assert_eq!(all_held(&network), [2, 2, 2, 0]);
}

/// Sessions that are refreshed in the summaries of others send no messages of their own; their routing state is kept
/// all the same, because GIST detects route changes.
#[test]
fn summaries_keep_the_routing_state_of_their_sessions() {
    let mut config = Config::default();
    config.qos.summary = 200;
    let mut network = reservable_line_of(3, &config);
    for number in 0..5_u16 {
        let mut request = request(address("10.0.1.2"), mbps(1));
        request.session = None;
        request.flow.source_port += number;
        let application = Application(10 + u64::from(number));
        command(&mut network, 0, Command::Reserve { application, request });
    }
    network.run(SECOND);
    assert_eq!(all_held(&network), [5, 5, 0]);
    let sent = |network: &Network| {
        let counters = network.engine(0).gist().counters();
        (counters.data.sent, counters.query.sent)
    };
    network.run(300 * SECOND);
    let before = sent(&network);
    network.run(900 * SECOND);
    let after = sent(&network);
    assert_eq!(all_held(&network), [5, 5, 0]);
    // At most one message each 15 s; five separate sessions have one each 6 s.
    let (refreshes, queries) = (after.0 - before.0, after.1 - before.1);
    assert!((20..60).contains(&refreshes), "{refreshes} refreshes are summaries");
    assert!(queries >= 5 * 5, "{queries}: each way is asked for before its 180 s are over");
    for node in 0..3 {
        let engine = network.engine(node);
        assert_eq!(engine.gist().routing_state_count(), 5, "node {node}");
        assert_eq!(engine.gist().counters().expired, 0, "node {node}");
    }
}

fn with_tls() -> gist::Config {
    let mut config = gist::Config::default();
    config.associations.tls_port = Some(TLS_PORT);
    config
}

/// A request for a transport that this node does not have is rejected at once, and does not wait for an answer.
#[test]
fn request_without_its_transport_is_rejected() {
    let mut without_tcp = gist::Config::default();
    without_tcp.associations.tcp_port = None;
    let mut always_secure = gist::Config::default();
    always_secure.associations.require = Attributes { reliable: true, secure: true };
    let (reliable, secure) =
        (Attributes { reliable: true, secure: false }, always_secure.associations.require);
    let none = Attributes::default();
    for (gist, attributes, is_rejected) in [
        (gist::Config::default(), none, false),
        (gist::Config::default(), reliable, false),
        (gist::Config::default(), secure, true),
        (without_tcp.clone(), none, false),
        (without_tcp, reliable, true),
        (with_tls(), secure, false),
        (always_secure, none, true),
    ] {
        let config = Config { gist, ..Config::default() };
        let commands: [fn(Request) -> Command; 3] = [
            |request| Command::Reserve { application: APP, request },
            |request| Command::Query { application: APP, request },
            |request| Command::Invite { application: APP, request },
        ];
        for asks in commands {
            let mut network = reservable_line_of(2, &config);
            let attributes = Some(attributes);
            let asked = Request { attributes, ..request(address("10.0.0.2"), mbps(1)) };
            command(&mut network, 0, asks(asked));
            let reason = qos::Rejection::NoTransport;
            let expected = Event::Rejected { application: APP, reason };
            let rejected = events_of(&network, 0).contains(&expected);
            assert_eq!(rejected, is_rejected, "{config:?} {attributes:?}");
        }
    }
}

/// Creates two paths from 0 to 3, over 1 and over 2; flows take the first.
///
/// ```text
///        n1
///  net 0/  \net 1
///     n0    n3
///  net 2\  /net 3
///        n2
/// ```
fn diamond() -> Network {
    let mut network = Network::new();
    let place = Place::Aware(Config {
        gist: gist::Config { validity: 10 * SECOND, ..with_tls() },
        ..Config::default()
    });
    (0..4).for_each(|number| network.add_node(number, &place));
    for (left, right, net) in [(0, 1, 0), (1, 3, 1), (0, 2, 2), (2, 3, 3)] {
        network.join(left, right, net);
    }
    for node in &mut network.nodes {
        for interface in node.interfaces.iter() {
            let capacity = LinkCapacity { bandwidth: mbps(10), reservable: mbps(8), mtu: 1_500 };
            node.ledger.set_link(interface.id, capacity);
        }
    }
    for (node, prefix, interface, gateway) in [
        (0, "10.0.0.0/24", 1, None),
        (0, "10.0.2.0/24", 2, None),
        (0, "10.0.1.0/24", 1, Some("10.0.0.2")),
        (0, "10.0.3.0/24", 2, Some("10.0.2.2")),
        (1, "10.0.0.0/24", 1, None),
        (1, "10.0.1.0/24", 2, None),
        (2, "10.0.2.0/24", 1, None),
        (2, "10.0.3.0/24", 2, None),
        (2, "10.0.1.0/24", 2, Some("10.0.3.2")),
        (2, "10.0.0.0/24", 1, Some("10.0.2.1")),
        (3, "10.0.1.0/24", 1, None),
        (3, "10.0.3.0/24", 2, None),
        (3, "10.0.0.0/24", 1, Some("10.0.1.1")),
        (3, "10.0.2.0/24", 2, Some("10.0.3.1")),
    ] {
        network.set_route(node, prefix, interface, gateway);
    }
    network
}

/// Moves the flows of a [`diamond`] to the second path.
fn reroute(network: &mut Network) {
    network.set_route(0, "10.0.1.0/24", 2, Some("10.0.2.2"));
    network.set_route(3, "10.0.0.0/24", 2, Some("10.0.3.1"));
    let changed = |prefix: &str| HostEvent::RouteChanged(prefix.parse().expect("a prefix"));
    network.host(0, changed("10.0.1.0/24"));
    network.host(3, changed("10.0.0.0/24"));
}

#[test]
fn route_change_moves_the_reservation() {
    let mut network = diamond();
    reserve(&mut network, request(address("10.0.1.2"), mbps(2)));
    network.run(2 * SECOND);
    assert_eq!(all_held(&network), [2, 2, 0, 0]);
    reroute(&mut network);
    network.run(20 * SECOND);
    assert_eq!(all_held(&network), [2, 0, 2, 0], "{:?}", network.log(0));
    assert_eq!(network.engine(1).qos().session_count(), 0, "torn down, not expired");
    network.run(600 * SECOND);
    assert_eq!(all_held(&network), [2, 0, 2, 0]);
}

/// The tear of the old branch has no address of its sender: it is known by the association that carries it.
#[test]
fn old_branch_over_an_association_is_torn_down() {
    for secure in [false, true] {
        let mut network = diamond();
        for node in &mut network.nodes {
            node.listens.extend([(270, Transport::Tcp), (TLS_PORT, Transport::Tls)]);
        }
        let attributes = Some(Attributes { reliable: true, secure });
        reserve(&mut network, Request { attributes, ..request(address("10.0.1.2"), mbps(2)) });
        network.run(2 * SECOND);
        assert_eq!(all_held(&network), [2, 2, 0, 0]);
        reroute(&mut network);
        network.run(20 * SECOND);
        assert_eq!(all_held(&network), [2, 0, 2, 0], "secure: {secure}, {:?}", network.log(0));
        assert_eq!(network.engine(1).qos().session_count(), 0, "torn down, not expired");
        network.run(600 * SECOND);
        assert_eq!(all_held(&network), [2, 0, 2, 0]);
    }
}

/// RFC 5974 section 4.5: node 1 carries flows to the last network across nodes 2 and 3 in one session, up to node 4.
#[test]
fn flows_cross_a_domain_in_an_aggregate() {
    let to = "10.0.4.0/24".parse().expect("a range");
    let rule = AggregateRule { to, step: mbps(2), highest: mbps(6) };
    let (inner, aggregates) = (|name: &str| [name.to_string()].into(), [rule].into());
    let edge = |qos| Place::Aware(Config { qos, ..Config::default() });
    let plain = || Place::Aware(Config::default());
    let mut network = reservable_line(&[
        plain(),
        edge(qos::Config { inner: inner("eth2"), aggregates, ..qos::Config::default() }),
        plain(),
        plain(),
        edge(qos::Config { inner: inner("eth1"), ..qos::Config::default() }),
        plain(),
    ]);
    let open = |network: &mut Network, number: u8, rate: Rate| {
        let mut request = request(address("10.0.4.2"), rate);
        request.session = Some(SessionId([number; 16]));
        request.flow.source_port = number.into();
        let application = Application(number.into());
        command(network, 0, Command::Reserve { application, request });
        network.run(2 * SECOND);
    };
    for number in 1..=3 {
        open(&mut network, number, mbps(1));
    }
    let events = events_of(&network, 0);
    assert_eq!(events.len(), 3, "{events:?}");
    for event in &events {
        assert!(matches!(event, Event::Reserved { breaks: false, .. }), "{event:?}");
    }
    // Nodes 2 and 3 have the aggregate, of two steps, and nothing else.
    assert_eq!(all_held(&network)[2..], [4, 4, 3, 0]);
    for inside in [2, 3] {
        assert_eq!(network.engine(inside).qos().session_count(), 1);
    }
    let view = |network: &Network| {
        let node = &network.nodes[1];
        let engine = node.engine.as_ref().expect("an engine");
        engine.qos().aggregates(&node.ledger).next().expect("one")
    };
    assert_eq!((view(&network).members, view(&network).granted), (3, mbps(4)));
    // The aggregate and its flows stay.
    network.run(900 * SECOND);
    assert_eq!(all_held(&network)[2..], [4, 4, 3, 0]);
    assert!((0..6).all(|node| network.engine(node).qos().counters().expired == 0));
    assert_eq!(events_of(&network, 0).len(), 3);
    for number in 1..=3 {
        command(&mut network, 0, Command::Release { application: Application(number) });
    }
    network.run(15 * SECOND);
    assert_eq!(all_held(&network), [0; 6]);
    for node in 0..6 {
        assert_eq!(network.engine(node).qos().session_count(), 0, "node {node}");
    }
    assert_eq!(view(&network).session, None);
}

/// A message that is forwarded keeps its GIST hop count, which each node lowers (RFC 5971 section 4.3.3): where the states of
/// nodes form a circle after a change of routes, it ends. Here RESERVEs or RESPONSEs have passed as many nodes as they may.
#[test]
fn forwarded_messages_keep_their_hop_count() {
    for (from, kind) in [(0, "RESERVE"), (3, "RESPONSE")] {
        for (left, reaches) in [(1, 1), (2, 2), (3, 3)] {
            let mut network = aware(4);
            network.tamper = Some(Box::new(move |seen| {
                let is_data =
                    matches!(seen.message_type(), Some(MessageType::Data | MessageType::Confirm));
                if seen.node == from && is_data {
                    let how = seen.packet.how;
                    let mut message = seen.packet.message().expect("a message");
                    message.hops = left;
                    seen.packet = forged::packet(how.source, how.destination, how.ttl, &message);
                    seen.packet.how = how;
                }
            }));
            reserve(&mut network, request(address("10.0.2.2"), mbps(2)));
            network.run(SECOND);
            // Counted from the sender of the message: the node that does not forward it.
            let ends_at = if from == 0 { reaches } else { 3 - reaches };
            let dropped = |node| {
                let dropped = &network.engine(node).qos().counters().dropped;
                dropped.get(&qos::DropReason::HopLimit).copied().unwrap_or(0)
            };
            let is_at_end = reaches == 3;
            for node in 1..3 {
                let expected = !is_at_end && node == ends_at;
                assert_eq!(dropped(node) > 0, expected, "{kind}, {left} left, n{node}");
            }
            let is_told = events_of(&network, 0).iter().any(|event| is_reserved(event, mbps(2)));
            assert_eq!(is_told, is_at_end, "{kind}, {left} left");
        }
    }
}

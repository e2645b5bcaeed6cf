//! Messaging associations (RFC 5971 sections 4.4.3, 4.4.5, 5.7 and 6.4), from node to node in virtual time.

use std::time::Duration;

use earmark_core::{
    CloseReason, ConnectionId, Hop, HostEvent, Interface, InterfaceId, Route, Transport,
};
use earmark_nsis::gist::DropReason;
use earmark_nsis::nslp::{Attributes, Notification, SendFailure, SendMessage};
use earmark_nsis::{Config, Event, PORT};
use earmark_wire::gist::{Body, Message, MessageType, Mode};
use earmark_wire::udp;

use crate::common::application::{Call, Handle, Task, message};
use crate::common::{Network, line, line_of, session};

const SECOND: Duration = Duration::from_secs(1);
const RELIABLE: Attributes = Attributes { reliable: true, secure: false };
const SECURE: Attributes = Attributes { reliable: true, secure: true };
const TLS_PORT: u16 = 4_270;

fn with_tcp(count: usize) -> (Network, Vec<Handle>) {
    line(count, |_| {})
}

fn with_tls(count: usize) -> (Network, Vec<Handle>) {
    line(count, |config| config.associations.tls_port = Some(TLS_PORT))
}

fn attributes(app: &Handle) -> Vec<(Vec<u8>, Attributes)> {
    let received = |calls| match calls {
        Call::Received { data, attributes, .. } => Some((data, attributes)),
        _ => None,
    };
    app.calls().into_iter().filter_map(received).collect()
}

/// The Response has the address for the connection. The Confirm is sent over the new association, with the data and the
/// MA-Hold-Time of this node. The second session finds the association, and its Response arrives over it.
#[test]
fn sessions_share_an_association() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    network.run(SECOND);
    assert_eq!(network.log(0), ["n0 Query", "n1 Response"]);
    assert_eq!(network.log_of_streams(0), ["n0 Confirm"]);
    let confirm = Message::parse(&network.written[0].3, Mode::C).expect("a message");
    let Body::Confirm(confirm) = confirm.body else { panic!("{confirm:?}") };
    let returned = confirm.returned.expect("what the Response asked for");
    assert_eq!(returned.configuration.map(|it| it.hold_time), Some(30_000));
    assert!(returned.proposal.is_some());
    assert_eq!(attributes(&apps[1]), [(b"one.".to_vec(), RELIABLE)]);

    apps[0].send_with(mri, session(2), b"two.", RELIABLE);
    apps[0].send_with(mri, session(2), b"tri.", Attributes::default());
    network.run(SECOND);
    assert_eq!(network.log(2), ["n0 Query"]);
    assert_eq!(network.log_of_streams(1), ["n1 Response", "n0 Confirm", "n0 Data"]);
    let expected = [(b"two.".to_vec(), RELIABLE), (b"tri.".to_vec(), RELIABLE)];
    assert_eq!(attributes(&apps[1]), expected, "in order");

    apps[1].send_with(mri.inverted(), session(2), b"back", RELIABLE);
    network.run(SECOND);
    assert_eq!(attributes(&apps[0]), [(b"back".to_vec(), RELIABLE)]);
    let views: Vec<_> = network.engine(0).gist().associations().collect();
    assert_eq!((views.len(), views[0].uses, views[0].stage), (1, 2, "open"));
    assert_eq!(network.engine(1).gist().associations().count(), 1);
}

/// Refreshes go in datagrams and over the association; none opens another one.
#[test]
fn routing_state_over_an_association_is_refreshed() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    for _ in 0..10 {
        apps[0].send_with(mri, session(1), b"one.", RELIABLE);
        network.run(30 * SECOND);
    }
    assert_eq!(apps[1].received().len(), 10);
    assert_eq!(network.engine(0).gist().counters().associations_opened, 1);
    assert!(network.engine(0).gist().counters().query.sent > 12);
}

#[test]
fn only_tls_counts_as_secure() {
    let (mut network, apps) = with_tls(2);
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", SECURE);
    network.run(SECOND);
    assert_eq!(attributes(&apps[1]), [(b"one.".to_vec(), SECURE)]);

    let (mut network, apps) = with_tcp(2);
    apps[0].send_with(network.flow(), session(1), b"one.", SECURE);
    network.run(SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::NoAssociation]);
    assert!(network.seen.is_empty(), "this node has no TLS");
}

/// A peer without TLS does not suffice, whatever the number of Queries.
#[test]
fn no_common_stack_fails_the_messages_that_need_one() {
    let mut tls = Config::default();
    tls.gist.associations.tls_port = Some(TLS_PORT);
    let (mut network, apps) = line_of(&[tls, Config::default()]);
    apps[0].send_with(network.flow(), session(1), b"one.", SECURE);
    network.run(SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::NoAssociation]);
    assert_eq!(network.engine(0).gist().routing_state_count(), 0);
}

#[test]
fn required_attributes_apply_to_all_messages() {
    let (mut network, apps) = line(2, |config| {
        config.associations.tls_port = Some(TLS_PORT);
        config.associations.require = SECURE;
    });
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(SECOND);
    assert_eq!(attributes(&apps[1]), [(b"one.".to_vec(), SECURE)]);
}

/// Datagrams come first, then an application needs more: the peer gets another Query, with a stack proposal.
#[test]
fn routing_state_moves_to_an_association_when_needed() {
    let (mut network, apps) = with_tls(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    apps[0].send_with(mri, session(1), b"two.", RELIABLE);
    network.run(SECOND);
    apps[0].send(mri, session(1), b"tri.");
    network.run(SECOND);
    let received = attributes(&apps[1]);
    assert_eq!(received[0], (b"one.".to_vec(), Attributes::default()));
    // This node prefers TLS, and offers it.
    assert_eq!(received[1..], [(b"two.".to_vec(), SECURE), (b"tri.".to_vec(), SECURE)]);
}

/// Both needs arise while the peer is unknown: the second one causes another Query.
#[test]
fn waiting_messages_may_have_different_needs() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    apps[0].send_with(mri, session(1), b"two.", RELIABLE);
    network.run(SECOND);
    let received = attributes(&apps[1]);
    assert_eq!(received[1], (b"two.".to_vec(), RELIABLE));
    assert_eq!(received.len(), 2);
}

/// 100 kB need an association, in seven objects; a node without associations reports the message as too large.
#[test]
fn large_messages_use_an_association() {
    let large: Vec<u8> = (0..100_000_u32).map(|number| (number / 7) as u8).collect();
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send(mri, session(1), &large);
    network.run(SECOND);
    assert_eq!(apps[1].received(), std::slice::from_ref(&large));
    apps[0].send(mri, session(1), &vec![7; 300_000]);
    network.run(SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::TooLarge]);

    let (mut network, apps) = line(2, |config| config.associations.tcp_port = None);
    apps[0].send(network.flow(), session(1), &large);
    apps[0].send(network.flow(), session(1), &[1; 1_000]);
    network.run(SECOND);
    apps[0].send(network.flow(), session(1), &[2; 1_440]);
    network.run(SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::TooLarge, SendFailure::TooLarge]);
    assert_eq!(apps[1].received(), [[1; 1_000]]);
}

/// Messages do not depend on the segmentation of the stream.
#[test]
fn stream_in_any_segments_gives_the_same_messages() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    network.run(SECOND);
    let before = network.written.len();
    apps[0].send_with(mri, session(1), &[3; 50_000], RELIABLE);
    network.run(SECOND);
    let octets = network.written[before].3.clone();
    let (_, theirs) = network.connections[&(0, network.written[before].2)];
    apps[1].calls();
    for pieces in [1, 7, 1_000, 49_999] {
        octets.chunks(pieces).for_each(|piece| network.write(1, theirs, piece));
        assert_eq!(apps[1].received(), [[3; 50_000]], "{pieces}");
    }
    let two = [&octets[..], &octets].concat();
    network.write(1, theirs, &two);
    assert_eq!(apps[1].received().len(), 2);
}

/// Without other messages, MA-Hellos keep an association while routing states use it, and no longer.
#[test]
fn association_is_kept_while_used() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    apps[0].task(Task::Lifetime(mri, session(1), 1_000 * SECOND));
    network.run(300 * SECOND);
    assert_eq!(network.engine(0).gist().associations().count(), 1);
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(200 * SECOND);
    assert_eq!(network.engine(0).gist().associations().count(), 0);
    assert_eq!(network.engine(1).gist().associations().count(), 0);
    assert!(network.connections.is_empty());
    assert_eq!(network.engine(0).gist().counters().associations_opened, 1);
}

/// Without messages of the sessions, Hellos keep the association; a Hello asks for a reply if the other side was
/// silent.
#[test]
fn hellos_are_sent_on_idle_associations() {
    let (mut network, apps) = line(2, |config| {
        config.validity = 600 * SECOND;
        config.inactivity = 600 * SECOND;
    });
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    network.run(300 * SECOND);
    let hellos = network.log_of_streams(1).iter().filter(|line| line.ends_with("Hello")).count();
    assert!((20..60).contains(&hellos), "{hellos}");
    assert_eq!(network.engine(0).gist().associations().count(), 1);
}

#[test]
fn failed_connection_fails_waiting_messages() {
    for hangs in [false, true] {
        let (mut network, apps) = with_tcp(2);
        network.nodes[1].listens.clear();
        network.connections_hang = hangs;
        let mri = network.flow();
        apps[0].task(Task::Send(
            SendMessage { attributes: RELIABLE, timeout: 60 * SECOND, ..message(mri, session(1)) },
            b"one.".to_vec(),
        ));
        network.run(20 * SECOND);
        assert_eq!(apps[0].failures(), [SendFailure::NoAssociation]);
        assert_eq!(network.engine(0).gist().associations().count(), 0);
        apps[0].send(mri, session(1), b"two.");
        network.run(SECOND);
        assert_eq!(apps[1].received(), [b"two."]);
    }
}

/// A broken association is reported, the peer gets another Query, and messages continue over a new association.
#[test]
fn broken_association_is_reported_and_replaced() {
    for reason in [CloseReason::Broken, CloseReason::Ended, CloseReason::Backlog] {
        let (mut network, apps) = with_tcp(2);
        let stranger = network.open(1, "10.0.0.1", Transport::Tcp);
        network.break_connection(1, stranger, reason);
        let mri = network.flow();
        apps[0].send_with(mri, session(1), b"one.", RELIABLE);
        network.run(SECOND);
        let connection = network.written[0].2;
        network.break_connection(0, connection, reason);
        network.run(SECOND);
        for node in &network.nodes {
            let is_closed = |(_, event): &&(_, Event)| {
                matches!(event, Event::Gist(earmark_nsis::gist::Event::AssociationClosed { .. }))
            };
            assert_eq!(node.events.iter().filter(is_closed).count(), 1, "{reason:?}");
        }
        for app in &apps {
            let calls = app.calls();
            let failed = |calls: &Call| {
                matches!(calls, Call::Notified { what: Notification::CommunicationFailure(_), .. })
            };
            assert_eq!(
                calls.iter().filter(|calls| failed(calls)).count(),
                1,
                "{reason:?} {calls:?}"
            );
        }
        apps[0].send_with(mri, session(1), b"two.", RELIABLE);
        network.run(SECOND);
        assert_eq!(apps[1].received(), [b"two."]);
        assert_eq!(network.engine(0).gist().counters().associations_opened, 2);
    }
}

/// Dozens of connections without a Confirm: a few at a time, each for ten seconds.
#[test]
fn half_open_associations_are_limited_in_number_and_time() {
    let (mut network, apps) = line(2, |config| config.limits.half_open = 8);
    let connections: Vec<ConnectionId> =
        (0..100).map(|_| network.open(1, "10.0.0.1", Transport::Tcp)).collect();
    let open = |network: &Network| {
        connections.iter().filter(|&&connection| network.is_open(1, connection)).count()
    };
    assert_eq!(open(&network), 2, "a quarter, for one address");
    let elsewhere: Vec<ConnectionId> =
        (0..100).map(|host| network.open(1, &format!("10.7.0.{host}"), Transport::Tcp)).collect();
    let there = elsewhere.iter().filter(|&&one| network.is_open(1, one)).count();
    assert_eq!(there, 4, "with those of the first address three quarters, for one interface");
    network.run(11 * SECOND);
    assert_eq!(open(&network), 0);
    assert_eq!(network.engine(1).gist().associations().count(), 0);
    apps[0].send_with(network.flow(), session(1), b"one.", RELIABLE);
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"one."]);
}

/// Before the Confirm every other message is refused, even a well-formed one; an excessive length closes the connection
/// at once.
#[test]
fn only_a_confirm_may_come_first() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    network.run(SECOND);
    apps[0].send_with(mri, session(1), b"two.", RELIABLE);
    network.run(SECOND);
    let data = network.written.last().expect("Data").3.clone();
    apps[1].calls();
    let stranger = network.open(1, "10.0.0.1", Transport::Tcp);
    let before = network.written.len();
    network.write(1, stranger, &data);
    assert_eq!(network.log_of_streams(before), ["n1 Error"]);
    assert!(apps[1].received().is_empty());
    network.write(1, stranger, &[1, 64, 0xff, 0xff, 0, 1, 3, 0]);
    assert!(!network.is_open(1, stranger));
    let other = network.open(1, "10.0.0.1", Transport::Tcp);
    network.write(1, other, &[9; 8]);
    assert!(!network.is_open(1, other), "another version: where the next message begins is lost");
}

/// An attacker removes TLS from the Response. The Confirm repeats the received proposal; the responder sees the
/// difference, closes the association, and installs nothing.
#[test]
fn weakened_stack_proposal_is_detected() {
    let (mut network, apps) = with_tls(2);
    network.tamper = Some(Box::new(|seen| {
        let packet = udp::Packet::parse(&seen.packet.octets).expect("UDP");
        let Some(Ok(message)) =
            earmark_wire::gist::datagram(packet.payload).map(|m| Message::parse(m, Mode::D))
        else {
            return;
        };
        let Body::Response(mut response) = message.body else { return };
        let responder = response.responder.as_mut().expect("a cookie");
        let mut stack = responder.stack.expect("a proposal");
        let weaker = [earmark_wire::gist::Profile(&[1])];
        let port = PORT.to_be_bytes();
        let options = [earmark_wire::gist::ProtocolOptions::tcp_response(1, &port)];
        stack.proposal = earmark_wire::gist::Profiles::new(&weaker);
        stack.configuration.options = earmark_wire::gist::ProtocolOptionsList::new(&options);
        responder.stack = Some(stack);
        let message = Message { body: Body::Response(response), ..message };
        let mut octets = vec![0; 12 + message.buffer_len()];
        let room = earmark_wire::gist::emit_magic(&mut octets[8..]).expect("room");
        message.emit(room).expect("room");
        let header = udp::Repr {
            source: seen.packet.how.source,
            destination: seen.packet.how.destination,
            source_port: PORT,
            destination_port: PORT,
        };
        header.emit(&mut octets).expect("room");
        seen.packet.octets = octets;
    }));
    apps[0].send_with(network.flow(), session(1), b"one.", RELIABLE);
    network.run(Duration::from_millis(200));
    assert!(apps[1].received().is_empty());
    assert_eq!(network.engine(1).gist().routing_state_count(), 0);
    assert_eq!(network.engine(1).gist().associations().count(), 0);
    let ignored = &network.engine(1).gist().counters().ignored;
    assert!(ignored.get(&DropReason::Downgrade).is_some_and(|count| *count > 0), "{ignored:?}");
}

/// A TLS peer with the wrong name: the driver opens no connection, and nothing is sent in the clear.
#[test]
fn unauthenticated_tls_peer_gets_nothing() {
    let (mut network, apps) = with_tls(2);
    network.nodes[1].authentic = false;
    apps[0].send_with(network.flow(), session(1), b"one.", SECURE);
    network.run(2 * SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::NoAssociation]);
    assert!(apps[1].received().is_empty() && network.written.is_empty());
}

/// Both ends open an association at the same time, for flows in opposite directions: both work, and no message is lost. A refresh
/// moves no session to the other one.
#[test]
fn simultaneous_associations_serve_both() {
    let (mut network, apps) = with_tcp(2);
    let mri = network.flow();
    let (source, destination) = mri.addresses();
    let back = crate::common::flow(destination, source);
    apps[0].send_with(mri, session(1), b"one.", RELIABLE);
    apps[1].send_with(back, session(2), b"two.", RELIABLE);
    network.run(SECOND);
    assert_eq!(attributes(&apps[1]), [(b"one.".to_vec(), RELIABLE)]);
    assert_eq!(attributes(&apps[0]), [(b"two.".to_vec(), RELIABLE)]);
    for (app, flow, number) in [(&apps[1], mri.inverted(), 1), (&apps[0], back.inverted(), 2)] {
        app.send_with(flow, session(number), b"tri.", RELIABLE);
    }
    network.run(SECOND);
    assert_eq!(apps[0].received().len() + apps[1].received().len(), 2);
    let before = network.written.len();
    network.run(60 * SECOND);
    let later = network.log_of_streams(before);
    assert!(later.iter().any(|line| line.ends_with("Response")), "{later:?}");
    assert!(!later.iter().any(|line| line.ends_with("Confirm")), "{later:?}");
}

/// A repeated Confirm on an association installs nothing twice and delivers nothing twice.
#[test]
fn repeated_confirm_changes_nothing() {
    let (mut network, apps) = with_tcp(2);
    apps[0].send_with(network.flow(), session(1), b"one.", RELIABLE);
    network.run(SECOND);
    let (_, node, connection, confirm) = network.written[0].clone();
    let (_, theirs) = network.connections[&(node, connection)];
    apps[1].calls();
    for _ in 0..10 {
        network.write(1, theirs, &confirm);
    }
    assert!(apps[1].calls().is_empty());
    assert_eq!(network.engine(1).gist().routing_state_count(), 1);
    assert_eq!(network.engine(1).gist().associations().next().map(|view| view.uses), Some(1));
}

/// The interface of a node vanishes and appears again with another index. Its association is closed, over TCP as over TLS and
/// at either end, and the next message opens another one.
#[test]
fn association_behind_vanished_interface_is_replaced() {
    for (node, sent) in [(0, RELIABLE), (1, RELIABLE), (0, SECURE), (1, SECURE)] {
        let (mut network, apps) = if sent.secure { with_tls(2) } else { with_tcp(2) };
        let mri = network.flow();
        apps[0].send_with(mri, session(1), b"one.", sent);
        network.run(SECOND);
        assert_eq!(attributes(&apps[1]), [(b"one.".to_vec(), sent)]);
        let new = InterfaceId(7);
        let link = network.links.iter().find(|(near, far)| near.0 == node && far.0 == 1 - node);
        let (&(_, old), &far) = link.expect("a link");
        let interface = network.nodes[node].interfaces.remove(old).expect("an interface");
        let routes: Vec<Route> = network.nodes[node]
            .routes
            .iter()
            .filter(|it| it.hop.interface == old)
            .copied()
            .collect();
        network.nodes[node].routes.remove_interface(old);
        network.host(node, HostEvent::InterfaceChanged(old));
        network.run(SECOND);
        assert_eq!(network.engine(node).gist().associations().count(), 0, "{node}");
        network.links.remove(&(node, old));
        network.links.insert((node, new), far);
        network.links.insert(far, (node, new));
        network.nodes[node].interfaces.set(Interface { id: new, ..interface });
        network.host(node, HostEvent::InterfaceChanged(new));
        for route in routes {
            let hop = Hop { interface: new, ..route.hop };
            network.nodes[node].routes.insert(Route { hop, ..route });
            network.host(node, HostEvent::RouteChanged(route.prefix));
        }
        network.run(SECOND);
        apps[0].send_with(mri, session(1), b"two.", sent);
        network.run(5 * SECOND);
        assert_eq!(attributes(&apps[1]), [(b"two.".to_vec(), sent)], "{node}");
    }
}

/// A peer that refuses each Confirm, here because its table of routing state is full, or that closes each connection, is
/// asked again with growing pauses: over an association the Errors have no limit.
#[test]
fn failed_handshakes_are_repeated_with_growing_pauses() {
    for (states, closes) in [(1, false), (9, true)] {
        let mut configs = [Config::default(), Config::default()];
        configs[1].gist.limits.states = states;
        let (mut network, apps) = line_of(&configs);
        let mri = network.flow();
        apps[0].send_with(mri, session(1), b"one.", RELIABLE);
        network.run(SECOND);
        apps[0].send_with(mri, session(2), b"two.", RELIABLE);
        let mut queries = Vec::new();
        for _ in 0..3 {
            let before = network.sent(0, MessageType::Query).len();
            for _ in 0..200 {
                network.run(SECOND / 20);
                let ends: Vec<_> = network.connections.keys().copied().collect();
                for (node, connection) in ends.into_iter().filter(|(node, _)| closes && *node == 1)
                {
                    network.break_connection(node, connection, CloseReason::Ended);
                }
            }
            queries.push(network.sent(0, MessageType::Query).len() - before);
        }
        assert!((3..=12).contains(&queries[0]) && queries[2] <= 6, "{queries:?}");
    }
}

//! Misbehavior of other nodes, accidental or not: memory stays bounded, false messages are rejected, and other sessions
//! continue.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Outgoing, Transport};
use earmark_nsis::PORT;
use earmark_nsis::gist::machine::State;
use earmark_nsis::gist::{DropReason, Installation};
use earmark_nsis::nslp::{Attributes, SendFailure, SendMessage};
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::{
    Body, Continuation, Data, Error, ErrorCode, ErrorData, Info, Infos, Message, MessageType, Mode,
    Mri, NetworkLayerInformation, Query, Response,
};
use earmark_wire::udp;

use crate::common::application::{Call, Handle, Task, message as to_send};
use crate::common::{Network, Packet, address, flow, forged, line, session, states};

const SECOND: Duration = Duration::from_secs(1);

fn nli(host: &str) -> NetworkLayerInformation<'static> {
    forged::nli(b"evil", host)
}

fn query(mri: Mri, number: u8, host: &str) -> Query<'static> {
    forged::query(mri, session(number), nli(host))
}

fn of(body: Body<'_>) -> Message<'_> {
    forged::message(crate::common::application::TEST, body)
}

/// Returns a message as received in a datagram.
fn packet(source: &str, destination: IpAddr, ttl: u8, message: &Message<'_>) -> Packet {
    forged::packet(address(source), destination, ttl, message)
}

fn raw(source: &str, destination: IpAddr, ttl: u8, message: &[u8]) -> Packet {
    forged::raw(address(source), destination, ttl, message)
}

/// Returns the error in the last datagram.
fn last_error(network: &Network) -> (ErrorCode, u8, Outgoing) {
    let seen = network.seen.last().expect("something was sent");
    match seen.packet.message().expect("a message").body {
        Body::Error(Error { error, .. }) => (error.code, error.subcode, seen.packet.how),
        body => panic!("{body:?}"),
    }
}

fn ignored(network: &Network, node: usize, reason: DropReason) -> u64 {
    network.engine(node).gist().counters().ignored.get(&reason).copied().unwrap_or(0)
}

/// A node that has not received the Query cannot answer it; the attempt is not reported.
#[test]
fn response_from_off_the_path_is_ignored() {
    let (mut network, apps) = line(2, |_| {});
    network.loss = Some(Box::new(|_, _| true));
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(Duration::from_millis(10));
    let before = network.seen.len();
    let mri = network.flow().inverted();
    let response = Response {
        nat_traversal: None,
        mri,
        session: session(1),
        nli: nli("10.0.0.2"),
        query_cookie: &[7; 16],
        responder: None,
        confirm_requested: false,
        nslp_data: None,
    };
    let forged = packet("10.0.0.2", address("10.0.0.1"), 255, &of(Body::Response(response)));
    network.inject(0, 1, forged);
    let unasked = Response { session: session(9), ..response };
    network.inject(
        0,
        1,
        packet("10.0.0.2", address("10.0.0.1"), 255, &of(Body::Response(unasked))),
    );
    assert_eq!(network.seen.len(), before, "no answer");
    assert_eq!(ignored(&network, 0, DropReason::Cookie), 1);
    assert_eq!(ignored(&network, 0, DropReason::Unexpected), 1);
    assert!(network.engine(0).gist().peers().is_empty());
}

/// An Error in the name of the node itself ends no Query of it, and a message in its name causes none.
#[test]
fn node_tells_itself_nothing() {
    let (mut network, apps) = line(2, |_| {});
    network.loss = Some(Box::new(|_, _| true));
    apps[0].send(network.flow(), session(1), b"one.");
    network.run(Duration::from_millis(10));
    let own = address("10.0.0.1");
    let sent = network.seen[0].packet.message().expect("the Query");
    let octets = forged::octets(&sent);
    let found = ErrorCode::EndpointFound;
    let error = ErrorData::error_data_about(&octets, Mode::D, found, 0).expect("about the Query");
    let error = Error { nat_traversal: None, nli: Some(nli("10.0.0.1")), error };
    network.inject(0, 1, packet("10.0.0.1", own, 64, &of(Body::Error(error))));
    let mut malformed = forged::octets(&of(Body::Query(query(network.flow(), 2, "10.0.0.1"))));
    malformed.truncate(malformed.len() - 4);
    network.inject(0, 1, raw("10.0.0.1", network.flow().addresses().1, 255, &malformed));
    assert_eq!(states(&network, 0), [State::WaitResponse]);
    assert_eq!(apps[0].failures(), []);
    assert_eq!(network.engine(0).gist().counters().error.sent, 0);
    assert_eq!(ignored(&network, 0, DropReason::Own), 1);
    assert_eq!(ignored(&network, 0, DropReason::Malformed), 1);
}

/// A downstream Query with the addresses of the flow has its source; behind a translator it has another one.
#[test]
fn query_of_a_flow_with_another_source_is_not_answered() {
    let (mut network, _) = line(2, |_| {});
    let mri = network.flow();
    let (source, destination) = mri.addresses();
    let of_flow = query(mri, 1, "10.0.0.1");
    network.inject(1, 1, packet("192.0.2.1", destination, 255, &of(Body::Query(of_flow))));
    assert_eq!(ignored(&network, 1, DropReason::Untranslated), 1);
    assert_eq!(network.engine(1).gist().counters().response.sent, 0);
    let source = source.to_string();
    network.inject(1, 1, packet(&source, destination, 255, &of(Body::Query(of_flow))));
    assert_eq!(network.engine(1).gist().counters().response.sent, 1);
}

/// Queries from spoofed addresses leave no state, and the number of Responses is limited.
#[test]
fn flood_of_queries_leaves_no_state() {
    let (mut network, _) = line(2, |config| {
        config.limits.queries_per_second = 500;
        config.limits.queries_per_second_of_a_peer = 100;
    });
    let mri = network.flow();
    for number in 0..2_000_u32 {
        let host = format!("10.{}.{}.7", number % 7, number % 200);
        let query = query(mri, number as u8, &host);
        network.inject(1, 1, packet("10.0.0.1", mri.addresses().1, 255, &of(Body::Query(query))));
    }
    let gist = network.engine(1).gist();
    assert_eq!((gist.routing_state_count(), gist.peers().len()), (0, 0));
    // The senders are only claimed, so that the limit of the interface holds for all of them.
    assert_eq!(gist.counters().response.sent, 100);
    assert_eq!(ignored(&network, 1, DropReason::Throttled), 1_900);
    for _ in 0..200 {
        let query = query(mri, 1, "10.0.0.1");
        network.now = network.now + Duration::from_millis(1);
        network.inject(1, 1, packet("10.0.0.1", mri.addresses().1, 255, &of(Body::Query(query))));
    }
    assert!(network.engine(1).gist().counters().response.sent <= 100 + 21);
}

/// If state is installed with the Query, limits bound it; existing sessions continue.
#[test]
fn limits_bound_the_state() {
    let (mut network, apps) = line(2, |config| {
        config.installation = Installation::Immediate;
        config.limits.states = 20;
        config.limits.states_per_peer = 10;
        config.limits.peers = 5;
    });
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    for number in 0..200_u32 {
        let query = query(mri, number as u8 + 2, &format!("10.7.0.{}", number % 100));
        network.inject(1, 1, packet("10.0.0.1", mri.addresses().1, 255, &of(Body::Query(query))));
    }
    let gist = network.engine(1).gist();
    assert!(gist.routing_state_count() <= 20, "{}", gist.routing_state_count());
    assert!(gist.peers().len() <= 5);
    assert!(gist.peers().iter().all(|peer| peer.uses <= 10));
    assert!(ignored(&network, 1, DropReason::Limit) > 0);
    apps[0].send(mri, session(1), b"two.");
    network.run(SECOND);
    assert_eq!(apps[1].received(), [b"one.", b"two."]);
}

/// The messages that wait for a peer are limited in number and octets, and each is returned with the reason.
#[test]
fn waiting_messages_are_limited() {
    let (mut network, apps) = line(2, |config| {
        config.limits.waiting_messages = 3;
        config.limits.waiting_octets = 3_000;
        config.limits.waiting_octets_in_all = 4_000;
    });
    network.loss = Some(Box::new(|_, _| true));
    let mri = network.flow();
    for _ in 0..5 {
        apps[0].send(mri, session(1), &[0; 100]);
    }
    apps[0].send(mri, session(2), &[0; 1_400]);
    apps[0].send(mri, session(2), &[0; 1_400]);
    apps[0].send(mri, session(2), &[0; 1_400]);
    apps[0].send(mri, session(3), &[0; 1_000]);
    let hasty = SendMessage { timeout: SECOND, ..to_send(mri, session(4)) };
    apps[0].task(Task::Send(hasty, vec![0; 100]));
    network.run(Duration::from_millis(10));
    assert_eq!(apps[0].failures(), [SendFailure::Limit; 4]);
    network.run(SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::TimedOut]);
    network.run(20 * SECOND);
    assert_eq!(apps[0].failures(), [SendFailure::NoNextNode; 5]);
    // All waiting messages are returned, and room for as many octets as before is free again.
    apps[0].send(mri, session(5), &[0; 1_400]);
    apps[0].send(mri, session(5), &[0; 1_400]);
    apps[0].send(mri, session(6), &[0; 1_200]);
    network.run(Duration::from_millis(10));
    assert!(apps[0].failures().is_empty());
}

/// A Query that names an address of several nodes, or of none, as its origin has no Error, which would go to all of them.
#[test]
fn errors_go_to_single_nodes_only() {
    let (mut network, _) = line(3, |_| {});
    let mri = network.flow();
    let destination = mri.addresses().1;
    let Mri::PathCoupled(path) = mri else { panic!("{mri:?}") };
    let wild = Mri::PathCoupled(earmark_wire::gist::PathCoupled { destination_prefix: 4, ..path });
    let sent = |network: &Network| network.engine(1).gist().counters().error.sent;
    let hosts = ["255.255.255.255", "224.0.0.1", "0.0.0.0", "127.0.0.1", "10.0.0.1"];
    for (host, is_answered) in hosts.into_iter().zip([false, false, false, false, true]) {
        let before = sent(&network);
        let query = query(wild, 1, host);
        network.inject(1, 1, packet(host, destination, 255, &of(Body::Query(query))));
        assert_eq!(sent(&network) - before, u64::from(is_answered), "{host}");
    }
}

#[test]
fn invalid_queries_get_specific_errors() {
    let (mut network, _) = line(3, |config| config.ingress_filter = true);
    let mri = network.flow();
    let destination = mri.addresses().1;
    let Mri::PathCoupled(path) = mri else { panic!("{mri:?}") };
    let wild = Mri::PathCoupled(earmark_wire::gist::PathCoupled { destination_prefix: 4, ..path });
    let six = flow(address("fd00:9::1"), address("fd00:1::2"));
    let elsewhere = flow(address("10.0.1.2"), address("10.0.1.9"));
    for (mri, subcode) in [
        (wild, subcode::mri::TOO_WILD),
        (six, subcode::mri::IP_VERSION_MISMATCH),
        (elsewhere, subcode::mri::INGRESS_FILTER),
    ] {
        let query = query(mri, 1, "10.0.0.1");
        network.inject(1, 1, packet("10.0.0.1", destination, 255, &of(Body::Query(query))));
        let (code, found, how) = last_error(&network);
        assert_eq!((code, found), (ErrorCode::MriValidation, subcode));
        assert_eq!(how.destination, address("10.0.0.1"));
    }
    // Upstream, over more than one hop.
    let mut upstream = query(mri.inverted(), 1, "10.0.1.2");
    upstream.nli.ip_ttl = 0;
    network.inject(1, 2, packet("10.0.1.2", address("10.0.0.1"), 253, &of(Body::Query(upstream))));
    assert_eq!(last_error(&network).0, ErrorCode::InvalidTtl);
    // Its addresses were translated: the answer goes to the source of the packet.
    let mut translated = of(Body::Query(query(mri, 1, "192.168.1.1")));
    translated.source_is_peer = true;
    network.inject(1, 1, packet("10.0.0.1", destination, 255, &translated));
    let (code, found, how) = last_error(&network);
    assert_eq!((code, found), (ErrorCode::ObjectType, subcode::object_type::UNTRANSLATED));
    assert_eq!(how.destination, address("10.0.0.1"));
    // Its hop count is exhausted.
    let mut tired = of(Body::Query(query(mri, 1, "10.0.0.1")));
    tired.hops = 0;
    network.inject(1, 1, packet("10.0.0.1", destination, 255, &tired));
    assert_eq!(last_error(&network).0, ErrorCode::HopLimitExceeded);
    assert_eq!(network.engine(1).gist().routing_state_count(), 0);
}

/// A forwarded Query ends at its hop count, or at a link whose MTU is too small.
#[test]
fn forwarded_queries_are_limited_by_hop_count_and_mtu() {
    let mut network = Network::aware(3);
    let mri = network.flow();
    let destination = mri.addresses().1;
    let mut last = of(Body::Query(query(mri, 1, "10.0.0.1")));
    last.hops = 1;
    network.inject(1, 1, packet("10.0.0.1", destination, 255, &last));
    assert_eq!(last_error(&network).0, ErrorCode::HopLimitExceeded);
    let mut large = query(mri, 1, "10.0.0.1");
    large.nslp_data = Some(&[0; 1_448]);
    network.inject(1, 1, packet("10.0.0.1", destination, 255, &of(Body::Query(large))));
    let (code, ..) = last_error(&network);
    assert_eq!(code, ErrorCode::MessageTooLarge);
    let seen = network.seen.last().expect("the error");
    let Some(Message { body: Body::Error(error), .. }) = seen.packet.message() else {
        panic!("{seen:?}")
    };
    assert!(matches!(error.error.infos.iter().next(), Some(Info::Mtu(1_452))));
    network.inject(1, 1, packet("10.0.0.1", destination, 1, &of(Body::Query(large))));
    assert_eq!(ignored(&network, 1, DropReason::TtlExpired), 1);
}

/// A change to a valid message.
type Change<'a> = &'a dyn Fn(&mut Vec<u8>);

/// Invalid flags, lengths and objects cause a specific error; invalid Errors cause none.
#[test]
fn malformed_messages_get_specific_errors() {
    let (mut network, _) = line(2, |config| config.limits.errors_per_second = 1_000);
    let mri = network.flow();
    let message = of(Body::Query(query(mri, 1, "10.0.0.1")));
    let mut whole = vec![0; message.buffer_len()];
    message.emit(&mut whole).expect("a message");
    let mut give = |change: Change<'_>| {
        let mut octets = whole.clone();
        change(&mut octets);
        let destination = address("10.0.0.2");
        network.inject(1, 1, raw("10.0.0.1", destination, 255, &octets));
        let (code, subcode, how) = last_error(&network);
        assert_eq!(how.destination, address("10.0.0.1"));
        (code, subcode)
    };
    use subcode::{header, object_type, object_value};
    let cases: [(ErrorCode, u8, Change<'_>); 7] = [
        (ErrorCode::ObjectType, object_type::INVALID_EXTENSIBILITY_FLAGS, &|o| o[8] |= 0xc0),
        (ErrorCode::ObjectType, object_type::UNRECOGNISED, &|o| {
            o.extend([0x07, 0xd8, 0, 0]);
            o[3] += 1;
        }),
        (ErrorCode::ObjectType, object_type::MISSING, &|o| {
            o.truncate(o.len() - 16);
            o[3] -= 4;
        }),
        (ErrorCode::ObjectValue, object_value::INVALID_COMBINATION, &|o| o[13] |= 0x80),
        (ErrorCode::CommonHeaderParse, header::INCORRECT_MESSAGE_LENGTH, &|o| o[3] -= 1),
        (ErrorCode::CommonHeaderParse, header::INVALID_R_FLAG, &|o| o[7] &= !0x40),
        (ErrorCode::CommonHeaderParse, header::INVALID_E_FLAG, &|o| o[7] |= 0x20),
    ];
    for (code, subcode, change) in cases {
        assert_eq!(give(change), (code, subcode));
    }
    let before = network.seen.len();
    let error =
        ErrorData::error_data_about(&whole, Mode::D, ErrorCode::NoRoutingState, 0).expect("one");
    let mut error =
        of(Body::Error(Error { nat_traversal: None, nli: Some(nli("10.0.0.1")), error }));
    error.nslpid = 0;
    network.inject(1, 1, packet("10.0.0.1", address("10.0.0.2"), 255, &error));
    assert_eq!(network.seen.len(), before, "an error is not answered");
}

/// Errors to one address are rate limited.
#[test]
fn errors_are_rate_limited() {
    let (mut network, _) = line(2, |_| {});
    let data = Data {
        nat_traversal: None,
        mri: network.flow(),
        session: session(1),
        nli: Some(nli("10.0.0.1")),
        nslp_data: b"data",
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    };
    for _ in 0..100 {
        network.inject(1, 1, packet("10.0.0.1", address("10.0.0.2"), 255, &of(Body::Data(data))));
    }
    assert_eq!(network.sent(1, MessageType::Error).len(), 10);
    assert_eq!(last_error(&network).0, ErrorCode::NoRoutingState);
}

/// Data of a node that is not the peer, and its report of lost state, are rejected.
#[test]
fn only_the_peer_changes_a_session() {
    let (mut network, apps) = line(2, |_| {});
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    apps[1].calls();
    let data = Data {
        nat_traversal: None,
        mri,
        session: session(1),
        nli: Some(nli("10.0.0.9")),
        nslp_data: b"evil",
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    };
    network.inject(1, 1, packet("10.0.0.9", address("10.0.0.2"), 255, &of(Body::Data(data))));
    assert!(apps[1].received().is_empty());
    assert_eq!(ignored(&network, 1, DropReason::WrongPeer), 1);
    // The error names session and flow, but comes from elsewhere.
    let original = of(Body::Data(data));
    let mut octets = vec![0; original.buffer_len()];
    original.emit(&mut octets).expect("a message");
    let error =
        ErrorData::error_data_about(&octets, Mode::D, ErrorCode::NoRoutingState, 0).expect("one");
    let error = Error { nat_traversal: None, nli: Some(nli("10.0.0.9")), error };
    let error = Message { nslpid: 0, ..of(Body::Error(error)) };
    let before = network.seen.len();
    network.inject(0, 1, packet("10.0.0.9", address("10.0.0.1"), 255, &error));
    assert_eq!(network.seen.len(), before);
    // The error of the peer is accepted: the handshake is repeated.
    network.inject(0, 1, packet("10.0.0.2", address("10.0.0.1"), 255, &error));
    network.run(SECOND);
    assert_eq!(network.log(before), ["n0 Query", "n1 Response"]);
}

/// Two flows with the same session identifier, and two applications with the same session and flow, are separate.
#[test]
fn colliding_sessions_are_separate() {
    let (mut network, apps) = line(2, |_| {});
    let others: Vec<Handle> = (0..2).map(|_| Handle::default()).collect();
    for (node, handle) in others.iter().enumerate() {
        network.engine_mut(node).add(handle.application_as(32_766));
    }
    let mri = network.flow();
    let Mri::PathCoupled(path) = mri else { panic!("{mri:?}") };
    let second = Mri::PathCoupled(earmark_wire::gist::PathCoupled { source_port: Some(9), ..path });
    apps[0].send(mri, session(1), b"one.");
    apps[0].send(second, session(1), b"two.");
    others[0].send(mri, session(1), b"tri.");
    network.run(SECOND);
    assert_eq!(network.engine(1).gist().routing_state_count(), 3);
    assert_eq!(apps[1].received(), [b"one.", b"two."]);
    assert_eq!(others[1].received(), [b"tri."]);
    apps[0].task(Task::Lifetime(mri, session(1), Duration::ZERO));
    network.run(SECOND);
    assert_eq!(network.engine(0).gist().routing_state_count(), 2);
}

/// A message above the MTU of a link is refused there with the MTU; the sender uses an association then.
#[test]
fn mtu_error_moves_messages_to_an_association() {
    let (mut network, apps) = line(2, |_| {});
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    network.run(SECOND);
    let data = network.sent(0, MessageType::Confirm)[0].packet.octets[12..].to_vec();
    let error =
        ErrorData::error_data_about(&data, Mode::D, ErrorCode::MessageTooLarge, 0).expect("one");
    let error = ErrorData { infos: Infos::Few([Some(Info::Mtu(600)), None]), ..error };
    let error = Error { nat_traversal: None, nli: Some(nli("10.0.0.2")), error };
    let error = Message { nslpid: 0, ..of(Body::Error(error)) };
    network.inject(0, 1, packet("10.0.0.2", address("10.0.0.1"), 255, &error));
    apps[1].calls();
    apps[0].send(mri, session(1), &[1; 800]);
    network.run(SECOND);
    let calls = apps[1].calls();
    assert!(
        matches!(
            calls.last(),
            Some(Call::Received { attributes: Attributes { reliable: true, .. }, .. })
        ),
        "{calls:?}"
    );
}

/// Random input on every path: nothing panics, and state stays small.
#[test]
fn random_input_is_survived() {
    let (mut network, apps) = line(3, |config| config.limits.peers = 64);
    let mri = network.flow();
    apps[0].send(mri, session(1), b"one.");
    apps[1].send(mri, session(1), b"one.");
    let reliable = Attributes { reliable: true, secure: false };
    apps[0].send_with(mri, session(2), &[7; 40_000], reliable);
    network.run(SECOND);
    apps[0].send_with(mri, session(2), b"two.", reliable);
    network.run(SECOND);
    let datagrams: Vec<Packet> = network.seen.iter().map(|seen| seen.packet.clone()).collect();
    let streams: Vec<Vec<u8>> = network.written.iter().map(|(.., octets)| octets.clone()).collect();
    assert!(datagrams.len() > 6 && streams.len() > 1);
    let mut dice = RandomStreams::new(7).stream("noise");
    for round in 0..6_000_usize {
        let mut packet = datagrams[round % datagrams.len()].clone();
        let length = packet.octets.len();
        for _ in 0..1 + dice.next_u64() % 3 {
            let at = 8 + dice.next_u64() as usize % (length - 8);
            packet.octets[at] = dice.next_u64() as u8;
        }
        if round % 5 == 0 {
            packet.octets.truncate(8 + dice.next_u64() as usize % (length - 8));
        }
        let Outgoing { source, destination, .. } = packet.how;
        let header = udp::Repr { source, destination, source_port: PORT, destination_port: PORT };
        header.emit(&mut packet.octets).expect("room");
        network.inject(round % 3, 1 + (round % 2) as u32, packet);
        if round % 16 == 0 {
            let mut octets = streams[round % streams.len()].clone();
            let at = dice.next_u64() as usize % octets.len();
            octets[at] = dice.next_u64() as u8;
            let to = network.open(1, "10.0.0.1", Transport::Tcp);
            network.write(1, to, &octets);
        }
        if round % 100 == 0 {
            network.run(SECOND);
        }
    }
    for node in 0..3 {
        let gist = network.engine(node).gist();
        assert!(gist.routing_state_count() < 200, "{}", gist.routing_state_count());
        assert!(gist.peers().len() <= 64 && gist.associations().count() < 100);
    }
    network.run(700 * SECOND);
    for node in 0..3 {
        assert_eq!(network.engine(node).gist().routing_state_count(), 0, "n{node}");
        assert_eq!(network.engine(node).gist().associations().count(), 0, "n{node}");
    }
    apps[0].send(mri, session(9), b"fine");
    network.run(SECOND);
    assert_eq!(apps[1].received().last().map(Vec::as_slice), Some(&b"fine"[..]));
}

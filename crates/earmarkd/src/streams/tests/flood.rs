//! Floods of half-open connections.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{ConnectionId, Transport};
use socket2::{Domain, Socket, Type};

use super::super::{Limits, Settings};
use super::secured::Authority;
use super::{Node, deaf, plain, until};

/// Opens a connection from a loopback address without sending anything.
fn silent(from: Ipv4Addr, port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from((from, 0)).into()).expect("bound");
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    socket.connect_timeout(&to.into(), Duration::from_secs(5)).expect("connected");
    socket.into()
}

/// A thousand silent connections from many addresses, to a port with TLS and to one without, stay within the limits, and
/// a genuine connection is accepted.
#[test]
fn thousand_half_open_connections_block_no_other() {
    let authority = Authority::new("flood");
    let settings = Settings { tcp: Some(0), ..authority.settings("r1", &["r2"]) };
    let mut far = Node::new(&settings);
    let mut near = Node::new(&Settings { tcp: None, ..authority.settings("r2", &["r1"]) });
    let limits = Limits::default();
    let mut held = Vec::new();
    for n in 0..1_000_u32 {
        let transport = if n % 2 == 0 { Transport::Tls } else { Transport::Tcp };
        // Every address has four connections; one address has the last five hundred.
        let from = Ipv4Addr::from(0x7f01_0000 + n.min(500) / 4);
        held.push(silent(from, far.port(transport)));
        far.serve();
        assert!(far.streams.half_open <= limits.half_open);
        assert!(far.streams.connections.len() <= limits.half_open);
        if held.len() > 300 {
            // Descriptors are scarce, and the neighbor's are in this process too.
            held.drain(..100);
        }
    }
    for (id, transport) in [(2, Transport::Tls), (4, Transport::Tcp)] {
        let port = far.port(transport);
        near.connect(id, transport, port);
        near.write(id, b"I mean it");
        until("it stands", &mut [&mut near, &mut far], |nodes| nodes[0].is_open(id));
    }
    until("both are heard", &mut [&mut near, &mut far], |nodes| {
        let heard = |transport| {
            nodes[1].seen.iter().any(|seen| {
                matches!(seen, super::Seen::Open(_, t, from) if *t == transport && from.ip() == super::HERE)
            })
        };
        heard(Transport::Tls) && heard(Transport::Tcp)
    });
    assert!(far.streams.counters().half_open > 500);
    let opened = far.seen.iter().filter(|seen| matches!(seen, super::Seen::Open(..))).count();
    assert_eq!(opened, 2, "the engine hears of no other");
}

/// Connections that stay silent are closed in time.
#[test]
fn silent_connection_times_out() {
    let limits = Limits { handshake: Duration::from_millis(50), ..Limits::default() };
    let mut far = Node::new(&Settings { limits, ..plain() });
    let held: Vec<_> =
        (0..5).map(|_| silent(Ipv4Addr::LOCALHOST, far.port(Transport::Tcp))).collect();
    until("taken", &mut [&mut far], |nodes| nodes[0].streams.counters().accepted == 5);
    until("given up", &mut [&mut far], |nodes| nodes[0].streams.connections.is_empty());
    assert_eq!(far.streams.counters().half_open, 5);
    assert_eq!(far.seen, [], "nobody was told");
    drop(held);
}

/// Instead of TLS, the connections send records of random octets, a truncated first record, and a message in plain text. All
/// are closed, none is reported to the engine, and a connection with TLS is accepted.
#[test]
fn malformed_tls_is_disconnected() {
    let authority = Authority::new("malformed");
    let limits = Limits { handshake: Duration::from_millis(500), ..Limits::default() };
    let mut far = Node::new(&Settings { limits, ..authority.settings("r1", &["r2"]) });
    let port = far.port(Transport::Tls);
    let mut random = RandomStreams::new(11).stream("malformed");
    let mut octets =
        |count: usize| (0..count).map(|_| random.next_u64() as u8).collect::<Vec<u8>>();
    let mut malformed: Vec<Vec<u8>> = (0..12).map(|round| octets(1 << round)).collect();
    for kind in [20, 21, 22, 23, 24, 255] {
        // Type, version 1.2 and a correct length, as in a record of TLS 1.3 (RFC 8446 section 5.1).
        malformed.push([&[kind, 3, 3, 0, 64], &octets(64)[..]].concat());
        malformed.push(vec![kind, 3, 3, 0xff, 0xff]);
    }
    malformed.push(b"\x01\x00\x00\x06\x01\x80\x00\x00 GIST, as it were".to_vec());
    let count = malformed.len() as u64;
    let held: Vec<TcpStream> = malformed
        .into_iter()
        .zip(1_u32..)
        .map(|(octets, n)| {
            let mut stream = silent(Ipv4Addr::from(0x7f02_0000 + n), port);
            // The connection may be closed while this writes.
            let _ = stream.write_all(&octets);
            stream
        })
        .collect();
    until("taken", &mut [&mut far], |nodes| nodes[0].streams.counters().accepted == count);
    until("let go", &mut [&mut far], |nodes| nodes[0].streams.connections.is_empty());
    assert_eq!(far.seen, [], "the engine heard of somebody");
    drop(held);
    let mut near = Node::new(&Settings { tcp: None, ..authority.settings("r2", &["r1"]) });
    near.connect(2, Transport::Tls, port);
    until("it stands", &mut [&mut near, &mut far], |nodes| nodes[0].is_open(2));
}

/// Connections from one address are limited even if they send data; another address is accepted.
#[test]
fn connections_of_one_address_are_limited() {
    let limits = Limits { per_source: 3, ..Limits::default() };
    let mut far = Node::new(&Settings { limits, ..plain() });
    let port = far.port(Transport::Tcp);
    let mut near = Node::new(&deaf());
    for id in [2, 4, 6, 8] {
        near.connect(id, Transport::Tcp, port);
        near.write(id, b"hello");
        until("settled", &mut [&mut near, &mut far], |nodes| {
            nodes[0].end_of(id).is_some() || nodes[1].heard(id - 1) == b"hello"
        });
    }
    assert!(near.end_of(8).is_some() && near.end_of(6).is_none());
    assert_eq!(far.streams.counters().refused, 1);
    let other = silent(Ipv4Addr::new(127, 0, 0, 2), port);
    (&other).write_all(b"me too").expect("written");
    until("the other one", &mut [&mut far], |nodes| nodes[0].heard(7) == b"me too");
    near.close(2);
    until("room again", &mut [&mut near, &mut far], |nodes| nodes[1].end_of(1).is_some());
    near.connect(10, Transport::Tcp, port);
    near.write(10, b"again");
    until("let in", &mut [&mut near, &mut far], |nodes| nodes[1].heard(9) == b"again");
}

/// The limits apply to a /64 of IPv6, which one host may have.
#[test]
fn ipv6_sources_are_counted_by_prefix() {
    let one: IpAddr = "2001:db8:1:2:3:4:5:6".parse().expect("an address");
    let same: IpAddr = "2001:db8:1:2::9".parse().expect("an address");
    let other: IpAddr = "2001:db8:1:3::9".parse().expect("an address");
    let source = super::super::source::source;
    assert_eq!(source(one), source(same));
    assert_ne!(source(one), source(other));
    assert!(
        super::super::is_accepted(ConnectionId(1)) && !super::super::is_accepted(ConnectionId(2))
    );
}

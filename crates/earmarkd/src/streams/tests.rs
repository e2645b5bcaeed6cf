//! Connections over loopback, with generated certificates.

mod certificates;
mod flood;
mod large;
mod secured;

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use earmark_core::{CloseReason, Connect, ConnectionId, StreamEvent, Time, Transport};

use super::connection::Connection;
use super::{Limits, Settings, Streams};

/// An event seen by one side.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Open(ConnectionId, Transport, SocketAddr),
    Data(ConnectionId, Vec<u8>),
    Closed(ConnectionId, CloseReason),
}

/// One node's connections, with the events seen so far.
struct Node {
    streams: Streams,
    seen: Vec<Seen>,
    start: Instant,
}

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(10);
const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

impl Node {
    fn new(settings: &Settings) -> Node {
        let streams = Streams::open(settings).expect("settings that can be");
        Node { streams, seen: Vec::new(), start: Instant::now() }
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn serve(&mut self) {
        let now = self.now();
        let Node { streams, seen, .. } = self;
        let serve = streams.serve(now, &mut |event| match event {
            StreamEvent::Open { connection, transport, peer, .. } => {
                seen.push(Seen::Open(connection, transport, peer));
            }
            StreamEvent::Data { connection, octets } => match seen.last_mut() {
                Some(Seen::Data(last, all)) if *last == connection => all.extend(octets),
                _ => seen.push(Seen::Data(connection, octets.to_vec())),
            },
            StreamEvent::Closed { connection, reason } => {
                seen.push(Seen::Closed(connection, reason));
            }
        });
        serve.expect("served");
    }

    fn connect(&mut self, id: u64, transport: Transport, port: u16) {
        let destination = SocketAddr::new(HERE, port);
        let connection = ConnectionId(id);
        let connect = Connect { connection, source: HERE, destination, transport };
        self.streams.connect(self.now(), &connect);
    }

    fn write(&mut self, id: u64, octets: &[u8]) {
        self.streams.write(ConnectionId(id), octets);
        self.streams.flush();
    }

    fn close(&mut self, id: u64) {
        self.streams.close(self.now(), ConnectionId(id));
        self.streams.flush();
    }

    /// Octets received from a connection.
    fn heard(&self, id: u64) -> Vec<u8> {
        let heard = self.seen.iter().filter_map(|seen| match seen {
            Seen::Data(connection, octets) if connection.0 == id => Some(octets),
            _ => None,
        });
        heard.flatten().copied().collect()
    }

    fn end_of(&self, id: u64) -> Option<CloseReason> {
        self.seen.iter().find_map(|seen| match seen {
            Seen::Closed(connection, reason) if connection.0 == id => Some(*reason),
            _ => None,
        })
    }

    fn is_open(&self, id: u64) -> bool {
        self.seen.iter().any(|seen| matches!(seen, Seen::Open(c, ..) if c.0 == id))
    }

    /// Port of the listener for a transport.
    fn port(&self, transport: Transport) -> u16 {
        let listener = self.streams.listeners.iter().find(|it| it.transport == transport);
        let address = listener.expect("it listens").socket.local_addr().expect("bound");
        address.as_socket().expect("an address").port()
    }
}

/// Serves all nodes until a condition holds.
fn until(what: &str, nodes: &mut [&mut Node], mut is_so: impl FnMut(&[&mut Node]) -> bool) {
    let start = Instant::now();
    while !is_so(nodes) {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        for node in &mut *nodes {
            node.serve();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Settings for TCP on any free port.
fn plain() -> Settings {
    Settings { tcp: Some(0), tls: None, limits: Limits::default() }
}

fn deaf() -> Settings {
    Settings { tcp: None, ..plain() }
}

#[test]
fn data_of_both_directions_arrive_before_close() {
    let (mut near, mut far) = (Node::new(&deaf()), Node::new(&plain()));
    let port = far.port(Transport::Tcp);
    let long: Vec<u8> = (0..300_000_u32).map(|n| n as u8).collect();
    near.connect(2, Transport::Tcp, port);
    // The first part is written before the connection is open, the others in pieces.
    near.write(2, &long[..100_000]);
    until("it stands", &mut [&mut near, &mut far], |nodes| nodes[0].is_open(2));
    near.streams.write(ConnectionId(2), &long[100_000..200_000]);
    near.write(2, &long[200_000..]);
    until("all is there", &mut [&mut near, &mut far], |nodes| nodes[1].heard(1) == long);
    far.write(1, b"answer");
    until("an answer", &mut [&mut near, &mut far], |nodes| nodes[0].heard(2) == b"answer");
    near.write(2, b"the last");
    near.close(2);
    near.write(2, b"too late");
    until("its end", &mut [&mut near, &mut far], |nodes| nodes[1].end_of(1).is_some());
    assert_eq!(far.end_of(1), Some(CloseReason::Ended));
    assert!(far.heard(1).ends_with(b"the last"));
    assert_eq!(near.end_of(2), None, "who ends it knows");
    until("nothing is left", &mut [&mut near, &mut far], |nodes| {
        nodes.iter().all(|node| node.streams.connections.is_empty())
    });
    assert!(near.streams.deadlines.is_empty() && far.streams.sources.is_empty());
    assert_eq!((far.streams.half_open, far.streams.accepted), (0, 0));
}

#[test]
fn connection_without_listener_is_unreachable() {
    let mut near = Node::new(&deaf());
    let port = Node::new(&plain()).port(Transport::Tcp);
    near.connect(2, Transport::Tcp, port);
    near.connect(4, Transport::Tls, port);
    near.write(4, b"secret");
    until("told so", &mut [&mut near], |nodes| nodes[0].seen.len() == 2);
    assert_eq!(near.end_of(2), Some(CloseReason::Unreachable));
    assert_eq!(near.end_of(4), Some(CloseReason::NotAuthenticated), "there are no keys");
    assert!(near.streams.connections.is_empty());
}

#[test]
fn reset_and_close_of_neighbor_are_reported() {
    let mut far = Node::new(&plain());
    let port = far.port(Transport::Tcp);
    let address = SocketAddr::new(HERE, port);
    let talk = |octets: &[u8]| {
        let mut socket = TcpStream::connect(address).expect("connected");
        std::io::Write::write_all(&mut socket, octets).expect("written");
        socket
    };
    let first = talk(b"one");
    until("the first", &mut [&mut far], |nodes| nodes[0].heard(1) == b"one");
    let second = talk(b"two");
    until("the second", &mut [&mut far], |nodes| nodes[0].heard(3) == b"two");
    socket2::SockRef::from(&first).set_linger(Some(Duration::ZERO)).expect("set");
    drop((first, second));
    until("both ends", &mut [&mut far], |nodes| {
        nodes[0].end_of(1).is_some() && nodes[0].end_of(3).is_some()
    });
    assert_eq!(far.end_of(1), Some(CloseReason::Broken));
    assert_eq!(far.end_of(3), Some(CloseReason::Ended));
}

/// The queue of a neighbor that does not read is limited; only its own connection is closed.
#[test]
fn neighbor_that_stops_reading_loses_only_its_connection() {
    let mut far = Node::new(&plain());
    let address = SocketAddr::new(HERE, far.port(Transport::Tcp));
    let mut near = Node::new(&deaf());
    near.connect(2, Transport::Tcp, address.port());
    near.write(2, b"good");
    until("the good one", &mut [&mut near, &mut far], |nodes| nodes[1].heard(1) == b"good");
    let mut lazy = TcpStream::connect(address).expect("connected");
    std::io::Write::write_all(&mut lazy, b"lazy").expect("written");
    until("the lazy one", &mut [&mut far], |nodes| nodes[0].heard(3) == b"lazy");
    let mut written = 0;
    while far.end_of(3).is_none() {
        assert!(written < 64 << 20, "it has to end some time");
        far.write(3, &[7; 8_192]);
        far.serve();
        written += 8_192;
        let waiting: usize = far.streams.connections.values().map(Connection::backlog).sum();
        assert!(waiting <= Limits::default().backlog);
    }
    assert_eq!(far.end_of(3), Some(CloseReason::Backlog));
    far.write(1, b"still here");
    until("the good one", &mut [&mut near, &mut far], |nodes| nodes[0].heard(2) == b"still here");
    assert_eq!(far.streams.counters().backlog, 1);
    let mut rest = Vec::new();
    lazy.set_read_timeout(Some(PATIENCE)).expect("set");
    // The data end somewhere.
    let _ = lazy.read_to_end(&mut rest);
    assert!(rest.len() < written);
}

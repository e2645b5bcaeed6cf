//! Connections of a network: opened, closed, and those without a node into which a test writes.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_core::{CloseReason, ConnectionId, Input, StreamEvent, Transport};
use earmark_nsis::PORT;
use earmark_wire::gist::{Message, Mode};

use super::{DELAY, Network, Scheduled};

impl Network {
    /// Closes a connection at one end; the other end gets an event.
    pub fn close(&mut self, node: usize, connection: ConnectionId, reason: CloseReason) {
        if let Some((node, connection)) = self.connections.remove(&(node, connection))
            && node != usize::MAX
        {
            self.later(DELAY, Scheduled::Closed { node, connection, reason });
        }
    }

    /// Breaks a connection: both ends get an event.
    pub fn break_connection(&mut self, node: usize, connection: ConnectionId, reason: CloseReason) {
        self.close(node, connection, CloseReason::Broken);
        self.later(Duration::ZERO, Scheduled::Closed { node, connection, reason });
    }

    pub(super) fn connect(&mut self, node: usize, connect: &earmark_core::Connect) {
        if self.connections_hang {
            return;
        }
        let destination = connect.destination;
        let found = self.nodes.iter().position(|other| other.interfaces.is_local(destination.ip()));
        let target = found.filter(|&target| {
            self.nodes[target].engine.is_some()
                && self.nodes[target].listens.contains(&(destination.port(), connect.transport))
        });
        let mine = connect.connection;
        let Some(target) = target else {
            let reason = CloseReason::Unreachable;
            return self.later(DELAY, Scheduled::Closed { node, connection: mine, reason });
        };
        if connect.transport == Transport::Tls
            && !(self.nodes[node].authentic && self.nodes[target].authentic)
        {
            let reason = CloseReason::NotAuthenticated;
            return self.later(DELAY, Scheduled::Closed { node, connection: mine, reason });
        }
        let theirs = ConnectionId(self.nodes[target].next_connection);
        self.nodes[target].next_connection += 2;
        self.connections.insert((node, mine), (target, theirs));
        self.connections.insert((target, theirs), (node, mine));
        let (local, transport) = (SocketAddr::new(connect.source, 40_000), connect.transport);
        let (peer, connection) = (destination, theirs);
        self.later(
            DELAY,
            Scheduled::Open { node: target, connection, local: peer, peer: local, transport },
        );
        let connection = mine;
        self.later(2 * DELAY, Scheduled::Open { node, connection, local, peer, transport });
    }

    /// Opens a connection to a node from outside the network; the test writes into it.
    pub fn open(&mut self, node: usize, from: &str, transport: Transport) -> ConnectionId {
        let connection = ConnectionId(self.nodes[node].next_connection);
        self.nodes[node].next_connection += 2;
        // The other end is no node.
        self.connections.insert((node, connection), (usize::MAX, connection));
        let address = self.nodes[node].interfaces.iter().next().expect("one").addresses[0];
        let (local, peer) =
            (SocketAddr::new(address, PORT), SocketAddr::new(super::address(from), 9));
        self.input(node, Input::Stream(StreamEvent::Open { connection, local, peer, transport }));
        connection
    }

    /// Delivers octets on a connection.
    pub fn write(&mut self, node: usize, connection: ConnectionId, octets: &[u8]) {
        self.input(node, Input::Stream(StreamEvent::Data { connection, octets }));
    }

    /// Returns whether a connection still exists.
    pub fn is_open(&self, node: usize, connection: ConnectionId) -> bool {
        self.connections.contains_key(&(node, connection))
    }

    /// Returns the messages that were written into connections since the `from`th, each as `n0 Confirm`.
    pub fn log_of_streams(&self, from: usize) -> Vec<String> {
        let name = |octets: &[u8]| {
            let message = Message::parse(octets, Mode::C).expect("a whole message");
            message.body.message_type().name()
        };
        let written = self.written[from..].iter();
        written.map(|(_, node, _, octets)| format!("n{node} {}", name(octets))).collect()
    }
}

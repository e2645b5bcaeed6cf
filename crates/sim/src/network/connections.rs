//! Connections between the daemons of a network, over packets that are lost, reordered and queued like all others.
//!
//! A connection that a daemon requests with [`Effect::Connect`](earmark_core::Effect::Connect) is TCP in its own
//! octets; every other daemon listens, on every port, unless it is set otherwise. The connections of a daemon that dies
//! are reset, as by its kernel. If its link is down, a daemon finds out by the missing acknowledgements.

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use earmark_core::{CloseReason, Connect, ConnectionId, Outgoing, StreamEvent};
use earmark_node::Input;

use super::{Happening, Network};
use crate::NodeId;
use crate::connections::segment::{HEADER, Segment, flag};
use crate::connections::{Endpoint, Pair, Streams, TCP, Told, Wanted, Welcome};
use crate::log::{Loss, What};
use crate::packet::{Body, MTU, Packet, USUAL_TTL};

/// The first port of callers (IANA: dynamic ports).
const FIRST_PORT: u16 = 49_152;

/// Settings.
impl Network {
    /// Sets the callers that a node accepts from now on. Open connections stay.
    pub fn welcome(&mut self, node: NodeId, welcome: Welcome) {
        self.hosts[node.0].streams.welcome = welcome;
    }

    /// Makes a node stop or resume reading from its connections. Octets that its daemon has not read fill the window;
    /// further ones wait at the senders.
    pub fn set_reading(&mut self, node: NodeId, reads: bool) {
        let streams = &mut self.hosts[node.0].streams;
        streams.reads = reads;
        if reads {
            for pair in streams.ends.keys().copied().collect::<Vec<Pair>>() {
                let now = self.now;
                self.act(node, pair, |end, manner| end.read_on(now, manner.welcome));
            }
        }
    }

    /// Returns the number of a node's connections, including those that are being opened or closed.
    pub fn connections(&self, node: NodeId) -> usize {
        self.hosts[node.0].streams.ends.len()
    }
}

/// Requests of a daemon.
impl Network {
    pub(crate) fn connect_stream(&mut self, node: NodeId, connect: &Connect) {
        let Connect { connection, source, destination, transport } = *connect;
        let (now, host) = (self.now, &mut self.hosts[node.0]);
        let known = host.interfaces.is_local(source) && host.routes_to(destination.ip()).is_some();
        if !known || source.is_ipv4() != destination.is_ipv4() {
            let reason = CloseReason::Unreachable;
            return self.enter(now, Happening::Closed(node, connection, reason));
        }
        let streams = &mut host.streams;
        let port = FIRST_PORT + streams.called % (u16::MAX - FIRST_PORT);
        streams.called = streams.called.wrapping_add(1);
        let pair = Pair { local: SocketAddr::new(source, port), peer: destination };
        let (end, wanted) = Endpoint::call(connection, transport, longest(source), now);
        streams.ends.insert(pair, end);
        streams.names.insert(connection, pair);
        self.satisfy(node, pair, wanted);
    }

    /// Writes into a connection; ignored if it is closed.
    pub(crate) fn write_stream(&mut self, node: NodeId, connection: ConnectionId, octets: &[u8]) {
        let now = self.now;
        if let Some(&pair) = self.hosts[node.0].streams.names.get(&connection) {
            self.act(node, pair, |end, _| end.write(octets, now));
        }
    }

    pub(crate) fn close_stream(&mut self, node: NodeId, connection: ConnectionId) {
        let now = self.now;
        if let Some(pair) = self.hosts[node.0].streams.names.remove(&connection) {
            self.act(node, pair, |end, _| end.close(now));
        }
    }

    /// Resets all connections after the death of the daemon.
    pub(crate) fn reset_connections(&mut self, node: NodeId) {
        let streams = &mut self.hosts[node.0].streams;
        streams.names.clear();
        for (pair, mut end) in core::mem::take(&mut streams.ends) {
            let mut wanted = Wanted::default();
            end.abort(&mut wanted);
            self.satisfy(node, pair, wanted);
        }
    }
}

/// Input.
impl Network {
    /// Handles a segment for this node.
    pub(crate) fn hear(&mut self, node: NodeId, packet: &Packet) {
        let (source, destination) = (packet.source, packet.destination);
        let Body::Signalling(octets) = &packet.body else { return };
        let Some(segment) = Segment::parse(octets, source, destination) else {
            return self.note(node, What::Lost(Loss::Fault));
        };
        let pair = Pair {
            local: SocketAddr::new(destination, segment.destination_port),
            peer: SocketAddr::new(source, segment.source_port),
        };
        let now = self.now;
        let host = &mut self.hosts[node.0];
        let listens = host.node.is_some() && host.streams.welcome != Welcome::Nobody;
        let streams = &mut host.streams;
        if streams.ends.contains_key(&pair) {
            self.act(node, pair, |end, manner| {
                end.hear(segment, now, manner.reads, manner.welcome)
            });
        } else if segment.flags == flag::SYN && listens {
            streams.accepted += 1;
            let connection = ConnectionId(2 * streams.accepted - 1);
            let (end, wanted) = Endpoint::answer(connection, longest(destination), now, &segment);
            streams.ends.insert(pair, end);
            streams.names.insert(connection, pair);
            self.satisfy(node, pair, wanted);
        } else if let Some(refusal) = segment.refusal() {
            self.send_segment(node, pair, refusal);
        }
    }

    /// Handles a timer of a connection, which may have expired.
    pub(crate) fn repeat(&mut self, node: NodeId, pair: Pair) {
        let now = self.now;
        let end = self.hosts[node.0].streams.ends.get(&pair);
        // Otherwise it was set again, or the connection is closed.
        if end.is_some_and(|end| end.timer == Some(now)) {
            self.act(node, pair, |end, _| end.repeat(now));
        }
    }
}

/// Results.
impl Network {
    /// Performs an action of an endpoint, and executes its requests.
    fn act(
        &mut self,
        node: NodeId,
        pair: Pair,
        act: impl FnOnce(&mut Endpoint, &Manner) -> Wanted,
    ) {
        let Streams { ends, reads, welcome, .. } = &mut self.hosts[node.0].streams;
        let manner = Manner { reads: *reads, welcome: *welcome };
        if let Some(end) = ends.get_mut(&pair) {
            let wanted = act(end, &manner);
            self.satisfy(node, pair, wanted);
        }
    }

    fn satisfy(&mut self, node: NodeId, pair: Pair, wanted: Wanted) {
        let streams = &mut self.hosts[node.0].streams;
        let end = streams.ends.get(&pair);
        let (timer, connection) = (end.and_then(|end| end.timer), end.map(|end| end.connection));
        if end.is_some_and(Endpoint::is_done) {
            streams.ends.remove(&pair);
        }
        if let Some(at) = timer {
            self.enter(at, Happening::Repeat(node, pair));
        }
        for segment in wanted.segments {
            self.send_segment(node, pair, segment);
        }
        // Reported later, though at the same time: the daemon's current action may be the cause.
        for told in wanted.told {
            if let Some(connection) = connection {
                let told = Box::new((pair, connection, told));
                self.enter(self.now, Happening::Told(node, told));
            }
        }
    }

    /// Reports an event to the daemon, if it runs and knows the connection.
    pub(crate) fn tell(&mut self, node: NodeId, pair: Pair, connection: ConnectionId, told: &Told) {
        let Pair { local, peer } = pair;
        let names = &mut self.hosts[node.0].streams.names;
        if names.get(&connection) != Some(&pair) {
            return;
        }
        let event = match *told {
            Told::Open(transport) => {
                self.note(node, What::Connection(connection, Ok(transport)));
                StreamEvent::Open { connection, local, peer, transport }
            }
            Told::Data(ref octets) => StreamEvent::Data { connection, octets },
            Told::Closed(reason) => {
                names.remove(&connection);
                self.note(node, What::Connection(connection, Err(reason)));
                StreamEvent::Closed { connection, reason }
            }
        };
        self.drive(node, Input::Stream(event));
    }

    fn send_segment(&mut self, node: NodeId, pair: Pair, segment: Segment) {
        let Pair { local, peer } = pair;
        let segment =
            Segment { source_port: local.port(), destination_port: peer.port(), ..segment };
        let how = Outgoing {
            protocol: TCP,
            interface: None,
            source: local.ip(),
            destination: peer.ip(),
            ttl: USUAL_TTL,
            router_alert: false,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        let packet = Packet::signalling(&how, &segment.octets(local.ip(), peer.ip()));
        match self.hosts[node.0].routes_to(peer.ip()) {
            Some(interface) => self.send(node, interface, packet),
            None => self.note(node, What::Lost(Loss::NoRoute)),
        }
    }
}

/// Receive settings of a node.
struct Manner {
    reads: bool,
    welcome: Welcome,
}

/// Returns the maximum octets of a segment.
fn longest(source: IpAddr) -> usize {
    let header = if source.is_ipv4() { 20 } else { 40 };
    MTU as usize - header - HEADER
}

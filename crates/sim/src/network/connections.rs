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

use super::{Network, Scheduled};
use crate::NodeId;
use crate::connections::segment::{HEADER, Segment, flag};
use crate::connections::{
    AcceptPolicy, ConnectionEvent, Endpoint, EndpointOutput, Pair, Streams, TCP,
};
use crate::log::{LogEvent, Loss};
use crate::packet::{Body, DEFAULT_TTL, MTU, Packet};

/// The first port of callers (IANA: dynamic ports).
const FIRST_PORT: u16 = 49_152;

/// Settings.
impl Network {
    /// Sets the callers that a node accepts from now on. Open connections stay.
    pub fn set_accept_policy(&mut self, node: NodeId, accept_policy: AcceptPolicy) {
        self.hosts[node.0].streams.accept_policy = accept_policy;
    }

    /// Makes a node stop or resume reading from its connections. Octets that its daemon has not read fill the window;
    /// further ones wait at the senders.
    pub fn set_reading(&mut self, node: NodeId, reads: bool) {
        let streams = &mut self.hosts[node.0].streams;
        streams.reads = reads;
        if reads {
            for pair in streams.ends.keys().copied().collect::<Vec<Pair>>() {
                let now = self.now;
                self.with_endpoint(node, pair, |end, settings| {
                    end.resume_reading(now, settings.accept_policy)
                });
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
            return self.enter(now, Scheduled::Closed(node, connection, reason));
        }
        let streams = &mut host.streams;
        let port = FIRST_PORT + streams.requested % (u16::MAX - FIRST_PORT);
        streams.requested = streams.requested.wrapping_add(1);
        let pair = Pair { local: SocketAddr::new(source, port), peer: destination };
        let (end, output) = Endpoint::connect(connection, transport, longest(source), now);
        streams.ends.insert(pair, end);
        streams.by_id.insert(connection, pair);
        self.execute_output(node, pair, output);
    }

    /// Writes into a connection; ignored if it is closed.
    pub(crate) fn write_stream(&mut self, node: NodeId, connection: ConnectionId, octets: &[u8]) {
        let now = self.now;
        if let Some(&pair) = self.hosts[node.0].streams.by_id.get(&connection) {
            self.with_endpoint(node, pair, |end, _| end.write(octets, now));
        }
    }

    pub(crate) fn close_stream(&mut self, node: NodeId, connection: ConnectionId) {
        let now = self.now;
        if let Some(pair) = self.hosts[node.0].streams.by_id.remove(&connection) {
            self.with_endpoint(node, pair, |end, _| end.close(now));
        }
    }

    /// Resets all connections after the death of the daemon.
    pub(crate) fn reset_connections(&mut self, node: NodeId) {
        let streams = &mut self.hosts[node.0].streams;
        streams.by_id.clear();
        for (pair, mut end) in core::mem::take(&mut streams.ends) {
            let mut output = EndpointOutput::default();
            end.abort(&mut output);
            self.execute_output(node, pair, output);
        }
    }
}

/// Input.
impl Network {
    /// Handles a segment for this node.
    pub(crate) fn receive_segment(&mut self, node: NodeId, packet: &Packet) {
        let (source, destination) = (packet.source, packet.destination);
        let Body::Signalling(octets) = &packet.body else { return };
        let Some(segment) = Segment::parse(octets, source, destination) else {
            return self.note(node, LogEvent::Lost(Loss::Fault));
        };
        let pair = Pair {
            local: SocketAddr::new(destination, segment.destination_port),
            peer: SocketAddr::new(source, segment.source_port),
        };
        let now = self.now;
        let host = &mut self.hosts[node.0];
        let listens = host.node.is_some() && host.streams.accept_policy != AcceptPolicy::NoOne;
        let streams = &mut host.streams;
        if streams.ends.contains_key(&pair) {
            self.with_endpoint(node, pair, |end, settings| {
                end.receive(segment, now, settings.reads, settings.accept_policy)
            });
        } else if segment.flags == flag::SYN && listens {
            streams.accepted += 1;
            let connection = ConnectionId(2 * streams.accepted - 1);
            let (end, output) = Endpoint::accept(connection, longest(destination), now, &segment);
            streams.ends.insert(pair, end);
            streams.by_id.insert(connection, pair);
            self.execute_output(node, pair, output);
        } else if let Some(reset_reply) = segment.reset_reply() {
            self.send_segment(node, pair, reset_reply);
        }
    }

    /// Handles a timer of a connection, which may have expired.
    pub(crate) fn retransmit(&mut self, node: NodeId, pair: Pair) {
        let now = self.now;
        let end = self.hosts[node.0].streams.ends.get(&pair);
        // Otherwise it was set again, or the connection is closed.
        if end.is_some_and(|end| end.timer == Some(now)) {
            self.with_endpoint(node, pair, |end, _| end.retransmit(now));
        }
    }
}

/// Results.
impl Network {
    /// Performs an action of an endpoint, and executes its requests.
    fn with_endpoint(
        &mut self,
        node: NodeId,
        pair: Pair,
        act: impl FnOnce(&mut Endpoint, &ReceiveSettings) -> EndpointOutput,
    ) {
        let Streams { ends, reads, accept_policy, .. } = &mut self.hosts[node.0].streams;
        let settings = ReceiveSettings { reads: *reads, accept_policy: *accept_policy };
        if let Some(end) = ends.get_mut(&pair) {
            let output = act(end, &settings);
            self.execute_output(node, pair, output);
        }
    }

    fn execute_output(&mut self, node: NodeId, pair: Pair, output: EndpointOutput) {
        let streams = &mut self.hosts[node.0].streams;
        let end = streams.ends.get(&pair);
        let (timer, connection) = (end.and_then(|end| end.timer), end.map(|end| end.connection));
        if end.is_some_and(Endpoint::is_done) {
            streams.ends.remove(&pair);
        }
        if let Some(at) = timer {
            self.enter(at, Scheduled::Retransmit(node, pair));
        }
        for segment in output.segments {
            self.send_segment(node, pair, segment);
        }
        // Reported later, though at the same time: the daemon's current action may be the cause.
        for event in output.events {
            if let Some(connection) = connection {
                let report = Box::new((pair, connection, event));
                self.enter(self.now, Scheduled::Connection(node, report));
            }
        }
    }

    /// Reports an event to the daemon, if it runs and knows the connection.
    pub(crate) fn report_connection_event(
        &mut self,
        node: NodeId,
        pair: Pair,
        connection: ConnectionId,
        told: &ConnectionEvent,
    ) {
        let Pair { local, peer } = pair;
        let by_id = &mut self.hosts[node.0].streams.by_id;
        if by_id.get(&connection) != Some(&pair) {
            return;
        }
        let event = match *told {
            ConnectionEvent::Open(transport) => {
                self.note(node, LogEvent::Connection(connection, Ok(transport)));
                StreamEvent::Open { connection, local, peer, transport }
            }
            ConnectionEvent::Data(ref octets) => StreamEvent::Data { connection, octets },
            ConnectionEvent::Closed(reason) => {
                by_id.remove(&connection);
                self.note(node, LogEvent::Connection(connection, Err(reason)));
                StreamEvent::Closed { connection, reason }
            }
        };
        self.drive(node, Input::Stream(event));
    }

    fn send_segment(&mut self, node: NodeId, pair: Pair, segment: Segment) {
        let Pair { local, peer } = pair;
        let segment =
            Segment { source_port: local.port(), destination_port: peer.port(), ..segment };
        let how = Outgoing::new(TCP, local.ip(), peer.ip(), DEFAULT_TTL);
        let packet = Packet::signalling(&how, &segment.octets(local.ip(), peer.ip()));
        match self.hosts[node.0].routes_to(peer.ip()) {
            Some(interface) => self.send(node, interface, packet),
            None => self.note(node, LogEvent::Lost(Loss::NoRoute)),
        }
    }
}

/// Receive settings of a node.
struct ReceiveSettings {
    reads: bool,
    accept_policy: AcceptPolicy,
}

/// Returns the maximum octets of a segment.
fn longest(source: IpAddr) -> usize {
    let header = if source.is_ipv4() { 20 } else { 40 };
    MTU as usize - header - HEADER
}

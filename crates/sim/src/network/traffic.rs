//! Streams of packets: their addition, departures and arrivals.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::net::IpAddr;

use super::{Network, Scheduled};
use crate::ids::{NodeId, StreamId};
use crate::measurement::Trace;
use crate::packet::{Body, DEFAULT_TTL, Packet, UDP};
use crate::pattern::Departures;
use crate::traffic::{Keep, Source, StreamState};

impl Network {
    /// Adds a stream.
    pub fn add_source(&mut self, source: Source) -> StreamId {
        let id = StreamId(self.streams.len());
        let mut random = self.random.stream(&self.next_stream_name());
        let address = self.hosts[source.node.0].source_for(source.destination);
        let trace = Trace::new(source.packet_octets);
        let starts = source.from.max(self.now);
        let pattern = source.pattern.clone();
        let mut departures = Departures::new(pattern, source.packet_octets, starts, &mut random);
        let first = departures.next(&mut random);
        self.streams.push(StreamState {
            source,
            address,
            random,
            departures,
            sent: 0,
            received: 0,
            dropped: 0,
            trace,
            at_members: BTreeMap::new(),
        });
        if let Some(first) = first {
            self.enter(first, Scheduled::Leave(id));
        }
        id
    }

    /// Returns the random stream name of the next stream, of packets or of fluid.
    pub(crate) fn next_stream_name(&self) -> String {
        alloc::format!("stream {}", self.streams.len() + self.fluids.count())
    }

    /// Ends a stream now.
    pub fn stop_source(&mut self, stream: StreamId) {
        self.streams[stream.0].source.until = self.now;
    }

    /// Sends the later packets of a stream to another destination and port.
    pub fn redirect_source(&mut self, stream: StreamId, destination: IpAddr, port: u16) {
        let node = self.streams[stream.0].source.node;
        let address = self.hosts[node.0].source_for(destination);
        let running = &mut self.streams[stream.0];
        (running.source.destination, running.source.destination_port) = (destination, port);
        running.address = address;
    }

    /// Returns the numbers of packets of a stream sent and received so far. A packet to a group is received when the
    /// first member has it, and may be counted once for each.
    pub fn counts(&self, stream: StreamId) -> (u64, u64) {
        let StreamState { sent, received, .. } = self.streams[stream.0];
        (sent, received)
    }

    /// Returns the number of packets of a stream that have been dropped so far: by a full queue, a packet filter, or for
    /// want of a route. The rest of the packets that have not been received are on their way.
    pub fn dropped_packets(&self, stream: StreamId) -> u64 {
        self.streams[stream.0].dropped
    }

    /// Counts a packet as dropped, if it is of a stream.
    pub(crate) fn count_dropped(&mut self, packet: &Packet) {
        if let Body::Data { stream, .. } = packet.body {
            self.streams[stream].dropped += 1;
        }
    }

    /// Returns the trace of a stream so far; empty if only counts are recorded. A packet to a group is received when
    /// the first member has it; see [`trace_at`](Network::trace_at).
    pub fn trace(&self, stream: StreamId) -> &Trace {
        &self.streams[stream.0].trace
    }

    /// Returns the trace of a stream to a group at one member; `None` if nothing has arrived there so far.
    pub fn trace_at(&self, stream: StreamId, node: NodeId) -> Option<&Trace> {
        self.streams[stream.0].at_members.get(&node)
    }

    /// Records a packet that has reached its destination.
    pub(crate) fn deliver(&mut self, node: NodeId, packet: &Packet) {
        let Body::Data { stream, sequence, .. } = packet.body else {
            return;
        };
        let StreamState { source, received, trace, at_members, .. } = &mut self.streams[stream];
        *received += 1;
        if source.keep == Keep::Counts {
            return;
        }
        if packet.destination.is_multicast() {
            let at_member = at_members.entry(node).or_insert_with(|| trace.without_arrivals());
            at_member.arrive(sequence, self.now);
        }
        trace.arrive(sequence, self.now);
    }

    /// Creates the next packet of a stream, and schedules the one after it.
    pub(crate) fn leave_source(&mut self, stream: StreamId) {
        let now = self.now;
        let running = &mut self.streams[stream.0];
        let source = &running.source;
        let Some(address) = running.address.filter(|_| now < source.until) else {
            return;
        };
        let sequence = running.sent;
        running.sent += 1;
        if source.keep == Keep::Packets {
            running.trace.leave(now);
            running.at_members.values_mut().for_each(|trace| trace.leave(now));
        }
        let packet = Packet {
            source: address,
            destination: source.destination,
            protocol: UDP,
            dscp: source.dscp,
            ttl: DEFAULT_TTL,
            router_alert: false,
            from_daemon: false,
            length: source.packet_octets,
            damaged: false,
            body: Body::Data {
                source_port: source.port,
                destination_port: source.destination_port,
                stream: stream.0,
                sequence,
            },
        };
        let node = source.node;
        if let Some(next) = running.departures.next(&mut running.random) {
            self.enter(next, Scheduled::Leave(stream));
        }
        match self.hosts[node.0].routes_to(packet.destination) {
            Some(interface) => self.send(node, interface, packet),
            None => self.count_dropped(&packet),
        }
    }
}

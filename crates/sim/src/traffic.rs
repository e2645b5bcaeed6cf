//! Data traffic: streams of packets, and what becomes of them.

use alloc::collections::BTreeMap;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Rate, Time};

use crate::measurement::Trace;
use crate::network::{Happening, Network, NodeId};
use crate::packet::{Body, Packet, UDP, USUAL_TTL};

/// A stream of the network that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(crate) usize);

/// A stream of UDP packets of equal length at a constant rate.
///
/// Packet n leaves within `n * g .. (n + 1) * g` after `from`, where g is the time of one packet at the rate; where in
/// it is drawn anew each time. So the rate is exact, and streams do not run in lock-step.
#[derive(Clone, Debug)]
pub struct Source {
    /// Where it starts.
    pub node: NodeId,
    /// Source port.
    pub port: u16,
    /// Where it goes.
    pub destination: IpAddr,
    /// Destination port.
    pub destination_port: u16,
    /// Rate, counted in IP packet octets.
    pub rate: Rate,
    /// Octets of each IP packet.
    pub packet_octets: u32,
    /// When it starts.
    pub from: Time,
    /// When it ends.
    pub until: Time,
}

/// A source at work.
pub(crate) struct Running {
    source: Source,
    address: Option<IpAddr>,
    dice: Stream,
    trace: Trace,
    /// What of a stream to a group arrived at each member that it reached.
    at_members: BTreeMap<NodeId, Trace>,
}

impl Network {
    /// Adds a stream.
    pub fn add_source(&mut self, source: Source) -> StreamId {
        let id = StreamId(self.streams.len());
        let name = alloc::format!("stream {}", id.0);
        let dice = self.random.stream(&name);
        let address = self.hosts[source.node.0].source_for(source.destination);
        let trace = Trace::new(source.packet_octets);
        let starts = source.from.max(self.now);
        let at_members = BTreeMap::new();
        self.streams.push(Running { source, address, dice, trace, at_members });
        self.enter(starts, Happening::Leave(id));
        id
    }

    /// Ends a stream now.
    pub fn stop_source(&mut self, stream: StreamId) {
        self.streams[stream.0].source.until = self.now;
    }

    /// What became of a stream so far. A packet to a group has arrived when the first member has it; see
    /// [`trace_at`](Network::trace_at).
    pub fn trace(&self, stream: StreamId) -> &Trace {
        &self.streams[stream.0].trace
    }

    /// What of a stream to a group arrived at one member; `None` where nothing did so far.
    pub fn trace_at(&self, stream: StreamId, node: NodeId) -> Option<&Trace> {
        self.streams[stream.0].at_members.get(&node)
    }

    /// A packet is where it should go.
    pub(crate) fn deliver(&mut self, node: NodeId, packet: &Packet) {
        let Body::Data { stream, sequence, .. } = packet.body else {
            return;
        };
        let Running { trace, at_members, .. } = &mut self.streams[stream];
        if packet.destination.is_multicast() {
            let at_member = at_members.entry(node).or_insert_with(|| trace.unheard());
            at_member.arrive(sequence, self.now);
        }
        trace.arrive(sequence, self.now);
    }

    /// The next packet of a stream is made, and the one after it planned.
    pub(crate) fn leave_source(&mut self, stream: StreamId) {
        let running = &mut self.streams[stream.0];
        let (source, now) = (&running.source, self.now);
        let Some(address) = running.address else {
            return;
        };
        if now >= source.until {
            return;
        }
        let sequence = running.trace.sent();
        running.trace.leave(now);
        running.at_members.values_mut().for_each(|trace| trace.leave(now));
        let bits = u128::from(source.packet_octets) * 8 * 1_000_000_000;
        let begins = |number: u64| {
            let nanos = u128::from(number) * bits / u128::from(source.rate.as_bps().max(1));
            source.from + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let (slot, end) = (begins(sequence + 1), begins(sequence + 2));
        let jitter = running.dice.uniform(Duration::ZERO, end.since(slot));
        let packet = Packet {
            source: address,
            destination: source.destination,
            protocol: UDP,
            ttl: USUAL_TTL,
            router_alert: false,
            urgent: false,
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
        self.enter(slot + jitter, Happening::Leave(stream));
        if let Some(interface) = self.hosts[node.0].routes_to(packet.destination) {
            self.send(node, interface, packet);
        }
    }
}

//! The network: its parts, and the list of events that moves it.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Datagram, Effects, Hop, Interface, InterfaceId, Prefix, Rate, Route, Time};
use earmark_node::{Command, Event, HostUpdate, Input, Node, NodeConfig};
use serde::Serialize;

use crate::egress::{Egress, Next};
use crate::host::{Host, Port, Verdict};
use crate::log::{Entry, Loss, What};
use crate::measurement::Trace;
use crate::packet::{Body, Packet, UDP};
use crate::tap::Tapped;

/// Largest IP packet of a link, octets.
const MTU: u32 = 1_500;
/// TTL of data packets.
const DATA_TTL: u8 = 64;

/// A node of the network that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct NodeId(pub(crate) usize);

/// A stream of the network that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(usize);

/// One end of a link that is to be.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// Which node.
    pub node: NodeId,
    /// Name of the interface, `eth0`.
    pub interface: String,
    /// Its address.
    pub address: IpAddr,
}

/// A link that is to be; both directions are alike.
#[derive(Clone, Debug)]
pub struct LinkSpec {
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// Address range of the link.
    pub prefix: Prefix,
    /// Bandwidth.
    pub bandwidth: Rate,
    /// What may be reserved.
    pub reservable: Rate,
    /// Propagation delay.
    pub delay: Duration,
    /// Limit of the best-effort queue, packets.
    pub queue_packets: u32,
}

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
struct Running {
    source: Source,
    address: Option<IpAddr>,
    dice: Stream,
    trace: Trace,
}

/// What is going to happen.
pub(crate) enum Happening {
    Command(NodeId, Command),
    Arrive(NodeId, InterfaceId, Packet),
    /// A link may be free, or a bucket full enough.
    Port(NodeId, InterfaceId),
    Expire(NodeId),
    Leave(StreamId),
    /// The grace time of what a dead daemon left is over, if still the daemon of this generation runs.
    Reap(NodeId, u32),
}

/// Nodes, links and streams, and what is going to happen to them. See the crate's text.
pub struct Network {
    pub(crate) now: Time,
    /// By time, then by the order of entering: a total order.
    happenings: BTreeMap<(Time, u64), Happening>,
    entered: u64,
    pub(crate) random: RandomStreams,
    pub(crate) hosts: Vec<Host>,
    streams: Vec<Running>,
    log: Vec<Entry>,
    /// What passed the nodes that have a tap.
    pub(crate) tapped: BTreeMap<NodeId, Vec<Tapped>>,
    pub(crate) effects: Effects<Event>,
}

impl Network {
    /// An empty network whose dice all come from `seed`.
    pub fn new(seed: u64) -> Network {
        Network {
            now: Time::ZERO,
            happenings: BTreeMap::new(),
            entered: 0,
            random: RandomStreams::new(seed),
            hosts: Vec::new(),
            streams: Vec::new(),
            log: Vec::new(),
            tapped: BTreeMap::new(),
            effects: Effects::new(),
        }
    }

    /// Adds a node with a running daemon. `forwards` makes it a router. Name and seed of the configuration are set here.
    pub fn add_node(&mut self, name: &str, forwards: bool, rsvp: earmark_rsvp::Config) -> NodeId {
        let config = NodeConfig { name: name.to_string(), seed: self.node_seed(name, 0), rsvp };
        self.hosts.push(Host::new(config, forwards));
        NodeId(self.hosts.len() - 1)
    }

    /// Joins two nodes; returns the interfaces at both ends. The nodes are told of them and of the way to each other.
    pub fn add_link(&mut self, link: LinkSpec) -> [InterfaceId; 2] {
        let ids = [0, 1].map(|side: usize| {
            let ports = &self.hosts[link.ends[side].node.0].ports;
            // Both ends may be at one node, which then needs two different indices.
            let before = side == 1 && link.ends[0].node == link.ends[1].node;
            InterfaceId(ports.len() as u32 + 1 + u32::from(before))
        });
        let LinkSpec { ends, prefix, bandwidth, reservable, delay, queue_packets } = link;
        let nodes = [ends[0].node, ends[1].node];
        for (side, end) in ends.into_iter().enumerate() {
            let host = &mut self.hosts[end.node.0];
            let peer = (nodes[1 - side], ids[1 - side]);
            let egress = Egress::new(bandwidth, queue_packets);
            let port = Port { peer, delay, egress, busy_until: Time::ZERO, up: true };
            host.ports.insert(ids[side], port);
            let interface = Interface {
                id: ids[side],
                name: end.interface,
                addresses: vec![end.address],
                mtu: MTU,
                up: true,
                bandwidth,
                reservable,
                latency_us: u32::try_from(delay.as_micros()).unwrap_or(u32::MAX),
            };
            host.interfaces.set(interface.clone());
            self.inform(end.node, HostUpdate::Interface(interface));
            let hop = Hop { interface: ids[side], gateway: None, source: Some(end.address) };
            self.add_route(end.node, Route { prefix, metric: 0, hop });
        }
        ids
    }

    /// Enters a route at a node and tells its daemon.
    pub fn add_route(&mut self, node: NodeId, route: Route) {
        self.hosts[node.0].add_route(route);
        self.inform(node, HostUpdate::Route(route));
    }

    /// Takes a route out and tells the node's daemon.
    pub fn remove_route(&mut self, node: NodeId, route: Route) {
        self.hosts[node.0].remove_route(&route);
        self.inform(node, HostUpdate::RouteGone(route));
    }

    /// Takes the link behind an interface down or up again, at both ends. What is on its way is lost.
    pub fn set_link_up(&mut self, node: NodeId, interface: InterfaceId, up: bool) {
        let Some(port) = self.hosts[node.0].ports.get(&interface) else {
            return;
        };
        let peer = port.peer;
        for (node, interface) in [(node, interface), peer] {
            let host = &mut self.hosts[node.0];
            if let Some(port) = host.ports.get_mut(&interface) {
                port.up = up;
            }
            host.routes.set_interface_up(interface, up);
            let Some(mut changed) = host.interfaces.by_id(interface).cloned() else {
                continue;
            };
            changed.up = up;
            host.interfaces.set(changed.clone());
            self.inform(node, HostUpdate::Interface(changed));
            self.serve(node, interface);
        }
    }

    /// From now on traffic control of a node answers every installation with this error number; `None`: it obeys again.
    pub fn refuse_installations(&mut self, node: NodeId, errno: Option<u16>) {
        self.hosts[node.0].refuse = errno;
    }

    /// Adds a stream.
    pub fn add_source(&mut self, source: Source) -> StreamId {
        let id = StreamId(self.streams.len());
        let name = alloc::format!("stream {}", id.0);
        let dice = self.random.stream(&name);
        let address = self.hosts[source.node.0].source_for(source.destination);
        let trace = Trace::new(source.packet_octets);
        let starts = source.from.max(self.now);
        self.streams.push(Running { source, address, dice, trace });
        self.enter(starts, Happening::Leave(id));
        id
    }

    /// Ends a stream now.
    pub fn stop_source(&mut self, stream: StreamId) {
        self.streams[stream.0].source.until = self.now;
    }

    /// A user of a node asks for something, now.
    pub fn command(&mut self, node: NodeId, command: Command) {
        self.command_at(self.now, node, command);
        self.run_until(self.now);
    }

    /// A user of a node asks for something at a time to come.
    pub fn command_at(&mut self, at: Time, node: NodeId, command: Command) {
        self.enter(at, Happening::Command(node, command));
    }

    /// The present.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Lets everything happen that is due up to and including `until`; then it is `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Lets things happen until a node reports an event that `wanted` accepts, and says when and where; `None` where
    /// that has not come by `deadline`.
    pub fn run_until_event(
        &mut self,
        deadline: Time,
        mut wanted: impl FnMut(NodeId, &Event) -> bool,
    ) -> Option<Entry> {
        let mut seen = self.log.len();
        loop {
            while let Some(entry) = self.log.get(seen) {
                seen += 1;
                if let What::Event(event) = &entry.what
                    && wanted(entry.node, event)
                {
                    return Some(entry.clone());
                }
            }
            if !self.step(deadline) {
                self.now = self.now.max(deadline);
                return None;
            }
        }
    }

    /// All that has happened, oldest first. It only grows; [`take_log`](Network::take_log) empties it.
    pub fn log(&self) -> &[Entry] {
        &self.log
    }

    /// Takes the log out.
    pub fn take_log(&mut self) -> Vec<Entry> {
        core::mem::take(&mut self.log)
    }

    /// What became of a stream so far.
    pub fn trace(&self, stream: StreamId) -> &Trace {
        &self.streams[stream.0].trace
    }

    /// The engines of a node; `None` while its daemon is dead.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.hosts[node.0].node.as_ref()
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        self.hosts[node.0].name()
    }

    pub(crate) fn enter(&mut self, at: Time, happening: Happening) {
        self.entered += 1;
        self.happenings.insert((at.max(self.now), self.entered), happening);
    }

    pub(crate) fn note(&mut self, node: NodeId, what: What) {
        self.log.push(Entry { at: self.now, node, what });
    }

    /// The next happening, if it is due by `until`.
    fn step(&mut self, until: Time) -> bool {
        let Some(entry) = self.happenings.first_entry() else {
            return false;
        };
        let (at, _) = *entry.key();
        if at > until {
            return false;
        }
        self.now = at;
        match entry.remove() {
            Happening::Command(node, command) => {
                self.note(node, What::Command(command.clone()));
                self.drive(node, Input::Command(command));
            }
            Happening::Arrive(node, interface, packet) => self.arrive(node, interface, packet),
            Happening::Port(node, interface) => self.serve(node, interface),
            Happening::Expire(node) => self.expire(node),
            Happening::Leave(stream) => self.leave(stream),
            Happening::Reap(node, generation) => self.reap(node, generation),
        }
        true
    }

    /// The next packet of a stream is made, and the one after it planned.
    fn leave(&mut self, stream: StreamId) {
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
            ttl: DATA_TTL,
            router_alert: false,
            length: source.packet_octets,
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

    fn arrive(&mut self, node: NodeId, interface: InterfaceId, packet: Packet) {
        // What a node sends to itself never sees a link.
        if !self.hosts[node.0].interfaces.is_local(packet.source) {
            self.passes(node, &packet);
        }
        match self.hosts[node.0].receive(packet) {
            Verdict::Delivered(packet) => {
                if let Body::Data { stream, sequence, .. } = packet.body {
                    self.streams[stream].trace.arrive(sequence, self.now);
                }
            }
            Verdict::Forward(interface, packet) => self.send(node, interface, packet),
            Verdict::Lost(packet, loss) => self.lose(node, &packet, loss),
            Verdict::Signalling(packet) => {
                let Body::Signalling(payload) = &packet.body else {
                    return;
                };
                let datagram = Datagram {
                    interface,
                    source: packet.source,
                    destination: packet.destination,
                    ttl: packet.ttl,
                    router_alert: packet.router_alert,
                    encapsulated: false,
                    payload,
                };
                self.drive(node, Input::Datagram(packet.protocol, datagram));
            }
        }
    }

    /// Data packets that get lost are missed by their trace; of signalling the log keeps where and why.
    fn lose(&mut self, node: NodeId, packet: &Packet, loss: Loss) {
        if matches!(packet.body, Body::Signalling(_)) {
            self.note(node, What::Lost(loss));
        }
    }

    /// A packet joins the queue of an interface.
    pub(crate) fn send(&mut self, node: NodeId, interface: InterfaceId, packet: Packet) {
        let signalling = matches!(packet.body, Body::Signalling(_));
        let loss = match self.hosts[node.0].ports.get_mut(&interface) {
            Some(port) if port.up => {
                if port.egress.enqueue(packet) {
                    return self.serve(node, interface);
                }
                Loss::QueueFull
            }
            _ => Loss::NoRoute,
        };
        if signalling {
            self.note(node, What::Lost(loss));
        }
    }

    /// Starts the next transmission of an interface, if the link is free and a packet may go.
    pub(crate) fn serve(&mut self, node: NodeId, interface: InterfaceId) {
        let now = self.now;
        let Some(port) = self.hosts[node.0].ports.get_mut(&interface) else {
            return;
        };
        if now < port.busy_until || !port.up {
            return;
        }
        match port.egress.next(now) {
            Next::Transmit(packet, occupied) => {
                port.busy_until = now + occupied;
                let (free, arrives, peer) =
                    (port.busy_until, port.busy_until + port.delay, port.peer);
                self.passes(node, &packet);
                self.enter(free, Happening::Port(node, interface));
                self.enter(arrives, Happening::Arrive(peer.0, peer.1, packet));
            }
            Next::Wait(until) => self.enter(until, Happening::Port(node, interface)),
            Next::Idle => {}
        }
    }
}

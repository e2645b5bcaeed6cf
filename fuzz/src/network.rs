//! The network: hosts, what is in flight between them, connections, and time.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use earmark_core::admission::ClaimId;
use earmark_core::{
    CloseReason, Connect, ConnectionId, Effect, Effects, InterfaceId, Outgoing, StreamEvent, Time,
};
use earmark_node::{Arrival, Event, HostUpdate, Input, Interception, Node};

use crate::host::Host;
use crate::invariants::{self, Limits};
use crate::packet::{Flight, Packet, Segment};
use crate::protocols::Protocol;
use crate::topology::{self, NODES, ROUTER};

/// Most packets in flight; older ones are lost.
const MOST_IN_FLIGHT: usize = 64;
/// Most packets that are kept for repetition, and that the stranger remembers.
const MOST_KEPT: usize = 16;
/// Error number "no space left on device" of Unix.
const ENOSPC: u16 = 28;
/// First port of callers (IANA: dynamic ports).
const CALLER: u16 = 49_152;

/// Environment variable that prints inputs and effects.
const TRACE: &str = "EARMARK_FUZZ_TRACE";

/// The network.
pub struct Network {
    protocol: &'static dyn Protocol,
    pub now: Time,
    pub hosts: Vec<Host>,
    pub limits: Limits,
    pub flight: VecDeque<Flight>,
    /// Packets that have arrived.
    pub history: VecDeque<Packet>,
    /// Messages that the stranger has received.
    pub at_stranger: VecDeque<Packet>,
    /// Open connections with their other ends; `None` for the stranger.
    pub connections: BTreeMap<(usize, ConnectionId), Option<(usize, ConnectionId)>>,
    /// Number of connections that neighbours have opened.
    accepted: u64,
    effects: Effects<Event>,
    /// Whether inputs and effects are printed.
    traces: bool,
}

impl Network {
    pub fn new(protocol: &'static dyn Protocol, hosts: Vec<Host>, limits: Limits) -> Network {
        let mut network = Network {
            protocol,
            now: Time::from_secs(1_000),
            hosts,
            limits,
            flight: VecDeque::new(),
            history: VecDeque::new(),
            at_stranger: VecDeque::new(),
            connections: BTreeMap::new(),
            accepted: 0,
            effects: Effects::new(),
            traces: std::env::var_os(TRACE).is_some(),
        };
        for at in 0..NODES {
            network.start(at);
        }
        network
    }

    fn start(&mut self, at: usize) {
        for update in self.hosts[at].initial_updates() {
            self.handle(at, Input::Host(update));
        }
    }

    /// Restarts the daemon of a node. Traffic control keeps its reservations.
    pub fn restart(&mut self, at: usize) {
        let own: Vec<_> =
            self.connections.keys().copied().filter(|(node, _)| *node == at).collect();
        for (_, connection) in own {
            self.close(at, connection, CloseReason::Broken);
        }
        self.flight.retain(|flight| !matches!(flight, Flight::Stream(node, ..) if *node == at));
        let host = &mut self.hosts[at];
        let owners = std::mem::take(&mut host.classes);
        let ledger = host.node.ledger();
        let adopted: Vec<HostUpdate> = owners
            .iter()
            .map(|(claim, class)| HostUpdate::Adopted {
                interface: class.interface,
                flow: class.flow,
                rate: class.demand.rate,
                protocol: ledger.owner(*claim).map(|owner| owner.protocol),
            })
            .collect();
        host.orphans.extend(owners.values().map(|class| (class.interface, class.flow)));
        host.node = Node::new(host.config.clone());
        self.start(at);
        for update in adopted {
            self.handle(at, Input::Host(update));
        }
    }

    /// Ends the time in which reservations of an earlier daemon are kept.
    pub fn reap(&mut self, at: usize) {
        for (interface, flow) in std::mem::take(&mut self.hosts[at].orphans) {
            self.handle(at, Input::Host(HostUpdate::AdoptedGone { interface, flow }));
        }
    }

    /// Passes an input to a node, carries out its effects, and checks the node.
    pub fn handle(&mut self, at: usize, input: Input<'_>) {
        let mut refused = VecDeque::new();
        self.process(at, input, &mut refused);
        // The node learns of one refusal after the other, and agrees with traffic control after the last one.
        while let Some(claim) = refused.pop_front() {
            let update = HostUpdate::TrafficControlRefused { claim, errno: ENOSPC };
            self.process(at, Input::Host(update), &mut refused);
        }
        invariants::check(&self.hosts[at], &self.limits);
        while self.flight.len() > MOST_IN_FLIGHT {
            self.flight.pop_front();
        }
    }

    /// Passes an input to a node, and carries out its effects. Traffic control refuses what it adds to `refused`.
    fn process(&mut self, at: usize, input: Input<'_>, refused: &mut VecDeque<ClaimId>) {
        let mut effects = std::mem::take(&mut self.effects);
        let received = match &input {
            Input::Datagram(_, datagram) => datagram.payload.to_vec(),
            _ => Vec::new(),
        };
        if self.traces {
            eprintln!("{:.3} node {at} <- {input:?}", self.now.as_secs_f64());
        }
        let host = &mut self.hosts[at];
        let before = host.size;
        host.node.handle(self.now, input, &mut effects);
        host.node.bundle(&mut effects);
        if self.traces {
            effects.iter().for_each(|effect| eprintln!("    -> {effect:?}"));
        }
        host.size = invariants::size(&host.node);
        invariants::check_effects(before, host.size, &effects);
        for effect in effects.iter() {
            match effect {
                Effect::Send(how, range) => {
                    let packet = packet(at, how, effects.octets(range));
                    let is_relayed = self.protocol.is_forwarded(&received, &packet.payload);
                    assert!(is_relayed || self.protocol.is_message(&packet), "{packet:?}");
                    self.send(at, how, packet);
                }
                Effect::Connect(connect) => self.connect(at, connect),
                Effect::Write(connection, range) => {
                    if let Some(Some((to, peer))) = self.connections.get(&(at, *connection)) {
                        let data = Segment::Data(effects.octets(range).to_vec());
                        self.flight.push_back(Flight::Stream(*to, *peer, data));
                    }
                }
                Effect::Close(connection) => self.close(at, *connection, CloseReason::Ended),
                Effect::Install(installation) => {
                    let host = &mut self.hosts[at];
                    if host.refusals > 0 {
                        host.refusals -= 1;
                        refused.push_back(installation.claim);
                        host.classes.remove(&installation.claim);
                    } else {
                        host.classes.insert(installation.claim, *installation);
                    }
                }
                Effect::Remove(claim, _) => {
                    self.hosts[at].classes.remove(claim);
                }
                Effect::AddFlow(..) | Effect::RemoveFlow(..) | Effect::Filter(_) => {}
                Effect::Notify(Event::NotAdopted { interface, flow, .. }) => {
                    self.hosts[at].orphans.retain(|orphan| *orphan != (*interface, *flow));
                }
                Effect::Notify(_) => {}
            }
        }
        effects.clear();
        self.effects = effects;
    }

    fn send(&mut self, at: usize, how: &Outgoing, mut packet: Packet) {
        let host = &self.hosts[at];
        if let Some(own) = host.node.interfaces().owner_of(how.destination) {
            packet.interface = own;
            return self.flight.push_back(Flight::Packet(packet));
        }
        if let Some(interface) = how.interface.or_else(|| host.outgoing(how.destination)) {
            self.put(at, interface, packet);
        }
    }

    /// Puts a packet on the link of an interface.
    fn put(&mut self, at: usize, interface: InterfaceId, mut packet: Packet) {
        if !self.hosts[at].is_up(interface) {
            return;
        }
        match topology::peer(at, interface) {
            Some(to) => {
                (packet.to, packet.interface) = (to, interface);
                self.flight.push_back(Flight::Packet(packet));
            }
            None => keep(&mut self.at_stranger, packet),
        }
    }

    fn connect(&mut self, at: usize, connect: &Connect) {
        let Connect { connection, source, destination, transport } = *connect;
        let is_local = |host: &Host, address| host.node.interfaces().is_local(address);
        let own = (at, connection);
        let stranger = topology::v4(3, topology::STRANGER);
        let to = (0..NODES).find(|to| is_local(&self.hosts[*to], destination.ip()));
        let local = SocketAddr::new(source, CALLER);
        if to.is_none() && destination.ip() != stranger || !is_local(&self.hosts[at], source) {
            self.connections.insert(own, None);
            let reason = Segment::Closed(CloseReason::Unreachable);
            return self.flight.push_back(Flight::Stream(at, connection, reason));
        }
        let other = to.map(|to| (to, self.next_accepted()));
        self.connections.insert(own, other);
        let open = |local, peer| Segment::Open { local, peer, transport };
        self.flight.push_back(Flight::Stream(at, connection, open(local, destination)));
        if let Some((to, peer)) = other {
            self.connections.insert((to, peer), Some(own));
            self.flight.push_back(Flight::Stream(to, peer, open(destination, local)));
        }
    }

    /// Opens a connection of the stranger to a node.
    pub fn call(&mut self, to: usize, local: SocketAddr, peer: SocketAddr, segment: Segment) {
        let connection = self.next_accepted();
        self.connections.insert((to, connection), None);
        let Segment::Open { transport, .. } = segment else { return };
        let open = Segment::Open { local, peer, transport };
        self.flight.push_back(Flight::Stream(to, connection, open));
    }

    fn next_accepted(&mut self) -> ConnectionId {
        self.accepted += 1;
        ConnectionId(2 * self.accepted - 1)
    }

    /// Closes a connection; the other end learns why, after what was written.
    fn close(&mut self, at: usize, connection: ConnectionId, reason: CloseReason) {
        if let Some(Some((to, peer))) = self.connections.remove(&(at, connection)) {
            self.flight.push_back(Flight::Stream(to, peer, Segment::Closed(reason)));
        }
    }

    /// Delivers something that was in flight.
    pub fn deliver(&mut self, flight: Flight) {
        match flight {
            Flight::Packet(packet) => self.arrive(packet),
            Flight::Stream(at, connection, segment) => {
                if !self.connections.contains_key(&(at, connection)) {
                    return;
                }
                let event = match &segment {
                    Segment::Open { local, peer, transport } => {
                        let (local, peer, transport) = (*local, *peer, *transport);
                        StreamEvent::Open { connection, local, peer, transport }
                    }
                    Segment::Data(octets) => StreamEvent::Data { connection, octets },
                    Segment::Closed(reason) => {
                        self.connections.remove(&(at, connection));
                        StreamEvent::Closed { connection, reason: *reason }
                    }
                };
                self.handle(at, Input::Stream(event));
            }
        }
    }

    /// Delivers what is in flight, and what this leads to.
    pub fn deliver_all(&mut self, most: usize) {
        for _ in 0..most {
            let Some(flight) = self.flight.pop_front() else { return };
            self.deliver(flight);
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let host = &self.hosts[packet.to];
        if !host.is_up(packet.interface) {
            return;
        }
        keep(&mut self.history, packet.clone());
        let here = host.node.interfaces().is_local(packet.destination);
        let forwards = packet.to == ROUTER;
        let is_for_host = here || packet.destination.is_multicast() && !forwards;
        let interception = host.node.interception(&Arrival {
            ip_protocol: packet.protocol,
            payload: &packet.payload,
            router_alert: packet.router_alert,
            here: is_for_host,
            forwards,
        });
        let at = packet.to;
        if interception != Interception::Left {
            self.handle(at, Input::Datagram(packet.protocol, packet.datagram()));
        }
        if interception != Interception::Taken && forwards && !here && packet.ttl > 1 {
            let interface = self.hosts[at].outgoing(packet.destination);
            let packet = Packet { ttl: packet.ttl - 1, ..packet };
            if let Some(interface) = interface {
                self.put(at, interface, packet);
            }
        }
    }

    /// Advances the time, deadline by deadline, at most `most` of them. With `delivers`, packets take no time.
    pub fn pass(&mut self, end: Time, delivers: bool, most: usize) {
        for _ in 0..most {
            if delivers {
                self.deliver_all(200);
            }
            let deadline = |host: &Host| Some((host.node.next_deadline()?, host.index));
            let next = self.hosts.iter().filter_map(deadline).min();
            let Some((due, at)) = next.filter(|(due, _)| *due <= end) else { break };
            self.now = self.now.max(due);
            self.expire(at);
        }
        self.now = self.now.max(end);
    }

    /// Passes the time to a node until no deadline is due.
    pub fn expire(&mut self, at: usize) {
        let is_due = |host: &Host, now| host.node.next_deadline().is_some_and(|due| due <= now);
        for _ in 0..invariants::MOST_EXPIRIES {
            if !is_due(&self.hosts[at], self.now) {
                return;
            }
            self.handle(at, Input::Expire);
        }
        let due = self.hosts[at].node.next_deadline();
        assert!(!is_due(&self.hosts[at], self.now), "the deadline {due:?} never passes");
    }

    /// Returns a node that has an address.
    pub fn owner_of(&self, address: IpAddr) -> Option<usize> {
        (0..NODES).find(|at| self.hosts[*at].node.interfaces().is_local(address))
    }
}

fn packet(at: usize, how: &Outgoing, payload: &[u8]) -> Packet {
    Packet {
        to: at,
        interface: InterfaceId(0),
        protocol: how.protocol,
        source: how.source,
        destination: how.destination,
        ttl: how.ttl,
        router_alert: how.router_alert,
        payload: payload.to_vec(),
    }
}

fn keep(list: &mut VecDeque<Packet>, packet: Packet) {
    if list.len() == MOST_KEPT {
        list.pop_front();
    }
    list.push_back(packet);
}

//! A network of nodes with NSIS in virtual time, hop by hop: links with a delay, routers without GIST in between, lost
//! datagrams, connections.
//!
//! [`Network::line`] creates the usual one. Network `10.0.i.0/24` joins nodes `i` and `i + 1` of a line; the left one
//! has `.1` and the right one `.2`; the IPv6 network is `fd00:i::/64`. Interfaces are numbered from 1, the left one
//! first.
#![allow(dead_code, unreachable_pub)]

pub mod application;
mod connections;
pub mod diamond;
pub mod forged;
pub mod ladder;
mod lines;
mod processes;
pub mod qos;
mod task;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use application::Handle;
use earmark_core::admission::Ledger;
use earmark_core::{
    CloseReason, ConnectionId, Context, Datagram, Effect, Effects, Engine, HostEvent, Input,
    InterfaceId, Interfaces, Outgoing, RouteTable, Routes, StreamEvent, Time, Transport,
};
use earmark_nsis::gist::machine::State;
use earmark_nsis::{Command, Config, Event, Nsis, PORT};
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{self, Message, MessageType, Mode, Mri, SessionId};
use earmark_wire::udp;

/// Limit of events in one call of [`Network::run`].
const MAX_EVENTS: usize = 10_000_000;
/// Delay of a link.
pub const DELAY: Duration = Duration::from_millis(1);

pub fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Creates a line of nodes with NSIS, the same settings and the test application, which listen by their settings.
pub fn line(
    count: usize,
    change: impl Fn(&mut earmark_nsis::gist::Config),
) -> (Network, Vec<Handle>) {
    let mut config = Config::default();
    change(&mut config.gist);
    line_of(&vec![config; count])
}

/// Creates a line of nodes with NSIS and the test application, each with its own settings.
pub fn line_of(configs: &[Config]) -> (Network, Vec<Handle>) {
    let places: Vec<Place> = configs.iter().cloned().map(Place::Aware).collect();
    let (mut network, handles) = line_through(&places);
    for (node, config) in network.nodes.iter_mut().zip(configs) {
        let ports = config.gist.associations;
        node.listens.extend(ports.tcp_port.map(|port| (port, Transport::Tcp)));
        node.listens.extend(ports.tls_port.map(|port| (port, Transport::Tls)));
    }
    (network, handles)
}

/// Creates a line of nodes, with the test application on each that has NSIS; they accept no connections.
pub fn line_through(places: &[Place]) -> (Network, Vec<Handle>) {
    let mut network = Network::line(places);
    let handles: Vec<Handle> = places.iter().map(|_| Handle::default()).collect();
    for (node, handle) in network.nodes.iter_mut().zip(&handles) {
        if let Some(engine) = &mut node.engine {
            engine.add(handle.application());
        }
    }
    (network, handles)
}

/// Returns how a UDP datagram with router alert is sent.
pub fn alerted(source: IpAddr, destination: IpAddr, ttl: u8) -> Outgoing {
    let how = Outgoing::new(udp::PROTOCOL, source, destination, ttl);
    Outgoing { router_alert: true, ..how }
}

/// Returns the routing states of a node.
pub fn states(network: &Network, node: usize) -> Vec<State> {
    network.engine(node).gist().routing_states(0).map(|(_, view)| view.state).collect()
}

/// Returns a UDP flow between two addresses, downstream.
pub fn flow(source: IpAddr, destination: IpAddr) -> Mri {
    Mri::PathCoupled(udp_flow((source, 5_000), (destination, 6_000)))
}

pub fn session(number: u8) -> SessionId {
    SessionId([number; 16])
}

/// A node of the network.
pub struct Node {
    pub name: String,
    /// The engine; `None` for a router without NSIS.
    pub engine: Option<Nsis>,
    pub interfaces: Interfaces,
    pub routes: RouteTable,
    pub ledger: Ledger,
    pub effects: Effects<Event>,
    /// Events of the engine, with their times.
    pub events: Vec<(Time, Event)>,
    /// Effects on reservations, in order.
    pub installed: Vec<Effect<Event>>,
    /// Whether datagrams to GIST's port are intercepted even without router alert.
    pub by_port: bool,
    /// Ports on which connections are accepted.
    pub listens: Vec<(u16, Transport)>,
    /// Whether TLS peers can authenticate themselves.
    pub authentic: bool,
    /// Until when the process is paused.
    pub paused_until: Option<Time>,
    next_connection: u64,
    /// Deadline in the calendar.
    armed: Option<Time>,
}

/// A datagram on a link.
#[derive(Clone, Debug)]
pub struct Packet {
    pub how: Outgoing,
    pub octets: Vec<u8>,
}

impl Packet {
    /// Returns the GIST message of the packet.
    pub fn message(&self) -> Option<Message<'_>> {
        let packet = udp::Packet::parse(&self.octets).ok()?;
        Message::parse(gist::datagram(packet.payload)?, Mode::D).ok()
    }
}

/// A packet that was sent on a link, or octets written into a connection.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Time,
    /// Sending node.
    pub node: usize,
    /// Outgoing interface.
    pub interface: InterfaceId,
    pub packet: Packet,
    pub lost: bool,
}

impl Seen {
    pub fn message_type(&self) -> Option<MessageType> {
        self.packet.message().map(|message| message.body.message_type())
    }
}

/// A scheduled event.
enum Scheduled {
    Packet {
        node: usize,
        interface: InterfaceId,
        packet: Packet,
    },
    Expire {
        node: usize,
    },
    Open {
        node: usize,
        connection: ConnectionId,
        local: SocketAddr,
        peer: SocketAddr,
        transport: Transport,
    },
    Octets {
        node: usize,
        connection: ConnectionId,
        octets: Vec<u8>,
    },
    Closed {
        node: usize,
        connection: ConnectionId,
        reason: CloseReason,
    },
}

/// Changes a packet in transit.
pub type Tamper = Box<dyn FnMut(&mut Seen)>;

/// Decides whether a packet is lost, by the packet and the number of packets before it.
pub type Loss = Box<dyn FnMut(&Seen, usize) -> bool>;

/// Decides how often a packet arrives, by the delays of its copies.
pub type Delivery = Box<dyn FnMut(&Seen) -> Vec<Duration>>;

pub struct Network {
    pub now: Time,
    pub nodes: Vec<Node>,
    /// The other end of each link.
    pub links: BTreeMap<(usize, InterfaceId), (usize, InterfaceId)>,
    /// Packets that were sent.
    pub seen: Vec<Seen>,
    pub loss: Option<Loss>,
    pub tamper: Option<Tamper>,
    pub delivery: Option<Delivery>,
    /// Both ends of connections.
    pub connections: BTreeMap<(usize, ConnectionId), (usize, ConnectionId)>,
    /// Octets that were written into connections, by node.
    pub written: Vec<(Time, usize, ConnectionId, Vec<u8>)>,
    /// Whether connections are never established.
    pub connections_hang: bool,
    calendar: BTreeMap<(Time, u64), Scheduled>,
    sequence: u64,
}

#[allow(clippy::large_enum_variant)] // there are few
/// A position in a line.
#[derive(Clone)]
pub enum Place {
    /// A node with NSIS.
    Aware(Config),
    /// A router without NSIS.
    Plain,
}

impl Network {
    pub fn new() -> Network {
        Network {
            now: Time::from_secs(1),
            nodes: Vec::new(),
            links: BTreeMap::new(),
            seen: Vec::new(),
            loss: None,
            tamper: None,
            delivery: None,
            connections: BTreeMap::new(),
            written: Vec::new(),
            connections_hang: false,
            calendar: BTreeMap::new(),
            sequence: 0,
        }
    }

    pub fn engine(&self, node: usize) -> &Nsis {
        self.nodes[node].engine.as_ref().expect("a node with NSIS")
    }

    pub fn engine_mut(&mut self, node: usize) -> &mut Nsis {
        self.nodes[node].engine.as_mut().expect("a node with NSIS")
    }

    pub fn command(&mut self, node: usize, command: Command) {
        self.input(node, Input::Command(command));
    }

    pub fn host(&mut self, node: usize, event: HostEvent) {
        self.input(node, Input::Host(event));
    }

    /// Advances the time.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        // A test may have added tasks to an application.
        for node in 0..self.nodes.len() {
            self.arm(node);
        }
        let mut events = 0;
        while let Some((&(at, sequence), _)) = self.calendar.first_key_value() {
            if at > end {
                break;
            }
            events += 1;
            assert!(
                events < MAX_EVENTS,
                "the network does not rest at {at:?}: {:?}",
                self.deadlines()
            );
            self.now = self.now.max(at);
            let scheduled = self.calendar.remove(&(at, sequence)).expect("it was there");
            self.dispatch(scheduled);
        }
        self.now = end;
    }

    /// Returns the next deadline of each node.
    fn deadlines(&self) -> Vec<Option<(Time, earmark_nsis::TimerKind)>> {
        let engines = self.nodes.iter().map(|node| node.engine.as_ref());
        engines.map(|engine| engine.and_then(Engine::next_deadline)).collect()
    }

    fn dispatch(&mut self, scheduled: Scheduled) {
        let Some(scheduled) = self.unless_paused(scheduled) else { return };
        match scheduled {
            Scheduled::Packet { node, interface, packet } => self.arrive(node, interface, packet),
            Scheduled::Expire { node } => {
                self.nodes[node].armed = None;
                let due = self.nodes[node].engine.as_ref().and_then(Engine::next_deadline);
                if due.is_some_and(|(at, _)| at <= self.now) {
                    self.input(node, Input::Expire);
                } else {
                    self.arm(node);
                }
            }
            Scheduled::Open { node, connection, local, peer, transport } => {
                let event = StreamEvent::Open { connection, local, peer, transport };
                self.input(node, Input::Stream(event));
            }
            Scheduled::Octets { node, connection, octets } => {
                if self.connections.contains_key(&(node, connection)) {
                    let event = StreamEvent::Data { connection, octets: &octets };
                    self.input(node, Input::Stream(event));
                }
            }
            Scheduled::Closed { node, connection, reason } => {
                self.connections.remove(&(node, connection));
                self.input(node, Input::Stream(StreamEvent::Closed { connection, reason }));
            }
        }
    }

    /// Passes an input to an engine, and applies its effects.
    pub fn input(&mut self, node: usize, input: Input<'_, Command>) {
        let Node { engine, interfaces, routes, ledger, effects, .. } = &mut self.nodes[node];
        let Some(engine) = engine else { return };
        let mut effects = std::mem::take(effects);
        effects.clear();
        let mut context = Context { routes, interfaces, ledger };
        engine.handle(self.now, input, &mut context, &mut effects);
        for effect in effects.iter() {
            match effect {
                Effect::Send(how, range) => {
                    let octets = effects.octets(range).to_vec();
                    self.send(node, Packet { how: *how, octets });
                }
                Effect::Notify(event) => self.nodes[node].events.push((self.now, event.clone())),
                Effect::Connect(connect) => self.connect(node, connect),
                Effect::Write(connection, range) => {
                    let octets = effects.octets(range).to_vec();
                    self.written.push((self.now, node, *connection, octets.clone()));
                    if let Some(&(node, connection)) = self.connections.get(&(node, *connection))
                        && node != usize::MAX
                    {
                        self.later(DELAY, Scheduled::Octets { node, connection, octets });
                    }
                }
                Effect::Close(connection) => self.close(node, *connection, CloseReason::Ended),
                other => self.nodes[node].installed.push(other.clone()),
            }
        }
        self.nodes[node].effects = effects;
        self.arm(node);
    }

    /// Sends a packet of a node on a link.
    fn send(&mut self, node: usize, packet: Packet) {
        let hop = self.nodes[node].routes.lookup(packet.how.destination);
        let interface = packet.how.interface.or(hop.map(|hop| hop.interface));
        if self.nodes[node].interfaces.is_local(packet.how.destination) {
            let interface = interface.unwrap_or(InterfaceId(1));
            return self.later(Duration::ZERO, Scheduled::Packet { node, interface, packet });
        }
        let Some(interface) = interface else { return };
        let mut seen = Seen { at: self.now, node, interface, packet, lost: false };
        if let Some(tamper) = &mut self.tamper {
            tamper(&mut seen);
        }
        let count = self.seen.len();
        seen.lost = self.loss.as_mut().is_some_and(|loss| loss(&seen, count));
        let delays = match &mut self.delivery {
            Some(delivery) if !seen.lost => delivery(&seen),
            _ => vec![DELAY],
        };
        seen.lost |= delays.is_empty();
        if !seen.lost
            && let Some(&(node, interface)) = self.links.get(&(node, interface))
        {
            for delay in delays {
                let packet = seen.packet.clone();
                self.later(delay, Scheduled::Packet { node, interface, packet });
            }
        }
        self.seen.push(seen);
    }

    fn arrive(&mut self, node: usize, interface: InterfaceId, mut packet: Packet) {
        let here = &self.nodes[node];
        let is_local = here.interfaces.is_local(packet.how.destination);
        let is_gist = packet.how.protocol == udp::PROTOCOL
            && packet.octets.get(2..4) == Some(&PORT.to_be_bytes());
        let taken = is_local || packet.how.router_alert || here.by_port;
        if here.engine.is_some() && is_gist && taken {
            let Outgoing { source, destination, ttl, router_alert, .. } = packet.how;
            let payload = &packet.octets[..];
            let encapsulated = false;
            let datagram = Datagram {
                interface,
                source,
                destination,
                ttl,
                router_alert,
                encapsulated,
                payload,
            };
            self.input(node, Input::Datagram(datagram));
        } else if !is_local && packet.how.ttl > 1 {
            packet.how.ttl -= 1;
            packet.how.interface = None;
            self.send(node, packet);
        }
    }

    /// Delivers a datagram from outside the network.
    pub fn inject(&mut self, node: usize, interface: u32, packet: Packet) {
        self.arrive(node, InterfaceId(interface), packet);
    }

    fn later(&mut self, time: Duration, scheduled: Scheduled) {
        self.sequence += 1;
        self.calendar.insert((self.now + time, self.sequence), scheduled);
    }

    fn arm(&mut self, node: usize) {
        let Some(engine) = &self.nodes[node].engine else { return };
        let Some((at, _)) = engine.next_deadline() else { return };
        if self.nodes[node].armed.is_none_or(|armed| at < armed) {
            self.nodes[node].armed = Some(at);
            self.sequence += 1;
            let at = at.max(self.now);
            self.calendar.insert((at, self.sequence), Scheduled::Expire { node });
        }
    }

    /// Returns the GIST messages that were sent in datagrams since the `from`th, each as `n0 Query`.
    pub fn log(&self, from: usize) -> Vec<String> {
        self.seen[from..]
            .iter()
            .filter_map(|seen| {
                let lost = if seen.lost { " lost" } else { "" };
                Some(format!("n{} {}{lost}", seen.node, seen.message_type()?.name()))
            })
            .collect()
    }

    /// Returns the messages of a type that a node has sent or forwarded.
    pub fn sent(&self, node: usize, message_type: MessageType) -> Vec<&Seen> {
        self.seen
            .iter()
            .filter(|seen| seen.node == node && seen.message_type() == Some(message_type))
            .collect()
    }
}

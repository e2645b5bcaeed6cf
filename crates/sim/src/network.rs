//! The network: its parts, and the event list that drives it.

mod capture;
mod connections;
mod daemons;
mod fluid;
mod fluid_paths;
mod interfaces;
pub(crate) mod links;
mod message_hook;
mod multicast;
mod packet_filter;
mod paths;
mod processing;
mod signalling;
mod traffic;
mod transmission;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

use earmark_core::random::RandomStreams;
use earmark_core::{
    CloseReason, ConnectionId, Datagram, Effects, InterfaceId, Outgoing, Route, StreamEvent, Time,
};
use earmark_node::{Command, Event, HostUpdate, Input, Node, NodeConfig};

use crate::capture::CapturedPacket;
use crate::connections::{ConnectionEvent, Pair};
use crate::egress::Reserved;
use crate::event_queue::EventQueue;
use crate::fluid::Fluids;
use crate::host::{Host, Verdict};
use crate::ids::{FluidId, NodeId, StreamId};
use crate::log::{LogEntry, LogEvent, Loss};
use crate::message_hook::{Direction, MessageHook};
use crate::multicast::Groups;
use crate::packet::{Body, Packet};
use crate::traffic::StreamState;

/// A future event.
pub(crate) enum Scheduled {
    /// A user's command. Boxed: rare, and larger than all others.
    Command(NodeId, Box<Command>),
    Arrive(NodeId, InterfaceId, Packet),
    /// A link may be free, or a bucket full enough.
    Port(NodeId, InterfaceId),
    Expire(NodeId),
    Leave(StreamId),
    /// A fluid source turns on or off, or ends.
    Turn(FluidId),
    /// Fluid streams are routed again after a change of routes.
    RerouteFluids,
    /// The grace period for a dead daemon's state ends, if the daemon of this generation still runs.
    Reap(NodeId, u32),
    /// The traffic of a link's reservations is measured, if the daemon of this generation still runs.
    Measure(NodeId, InterfaceId, u32),
    /// A timer of a connection may have expired.
    Retransmit(NodeId, Pair),
    /// An event of a connection is reported to the daemon.
    Connection(NodeId, Box<(Pair, ConnectionId, ConnectionEvent)>),
    /// A connection that could not be attempted is reported to the daemon.
    Closed(NodeId, ConnectionId, CloseReason),
    /// A turn of the daemon of this number ends.
    EndTurn(NodeId, u64, Box<Effects<Event>>),
}

/// Nodes, links and streams, and their future events. The crate's documentation describes the model.
pub struct Network {
    pub(crate) now: Time,
    queue: EventQueue<Scheduled>,
    event_count: u64,
    pub(crate) random: RandomStreams,
    pub(crate) hosts: Vec<Host>,
    pub(crate) streams: Vec<StreamState>,
    pub(crate) fluids: Fluids,
    /// An interface whose scheduler has no fluid model, if there was ever one.
    pub(crate) without_fluid: Option<(NodeId, InterfaceId)>,
    pub(crate) groups: Groups,
    log: Vec<LogEntry>,
    /// Time from which signalling on the links is counted.
    signalling_counted_from: Time,
    /// Whether attempts to reserve are logged.
    pub(crate) attempts: bool,
    /// Captured packets of the nodes whose signalling is captured.
    pub(crate) captured: BTreeMap<NodeId, Vec<CapturedPacket>>,
    /// Hook that sees the signalling messages on all links, if any.
    message_hook: Option<Box<dyn MessageHook>>,
    pub(crate) effects: Effects<Event>,
}

impl Network {
    /// Creates an empty network whose random numbers all derive from `seed`.
    pub fn new(seed: u64) -> Network {
        Network {
            now: Time::ZERO,
            queue: EventQueue::default(),
            event_count: 0,
            random: RandomStreams::new(seed),
            hosts: Vec::new(),
            streams: Vec::new(),
            fluids: Fluids::default(),
            without_fluid: None,
            groups: Groups::default(),
            log: Vec::new(),
            signalling_counted_from: Time::ZERO,
            attempts: false,
            captured: BTreeMap::new(),
            message_hook: None,
            effects: Effects::new(),
        }
    }

    /// Adds a node with a running daemon. `forwards` makes it a router. Name and seed of the configuration are set
    /// here.
    pub fn add_node(&mut self, name: &str, forwards: bool, config: NodeConfig) -> NodeId {
        self.add_host(name, forwards, config, true)
    }

    /// Adds a node without Earmark. It forwards, if it is a router, and answers pings.
    pub fn add_plain_node(&mut self, name: &str, forwards: bool) -> NodeId {
        self.add_host(name, forwards, NodeConfig::default(), false)
    }

    fn add_host(&mut self, name: &str, forwards: bool, config: NodeConfig, daemon: bool) -> NodeId {
        let config = NodeConfig { name: name.to_string(), seed: self.node_seed(name, 0), ..config };
        let mut host = Host::new(config, forwards, daemon);
        if let Some(node) = &mut host.node {
            node.keep_journal(self.attempts);
        }
        self.hosts.push(host);
        NodeId(self.hosts.len() - 1)
    }

    /// Sends a datagram now, from an application without Earmark on a node: `payload` follows the IP header.
    pub fn send_datagram(&mut self, node: NodeId, how: &Outgoing, payload: &[u8]) {
        let packet = Packet { from_daemon: false, ..Packet::signalling(how, payload) };
        if let Some(interface) = self.hosts[node.0].outgoing(how) {
            self.send(node, interface, packet);
        }
    }

    /// Adds a route at a node and reports it to its daemon.
    pub fn add_route(&mut self, node: NodeId, route: Route) {
        self.hosts[node.0].add_route(route);
        self.inform(node, HostUpdate::Route(route));
        self.mark_fluid_routes_stale();
    }

    /// Removes a route and reports it to the node's daemon.
    pub fn remove_route(&mut self, node: NodeId, route: Route) {
        self.hosts[node.0].remove_route(&route);
        self.inform(node, HostUpdate::RouteGone(route));
        self.mark_fluid_routes_stale();
    }

    /// Makes traffic control of a node refuse every installation with this error number from now on; `None`: no longer.
    pub fn refuse_installations(&mut self, node: NodeId, errno: Option<u16>) {
        self.hosts[node.0].refuse = errno;
    }

    /// Logs each attempt to reserve bandwidth of a link from now on, granted or not, of every protocol.
    pub fn watch_attempts(&mut self) {
        self.attempts = true;
        for node in self.hosts.iter_mut().filter_map(|host| host.node.as_mut()) {
            node.keep_journal(true);
        }
    }

    /// Executes a command of a user at a node now.
    pub fn command(&mut self, node: NodeId, command: Command) {
        self.command_at(self.now, node, command);
        self.run_until(self.now);
    }

    /// Executes a command of a user at a node at a future time.
    pub fn command_at(&mut self, at: Time, node: NodeId, command: Command) {
        self.enter(at, Scheduled::Command(node, Box::new(command)));
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the number of events so far: arrivals, ended transmissions, timers, commands.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Processes all events up to and including `until`; afterwards the time is `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.now = self.now.max(until);
    }

    /// Processes at most `most` events up to and including `until`. Returns whether there are no more; the time is then
    /// `until`, otherwise that of the last event.
    pub fn run_events(&mut self, until: Time, most: u64) -> bool {
        for _ in 0..most {
            if !self.step(until) {
                self.now = self.now.max(until);
                return true;
            }
        }
        false
    }

    /// Processes events until a node reports one that `wanted` accepts, and returns its time and node; `None` if there
    /// is none by `deadline`.
    pub fn run_until_event(
        &mut self,
        deadline: Time,
        mut wanted: impl FnMut(NodeId, &Event) -> bool,
    ) -> Option<LogEntry> {
        let mut seen = self.log.len();
        loop {
            while let Some(entry) = self.log.get(seen) {
                seen += 1;
                if let LogEvent::Event(event) = &entry.what
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

    /// Returns the log, oldest entry first. Entries are only appended; [`take_log`](Network::take_log) empties it.
    pub fn log(&self) -> &[LogEntry] {
        &self.log
    }

    /// Returns the log and empties it.
    pub fn take_log(&mut self) -> Vec<LogEntry> {
        core::mem::take(&mut self.log)
    }

    /// Returns the engines of a node; `None` while its daemon is dead.
    pub fn node(&self, node: NodeId) -> Option<&Node> {
        self.hosts[node.0].node.as_ref()
    }

    /// Returns the reservations in traffic control of a node, by interface, including classes of a dead daemon.
    pub fn traffic_control(&self, node: NodeId) -> impl Iterator<Item = (InterfaceId, Reserved)> {
        let ports = self.hosts[node.0].ports.iter();
        ports.flat_map(|(id, port)| {
            port.egress.reservations().reserved().map(move |reserved| (id, reserved))
        })
    }

    /// Returns all nodes, in the order of their addition.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        (0..self.hosts.len()).map(NodeId)
    }

    /// Returns the name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        self.hosts[node.0].name()
    }

    pub(crate) fn enter(&mut self, at: Time, scheduled: Scheduled) {
        self.queue.enter(at.max(self.now), scheduled);
    }

    pub(crate) fn note(&mut self, node: NodeId, what: LogEvent) {
        self.log.push(LogEntry { at: self.now, node, what });
    }

    /// Processes the next event, if it is due by `until`.
    fn step(&mut self, until: Time) -> bool {
        let Some((at, scheduled)) = self.queue.next(until) else {
            return false;
        };
        self.now = at;
        self.event_count += 1;
        match scheduled {
            Scheduled::Command(node, command) => {
                self.note(node, LogEvent::Command((*command).clone()));
                self.drive(node, Input::Command(*command));
            }
            Scheduled::Arrive(node, interface, packet) => self.arrive(node, interface, packet),
            Scheduled::Port(node, interface) => {
                if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
                    port.planned = port.planned.filter(|&planned| planned != at);
                }
                self.serve(node, interface);
            }
            Scheduled::Expire(node) => self.expire(node),
            Scheduled::Leave(stream) => self.leave_source(stream),
            Scheduled::Turn(fluid) => self.turn_fluid(fluid),
            Scheduled::RerouteFluids => self.reroute_fluids(),
            Scheduled::Reap(node, generation) => self.reap(node, generation),
            Scheduled::Measure(node, interface, generation) => {
                self.measure(node, interface, generation);
            }
            Scheduled::Retransmit(node, pair) => self.retransmit(node, pair),
            Scheduled::Connection(node, report) => {
                let (pair, connection, event) = *report;
                self.report_connection_event(node, pair, connection, &event);
            }
            Scheduled::Closed(node, connection, reason) => {
                self.note(node, LogEvent::Connection(connection, Err(reason)));
                self.drive(node, Input::Stream(StreamEvent::Closed { connection, reason }));
            }
            Scheduled::EndTurn(node, daemon, effects) => self.end_turn(node, daemon, &effects),
        }
        true
    }

    fn arrive(&mut self, node: NodeId, interface: InterfaceId, mut packet: Packet) {
        if self.hosts[node.0].ports.get(interface).is_some_and(|port| port.removed.is_some()) {
            return self.lose(node, &packet, Loss::NoRoute);
        }
        // Packets from a node to itself use no link.
        let observes = self.is_capturing() || self.message_hook.is_some();
        if observes && !self.hosts[node.0].interfaces.is_local(packet.source) {
            self.capture_packet(node, interface, &packet);
            if !self.passes_hook((node, interface), Direction::In, &mut packet) {
                return self.lose(node, &packet, Loss::Fault);
            }
        }
        if packet.destination.is_multicast() {
            return self.arrive_for_group(node, interface, &packet);
        }
        let verdict = self.hosts[node.0].receive(self.now, interface, packet);
        self.follow(node, interface, verdict);
    }

    fn follow(&mut self, node: NodeId, interface: InterfaceId, verdict: Verdict) {
        match verdict {
            Verdict::Delivered(packet) => self.deliver(node, &packet),
            Verdict::Forward(interface, packet) => self.send(node, interface, packet),
            Verdict::Lost(packet, loss) => self.lose(node, &packet, loss),
            Verdict::Segment(packet) => self.receive_segment(node, &packet),
            Verdict::InsideUdp(packet) => self.deliver_from_udp(node, interface, &packet),
            Verdict::Signalling(packet) => self.deliver_to_engines(node, interface, &packet),
            Verdict::Copied(packet, then) => {
                self.deliver_to_engines(node, interface, &packet);
                // The engines accept what the host would drop.
                if !matches!(*then, Verdict::Lost(_, Loss::NobodyListens)) {
                    self.follow(node, interface, *then);
                }
            }
            Verdict::Answered(reply) => match self.hosts[node.0].routes_to(reply.destination) {
                Some(out) => self.send(node, out, reply),
                None => self.lose(node, &reply, Loss::NoRoute),
            },
        }
    }

    /// Passes a message to the engines of a node.
    pub(crate) fn deliver_to_engines(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        packet: &Packet,
    ) {
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

    /// Records a lost packet. Lost data packets are absent from their trace, and counted; for signalling the log has place
    /// and reason.
    pub(crate) fn lose(&mut self, node: NodeId, packet: &Packet, loss: Loss) {
        self.count_dropped(packet);
        if matches!(packet.body, Body::Signalling(_)) {
            self.note(node, LogEvent::Lost(loss));
        }
    }
}

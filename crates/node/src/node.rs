//! The node: dispatches each input to the engines concerned.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;

use earmark_core::admission::{AdmissionMethod, Attempt, Ledger, Owner, Protocol};
use earmark_core::hash::KeyedHash;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effects, EndReason, FlowAnswer, FlowResolver, HostEvent,
    Input as EngineInput, Interface, InterfaceId, Interfaces, RouteTable, Time,
};

use crate::edge::{Edge, EdgeAction};
use crate::engine::NodeEngine;
use crate::input::Input;
use crate::interception::{Arrival, Interception};
use crate::protocols::{Command, Event, NodeConfig};

/// Maximum number of displaced claims and waiting requests that are served after one input; the rest is due
/// immediately.
const MAX_SETTLED_PER_INPUT: usize = 256;

/// Maximum number of rounds of the edge for one input: each may admit requests that need further actions.
const MAX_EDGE_ROUNDS: usize = 8;

/// Maximum number of removed interfaces whose names are kept.
const MAX_REMOVED_INTERFACES: usize = 64;

/// A router or host.
#[derive(Debug)]
pub struct Node {
    name: String,
    pub(crate) interfaces: Interfaces,
    /// Names of the interfaces removed last, which older state still refers to.
    pub(crate) removed_interfaces: VecDeque<(InterfaceId, String)>,
    pub(crate) routes: RouteTable,
    pub(crate) ledger: Ledger,
    engines: Vec<Box<dyn NodeEngine>>,
    /// IP protocols with the indexes of the engines that may accept their packets, in the order in which they are asked.
    by_ip_protocol: Vec<(u8, usize)>,
    /// Index of the engine with connections.
    with_streams: Option<usize>,
    /// Indexes of the engines that react to effects.
    with_follow_up: Vec<usize>,
    /// Admission control of the links that `link_admission` does not name.
    pub(crate) admission: AdmissionMethod,
    /// Admission control by interface name.
    pub(crate) link_admission: BTreeMap<String, AdmissionMethod>,
    /// Edge towards cores, with the index of the engine that has created it.
    pub(crate) edge: Option<(usize, Box<dyn Edge>)>,
    /// Time at which the rest is to be settled, if one input had too much.
    settle_again_at: Option<Time>,
}

impl Node {
    /// Creates a node without interfaces and routes, with the engines of its settings.
    pub fn new(config: NodeConfig) -> Node {
        let secret_seed = config.secret_seed.known().unwrap_or(config.seed);
        let random = RandomStreams::with_secret(config.seed, secret_seed);
        let mut ledger = Ledger::new();
        ledger.set_preemption(config.preemption());
        ledger.set_retry_policy(config.retry);
        let mut routes = RouteTable::new();
        routes.set_flow_hash(KeyedHash::draw(&mut random.stream("routes/flows")));
        let engines: Vec<Box<dyn NodeEngine>> =
            config.engines.iter().map(|kind| (kind.create)(&config, &random)).collect();
        let mut edges = engines.iter().enumerate();
        let edge = edges.find_map(|(index, engine)| Some((index, engine.edge(&config)?)));
        let mut node = Node {
            name: config.name,
            interfaces: Interfaces::default(),
            removed_interfaces: VecDeque::new(),
            routes,
            ledger,
            engines: Vec::new(),
            by_ip_protocol: Vec::new(),
            with_streams: None,
            with_follow_up: Vec::new(),
            admission: config.admission,
            link_admission: config.link_admission,
            edge,
            settle_again_at: None,
        };
        for engine in engines {
            node.insert(engine);
        }
        node
    }

    fn insert(&mut self, engine: Box<dyn NodeEngine>) {
        let index = self.engines.len();
        let ip_protocols = engine.ip_protocols().iter().map(|&number| (number, index));
        self.by_ip_protocol.splice(..0, ip_protocols);
        if engine.has_streams() {
            self.with_streams.get_or_insert(index);
        }
        if engine.has_follow_up() {
            self.with_follow_up.push(index);
        }
        self.engines.push(engine);
    }

    /// Processes one input with all its consequences; see [`earmark_core::Engine`] for the contract.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Effects<Event>) {
        let before = out.len();
        match input {
            Input::Datagram(protocol, datagram) => match &self.edge {
                Some((_, edge)) if edge.examines(protocol) => {
                    self.receive_at_edge(now, protocol, datagram, out);
                }
                _ => self.receive(now, protocol, datagram, out),
            },
            Input::Stream(event) => {
                if let Some(index) = self.with_streams {
                    self.process(index, now, EngineInput::Stream(event), out);
                }
            }
            Input::Expire => self.expire(now, out),
            Input::Host(update) => self.update_host(now, update, out),
            Input::Command(command) => self.command(now, command, out),
        }
        self.settle(now, out);
        let mut any = false;
        let Node { engines, with_follow_up, routes, interfaces, ledger, .. } = self;
        for &index in &*with_follow_up {
            let context = &mut Context { routes, interfaces, ledger };
            any |= engines[index].follow_up(now, before, context, out);
        }
        if any {
            self.settle(now, out);
        }
        if self.edge.is_some() {
            self.update_edge(now, before, out);
        }
    }

    /// Passes a message to the edge, and from there to the engine unless it waits.
    #[cold] // few nodes have an edge
    fn receive_at_edge(
        &mut self,
        now: Time,
        ip_protocol: u8,
        datagram: Datagram<'_>,
        out: &mut Effects<Event>,
    ) {
        let Some((index, edge)) = &mut self.edge else { return };
        let engine = self.engines[*index].engine();
        let passed = edge.receive(now, ip_protocol, datagram, engine, &self.ledger);
        if let Some((ip_protocol, datagram)) = passed {
            self.receive(now, ip_protocol, datagram, out);
        }
    }

    /// Passes a message to the engine that accepts it. Drivers deliver only protocols for which they opened a socket.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        ip_protocol: u8,
        datagram: Datagram<'_>,
        out: &mut Effects<Event>,
    ) {
        let Node { engines, by_ip_protocol, routes, interfaces, ledger, .. } = self;
        for &(number, index) in &*by_ip_protocol {
            if number == ip_protocol && engines[index].accepts(&datagram) {
                let context = &mut Context { routes, interfaces, ledger };
                let input = EngineInput::Datagram(datagram);
                out.set_end_reason(EndReason::of(&input));
                return engines[index].process(now, input, context, out);
            }
        }
    }

    /// Carries out a command.
    pub(crate) fn command(&mut self, now: Time, command: Command, out: &mut Effects<Event>) {
        let index = self.engines().position(|engine| engine.kind().name == command.protocol());
        if let Some(index) = index {
            self.process(index, now, EngineInput::Command(command), out);
        }
    }

    /// Returns what the host does with a packet for the sake of signalling.
    pub fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        let engines = self.by_ip_protocol.iter().filter(|(ip, _)| *ip == arrival.ip_protocol);
        let mut answers = engines.map(|&(_, index)| self.engines[index].interception(arrival));
        if let Some(answer) = answers.find(|answer| *answer != Interception::Left) {
            return answer;
        }
        self.edge().map_or(Interception::Left, |edge| edge.interception(arrival))
    }

    /// Passes an input to the engine with this index.
    fn process(
        &mut self,
        index: usize,
        now: Time,
        input: EngineInput<'_, Command>,
        out: &mut Effects<Event>,
    ) {
        let Node { engines, routes, interfaces, ledger, .. } = self;
        out.set_end_reason(EndReason::of(&input));
        engines[index].process(now, input, &mut Context { routes, interfaces, ledger }, out);
    }

    /// Iterates over the engines, in the order in which they were added.
    pub fn engines(&self) -> impl Iterator<Item = &dyn NodeEngine> {
        self.engines.iter().map(|engine| &**engine)
    }

    /// Returns the engine of this type.
    pub fn engine<E: 'static>(&self) -> Option<&E> {
        self.engines.iter().find_map(|engine| engine.engine().downcast_ref())
    }

    /// Returns the engine of this type, for drivers that change it.
    pub fn engine_mut<E: 'static>(&mut self) -> Option<&mut E> {
        self.engines.iter_mut().find_map(|engine| engine.engine_mut().downcast_mut())
    }

    /// Returns the name of a protocol, if the node has an engine for it.
    pub fn protocol_name(&self, protocol: Protocol) -> Option<&'static str> {
        self.engines()
            .find(|engine| engine.kind().protocol == protocol)
            .map(|engine| engine.kind().name)
    }

    /// Bundles messages to the same neighbor if protocol and neighbor support this. Optional last step over
    /// the effects of one or more inputs before they are executed.
    pub fn bundle(&mut self, out: &mut Effects<Event>) {
        for engine in &mut self.engines {
            engine.bundle(&self.interfaces, out);
        }
    }

    /// Time at which [`Input::Expire`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let engines = self.engines.iter().filter_map(|engine| engine.next_deadline());
        let of_edge = self.edge().and_then(Edge::next_deadline);
        engines.chain(self.settle_again_at).chain(of_edge).min()
    }

    /// Name for display.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn edge(&self) -> Option<&dyn Edge> {
        self.edge.as_ref().map(|(_, edge)| &**edge)
    }

    /// Interfaces of the node.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// Name of an interface, or of the interface of a lane; the last name of a removed one, or its index if the name is
    /// no longer kept.
    pub fn interface_name(&self, id: InterfaceId) -> String {
        self.view(Time::ZERO).interface_name(id)
    }

    /// Removes an interface and keeps its name.
    pub(crate) fn remove_interface(&mut self, id: InterfaceId) {
        for engine in &mut self.engines {
            engine.remove_interface(id);
        }
        if let Some(interface) = self.interfaces.remove(id) {
            if self.removed_interfaces.len() == MAX_REMOVED_INTERFACES {
                self.removed_interfaces.pop_front();
            }
            self.removed_interfaces.push_back((id, interface.name));
        }
    }

    /// Sets the resolver of this host's routes for flows, used if the destination alone does not determine the route.
    /// With `record`, the answers are kept for [`Node::take_flow_answers`].
    pub fn ask_for_flows(&mut self, host: Box<dyn FlowResolver>, record: bool) {
        self.routes.set_resolver(host);
        if record {
            self.routes.keep_flow_answers();
        }
    }

    /// Returns the host's answers since the last call. [`HostUpdate::FlowAnswers`](crate::HostUpdate::FlowAnswers)
    /// passes them to another node, before the inputs that they belong to.
    pub fn take_flow_answers(&mut self) -> Vec<FlowAnswer> {
        self.routes.take_flow_answers()
    }

    /// Route table of the node.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// Ledger: bandwidth of the links, and the claims on it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Switches the journal of the ledger on or off; see [`Ledger::keep_journal`].
    pub fn keep_journal(&mut self, keep: bool) {
        self.ledger.keep_journal(keep);
    }

    /// Returns the attempts in the journal; see [`Ledger::take_attempts`].
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.ledger.take_attempts()
    }

    /// Adds or updates an interface.
    pub(crate) fn set_interface(&mut self, interface: Interface) {
        for engine in &mut self.engines {
            engine.set_interface(&interface);
        }
        self.interfaces.set(interface);
    }

    /// Serves the timers that are due.
    fn expire(&mut self, now: Time, out: &mut Effects<Event>) {
        for index in 0..self.engines.len() {
            if self.engines[index].next_deadline().is_some_and(|at| at <= now) {
                self.process(index, now, EngineInput::Expire, out);
            }
        }
    }

    /// Notifies all engines of a change of the host.
    pub(crate) fn notify_engines(&mut self, now: Time, event: HostEvent, out: &mut Effects<Event>) {
        for index in 0..self.engines.len() {
            self.process(index, now, EngineInput::Host(event), out);
        }
    }

    /// Notifies the engine that owns a claim or a waiting request.
    pub(crate) fn notify_owner(
        &mut self,
        now: Time,
        owner: Owner,
        event: HostEvent,
        out: &mut Effects<Event>,
    ) {
        self.notify_engine(now, owner.protocol, event, out);
    }

    /// Notifies the engine of a protocol, if there is one.
    pub(crate) fn notify_engine(
        &mut self,
        now: Time,
        protocol: Protocol,
        event: HostEvent,
        out: &mut Effects<Event>,
    ) {
        let index = self.engines().position(|engine| engine.kind().protocol == protocol);
        if let Some(index) = index {
            self.process(index, now, EngineInput::Host(event), out);
        }
    }

    /// Notifies engines of displaced claims and of requests that can be granted now. Displaced claims come first,
    /// because their owners release bandwidth on other links.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Effects<Event>) {
        self.settle_again_at = None;
        for _ in 0..MAX_SETTLED_PER_INPUT {
            if let Some(displaced) = self.ledger.next_displaced() {
                self.notify_owner(now, displaced.owner, HostEvent::Displaced(displaced), out);
            } else if let Some((interface, owner)) = self.ledger.next_grantable() {
                self.notify_owner(now, owner, HostEvent::Grantable { interface, owner }, out);
            } else {
                return;
            }
        }
        self.settle_again_at = Some(now);
    }
    /// Carries out the actions of the edge after an input, whose effects begin at `from`.
    #[cold]
    fn update_edge(&mut self, now: Time, mut from: usize, out: &mut Effects<Event>) {
        for _ in 0..MAX_EDGE_ROUNDS {
            let Some((_, edge)) = &mut self.edge else { return };
            let actions = edge.actions(now, from, &mut self.ledger, out);
            if actions.is_empty() {
                return;
            }
            from = out.len();
            for action in actions {
                self.perform(now, action, out);
            }
            self.settle(now, out);
        }
        if let Some((_, edge)) = &mut self.edge {
            edge.filter_effects(from, out);
        }
    }

    fn perform(&mut self, now: Time, action: EdgeAction, out: &mut Effects<Event>) {
        match action {
            EdgeAction::Command(command) => self.command(now, command, out),
            EdgeAction::SetRate(lane, rate) => self.ledger.set_lane_rate(lane, rate),
            EdgeAction::Deliver(ip_protocol, message) => {
                self.receive(now, ip_protocol, message.datagram(), out);
            }
            EdgeAction::Notify(notice) => out.notify(notice.event(&self.ledger)),
            EdgeAction::Reopen(lane) => {
                self.lose_link(now, lane.lane, ENETDOWN, out);
                lane.open(&mut self.ledger);
            }
        }
    }
}

/// Error number "network is down" of Unix.
const ENETDOWN: u16 = 100;

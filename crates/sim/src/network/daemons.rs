//! The daemons of the network: start and death, their inputs, and the execution of their effects.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::admission::AdmissionControl;
use earmark_core::{
    Effect, Effects, FilterChange, FilterEvent, FilteredPackets, Installation, InterfaceId,
    Outgoing,
};
use earmark_node::{Event, HostUpdate, Input, Node, NodeConfig};

use super::{Network, Scheduled};
use crate::NodeId;
use crate::egress::Reservations;
use crate::host::Host;
use crate::log::{LogEvent, Loss};
use crate::packet::Packet;

/// `ENODEV`: error number of an installation on a missing interface.
const NO_SUCH_DEVICE: u16 = 19;

/// What the node's kernel has refused, with the error numbers.
#[derive(Default)]
struct Refused {
    installations: Vec<(Installation, u16)>,
    rules: Vec<(FilteredPackets, u16)>,
}

impl Network {
    /// Kills the daemon of a node at once, as by SIGKILL: its state is lost, traffic control and the packet filter stay
    /// unchanged.
    pub fn kill(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0];
        host.node = None;
        host.expire_at = None;
        if let Some(processor) = &mut host.processor {
            processor.clear();
        }
        self.reset_connections(node);
        self.note(node, LogEvent::Killed);
    }

    /// Starts a new daemon on a node. It adopts the state of traffic control; what no one has claimed of that after
    /// `grace` is removed. It is told of the rules of the packet filter, which end by themselves.
    pub fn restart(&mut self, node: NodeId, grace: Duration) {
        let generation = self.hosts[node.0].generation + 1;
        let seed = self.node_seed(&self.hosts[node.0].name().clone(), generation);
        let host = &mut self.hosts[node.0];
        host.generation = generation;
        host.config.seed = seed;
        host.expire_at = None;
        let mut daemon = Node::new(host.config.clone());
        daemon.keep_journal(self.attempts);
        host.node = Some(daemon);
        for interface in host.interfaces.iter() {
            let markings = host.markings(&interface.name);
            if let Some(port) = host.ports.get_mut(interface.id) {
                port.egress.set_markings(markings);
            }
        }
        let mut updates = host.initial_updates();
        for (interface, port) in host.ports.iter_mut() {
            let adopt =
                |(flow, rate, protocol)| HostUpdate::Adopted { interface, flow, rate, protocol };
            let orphans = port.egress.change(self.now, Reservations::orphan);
            updates.extend(orphans.into_iter().map(adopt));
        }
        if let Some(filter) = &host.filter {
            let rules = filter.rules(self.now);
            let told = rules.map(|(rule, until)| FilterEvent::Adopted(rule, until));
            updates.extend(told.map(HostUpdate::Filter));
        }
        self.note(node, LogEvent::Restarted);
        for update in updates {
            self.inform(node, update);
        }
        for interface in self.hosts[node.0].ports.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.plan_measurement(node, interface);
        }
        self.enter(self.now + grace, Scheduled::Reap(node, generation));
    }

    /// Replaces a node by another machine with its addresses: without its state, its reservations in traffic control, the
    /// rules of its packet filter and its connections, and with other random numbers. No neighbour is told: links stay up, and
    /// connections are not reset. If no daemon runs, none is started.
    pub fn replace(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0];
        host.streams.forget_connections();
        if let Some(filter) = &mut host.filter {
            filter.clear();
        }
        for interface in host.ports.iter().map(|(id, _)| id).collect::<Vec<_>>() {
            self.clear_egress(node, interface);
        }
        if self.hosts[node.0].node.is_some() {
            self.kill(node);
            self.restart(node, Duration::ZERO);
        }
    }

    /// Changes the settings of a node's next daemon, except its name. The running one keeps its own.
    pub fn set_config(&mut self, node: NodeId, config: NodeConfig) {
        let current = &mut self.hosts[node.0].config;
        let (name, seed) = (core::mem::take(&mut current.name), current.seed);
        *current = NodeConfig { name, seed, ..config };
    }

    pub(crate) fn node_seed(&self, name: &str, generation: u32) -> u64 {
        self.random.part(name).stream(&alloc::format!("daemon {generation}")).next_u64()
    }

    pub(crate) fn expire(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0];
        if host.expire_at != Some(self.now) {
            return; // an earlier one was entered, or the daemon died
        }
        host.expire_at = None;
        self.drive(node, Input::Expire);
    }

    pub(crate) fn reap(&mut self, node: NodeId, generation: u32) {
        if self.hosts[node.0].generation != generation || self.hosts[node.0].node.is_none() {
            return;
        }
        let ports = &mut self.hosts[node.0].ports;
        let mut gone = Vec::new();
        for (interface, port) in ports.iter_mut() {
            let reaped = port.egress.change(self.now, Reservations::reap);
            gone.extend(reaped.into_iter().map(|flow| (interface, flow)));
        }
        let interfaces: Vec<InterfaceId> = ports.iter().map(|(interface, _)| interface).collect();
        for interface in interfaces {
            self.declassify_all_fluids(node, interface);
        }
        for (interface, flow) in gone {
            self.note(node, LogEvent::Reaped(interface, flow));
            self.inform(node, HostUpdate::AdoptedGone { interface, flow });
        }
    }

    /// Sets the admission control of one direction of a link, for the running daemon: any implementation, beside those
    /// that the settings of a node name.
    pub fn set_admission(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        control: Box<dyn AdmissionControl>,
    ) {
        if let Some(daemon) = &mut self.hosts[node.0].node {
            daemon.set_admission(interface, control);
            self.plan_measurement(node, interface);
        }
    }

    /// Schedules the next sample of the traffic of a link's reservations, if its admission control measures.
    pub(crate) fn plan_measurement(&mut self, node: NodeId, interface: InterfaceId) {
        let Host { node: daemon, generation, .. } = &self.hosts[node.0];
        let control = daemon.as_ref().and_then(|daemon| daemon.ledger().admission(interface));
        if let Some(interval) = control.and_then(AdmissionControl::sample_interval) {
            let sample = Scheduled::Measure(node, interface, *generation);
            self.enter(self.now + interval, sample);
        }
    }

    pub(crate) fn measure(&mut self, node: NodeId, interface: InterfaceId, generation: u32) {
        let host = &self.hosts[node.0];
        if host.generation != generation || host.node.is_none() {
            return;
        }
        if let Some(port) = host.ports.get(interface) {
            let octets = port.egress.reserved_octets();
            self.inform(node, HostUpdate::Measured { interface, octets });
            self.plan_measurement(node, interface);
        }
    }

    pub(crate) fn inform(&mut self, node: NodeId, update: HostUpdate) {
        self.drive(node, Input::Host(update));
    }

    /// Passes one input to a node; executes all effects. If the node has a processor, later.
    pub(crate) fn drive(&mut self, node: NodeId, input: Input<'_>) {
        let host = &mut self.hosts[node.0];
        let Some(engines) = &mut host.node else {
            return;
        };
        if host.processor.is_some() {
            return self.queue_input(node, input);
        }
        let mut effects = core::mem::take(&mut self.effects);
        engines.handle(self.now, input, &mut effects);
        engines.bundle(&mut effects);
        self.note_attempts(node);
        self.carry_out(node, &effects);
        effects.clear();
        self.effects = effects;
    }

    /// Logs the attempts to reserve since the last time.
    pub(crate) fn note_attempts(&mut self, node: NodeId) {
        let engines = self.hosts[node.0].node.as_mut();
        for attempt in engines.map(Node::take_attempts).unwrap_or_default() {
            self.note(node, LogEvent::Attempt(attempt));
        }
    }

    /// Executes the effects of an input.
    pub(crate) fn carry_out(&mut self, node: NodeId, effects: &Effects<Event>) {
        let mut refused = Refused::default();
        for effect in effects.iter() {
            self.execute(node, effects, effect, &mut refused);
        }
        for (installation, errno) in refused.installations {
            self.note(node, LogEvent::Refused(installation, errno));
            let claim = installation.claim;
            self.inform(node, HostUpdate::TrafficControlRefused { claim, errno });
        }
        for (packets, errno) in refused.rules {
            self.note(node, LogEvent::FilterRefused(packets, errno));
            self.inform(node, HostUpdate::Filter(FilterEvent::Refused { packets, errno }));
        }
        self.plan_expiry(node);
    }

    fn plan_expiry(&mut self, node: NodeId) {
        let host = &mut self.hosts[node.0];
        let Some(deadline) = host.node.as_ref().and_then(Node::next_deadline) else {
            return;
        };
        if host.processor.as_ref().is_some_and(|processor| processor.expiry_waits) {
            return; // it is planned again afterwards
        }
        let due = deadline.max(self.now);
        if host.expire_at.is_none_or(|planned| due < planned) {
            host.expire_at = Some(due);
            self.enter(due, Scheduled::Expire(node));
        }
    }

    /// Sends a packet of a daemon.
    fn send_out(&mut self, node: NodeId, out: &Outgoing, packet: Packet) {
        let host = &self.hosts[node.0];
        if let Some(local) = host.interfaces.owner_of(out.destination) {
            return self.enter(self.now, Scheduled::Arrive(node, local, packet));
        }
        let Some(interface) = host.outgoing(out) else {
            return self.note(node, LogEvent::Lost(Loss::NoRoute));
        };
        let Packet { source, destination, length: octets, .. } = packet;
        self.note(node, LogEvent::Sent { interface, source, destination, octets });
        self.send(node, interface, packet);
    }

    fn execute(
        &mut self,
        node: NodeId,
        effects: &Effects<Event>,
        effect: &Effect<Event>,
        refused: &mut Refused,
    ) {
        let (now, host) = (self.now, &mut self.hosts[node.0]);
        match effect {
            Effect::Filter(change) => {
                let filter = host.filter.get_or_insert_default();
                match (filter.change(now, change), change) {
                    (Err(errno), FilterChange::Install(rule, _)) => {
                        refused.rules.push((rule.packets, errno));
                    }
                    _ => self.note(node, LogEvent::Filter(*change)),
                }
            }
            Effect::Send(out, range) => {
                let packets = host.packets(out, effects.octets(range));
                packets.into_iter().flatten().for_each(|packet| self.send_out(node, out, packet));
            }
            Effect::Connect(connect) => self.connect_stream(node, connect),
            Effect::Write(connection, range) => {
                self.write_stream(node, *connection, effects.octets(range));
            }
            Effect::Close(connection) => self.close_stream(node, *connection),
            Effect::Install(installation) => {
                let protocol = host.protocol_of(installation.claim);
                let port = host.ports.get_mut(installation.interface);
                match (host.refuse, port) {
                    (Some(errno), port) => {
                        refused.installations.push((*installation, errno));
                        // No one claims a dead daemon's reservation for the flow again: its bandwidth is free now.
                        if port.is_some_and(|port| {
                            port.egress.change(now, |r| r.reject(&installation.flow, protocol))
                        }) {
                            self.note(
                                node,
                                LogEvent::Reaped(installation.interface, installation.flow),
                            );
                        }
                    }
                    (None, None) => refused.installations.push((*installation, NO_SUCH_DEVICE)),
                    (None, Some(port)) => {
                        port.egress.change(now, |r| r.install(protocol, installation));
                        self.note(node, LogEvent::Installed(*installation));
                        self.serve(node, installation.interface);
                        self.classify_fluids(node, installation.interface, &installation.flow);
                    }
                }
            }
            Effect::AddFlow(claim, flow) => {
                let protocol = host.protocol_of(*claim);
                for (_, port) in host.ports.iter_mut() {
                    port.egress.change(now, |r| r.add_flow(*claim, protocol, *flow));
                }
                self.classify_fluids_everywhere(node, flow);
            }
            Effect::RemoveFlow(claim, flow) => {
                for (_, port) in host.ports.iter_mut() {
                    port.egress.change(now, |r| r.remove_flow(*claim, flow));
                }
                self.classify_fluids_everywhere(node, flow);
            }
            Effect::Remove(claim, _) => {
                let ports = host.ports.iter_mut();
                let freed: Vec<(InterfaceId, u32)> = ports
                    .filter_map(|(interface, port)| {
                        Some((interface, port.egress.change(now, |r| r.remove(*claim))?))
                    })
                    .collect();
                self.note(node, LogEvent::Removed(*claim));
                for (interface, class) in freed {
                    self.serve(node, interface);
                    self.declassify_fluids(node, interface, class);
                }
            }
            Effect::Notify(event) => {
                if let Event::NotAdopted { interface, flow, .. } = event
                    && let Some(port) = host.ports.get_mut(*interface)
                {
                    port.egress.change(now, |r| r.reject(flow, None));
                    self.classify_fluids(node, *interface, flow);
                }
                self.note(node, LogEvent::Event(event.clone()));
            }
        }
    }
}

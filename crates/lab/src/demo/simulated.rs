//! The demo in the simulator: the same engines, modelled links, virtual time.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_core::{ApplicationId, Rate, Time, Trust};
use earmark_node::outcome::{application_of, outcome_of};
use earmark_node::{Event, NodeConfig};
use earmark_scenario::topology::Topology;
use earmark_sim::{CapturedPacket, LogEvent, Network, NodeId, Source, StreamId, Trace};
use serde_json::Value;

use super::network::{DaemonRestart, DemoNetwork, NetworkKind};
use super::plan::{Plan, SENT, Stream};
use super::protocol::{FlowRequest, Notice, Protocol, Reply, reply};
use crate::protocols::FIRST;
use crate::traffic::Shape;

/// The demo's network in the simulator.
pub struct OnSimulator {
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    plan: Plan,
    streams: Vec<StreamId>,
    next_application: u64,
    open: Vec<End>,
}

/// One end of a reservation.
struct End {
    by: Protocol,
    stream: Stream,
    node: NodeId,
    application: ApplicationId,
}

impl OnSimulator {
    /// Creates the network of `topology`, which has hosts h1 and h2; the same seed gives the same run.
    pub fn new(topology: Topology, plan: Plan, seed: u64) -> OnSimulator {
        let settings = FIRST.configuration(plan.refresh);
        OnSimulator::with(topology, plan, seed, &settings)
    }

    /// Creates the network with settings of all nodes.
    pub(crate) fn with(
        topology: Topology,
        plan: Plan,
        seed: u64,
        settings: &NodeConfig,
    ) -> OnSimulator {
        let (mut network, nodes) =
            earmark_scenario::network_in(plan.family, &topology, seed, settings);
        if let (Some(receiver), Some(group)) = (topology.node("h2"), plan.group) {
            network.join(nodes[receiver], group);
        }
        let (streams, open) = (Vec::new(), Vec::new());
        OnSimulator { topology, network, nodes, plan, streams, next_application: 1, open }
    }

    /// Returns the trace of a stream at h2, by its index in [`Stream::SENT`].
    fn trace(&self, index: usize) -> Option<&Trace> {
        let &stream = self.streams.get(index)?;
        match Stream::SENT[index].group(&self.plan) {
            Some(_) => self.network.trace_at(stream, self.nodes[self.topology.node("h2")?]),
            None => Some(self.network.trace(stream)),
        }
    }

    /// Returns the destination of a stream.
    fn destination(&self, stream: Stream) -> Result<IpAddr> {
        let (_, receiver) = self.node("h2")?;
        Ok(stream.group(&self.plan).unwrap_or(receiver))
    }

    /// Returns the network, for its log.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the network, for packets of applications without Earmark.
    pub(crate) fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Sets the trust in what is behind an interface.
    ///
    /// # Errors
    /// There is no such node or interface.
    pub(crate) fn set_trust(&mut self, node: &str, interface: &str, trust: Trust) -> Result<()> {
        let (id, _) = self.node(node)?;
        let known = self.network.node(id).and_then(|node| node.interfaces().by_name(interface));
        let interface = known.with_context(|| format!("{node} has no {interface}"))?.id;
        self.network.set_trust(id, interface, trust);
        Ok(())
    }

    /// Records all packets that pass a node from now on, for [`take_captured`](OnSimulator::take_captured).
    ///
    /// # Errors
    /// There is no such node.
    pub fn tap(&mut self, node: &str) -> Result<()> {
        let (node, _) = self.node(node)?;
        self.network.capture(node);
        Ok(())
    }

    /// Returns the recorded packets of a node.
    ///
    /// # Errors
    /// There is no such node.
    pub fn take_captured(&mut self, node: &str) -> Result<Vec<CapturedPacket>> {
        let (node, _) = self.node(node)?;
        Ok(self.network.take_captured(node))
    }

    pub(crate) fn node(&self, name: &str) -> Result<(NodeId, IpAddr)> {
        let index = self.topology.node(name).with_context(|| format!("no node {name}"))?;
        let address = self.topology.address_in(index, self.plan.family);
        Ok((self.nodes[index], address.context("a node without a link, or without IPv6")?))
    }

    fn application(&mut self) -> ApplicationId {
        self.next_application += 1;
        ApplicationId(self.next_application)
    }
}

impl DemoNetwork for OnSimulator {
    fn kind(&self) -> NetworkKind {
        NetworkKind::Simulated
    }

    fn topology(&self) -> &Topology {
        &self.topology
    }

    fn now(&self) -> Time {
        self.network.now()
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        self.network.run_until(self.network.now() + how_long);
        Ok(())
    }

    fn start_traffic(&mut self) -> Result<()> {
        let (node, _) = self.node("h1")?;
        for stream in Stream::SENT {
            let destination = self.destination(stream)?;
            let Shape { rate, packet_octets, .. } = stream.shape(&self.plan);
            let (from, until) = (self.network.now(), Time::MAX);
            let (port, destination_port) = (stream.port(), stream.port());
            let source = Source {
                node,
                port,
                destination,
                destination_port,
                dscp: 0,
                pattern: earmark_sim::TrafficPattern::Constant(rate),
                packet_octets,
                from,
                until,
                keep: earmark_sim::Keep::Packets,
            };
            self.streams.push(self.network.add_source(source));
        }
        Ok(())
    }

    fn received_octets(&self) -> u64 {
        let received = self.trace(0).map_or(0, Trace::received);
        received * u64::from(self.plan.stream.packet_octets)
    }

    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<(Reply, Duration)> {
        let (sending, source) = self.node("h1")?;
        let (receiving, _) = self.node("h2")?;
        let destination = self.destination(stream)?;
        let Shape { packet_octets, bucket_octets, .. } = self.plan.stream;
        let from = SocketAddr::new(source, stream.port());
        let to = SocketAddr::new(destination, stream.port());
        let request = FlowRequest { from, to, rate, packet_octets, bucket_octets };
        let applications = [self.application(), self.application()];
        let [sender, receiver] = applications;
        let commands = by.commands(&request, applications);
        let has_receiver = !commands.receiver.is_empty();
        let asked = self.network.now();
        for command in commands.receiver {
            self.network.command_at(asked, receiving, command);
        }
        for command in commands.sender {
            self.network.command_at(asked, sending, command);
        }
        let replied = self.network.run_until_event(asked + within, |_, event| {
            !matches!(reply_of(by, event, &applications), Ok(None))
        });
        let replied = replied.with_context(|| format!("no answer within {within:?}"))?;
        let reply = match &replied.what {
            LogEvent::Event(event) => reply_of(by, event, &applications)?,
            _ => None,
        };
        let Some(reply) = reply else { bail!("the reservation failed: {:?}", replied.what) };
        if has_receiver || reply == Reply::InPlace {
            self.open.push(End { by, stream, node: sending, application: sender });
        }
        if has_receiver {
            self.open.push(End { by, stream, node: receiving, application: receiver });
        }
        Ok((reply, replied.at.since(asked)))
    }

    fn release(&mut self, stream: Stream) -> Result<()> {
        for end in self.open.extract_if(.., |end| end.stream == stream) {
            self.network.command(end.node, end.by.release(end.application));
        }
        Ok(())
    }

    fn restart_daemon(
        &mut self,
        node: &str,
        pause: Duration,
        within: Duration,
    ) -> Result<DaemonRestart> {
        let (victim, _) = self.node(node)?;
        let killed = self.network.now();
        self.network.kill(victim);
        self.network.run_until(killed + pause);
        let ready = self.network.now();
        self.network.restart(victim, FIRST.lifetime(self.plan.refresh));
        let port = Stream::Measured.port();
        let reformed = self.network.run_until_event(ready + within, |node, event| {
            node == victim && FIRST.is_reservation(event, port)
        });
        let reformed = reformed.context("the reservation was not restored")?.at;
        Ok(DaemonRestart { killed, ready, reformed })
    }

    fn stop_daemon(&mut self, node: &str) -> Result<()> {
        let (node, _) = self.node(node)?;
        self.network.kill(node);
        Ok(())
    }

    fn start_daemon(&mut self, node: &str) -> Result<()> {
        let (node, _) = self.node(node)?;
        self.network.restart(node, FIRST.lifetime(self.plan.refresh));
        Ok(())
    }

    fn stop_traffic(&mut self) -> Result<[Trace; SENT]> {
        for &stream in &self.streams {
            self.network.stop_source(stream);
        }
        // Packets in flight may still arrive.
        self.network.run_until(self.network.now() + Duration::from_secs(1));
        let trace = |index: usize| self.trace(index).cloned().context("no traffic was started");
        let traces = (0..SENT).map(trace).collect::<Result<Vec<_>>>()?;
        traces.try_into().ok().context("a trace for each stream")
    }
}

/// Returns the reply that an event brings to one of these applications, if any.
fn reply_of(by: Protocol, event: &Event, applications: &[ApplicationId]) -> Result<Option<Reply>> {
    if !application_of(event).is_some_and(|of| applications.contains(&ApplicationId(of))) {
        return Ok(None);
    }
    let Value::Object(details) = serde_json::to_value(event)? else { return Ok(None) };
    let name = details.get("event").and_then(Value::as_str).unwrap_or_default();
    reply(by, Notice { event: name, outcome: outcome_of(event).as_ref(), details: &details })
}

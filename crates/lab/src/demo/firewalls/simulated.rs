//! The demo behind firewalls in the simulator.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_core::{ApplicationId, Flow, Time};
use earmark_node::{Command, Event};
use earmark_nsis::natfw::{self, ExposeRequest, OpenRequest, Responder};
use earmark_nsis::{self as nsis, Nsis, qos};
use earmark_scenario::topology::Topology;
use earmark_scenario::{Scenario, network_of};
use earmark_sim::{Keep, LogEvent, Network, NodeId, Source, StreamId, Trace, TrafficPattern};
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::BindingCode;

use super::super::plan::Plan;
use super::super::protocol::{FlowRequest, UDP};
use super::{ANSWER_WITHIN, FLOOD_PORT, FirewallNetwork, PORT, TOPOLOGY};
use crate::traffic::Shape;

/// Which nodes are firewalls, and which one translates.
const SCENARIO: &str = r#"
name = "behind firewalls"
topology = "topologies/behind-firewalls.toml"
protocol = "nsis"
duration = "60s"
flows = []

[[middleboxes]]
node = "inner"
guard = ["nat"]
edge = false

[[middleboxes]]
node = "nat"
guard = ["wall"]
translator = true

[[middleboxes]]
node = "wall"
guard = ["nat"]
"#;

/// Application that exposes, opens and listens.
const PATH: ApplicationId = ApplicationId(1);
/// Application that reserves.
const RESERVATION: ApplicationId = ApplicationId(2);

/// The network in the simulator.
pub struct FirewallsInSimulator {
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    stream: Option<StreamId>,
}

impl FirewallsInSimulator {
    /// Creates the network; the same seed gives the same run.
    ///
    /// # Errors
    /// None, because topology and scenario are constant.
    pub fn new(plan: &Plan, seed: u64) -> Result<FirewallsInSimulator> {
        let topology = Topology::parse(TOPOLOGY)?;
        let scenario = Scenario { refresh: plan.refresh, ..Scenario::parse(SCENARIO)? };
        let (network, nodes) = network_of(&scenario, &topology, seed, |config| {
            // Hosts accept what their applications have exposed.
            config.nsis.natfw.responder = Responder::Exposed;
        })?;
        Ok(FirewallsInSimulator { topology, network, nodes, stream: None })
    }

    fn node(&self, name: &str) -> Result<NodeId> {
        let index = self.topology.node(name).with_context(|| format!("no node {name}"))?;
        Ok(self.nodes[index])
    }

    fn address(&self, name: &str) -> Result<SocketAddr> {
        let index = self.topology.node(name).with_context(|| format!("no node {name}"))?;
        let (end, _) = self.topology.interfaces(index).next().context("a host without a link")?;
        Ok(SocketAddr::new(end.address.into(), PORT))
    }

    /// Executes a command at a node, and waits for an event.
    fn ask<T>(
        &mut self,
        node: NodeId,
        command: nsis::Command,
        answer: impl Fn(&nsis::Event) -> Option<T>,
    ) -> Result<T> {
        let deadline = self.network.now() + ANSWER_WITHIN;
        self.network.command(node, Command::Nsis(command));
        let of_node = |event: &Event| match event {
            Event::Nsis(event) => answer(event),
            _ => None,
        };
        let log = self
            .network
            .run_until_event(deadline, |at, event| at == node && of_node(event).is_some());
        match log.map(|entry| entry.what) {
            Some(LogEvent::Event(event)) => of_node(&event).context("an answer"),
            _ => bail!("no answer within {ANSWER_WITHIN:?}"),
        }
    }

    fn start(&mut self, (port, to): (u16, SocketAddr), shape: Shape) -> Result<StreamId> {
        let node = self.node("server")?;
        Ok(self.network.add_source(Source {
            node,
            port,
            destination: to.ip(),
            destination_port: to.port(),
            dscp: 0,
            pattern: TrafficPattern::Constant(shape.rate),
            packet_octets: shape.packet_octets,
            from: self.network.now(),
            until: Time::MAX,
            keep: Keep::Packets,
        }))
    }

    fn granted(event: &nsis::Event) -> Option<Option<SocketAddr>> {
        match event {
            nsis::Event::Natfw(natfw::Event::Granted { external, .. }) => {
                Some(external.map(|external| SocketAddr::new(external.address, external.port)))
            }
            _ => None,
        }
    }
}

impl FirewallNetwork for FirewallsInSimulator {
    fn now(&self) -> Time {
        self.network.now()
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        self.network.run_until(self.network.now() + how_long);
        self.network.take_log();
        Ok(())
    }

    fn expose(&mut self) -> Result<SocketAddr> {
        let (client, server) = (self.node("client")?, self.address("server")?);
        let request = ExposeRequest { from: Some(server.ip()), ..ExposeRequest::new(UDP, PORT) };
        let listen =
            qos::Listen { protocol: Some(UDP), port: Some(PORT), ..qos::Listen::default() };
        let listen = qos::Command::Listen { application: RESERVATION, listen };
        self.network.command(client, Command::Nsis(nsis::Command::Qos(listen)));
        let expose = natfw::Command::Expose { application: PATH, request };
        let external = self.ask(client, nsis::Command::Natfw(expose), Self::granted)?;
        external.context("the client has no external address")
    }

    fn start_stream(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        self.stream = Some(self.start((PORT, external), plan.stream)?);
        Ok(())
    }

    fn start_flood(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        let to = SocketAddr::new(external.ip(), FLOOD_PORT);
        self.start((FLOOD_PORT, to), plan.flood).map(|_| ())
    }

    fn open(&mut self, external: SocketAddr) -> Result<()> {
        let server = self.node("server")?;
        let request = OpenRequest {
            source_port: Some(PORT),
            destination_port: Some(external.port()),
            protocol: Some(UDP),
            ..OpenRequest::new(external.ip())
        };
        let open = natfw::Command::Open { application: PATH, request };
        self.ask(server, nsis::Command::Natfw(open), Self::granted).map(|_| ())
    }

    fn reserve(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        let server = self.node("server")?;
        let engine = self.network.node(server).and_then(|node| node.engine::<Nsis>());
        let session = engine.and_then(|engine| engine.natfw().session_of_application(PATH));
        let session = session.context("the path has no session")?;
        let flow = FlowRequest {
            from: self.address("server")?,
            to: external,
            rate: plan.stream.rate,
            packet_octets: plan.stream.packet_octets,
            bucket_octets: plan.stream.bucket_octets,
        };
        let wanted = qos::RequestedQos {
            burst: flow.bucket_octets,
            max_packet: flow.packet_octets,
            ..qos::RequestedQos::of(flow.rate)
        };
        let flow: Flow = flow.flow();
        let bound = vec![BoundSessionId { binding: BindingCode::Dependent, session }];
        let request = qos::Request { bound, ..qos::Request::new(flow, wanted) };
        let reserve = qos::Command::Reserve { application: RESERVATION, request };
        self.ask(server, nsis::Command::Qos(reserve), |event| match event {
            nsis::Event::Qos(qos::Event::Reserved { .. }) => Some(()),
            _ => None,
        })
    }

    fn stop_asking(&mut self) -> Result<()> {
        let client = self.node("client")?;
        let release = natfw::Command::Release { application: PATH };
        self.network.command(client, Command::Nsis(nsis::Command::Natfw(release)));
        Ok(())
    }

    fn reservations(&mut self) -> Result<usize> {
        let mut count = 0;
        for name in ["inner", "nat", "wall"] {
            count += self.network.traffic_control(self.node(name)?).count();
        }
        Ok(count)
    }

    fn stop_traffic(&mut self) -> Result<Trace> {
        let stream = self.stream.context("no traffic was started")?;
        self.network.stop_source(stream);
        self.network.run_until(self.network.now() + Duration::from_secs(1));
        Ok(self.network.trace(stream).clone())
    }
}

//! The demo in the simulator: the same engines, modelled links, virtual time.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_boomerang as boomerang;
use earmark_core::{Flow, Rate, Time};
use earmark_node::{Command, Event, Listen, NodeConfig};
use earmark_nsis::{self as nsis, qos};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{CapturedPacket, LogEvent, Network, NodeId, Source, StreamId, Trace};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{ErrorSpec, FilterSpec, Session, SourceSelector};
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir as yessir;

use super::{
    Answer, DaemonRestart, NetworkKind, Plan, Protocol, Refusal, SENT, Stage, Stream, answered,
};
use crate::traffic::Shape;
use earmark_scenario::topology::Topology;

/// IP protocol number of UDP.
const UDP: u8 = 17;

/// The demo's network in the simulator.
pub struct OnSimulator {
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    plan: Plan,
    streams: Vec<StreamId>,
    next_application: u64,
    /// Reservations: the sender's application and the receiver's.
    open: Vec<(Protocol, Stream, Application, Application)>,
}

impl OnSimulator {
    /// Creates the network of `topology`, which has hosts h1 and h2; the same seed gives the same run.
    pub fn new(topology: Topology, plan: Plan, seed: u64) -> OnSimulator {
        let timing = rsvp::Timing { refresh: plan.refresh, ..rsvp::Timing::default() };
        let rsvp = rsvp::Config { timing, ..rsvp::Config::default() };
        let settings = NodeConfig { rsvp, ..NodeConfig::default() };
        let (network, nodes) = earmark_scenario::network(&topology, seed, &settings);
        let (streams, open) = (Vec::new(), Vec::new());
        OnSimulator { topology, network, nodes, plan, streams, next_application: 1, open }
    }

    /// Returns the network, for its log.
    pub fn network(&self) -> &Network {
        &self.network
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

    fn node(&self, name: &str) -> Result<(NodeId, IpAddr)> {
        let index = self.topology.node(name).with_context(|| format!("no node {name}"))?;
        let address = self.topology.address(index).context("a node without a link")?;
        Ok((self.nodes[index], address.into()))
    }

    fn application(&mut self) -> Application {
        self.next_application += 1;
        Application(self.next_application)
    }

    fn refusal(&self, requested: Rate, error: &ErrorSpec) -> Refusal {
        Refusal {
            requested_bps: requested.as_bps(),
            error: error.code.name().to_ascii_lowercase(),
            code: error.code.code(),
            value: error.value,
            node: self.topology.owner_of(error.node).unwrap_or("unknown").to_owned(),
            stream_bps_after: 0,
        }
    }
}

impl OnSimulator {
    /// Reserves by Boomerang: h1 sends a loop.
    fn send_loop(&mut self, stream: Stream, rate: Rate, within: Duration) -> Result<Answer> {
        let (node, source) = self.node("h1")?;
        let (_, destination) = self.node("h2")?;
        let number = self.application();
        let application = boomerang::Application(number.0);
        let flow = flow(source, destination, stream);
        let wish = boomerang::RequestedRates { forward: rate, reverse: Rate::ZERO };
        let request = boomerang::Request {
            on_refusal: boomerang::OnRefusal::Release,
            ..boomerang::Request::new(destination, boomerang::Selector::of_flow(&flow), wish)
        };
        let asked = self.network.now();
        let command = boomerang::Command::Reserve { application, request };
        self.network.command_at(asked, node, Command::Boomerang(command));
        let outcome = self.network.run_until_event(asked + within, |_, event| {
            matches!(
                event,
                Event::Boomerang(
                    boomerang::Event::Established { .. } | boomerang::Event::Refused { .. }
                )
            )
        });
        let outcome = outcome.with_context(|| format!("no answer within {within:?}"))?;
        match outcome.what {
            LogEvent::Event(Event::Boomerang(boomerang::Event::Refused { offer, .. })) => {
                Ok(Answer::Offered(Rate::from_bps(offer.forward.into())))
            }
            _ => {
                self.open.push((Protocol::Boomerang, stream, number, number));
                Ok(Answer::InPlace(outcome.at.since(asked)))
            }
        }
    }

    /// Reserves by NSIS: h1 sends a RESERVE, which needs no application at h2.
    fn send_reserve(&mut self, stream: Stream, rate: Rate, within: Duration) -> Result<Answer> {
        let (node, source) = self.node("h1")?;
        let (_, destination) = self.node("h2")?;
        let number = self.application();
        let application = qos::Application(number.0);
        let Shape { packet_octets, bucket_octets, .. } = self.plan.stream;
        let wanted = qos::RequestedQos {
            burst: bucket_octets,
            max_packet: packet_octets,
            ..qos::RequestedQos::of(rate)
        };
        let request = qos::Request::new(flow(source, destination, stream), wanted);
        let asked = self.network.now();
        let command = qos::Command::Reserve { application, request };
        self.network.command_at(asked, node, Command::Nsis(nsis::Command::Qos(command)));
        let outcome = self.network.run_until_event(asked + within, |_, event| {
            matches!(
                event,
                Event::Nsis(nsis::Event::Qos(
                    qos::Event::Reserved { .. }
                        | qos::Event::Refused { .. }
                        | qos::Event::TimedOut { .. }
                        | qos::Event::Rejected { .. }
                ))
            )
        });
        let outcome = outcome.with_context(|| format!("no answer within {within:?}"))?;
        match outcome.what {
            LogEvent::Event(Event::Nsis(nsis::Event::Qos(qos::Event::Reserved { .. }))) => {
                self.open.push((Protocol::Nsis, stream, number, number));
                Ok(Answer::InPlace(outcome.at.since(asked)))
            }
            LogEvent::Event(Event::Nsis(nsis::Event::Qos(qos::Event::Refused {
                available: Some(available),
                ..
            }))) => Ok(Answer::Offered(available)),
            other => bail!("the reservation failed: {other:?}"),
        }
    }

    /// Reserves by YESSIR: h1 sends reports, and h2 answers.
    fn report_stream(&mut self, stream: Stream, rate: Rate, within: Duration) -> Result<Answer> {
        let (node, source) = self.node("h1")?;
        let (receiver_node, destination) = self.node("h2")?;
        let (sender, receiver) = (self.application(), self.application());
        let asked = self.network.now();
        let answer = yessir::Command::Listen {
            application: yessir::Application(receiver.0),
            destination,
            port: stream.port(),
            cname: "demo@h2".to_owned(),
        };
        self.network.command_at(asked, receiver_node, Command::Yessir(answer));
        let attachment = yessir::Attachment {
            stream: yessir::Stream {
                source,
                destination,
                source_port: stream.port(),
                destination_port: stream.port(),
            },
            ssrc: None,
            cname: "demo@h1".to_owned(),
            multiplexed: true,
            flowspec: Flowspec::Class { dscp: 0, rate: OctetRate(rate.as_octets_per_second()) },
            style: Style::Individual,
            passive: false,
            interval: 0,
            ttl: 64,
            key: None,
        };
        let application = yessir::Application(sender.0);
        let attach = yessir::Command::Attach { application, attachment };
        self.network.command_at(asked, node, Command::Yessir(attach));
        self.open.push((Protocol::Yessir, stream, sender, receiver));
        let outcome = self.network.run_until_event(asked + within, |_, event| {
            matches!(event, Event::Yessir(yessir::Event::Answered { application: of, .. }) if *of == application)
        });
        let outcome = outcome.with_context(|| format!("no answer within {within:?}"))?;
        match outcome.what {
            LogEvent::Event(Event::Yessir(yessir::Event::Answered { answer, .. })) => {
                Ok(answered(&answer, outcome.at.since(asked)))
            }
            other => bail!("the reservation failed: {other:?}"),
        }
    }
}

impl Stage for OnSimulator {
    fn kind(&self) -> NetworkKind {
        NetworkKind::Simulated
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
        let (_, destination) = self.node("h2")?;
        for stream in Stream::SENT {
            let Shape { rate, packet_octets, .. } = stream.shape(&self.plan);
            let (from, until) = (self.network.now(), Time::MAX);
            let (port, destination_port) = (stream.port(), stream.port());
            let source = Source {
                node,
                port,
                destination,
                destination_port,
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
        let measured = self.streams.first();
        let received = measured.map_or(0, |&stream| self.network.trace(stream).received());
        received * u64::from(self.plan.stream.packet_octets)
    }

    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<Answer> {
        match by {
            Protocol::Boomerang => return self.send_loop(stream, rate, within),
            Protocol::Yessir => return self.report_stream(stream, rate, within),
            Protocol::Nsis => return self.send_reserve(stream, rate, within),
            _ => {}
        }
        let (sender_node, source) = self.node("h1")?;
        let (receiver_node, destination) = self.node("h2")?;
        let (sender, receiver) = (self.application(), self.application());
        let session = Session { destination, protocol: UDP, flags: 0, port: stream.port() };
        let template = FilterSpec { source, selector: SourceSelector::Port(stream.port()) };
        let listen = Listen { confirm: true, ..Listen::new(receiver, session) };
        let asked = self.network.now();
        self.network.command_at(asked, receiver_node, Command::Listen(listen));
        let open = rsvp::Command::Session { application: sender, session };
        self.network.command_at(asked, sender_node, Command::Rsvp(open));
        let tspec = tspec(rate, &self.plan.stream);
        let send = rsvp::Command::Sender { application: sender, template, tspec, ttl: 64 };
        self.network.command_at(asked, sender_node, Command::Rsvp(send));
        self.open.push((by, stream, sender, receiver));
        let outcome = self.network.run_until_event(asked + within, |_, event| match event {
            Event::Rsvp(rsvp::Event::Resv { application, .. }) => *application == sender,
            Event::Rsvp(
                rsvp::Event::ResvError { application, .. }
                | rsvp::Event::Rejected { application, .. }
                | rsvp::Event::PathError { application, .. },
            )
            | Event::NoAnswer { application, .. } => [sender, receiver].contains(application),
            _ => false,
        });
        let outcome = outcome.with_context(|| format!("no answer within {within:?}"))?;
        match &outcome.what {
            earmark_sim::LogEvent::Event(Event::Rsvp(rsvp::Event::Resv { .. })) => {
                Ok(Answer::InPlace(outcome.at.since(asked)))
            }
            earmark_sim::LogEvent::Event(Event::Rsvp(rsvp::Event::ResvError { error, .. })) => {
                Ok(Answer::Refused(self.refusal(rate, error)))
            }
            other => bail!("the reservation failed: {other:?}"),
        }
    }

    fn release(&mut self, stream: Stream) -> Result<()> {
        let (sender_node, _) = self.node("h1")?;
        let (receiver_node, _) = self.node("h2")?;
        let of_stream = self.open.iter().copied().filter(|(_, of, _, _)| *of == stream);
        for (by, _, sender, receiver) in of_stream.collect::<Vec<_>>() {
            for (node, application) in [(sender_node, sender), (receiver_node, receiver)] {
                let command = match by {
                    Protocol::Boomerang => {
                        let application = boomerang::Application(application.0);
                        Command::Boomerang(boomerang::Command::Release { application })
                    }
                    Protocol::Yessir => {
                        let application = yessir::Application(application.0);
                        Command::Yessir(yessir::Command::Release { application })
                    }
                    Protocol::Nsis => {
                        let application = qos::Application(application.0);
                        let release = qos::Command::Release { application };
                        Command::Nsis(nsis::Command::Qos(release))
                    }
                    _ => Command::Rsvp(rsvp::Command::Release { application }),
                };
                self.network.command(node, command);
            }
        }
        self.open.retain(|(_, of, _, _)| *of != stream);
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
        let timing = rsvp::Timing { refresh: self.plan.refresh, ..rsvp::Timing::default() };
        let refresh_ms = u32::try_from(self.plan.refresh.as_millis())?;
        self.network.restart(victim, timing.lifetime(refresh_ms));
        let stands = |at: NodeId, event: &Event| match event {
            Event::Rsvp(rsvp::Event::Reservation { session, .. }) => {
                at == victim && session.port == Stream::Measured.port()
            }
            _ => false,
        };
        let reformed = self.network.run_until_event(ready + within, stands);
        let reformed = reformed.context("the reservation did not come back")?.at;
        Ok(DaemonRestart { killed, ready, reformed })
    }

    fn stop_daemon(&mut self, node: &str) -> Result<()> {
        let (node, _) = self.node(node)?;
        self.network.kill(node);
        Ok(())
    }

    fn start_daemon(&mut self, node: &str) -> Result<()> {
        let (node, _) = self.node(node)?;
        self.network.restart(node, Duration::from_secs(1));
        Ok(())
    }

    fn stop_traffic(&mut self) -> Result<[Trace; SENT]> {
        for &stream in &self.streams {
            self.network.stop_source(stream);
        }
        // Packets in flight may still arrive.
        self.network.run_until(self.network.now() + Duration::from_secs(1));
        let trace = |index: usize| {
            let stream = self.streams.get(index).context("no traffic was started")?;
            Ok::<_, anyhow::Error>(self.network.trace(*stream).clone())
        };
        let traces = (0..SENT).map(trace).collect::<Result<Vec<_>>>()?;
        traces.try_into().ok().context("a trace for each stream")
    }
}

/// Flow of a stream.
fn flow(source: IpAddr, destination: IpAddr, stream: Stream) -> Flow {
    Flow {
        destination,
        source: Some(source),
        protocol: UDP,
        destination_port: stream.port(),
        source_port: stream.port(),
        flow_label: 0,
        destination_open: 0,
        source_open: 0,
    }
}

/// Sender TSpec of a packet stream of this shape, at `rate`.
fn tspec(rate: Rate, shape: &Shape) -> TokenBucket {
    TokenBucket {
        rate: rate.as_octets_per_second(),
        depth: shape.bucket_octets as f32,
        peak: f32::INFINITY,
        min_policed_unit: shape.packet_octets,
        max_packet_size: shape.packet_octets,
    }
}

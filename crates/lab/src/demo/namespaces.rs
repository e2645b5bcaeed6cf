//! The demo in network namespaces: real daemons, real traffic control, real packets.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_control::{Client, Opened};
use earmark_core::{Rate, Time};
use earmark_scenario::topology::Topology;
use earmark_sim::Trace;

use super::network::{DaemonRestart, DemoNetwork, NetworkKind};
use super::plan::{Plan, SENT, Stream};
use super::protocol::{Daemons, Ends, FlowRequest, Notice, Protocol, Reply, reply};
use crate::testbed::Testbed;
use crate::traffic::{self, Shape, Sink, Source};

/// Duration longer than any demo: traffic ends on request.
const TRAFFIC: Duration = Duration::from_secs(3_600);
/// Interval of checks of events and states while waiting for both ends.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time to wait for the next event that is skipped.
const SKIP_INTERVAL: Duration = Duration::from_millis(1);

/// Time for packets in flight when the sources end.
const DRAIN: Duration = Duration::from_millis(500);

/// TTL of packets to a group.
const GROUP_TTL: u32 = 16;

/// The demo's network in namespaces.
pub struct OnNamespaces {
    testbed: Testbed,
    plan: Plan,
    interrupted: Arc<AtomicBool>,
    sender: usize,
    receiver: usize,
    traffic: Vec<(Shape, Source, Sink)>,
    open: Vec<(Stream, Ends)>,
}

impl OnNamespaces {
    /// Uses a running network with hosts h1 and h2. Waiting ends early once `interrupted` is set.
    ///
    /// # Errors
    /// One of the hosts is missing.
    pub fn new(testbed: Testbed, plan: Plan, interrupted: Arc<AtomicBool>) -> Result<OnNamespaces> {
        let host = |name| testbed.topology().node(name).with_context(|| format!("no node {name}"));
        let (sender, receiver) = (host("h1")?, host("h2")?);
        let (traffic, open) = (Vec::new(), Vec::new());
        Ok(OnNamespaces { testbed, plan, interrupted, sender, receiver, traffic, open })
    }

    /// Returns the network.
    pub(crate) fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Reads the events of all open ends, so that their connections do not fall behind.
    fn skip_events(&mut self) -> Result<()> {
        for (_, ends) in &mut self.open {
            for (client, _) in ends.receiver.iter_mut().chain([&mut ends.sender]) {
                while client.next_event(Some(Instant::now() + SKIP_INTERVAL))?.is_some() {}
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }

    pub(crate) fn address(&self, node: usize) -> Result<IpAddr> {
        let address = self.testbed.topology().address_in(node, self.plan.family);
        address.context("a node without a link, or without IPv6")
    }

    /// Returns source and destination of a stream.
    fn ends(&self, stream: Stream) -> Result<[SocketAddr; 2]> {
        let at = |node| Ok::<_, anyhow::Error>(SocketAddr::new(self.address(node)?, stream.port()));
        let [from, to] = [at(self.sender)?, at(self.receiver)?];
        let to = stream.group(&self.plan).map_or(to, |group| SocketAddr::new(group, stream.port()));
        Ok([from, to])
    }

    /// Opens the receiving socket of a stream at h2, which joins the group of the stream.
    fn receive(&self, to: SocketAddr) -> Result<UdpSocket> {
        let namespace = self.testbed.namespace(self.receiver);
        let socket = namespace.run_in(|| UdpSocket::bind(to))??;
        match (to.ip(), self.address(self.receiver)?) {
            (IpAddr::V4(group), IpAddr::V4(own)) if group.is_multicast() => {
                namespace.run_in(|| socket.join_multicast_v4(&group, &own))??;
            }
            (IpAddr::V6(group), _) if group.is_multicast() => bail!("no group of IPv6: {group}"),
            _ => {}
        }
        Ok(socket)
    }

    /// Starts a sink at h2 and then a source at h1.
    fn start_stream(&self, stream: Stream, shape: Shape) -> Result<(Shape, Source, Sink)> {
        let [from, to] = self.ends(stream)?;
        // A socket stays in the namespace where it was opened, whatever thread uses it.
        let receiver = self.receive(to)?;
        let sender = self.testbed.namespace(self.sender).run_in(|| UdpSocket::bind(from))??;
        let sink = Sink::start(receiver)?;
        if to.ip().is_multicast() {
            sender.set_multicast_ttl_v4(GROUP_TTL)?;
        }
        sender.connect(to)?;
        let source = Source::start(sender, shape, TRAFFIC)?;
        Ok((shape, source, sink))
    }

    pub(crate) fn node(&self, name: &str) -> Result<usize> {
        self.testbed.topology().node(name).context("no such node")
    }
}

impl DemoNetwork for OnNamespaces {
    fn kind(&self) -> NetworkKind {
        NetworkKind::Netns
    }

    fn topology(&self) -> &Topology {
        self.testbed.topology()
    }

    fn now(&self) -> Time {
        traffic::now()
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        std::thread::sleep(how_long);
        self.skip_events()?;
        self.check()
    }

    fn start_traffic(&mut self) -> Result<()> {
        for stream in Stream::SENT {
            self.traffic.push(self.start_stream(stream, stream.shape(&self.plan))?);
        }
        Ok(())
    }

    fn received_octets(&self) -> u64 {
        self.traffic.first().map_or(0, |(_, _, sink)| sink.octets())
    }

    fn reserve(
        &mut self,
        by: Protocol,
        stream: Stream,
        rate: Rate,
        within: Duration,
    ) -> Result<(Reply, Duration)> {
        let deadline = Instant::now() + within;
        let [from, to] = self.ends(stream)?;
        let Shape { packet_octets, bucket_octets, .. } = self.plan.stream;
        let request = FlowRequest { from, to, rate, packet_octets, bucket_octets };
        let sender = &self.testbed.control(self.sender);
        let receiver = &self.testbed.control(self.receiver);
        let mut ends = by.open(Daemons { sender, receiver }, &request)?;
        let asked_s = ends.sender.1.at_s;
        let (reply, at_s) = loop {
            self.check()?;
            if let Some(replied) = next_reply(by, &mut ends.sender)? {
                break replied;
            }
            if let Some(receiver) = &mut ends.receiver
                && let Some(replied) = next_reply(by, receiver)?
            {
                break replied;
            }
            if Instant::now() >= deadline {
                bail!("no answer to the request for {rate} within {within:?}");
            }
        };
        if reply == Reply::InPlace || ends.receiver.is_some() {
            self.open.push((stream, ends));
        }
        Ok((reply, Duration::from_secs_f64((at_s - asked_s).max(0.0))))
    }

    fn release(&mut self, stream: Stream) -> Result<()> {
        for (_, ends) in self.open.iter_mut().filter(|(of, _)| *of == stream) {
            for (client, opened) in ends.receiver.iter_mut().chain([&mut ends.sender]) {
                client.release(opened.application)?;
            }
        }
        self.open.retain(|(of, _)| *of != stream);
        Ok(())
    }

    fn restart_daemon(
        &mut self,
        node: &str,
        pause: Duration,
        within: Duration,
    ) -> Result<DaemonRestart> {
        let victim = self.node(node)?;
        let killed = self.now();
        self.testbed.kill_daemon(victim)?;
        self.wait(pause)?;
        self.testbed.start_daemon(victim)?;
        self.testbed.await_daemon(victim)?;
        let ready = self.now();
        let mut client = Client::connect(self.testbed.control(victim))?;
        let port = Stream::Measured.port();
        while self.now().since(ready) < within {
            let rows = client.show_reservations()?.rows;
            if rows.iter().any(|row| row.destination_port == port && row.interface.is_some()) {
                return Ok(DaemonRestart { killed, ready, reformed: self.now() });
            }
            self.wait(Duration::from_millis(10))?;
        }
        bail!("{node} did not restore the reservation within {within:?}")
    }

    fn stop_daemon(&mut self, node: &str) -> Result<()> {
        let node = self.node(node)?;
        self.testbed.kill_daemon(node)
    }

    fn start_daemon(&mut self, node: &str) -> Result<()> {
        let node = self.node(node)?;
        self.testbed.start_daemon(node)?;
        self.testbed.await_daemon(node)
    }

    fn stop_traffic(&mut self) -> Result<[Trace; SENT]> {
        let mut sent = Vec::new();
        for (shape, source, sink) in self.traffic.drain(..) {
            sent.push((shape, source.stop()?, sink));
        }
        std::thread::sleep(DRAIN);
        let mut traces = Vec::new();
        for (shape, sent, sink) in sent {
            traces.push(traffic::trace(shape.packet_octets, &sent, &sink.stop()?));
        }
        traces.try_into().ok().context("no traffic was started")
    }
}

impl Drop for OnNamespaces {
    fn drop(&mut self) {
        // Sources and sinks hold sockets, which would keep the namespaces alive.
        for (_, source, sink) in self.traffic.drain(..) {
            // An earlier error of a source or sink follows another failure, which is reported.
            let _ = source.stop();
            let _ = sink.stop();
        }
    }
}

/// Returns the next reply among the events of an end, with its time by the daemon's clock, seconds.
fn next_reply(
    by: Protocol,
    (client, opened): &mut (Client, Opened),
) -> Result<Option<(Reply, f64)>> {
    while let Some(event) = client.next_event(Some(Instant::now() + POLL_INTERVAL))? {
        if event.application != Some(opened.application) {
            continue;
        }
        let outcome = event.outcome.as_deref();
        let notice = Notice { event: &event.event, outcome, details: &event.details };
        if let Some(reply) = reply(by, notice)? {
            return Ok(Some((reply, event.at_s)));
        }
    }
    Ok(None)
}

//! The demo behind firewalls in network namespaces: real daemons, packet filters and traffic control.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_control::protocols::nsis::natfw::{Expose, Open};
use earmark_control::protocols::nsis::{ReserveOptions, listen_request, request};
use earmark_control::{
    ApplicationId, Client, Listing, Opened, PinholeRow, Request, ReservationRequest, TranslationRow,
};
use earmark_core::Time;
use earmark_scenario::topology::Topology;
use earmark_sim::Trace;

use super::super::plan::Plan;
use super::{ANSWER_WITHIN, FLOOD_PORT, FirewallNetwork, PORT, TOPOLOGY};
use crate::testbed::{Options, Testbed};
use crate::traffic::{self, Shape, Sink, Source};

/// Duration longer than any demo: traffic ends on request.
const TRAFFIC: Duration = Duration::from_secs(3_600);
/// Interval of checks while waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Time for packets in flight when the sources end.
const DRAIN: Duration = Duration::from_millis(500);
/// The routers on the path.
const ROUTERS: [&str; 3] = ["inner", "nat", "wall"];

/// The network in namespaces.
pub struct FirewallsOnNamespaces {
    testbed: Testbed,
    interrupted: Arc<AtomicBool>,
    sources: Vec<Source>,
    /// The sink of the stream, and those for what reaches the external address itself.
    sinks: Vec<Sink>,
    shape: Option<Shape>,
    exposed: Option<ApplicationId>,
    opened: Option<ApplicationId>,
}

impl FirewallsOnNamespaces {
    /// Builds the network. Waiting ends early once `interrupted` is set.
    ///
    /// # Errors
    /// Namespaces are unavailable, or a daemon does not start.
    pub fn new(
        program: PathBuf,
        plan: &Plan,
        interrupted: Arc<AtomicBool>,
    ) -> Result<FirewallsOnNamespaces> {
        let mut topology = Topology::parse(TOPOLOGY)?;
        topology.name = format!("earmark-firewalls-{}", std::process::id());
        let server = address(&topology, "server")?;
        let mut options = Options { bound: true, ..Options::new(program, plan.refresh) };
        let any = "[[natfw.rule]]\nwildcards = true\n";
        let firewall = "[natfw]\nenabled = true\nfirewall = true\n";
        let nodes = [
            ("client", format!("[natfw]\nenabled = true\nsignaling_destination = \"{server}\"\n")),
            ("server", "[natfw]\nenabled = true\n".to_owned()),
            ("inner", format!("{firewall}guard = [\"eth0\", \"eth1\"]\n{any}")),
            (
                "nat",
                format!(
                    "{firewall}external = [\"eth1\"]\nguard = [\"eth1\"]\n[natfw.translator]\n{any}"
                ),
            ),
            ("wall", format!("{firewall}external = [\"eth0\"]\nguard = [\"eth0\"]\n{any}")),
        ];
        for (node, text) in nodes {
            options.settings.own_protocols.insert((node.to_owned(), "nsis"), format!("\n{text}"));
        }
        let testbed = Testbed::up(topology, options)?;
        let (sources, sinks) = (Vec::new(), Vec::new());
        let (shape, exposed, opened) = (None, None, None);
        Ok(FirewallsOnNamespaces { testbed, interrupted, sources, sinks, shape, exposed, opened })
    }

    fn node(&self, name: &str) -> Result<usize> {
        self.testbed.topology().node(name).with_context(|| format!("no node {name}"))
    }

    fn client(&self, name: &str) -> Result<Client> {
        Ok(Client::connect(self.testbed.control(self.node(name)?))?)
    }

    fn socket(&self, node: &str, own: SocketAddr) -> Result<UdpSocket> {
        let namespace = self.testbed.namespace(self.node(node)?);
        namespace.run_in(|| UdpSocket::bind(own))?.with_context(|| format!("{node}: {own}"))
    }

    fn own(&self, host: &str, port: u16) -> Result<SocketAddr> {
        Ok(SocketAddr::new(address(self.testbed.topology(), host)?, port))
    }

    /// Starts a source at the server. Errors would answer what reaches the external address itself, and end the source, so there
    /// is a sink, too.
    fn start(&mut self, (port, to): (u16, SocketAddr), shape: Shape) -> Result<()> {
        self.sinks.push(Sink::start(self.socket("nat", to)?)?);
        let socket = self.socket("server", self.own("server", port)?)?;
        socket.connect(to)?;
        self.sources.push(Source::start(socket, shape, TRAFFIC)?);
        Ok(())
    }

    /// Waits until something is there.
    fn await_some<T>(&self, what: &str, look: impl Fn() -> Result<Option<T>>) -> Result<T> {
        let deadline = Instant::now() + ANSWER_WITHIN;
        while Instant::now() < deadline {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.check()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!("{what} not within {ANSWER_WITHIN:?}")
    }

    fn check(&self) -> Result<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        Ok(())
    }
}

impl FirewallNetwork for FirewallsOnNamespaces {
    fn now(&self) -> Time {
        traffic::now()
    }

    fn wait(&mut self, how_long: Duration) -> Result<()> {
        std::thread::sleep(how_long);
        self.check()
    }

    fn expose(&mut self) -> Result<SocketAddr> {
        let on = self.own("client", PORT)?;
        let mut client = self.client("client")?;
        client.listen(listen_request(on))?;
        let exposed: Opened = client.call(&Request::Expose(Expose::new(PORT)))?;
        self.exposed = Some(exposed.application);
        self.await_some("an external address", || {
            let rows = self.client("nat")?.show::<TranslationRow>(Listing::Translations)?.rows;
            let external = rows.first().map(|row| row.external);
            Ok(external.map(|external| SocketAddr::new(external.address, external.port)))
        })
    }

    fn start_stream(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        self.sinks.push(Sink::start(self.socket("client", self.own("client", PORT)?)?)?);
        self.shape = Some(plan.stream);
        self.start((PORT, external), plan.stream)
    }

    fn start_flood(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        let to = SocketAddr::new(external.ip(), FLOOD_PORT);
        self.start((FLOOD_PORT, to), plan.flood)
    }

    fn open(&mut self, external: SocketAddr) -> Result<()> {
        let from = Some(self.own("server", PORT)?);
        let open = Open { from, ..Open::new(external) };
        let opened: Opened = self.client("server")?.call(&Request::Open(open))?;
        self.opened = Some(opened.application);
        self.await_some("a pinhole at the last firewall", || {
            let rows = self.client("inner")?.show::<PinholeRow>(Listing::Pinholes)?.rows;
            Ok(rows.iter().any(|row| row.installed).then_some(()))
        })
    }

    fn reserve(&mut self, external: SocketAddr, plan: &Plan) -> Result<()> {
        let Shape { rate, packet_octets, bucket_octets } = plan.stream;
        let wanted = ReservationRequest {
            from: Some(self.own("server", PORT)?),
            burst_octets: bucket_octets,
            max_packet: packet_octets,
            ..request(external, rate)
        };
        let bound = ReserveOptions { bound_to: self.opened, ..ReserveOptions::default() };
        self.client("server")?.reserve(wanted.with(&bound))?;
        self.await_some("a reservation on each router", || {
            for router in ROUTERS {
                if self.client(router)?.show_reservations()?.rows.is_empty() {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
    }

    fn stop_asking(&mut self) -> Result<()> {
        let exposed = self.exposed.context("nothing is exposed")?;
        self.client("client")?.release(exposed)?;
        Ok(())
    }

    fn reservations(&mut self) -> Result<usize> {
        let mut count = 0;
        for router in ROUTERS {
            count += self.client(router)?.show_reservations()?.rows.len();
        }
        Ok(count)
    }

    fn stop_traffic(&mut self) -> Result<Trace> {
        let shape = self.shape.context("no traffic was started")?;
        let mut sent = Vec::new();
        for source in self.sources.drain(..) {
            sent.push(source.stop()?);
        }
        std::thread::sleep(DRAIN);
        let mut arrivals = Vec::new();
        for sink in self.sinks.drain(..) {
            arrivals.push(sink.stop()?);
        }
        let (sent, arrivals) = sent.first().zip(arrivals.first()).context("no traffic")?;
        Ok(traffic::trace(shape.packet_octets, sent, arrivals))
    }
}

impl Drop for FirewallsOnNamespaces {
    fn drop(&mut self) {
        // Sources and sinks hold sockets, which would keep the namespaces alive. An earlier error of one follows another
        // failure, which is reported.
        for source in self.sources.drain(..) {
            let _ = source.stop();
        }
        for sink in self.sinks.drain(..) {
            let _ = sink.stop();
        }
    }
}

fn address(topology: &Topology, host: &str) -> Result<IpAddr> {
    let index = topology.node(host).with_context(|| format!("no node {host}"))?;
    let (end, _) = topology.interfaces(index).next().context("a host without a link")?;
    Ok(end.address.into())
}

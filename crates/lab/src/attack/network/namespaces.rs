//! Attacks in network namespaces: real daemons, real packets.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use earmark_control::Client;
use earmark_core::{MulticastRoute, Rate};
use earmark_linux::link;
use earmark_linux::multicast_router::MulticastRouter;
use earmark_scenario::attack::Packet;
use earmark_scenario::topology::{Family, Topology};
use rustix::process::{Pid, Signal, kill_process};
use socket2::{Domain, Protocol, Socket, Type};

use super::{AttackNetwork, GROUP, Place, ROUTERS, Reserved, Setup, TOPOLOGY};
use super::{distinct, is_reason};
use crate::capture::Tap;
use crate::demo::protocol::Target;
use crate::demo::{OnNamespaces, Plan, ROUTER, Stream};
use crate::protocols::PROTOCOLS;
use crate::testbed::{Options, Testbed};

/// Length of an Ethernet header, octets.
const ETHERNET: usize = 14;
/// Protocol number of raw sockets whose user writes the IP header.
const RAW: i32 = 255;
/// Nodes that send the attackers' packets.
const SENDERS: [&str; 4] = ["a", "b", "h1", "h2"];

/// The network in namespaces with attackers.
pub struct AttackedNamespaces {
    demo: OnNamespaces,
    setup: Setup,
    /// Signalling that passes r1.
    tap: Tap,
    /// Sockets of the attackers, by the nodes that send.
    sockets: Vec<(&'static str, Socket)>,
    /// Forwarding of the group, as long as these exist.
    _forwarding: Vec<MulticastRouter>,
}

impl AttackedNamespaces {
    /// Builds the network, whose daemons run `program`. Waiting ends early once `interrupted` is set.
    ///
    /// # Errors
    /// Namespaces are unavailable, or a daemon does not start.
    pub fn new(
        program: PathBuf,
        setup: Setup,
        plan: Plan,
        interrupted: Arc<AtomicBool>,
    ) -> Result<AttackedNamespaces> {
        let mut topology = Topology::parse(TOPOLOGY)?;
        topology.name = format!("earmark-attack-{}", std::process::id());
        let mut options = Options { bound: true, ..Options::new(program, plan.refresh) };
        let settings = &mut options.settings;
        for protocol in PROTOCOLS.iter().filter(|p| p.settings(plan.refresh).is_empty()) {
            let refresh = format!("refresh = \"{}s\"\n", plan.refresh.as_secs().max(1));
            settings.protocols.insert(protocol.name(), refresh);
        }
        for protocol in PROTOCOLS.iter().filter(|_| setup.target == Target::UdpEncapsulation) {
            protocol.encapsulate(&topology, &["h1", "h2"], settings);
        }
        let router = topology.node(ROUTER).context("the router is missing")?;
        let testbed = Testbed::up(topology, options)?;
        let tap = Tap::open(testbed.namespace(router))?;
        let domain = if setup.family == Family::Ipv4 { Domain::IPV4 } else { Domain::IPV6 };
        let mut sockets = Vec::new();
        for name in SENDERS {
            let node = testbed.topology().node(name).context("an attacker is missing")?;
            let raw = || Socket::new(domain, Type::RAW, Some(Protocol::from(RAW)));
            sockets.push((name, testbed.namespace(node).run_in(raw)??));
        }
        let _forwarding = match setup.target {
            Target::Group => forward_group(&testbed)?,
            _ => Vec::new(),
        };
        let demo = OnNamespaces::new(testbed, super::plan_of(setup, plan), interrupted)?;
        Ok(AttackedNamespaces { demo, setup, tap, sockets, _forwarding })
    }

    fn client(&self, node: &str) -> Result<Client> {
        Ok(Client::connect(self.demo.testbed().control(self.demo.node(node)?))?)
    }
}

/// Makes the kernels forward the group from h1 to h2; hosts need a route to send to groups.
fn forward_group(testbed: &Testbed) -> Result<Vec<MulticastRouter>> {
    let topology = testbed.topology();
    let node = |name| topology.node(name).with_context(|| format!("no node {name}"));
    let sender = node("h1")?;
    let (end, link) = topology.interfaces(sender).next().context("h1 has no link")?;
    let gateway = link.ends.iter().find(|end| end.node != sender).context("h1 has no router")?;
    for host in [sender, node("a")?, node("b")?] {
        let (own, link) = topology.interfaces(host).next().context("a host without a link")?;
        let router = link.ends.iter().find(|end| end.node != own.node);
        let router = router.unwrap_or(gateway).address.into();
        link::add_route(testbed.namespace(host), "0.0.0.0/0".parse()?, router)?;
    }
    let mut routers = Vec::new();
    for name in ROUTERS {
        let namespace = testbed.namespace(node(name)?);
        let interface =
            |name: &str| link::index(namespace, name)?.with_context(|| format!("no {name}"));
        let (incoming, outgoing) = (interface("eth0")?, interface("eth1")?);
        let router = MulticastRouter::start(namespace, true, &[incoming, outgoing])?;
        router.set_route(&MulticastRoute {
            source: Some(end.address.into()),
            group: GROUP.into(),
            incoming: Some(incoming),
            outgoing: vec![outgoing],
        })?;
        routers.push(router);
    }
    Ok(routers)
}

impl AttackNetwork for AttackedNamespaces {
    type Network = OnNamespaces;

    fn demo(&mut self) -> &mut OnNamespaces {
        &mut self.demo
    }

    fn setup(&self) -> Setup {
        self.setup
    }

    fn observed(&mut self) -> Result<Vec<Packet>> {
        let mut seen = Vec::new();
        loop {
            let frames = self.tap.frames()?;
            if frames.is_empty() {
                return Ok(seen);
            }
            seen.extend(frames.iter().filter_map(|frame| Packet::parse(frame.get(ETHERNET..)?)));
            seen = distinct(seen);
        }
    }

    fn send(&mut self, place: Place, packet: &Packet) -> Result<()> {
        let Some(octets) = packet.octets() else { return Ok(()) };
        let socket = self.sockets.iter().find(|(node, _)| *node == place.node());
        let (_, socket) = socket.context("no such place")?;
        // IPv6 takes no port in the address of a raw socket of this kind.
        let to = SocketAddr::from((packet.destination, 0));
        // The kernel refuses some packets, such as those to a broadcast address; others are lost in a full queue.
        let _ = socket.send_to(&octets, &to.into());
        Ok(())
    }

    fn reload(&mut self) -> Result<()> {
        let router = self.demo.node(ROUTER)?;
        let pid = self.demo.testbed().process(router).and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).context("r1 has no daemon")?;
        Ok(kill_process(pid, Signal::HUP)?)
    }

    fn reasons(&mut self) -> Result<BTreeMap<String, u64>> {
        let mut reasons = BTreeMap::new();
        for router in ROUTERS {
            let counters = self.client(router)?.show_counters()?;
            for (part, groups) in counters.as_object().into_iter().flatten() {
                for (group, names) in groups.as_object().into_iter().flatten() {
                    let names = names.as_object().filter(|_| is_reason(group));
                    for (name, count) in names.into_iter().flatten() {
                        let count = count.as_u64().unwrap_or_default();
                        *reasons.entry(format!("{part} {group} {name}")).or_default() += count;
                    }
                }
            }
        }
        Ok(reasons)
    }

    fn reserved(&mut self, stream: Stream) -> Result<Reserved> {
        let mut reserved = Reserved::default();
        for (router, reserved) in ROUTERS.into_iter().zip(&mut reserved) {
            let rows = self.client(router)?.show_reservations()?.rows;
            let row = rows.iter().find(|row| row.destination_port == stream.port());
            *reserved = row.map(|row| Rate::from_bps(row.rate_bps));
        }
        Ok(reserved)
    }
}

//! Test network: nodes by name, their reservations, and forwarding for groups.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use earmark_control::Client;
use earmark_core::{InterfaceId, MulticastRoute, Rate};
use earmark_lab::testbed::{Options, Testbed};
use earmark_linux::link;
use earmark_linux::multicast_router::MulticastRouter;
use earmark_linux::netns::Namespace;
use earmark_scenario::topology::Topology;
use earmark_testkit::wait::wait_for;
use libtest_mimic::Failed;

use crate::classes;

/// Default refresh period R of nodes.
pub(crate) const REFRESH: Duration = Duration::from_millis(500);
/// Time for messages, and for this test, on a busy machine.
pub(crate) const SLACK: Duration = Duration::from_secs(4);
/// Number of networks so far. Tests run at the same time.
static NETWORKS: AtomicU32 = AtomicU32::new(0);
/// Rate of a parked class; no reservation of these tests has this rate.
const PARKED: Rate = Rate::from_mbps(1);

pub(crate) struct Net {
    testbed: Testbed,
}

impl Net {
    pub(crate) fn up(topology: &str, name: &str, refresh: Duration) -> Result<Net, Failed> {
        Net::with(topology, name, refresh, |_| {})
    }

    /// Builds a network with other settings than the default ones.
    pub(crate) fn with(
        topology: &str,
        name: &str,
        refresh: Duration,
        set: impl FnOnce(&mut Options),
    ) -> Result<Net, Failed> {
        let mut topology = Topology::parse(topology)?;
        let number = NETWORKS.fetch_add(1, Ordering::Relaxed);
        topology.name = format!("earmark-{name}-{}-{number}", std::process::id());
        let program = PathBuf::from(env!("CARGO_BIN_EXE_earmark-lab"));
        let mut options = Options { bound: true, ..Options::new(program, refresh) };
        set(&mut options);
        Ok(Net { testbed: Testbed::up(topology, options)? })
    }

    pub(crate) fn namespace(&self, node: &str) -> &Namespace {
        self.testbed.namespace(self.index(node))
    }

    /// Returns the control socket of a node's daemon.
    pub(crate) fn control(&self, node: &str) -> PathBuf {
        self.testbed.control(self.index(node))
    }

    pub(crate) fn client(&self, node: &str) -> Result<Client, Failed> {
        Ok(Client::connect(self.control(node))?)
    }

    pub(crate) fn kill_daemon(&mut self, node: &str) -> Result<(), Failed> {
        let node = self.index(node);
        Ok(self.testbed.kill_daemon(node)?)
    }

    /// Starts a daemon again, and waits until it serves: a node without a daemon forwards what its daemon would intercept.
    pub(crate) fn start_daemon(&mut self, node: &str) -> Result<(), Failed> {
        let node = self.index(node);
        self.testbed.start_daemon(node)?;
        Ok(self.testbed.await_daemon(node)?)
    }

    /// Returns the address of a host's only interface.
    pub(crate) fn address(&self, host: &str, ipv4: bool) -> IpAddr {
        let topology = self.testbed.topology();
        let (end, _) = topology.interfaces(self.index(host)).next().expect("a link");
        match ipv4 {
            true => end.address.into(),
            false => end.address6.expect("the topology has IPv6").into(),
        }
    }

    pub(crate) fn interface(&self, node: &str, name: &str) -> Result<InterfaceId, Failed> {
        Ok(link::index(self.namespace(node), name)?.ok_or(format!("{node} has no {name}"))?)
    }

    /// Returns the rates of the kernel's classes on an interface, without parked ones.
    pub(crate) fn reserved(&self, node: &str, interface: &str) -> Result<Vec<Rate>, Failed> {
        let index = self.interface(node, interface)?.0;
        let pool = classes::pool(self.namespace(node), index)?;
        Ok(pool.into_iter().map(|class| class.rate).filter(|rate| *rate != PARKED).collect())
    }

    /// Waits until the kernel's classes on an interface have exactly these rates.
    pub(crate) fn await_reserved(
        &self,
        (node, interface): (&str, &str),
        mbps: &[u32],
        within: Duration,
    ) -> Result<(), Failed> {
        let expected: Vec<Rate> = mbps.iter().map(|&mbps| Rate::from_mbps(mbps.into())).collect();
        let mut last = Vec::new();
        let reached = wait_for("", within, || {
            last = self.reserved(node, interface)?;
            Ok((last == expected).then_some(()))
        });
        reached.map_err(|_| {
            format!("{interface} of {node} has {last:?} instead of {expected:?} after {within:?}")
                .into()
        })
    }

    /// Makes the kernel of a router forward a group's packets from a source, for as long as the returned value
    /// exists.
    pub(crate) fn forward(
        &self,
        node: &str,
        (source, group): (IpAddr, IpAddr),
        incoming: &str,
        outgoing: &[&str],
    ) -> Result<MulticastRouter, Failed> {
        let incoming = self.interface(node, incoming)?;
        let outgoing: Vec<InterfaceId> =
            outgoing.iter().map(|name| self.interface(node, name)).collect::<Result<_, _>>()?;
        let mut all = outgoing.clone();
        all.push(incoming);
        let router = MulticastRouter::start(self.namespace(node), group.is_ipv4(), &all)?;
        let (source, incoming) = (Some(source), Some(incoming));
        router.set_route(&MulticastRoute { source, group, incoming, outgoing })?;
        Ok(router)
    }

    fn index(&self, node: &str) -> usize {
        self.testbed.topology().node(node).expect("tests name nodes that are there")
    }
}

/// Returns the lifetime of unrefreshed state: (K + 0.5) * 1.5 * R, K being 3 (RFC 2205 section 3.7).
pub(crate) fn lifetime(refresh: Duration) -> Duration {
    refresh * 21 / 4
}

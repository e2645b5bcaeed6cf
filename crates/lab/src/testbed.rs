//! Testbed: a topology of network namespaces on this machine, with a daemon in each.
//!
//! Node `h1` of the network `earmark` is the namespace `earmark-h1`; links are veth pairs; each daemon is a child
//! process, this very program under its hidden subcommand `node`. Every part of a network is recorded in a state
//! directory *before* it is created, so that [`down`] finds everything even after a crash:
//!
//! | file in `/run/earmark-lab/NAME/` | what |
//! |---|---|
//! | `nodes` | the names of the nodes, one a line |
//! | `NODE.toml` | configuration of the node's daemon |
//! | `NODE.sock` | control socket |
//! | `NODE.pid` | process id and start time, so that a reused number is never killed |
//! | `NODE.log` | log of the daemon |
//! | `owner` | locked by the owning program, which removes the network; absent if that is left to [`down`] |
//!
//! If the owning program is killed, its network remains. The next program that builds a network of its own removes it
//! first, because the lock is free.
//!
//! The kernel here cannot delay packets, so `delay` of a link is only given to the daemon, as its latency.

mod daemon;
mod state;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use earmark_linux::link;
use earmark_linux::netns::Namespace;

pub use state::{NodeStatus, STATE_ROOT, State, names};

use earmark_scenario::topology::{Role, Topology};

/// Options of a network.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `earmark-lab` program, for the daemons.
    pub program: PathBuf,
    /// Refresh period R of all nodes.
    pub refresh: Duration,
    /// Whether this program owns the network: the daemons end with the thread that starts them, and the next owner
    /// removes a network whose program was killed.
    pub bound: bool,
    /// Whether hosts have no daemon, so that other programs can send and receive signalling there.
    pub bare_hosts: bool,
    /// Further settings of each daemon's configuration.
    pub settings: Settings,
}

/// Lines for the configuration file of every daemon, TOML, below the tables that they are named after.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Lines of the tables of protocols, by the names of these.
    pub protocols: BTreeMap<&'static str, String>,
    /// Lines of the table of a protocol at a node, by the names of node and protocol; tables below it may follow.
    pub own_protocols: BTreeMap<(String, &'static str), String>,
    /// Whether every interface is a core interface, also those of hosts: for hosts that send in the name of others, and
    /// more than an access interface admits. Otherwise only those between routers are.
    pub all_core: bool,
    /// Further tables.
    pub tables: String,
    /// Lines of every `[[interface]]` table.
    pub interface: String,
    /// Lines of the `[[interface]]` table of this node and name.
    pub own: BTreeMap<(String, String), String>,
}

impl Options {
    /// Daemons on all nodes, with default settings, until [`down`].
    pub fn new(program: PathBuf, refresh: Duration) -> Options {
        let settings = Settings::default();
        Options { program, refresh, bound: false, bare_hosts: false, settings }
    }
}

/// A running network. Dropping the value removes it, except after [`stay`](Testbed::stay).
pub struct Testbed {
    topology: Topology,
    options: Options,
    state: State,
    namespaces: Vec<Namespace>,
    /// Daemon of each node; `None` while it has none.
    daemons: Vec<Option<Child>>,
    stays: bool,
}

/// Returns the reason why namespaces are unavailable here, if so; tries to create one.
pub fn obstacle() -> Option<String> {
    let probe = format!("earmark-probe-{}", std::process::id());
    match Namespace::create(&probe).and_then(Namespace::delete) {
        Ok(()) => None,
        Err(error) => Some(format!("network namespaces are unavailable: {error}")),
    }
}

impl Testbed {
    /// Builds a network and waits until all its daemons serve requests.
    ///
    /// # Errors
    /// A network of that name exists already; namespaces are unavailable; a daemon does not start. The parts built so
    /// far are removed.
    pub fn up(topology: Topology, options: Options) -> Result<Testbed> {
        if options.bound {
            take_down_orphans()?;
        }
        let names: Vec<String> = topology.nodes.iter().map(|node| node.name.clone()).collect();
        let state = State::create(&topology.name, &names, options.bound)?;
        let daemons = names.iter().map(|_| None).collect();
        let namespaces = Vec::new();
        let mut testbed = Testbed { topology, options, state, namespaces, daemons, stays: false };
        testbed.build()?;
        let with_daemon = |node: &usize| {
            !testbed.options.bare_hosts || testbed.topology.nodes[*node].role == Role::Router
        };
        let nodes: Vec<usize> = (0..testbed.topology.nodes.len()).filter(with_daemon).collect();
        for &node in &nodes {
            testbed.start_daemon(node)?;
        }
        for &node in &nodes {
            testbed.await_daemon(node)?;
        }
        Ok(testbed)
    }

    /// Keeps the network beyond this value; [`down`] removes it.
    pub fn stay(mut self) {
        self.stays = true;
        self.namespaces.iter_mut().for_each(Namespace::keep);
    }

    /// Returns the topology of the network.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Returns the namespace of a node, by its index in the topology.
    pub fn namespace(&self, node: usize) -> &Namespace {
        &self.namespaces[node]
    }

    /// Returns the path of a node's control socket.
    pub fn control(&self, node: usize) -> PathBuf {
        self.state.control(&self.topology.nodes[node].name)
    }

    /// Returns the path of a node's configuration file, with or without a daemon.
    pub fn configuration(&self, node: usize) -> PathBuf {
        self.state.configuration(&self.topology.nodes[node].name)
    }

    /// Returns the process id of a node's daemon, if it has one.
    pub fn process(&self, node: usize) -> Option<u32> {
        self.daemons[node].as_ref().map(Child::id)
    }

    /// Kills the daemon of a node (SIGKILL).
    pub fn kill_daemon(&mut self, node: usize) -> Result<()> {
        let Some(mut child) = self.daemons[node].take() else { bail!("no daemon is running") };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Starts the daemon of a node; [`await_daemon`](Testbed::await_daemon) waits until it serves requests.
    pub fn start_daemon(&mut self, node: usize) -> Result<()> {
        let name = &self.topology.nodes[node].name;
        let starting = || format!("cannot start the daemon of {name}");
        let child = daemon::start(&self.namespaces[node], &self.state, name, &self.options)
            .with_context(starting)?;
        self.state.record_process(name, child.id()).with_context(starting)?;
        self.daemons[node] = Some(child);
        Ok(())
    }

    /// Waits until the daemon of a node serves its control socket.
    pub fn await_daemon(&mut self, node: usize) -> Result<()> {
        let name = &self.topology.nodes[node].name;
        let Some(child) = &mut self.daemons[node] else { bail!("{name} has no daemon") };
        daemon::wait_until_ready(child, &self.state, name)
    }

    fn build(&mut self) -> Result<()> {
        for node in &self.topology.nodes {
            let name = self.state.namespace(&node.name);
            let namespace = Namespace::create(&name).with_context(|| {
                format!("cannot create the namespace {name}; this needs root and an unused name")
            })?;
            let forward = if node.role == Role::Router { "1" } else { "0" };
            link::sysctl(&namespace, "net.ipv4.ip_forward", forward)?;
            if self.topology.links.iter().any(|link| link.prefix6.is_some()) {
                link::sysctl(&namespace, "net.ipv6.conf.all.forwarding", forward)?;
                // Duplicate link-local addresses cannot occur, so there is no need to wait for their detection.
                link::sysctl(&namespace, "net.ipv6.conf.default.accept_dad", "0")?;
            }
            // Signalling keeps its sender's address on paths that the reverse data route may not use.
            link::sysctl(&namespace, "net.ipv4.conf.all.rp_filter", "0")?;
            link::sysctl(&namespace, "net.ipv4.conf.default.rp_filter", "0")?;
            self.namespaces.push(namespace);
        }
        for link in &self.topology.links {
            let [a, b] = &link.ends;
            let namespaces = [&self.namespaces[a.node], &self.namespaces[b.node]];
            link::create_veth(namespaces[0], &a.interface, namespaces[1], &b.interface)
                .with_context(|| format!("cannot make the link {}", link.prefix))?;
            for (end, namespace) in link.ends.iter().zip(namespaces) {
                let four = Some((end.address.into(), link.prefix));
                let six = end.address6.map(IpAddr::from).zip(link.prefix6);
                for (address, prefix) in [four, six].into_iter().flatten() {
                    link::add_address(namespace, &end.interface, address, prefix.length())?;
                }
                link::set_up(namespace, &end.interface, true)?;
            }
        }
        let paths = self.topology.paths();
        for (node, namespace) in self.namespaces.iter().enumerate() {
            for route in paths.routes(node) {
                link::add_route(namespace, route.prefix, route.gateway)
                    .with_context(|| format!("cannot add the route to {}", route.prefix))?;
            }
        }
        for (index, node) in self.topology.nodes.iter().enumerate() {
            let control = self.state.control(&node.name);
            let text = daemon::configuration(&self.topology, index, &control, &self.options);
            self.state.write_configuration(&node.name, &text)?;
        }
        Ok(())
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        for child in self.daemons.iter_mut().flatten() {
            // Both fail only if the process has already ended.
            let _ = child.kill();
            let _ = child.wait();
        }
        self.namespaces.clear();
        if let Err(error) = self.state.remove() {
            eprintln!(
                "cannot clean up: {error:#}; try `earmark-lab down --name {}`",
                self.topology.name
            );
        }
    }
}

/// Removes a network, also one whose program crashed: daemons, namespaces, state. Returns the names of its nodes.
///
/// # Errors
/// There is no such network; a part of it cannot be removed.
pub fn down(name: &str) -> Result<Vec<String>> {
    take_down(&State::open(name)?)
}

/// Removes networks whose owners were killed.
fn take_down_orphans() -> Result<()> {
    for name in state::names()? {
        // A network that is gone by now was removed by another program.
        let Ok(Some(state)) = State::orphan(&name) else { continue };
        take_down(&state).with_context(|| format!("cannot take down `{name}`, left behind"))?;
        eprintln!("note: took down the network `{name}`, whose program was killed");
    }
    Ok(())
}

fn take_down(state: &State) -> Result<Vec<String>> {
    let nodes = state.nodes()?;
    for node in &nodes {
        state.kill_process(node)?;
    }
    for node in &nodes {
        let namespace = state.namespace(node);
        if Path::new("/run/netns").join(&namespace).exists() {
            Namespace::open(&namespace)
                .and_then(Namespace::delete)
                .with_context(|| format!("cannot delete the namespace {namespace}"))?;
        }
    }
    state.remove()?;
    Ok(nodes)
}

//! A topology built from network namespaces of this machine, with a daemon in each.
//!
//! Node `h1` of the network `earmark` is the namespace `earmark-h1`; links are veth pairs; each daemon is a child
//! process, this very program under its hidden subcommand `node`. What belongs to a network is written to a state
//! directory *before* it is made, so that [`down`] finds everything even after a crash:
//!
//! | file in `/run/earmark-lab/NAME/` | what |
//! |---|---|
//! | `nodes` | the names of the nodes, one a line |
//! | `NODE.toml` | configuration of its daemon |
//! | `NODE.sock` | control socket |
//! | `NODE.pid` | process id and start time, so that a reused number is never killed |
//! | `NODE.log` | what the daemon says |
//! | `owner` | locked by the program that takes it down, where that is not left to [`down`] |
//!
//! A program that is killed leaves its network behind. The next one that builds a network of its own takes that away
//! first: it finds the lock free.
//!
//! The kernel here cannot delay packets, so `delay` of a link is only told to the daemon, as its latency.

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

/// How a network is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `earmark-lab` program, for the daemons.
    pub program: PathBuf,
    /// Refresh period R of all nodes.
    pub refresh: Duration,
    /// Whether this program owns the network: the daemons end when the thread that starts them does, and what is left
    /// by a program that was killed, the next owner takes away.
    pub bound: bool,
    /// Whether hosts do without a daemon, so that something else can speak for them.
    pub bare_hosts: bool,
    /// What else the configuration of each daemon says.
    pub settings: Settings,
}

/// Lines for the configuration file of every daemon, TOML, below the tables that they are named after.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Of the table `[rsvp]`.
    pub rsvp: String,
    /// Of the table `[boomerang]`.
    pub boomerang: String,
    /// Of the table `[yessir]`.
    pub yessir: String,
    /// Of the table `[nsis]`.
    pub nsis: String,
    /// Likewise, of the node of this name; tables below it, such as `[nsis.tls]`, may follow.
    pub own_nsis: BTreeMap<String, String>,
    /// Of every `[[interface]]`.
    pub interface: String,
    /// Of the `[[interface]]` of this node and name.
    pub own: BTreeMap<(String, String), String>,
}

impl Options {
    /// Daemons everywhere, with the usual settings, until [`down`].
    pub fn new(program: PathBuf, refresh: Duration) -> Options {
        let settings = Settings::default();
        Options { program, refresh, bound: false, bare_hosts: false, settings }
    }
}

/// A network that is up. Dropped, it goes down, unless it was told to [stay](Testbed::stay).
pub struct Testbed {
    topology: Topology,
    options: Options,
    state: State,
    namespaces: Vec<Namespace>,
    /// By node; `None` while it has no daemon.
    daemons: Vec<Option<Child>>,
    stays: bool,
}

/// Why namespaces cannot be used here, if so: asked by making one.
pub fn obstacle() -> Option<String> {
    let probe = format!("earmark-probe-{}", std::process::id());
    match Namespace::create(&probe).and_then(Namespace::delete) {
        Ok(()) => None,
        Err(error) => Some(format!("network namespaces are not to be had: {error}")),
    }
}

impl Testbed {
    /// Builds a network and waits until all its daemons serve.
    ///
    /// # Errors
    /// A network of that name is up already; namespaces are not to be had; a daemon does not start. What was built
    /// until then is taken down again.
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

    /// Lets the network outlive this value; [`down`] ends it.
    pub fn stay(mut self) {
        self.stays = true;
        self.namespaces.iter_mut().for_each(Namespace::keep);
    }

    /// What it was built from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The namespace of a node, by its index in the topology.
    pub fn namespace(&self, node: usize) -> &Namespace {
        &self.namespaces[node]
    }

    /// The control socket of a node's daemon.
    pub fn control(&self, node: usize) -> PathBuf {
        self.state.control(&self.topology.nodes[node].name)
    }

    /// The configuration file of a node, whether it has a daemon or not.
    pub fn configuration(&self, node: usize) -> PathBuf {
        self.state.configuration(&self.topology.nodes[node].name)
    }

    /// The process of a node's daemon, while there is one.
    pub fn process(&self, node: usize) -> Option<u32> {
        self.daemons[node].as_ref().map(Child::id)
    }

    /// Kills the daemon of a node at once (SIGKILL).
    pub fn kill_daemon(&mut self, node: usize) -> Result<()> {
        let Some(mut child) = self.daemons[node].take() else {
            bail!("there is no daemon to kill")
        };
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Starts the daemon of a node; [`await_daemon`](Testbed::await_daemon) tells when it serves.
    pub fn start_daemon(&mut self, node: usize) -> Result<()> {
        let name = &self.topology.nodes[node].name;
        let starting = || format!("cannot start the daemon of {name}");
        let child = daemon::start(&self.namespaces[node], &self.state, name, &self.options)
            .with_context(starting)?;
        self.state.remember_process(name, child.id()).with_context(starting)?;
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
                format!("cannot create the namespace {name}; it takes root, and a name not in use")
            })?;
            let forward = if node.role == Role::Router { "1" } else { "0" };
            link::sysctl(&namespace, "net.ipv4.ip_forward", forward)?;
            if self.topology.links.iter().any(|link| link.prefix6.is_some()) {
                link::sysctl(&namespace, "net.ipv6.conf.all.forwarding", forward)?;
                // There are no duplicates of link-local addresses to wait for.
                link::sysctl(&namespace, "net.ipv6.conf.default.accept_dad", "0")?;
            }
            // Signalling keeps its sender's address on ways that data need not take back.
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
            // Both fail only where it has ended by itself.
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

/// Takes a network down, also one whose program crashed: daemons, namespaces, state. Returns what nodes it had.
///
/// # Errors
/// There is no such network; something of it cannot be removed.
pub fn down(name: &str) -> Result<Vec<String>> {
    take_down(&State::open(name)?)
}

/// Takes down what killed programs have left behind.
fn take_down_orphans() -> Result<()> {
    for name in state::names()? {
        // One that is gone by now was somebody else's to take down.
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

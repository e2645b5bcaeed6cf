//! Network of a measurement: a chain of routers with real daemons, and a light host at either end.
//!
//! ```text
//!   s --- r1 --- r2 --- .. --- d        namespaces, veth pairs of 100 Gbit/s
//! ```

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use earmark_control::Client;
use earmark_core::Prefix;
use earmark_linux::link;
use earmark_linux::netns::Namespace;

use super::host::{End, HostPlan, HostResult, OutputLine, Progress};
use super::process::Sample;
use super::session::{DESTINATIONS, Sessions};
use earmark_lab::testbed::{Options, Settings, Testbed};
use earmark_scenario::topology::Topology;

/// Timeout until a host writes its last line.
const RESULT_TIMEOUT: Duration = Duration::from_secs(20);

/// Settings of the daemons of a measurement.
#[derive(Clone, Debug)]
pub struct Set {
    /// Routers in the chain.
    pub routers: usize,
    /// Refresh period R of the daemons.
    pub refresh: Duration,
    /// Whether daemons and hosts support refresh reduction (RFC 2961).
    pub reduction: bool,
    /// Further settings of the configurations.
    pub settings: Settings,
}

/// A running network. Dropping the value removes it.
pub struct Network {
    testbed: Testbed,
    /// Path of `earmark-studies`, for daemons and hosts.
    program: PathBuf,
    sender: usize,
    receiver: usize,
    reduction: bool,
}

impl Network {
    /// Builds a network of this very program, for `sessions` sessions.
    ///
    /// # Errors
    /// Namespaces are unavailable; a daemon does not start.
    pub fn up(set: &Set, sessions: u32) -> Result<Network> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Network::of(program, set, sessions)
    }

    /// Builds a network of another program that runs `earmark-studies`.
    ///
    /// # Errors
    /// The errors of [`Network::up`].
    pub fn of(program: PathBuf, set: &Set, sessions: u32) -> Result<Network> {
        let topology = chain(["s", "d"], set.routers)?;
        let mut settings = Settings { all_core: true, ..set.settings.clone() };
        // Writing to a string does not fail.
        let rsvp = settings.protocols.entry("rsvp").or_default();
        let _ = writeln!(rsvp, "reduction.enabled = {}", set.reduction);
        let options = Options::new(program.clone(), set.refresh);
        let options = Options { bound: true, bare_hosts: true, settings, ..options };
        let testbed = Testbed::up(topology, options)?;
        let (receiver, reduction) = (set.routers + 1, set.reduction);
        let network = Network { testbed, program, sender: 0, receiver, reduction };
        network.route_to_destinations(sessions)?;
        Ok(network)
    }

    /// Returns sessions between the ends, whose hosts have a refresh period R of their own.
    pub fn sessions(&self, count: u32, refresh: Duration) -> Result<Sessions> {
        let (sender, reduction) = (self.address(self.sender)?, self.reduction);
        Ok(Sessions { count, sender, refresh, reduction })
    }

    /// Starts the host of one end.
    pub fn start(&self, end: End, sessions: Sessions) -> Result<Host> {
        let node = match end {
            End::Sender(_) => self.sender,
            End::Receiver => self.receiver,
        };
        let order = HostPlan { end, sessions, here: self.address(node)? };
        let mut command = self.testbed.namespace(node).command(&self.program)?;
        command.args(["light-host", "--order", &serde_json::to_string(&order)?]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Host::listen_to(child.context("cannot start a light host")?)
    }

    /// Samples the resource use of a router's daemon; routers count from 1.
    pub fn sample(&self, router: usize) -> Result<Sample> {
        Sample::of(self.process(router)?)
            .with_context(|| format!("the daemon of r{router} does not run"))
    }

    /// Process id of a router's daemon.
    pub fn process(&self, router: usize) -> Result<u32> {
        self.testbed.process(router).context("the daemon has ended")
    }

    /// Namespaces of the sender and of the receiver.
    pub fn ends(&self) -> [&Namespace; 2] {
        [self.sender, self.receiver].map(|node| self.testbed.namespace(node))
    }

    /// Namespace of a router.
    pub fn router(&self, router: usize) -> &Namespace {
        self.testbed.namespace(router)
    }

    /// The receiver's own address.
    pub fn destination(&self) -> Result<Ipv4Addr> {
        self.address(self.receiver)
    }

    /// Address of the first router on the link to the sender.
    pub fn first_router(&self) -> Result<Ipv4Addr> {
        self.address(1)
    }

    /// Connects to the control socket of a router's daemon.
    pub fn client(&self, router: usize) -> Result<Client> {
        Ok(Client::connect(self.testbed.control(router))?)
    }

    /// Kills the daemon of a router (SIGKILL) and starts another; returns when it serves requests.
    pub fn restart(&mut self, router: usize) -> Result<()> {
        self.testbed.kill_daemon(router)?;
        self.testbed.start_daemon(router)?;
        self.testbed.await_daemon(router)
    }

    /// Messages lost in the sockets of all daemons: by a full receive buffer, or by a failed send.
    pub fn lost_in_routers(&self) -> Result<u64> {
        let mut lost = 0;
        for router in 1..self.receiver {
            let counters = self.client(router)?.show_counters()?;
            lost += counters["socket"]["overflowed"].as_u64().unwrap_or_default();
            lost += counters["driver"]["send_failed"].as_u64().unwrap_or_default();
        }
        Ok(lost)
    }

    fn address(&self, node: usize) -> Result<Ipv4Addr> {
        self.testbed.topology().address(node).context("a node without a link")
    }

    /// Gives the destinations' addresses to the receiver's host, and routes to them to all routers.
    fn route_to_destinations(&self, sessions: u32) -> Result<()> {
        let topology = self.testbed.topology();
        let (range, length) = DESTINATIONS;
        let prefix = Prefix::new(range.into(), length);
        for (node, hop) in topology.links.iter().map(|link| (link.ends[0].node, &link.ends[1])) {
            link::add_route(self.testbed.namespace(node), prefix, hop.address.into())?;
        }
        let receiver = self.testbed.namespace(self.receiver);
        for destination in self.sessions(sessions, Duration::ZERO)?.destinations() {
            link::add_address(receiver, "eth0", destination.into(), 32)?;
        }
        Ok(())
    }
}

/// Topology of a chain of `routers` routers between two hosts of these names.
pub(super) fn chain(ends: [&str; 2], routers: usize) -> Result<Topology> {
    Ok(Topology::parse(&chain_text(ends, routers))?)
}

/// Text of that topology.
pub(super) fn chain_text([first, last]: [&str; 2], routers: usize) -> String {
    let mut names = vec![first.to_owned()];
    names.extend((1..=routers).map(|n| format!("r{n}")));
    names.push(last.to_owned());
    let mut text = format!("name = \"earmark-bench-{}\"\n", std::process::id());
    for name in &names {
        // Writing to a string does not fail.
        let _ = write!(text, "[[node]]\nname = \"{name}\"\n");
    }
    for pair in names.windows(2) {
        let _ = write!(
            text,
            "[[link]]\nends = [\"{}\", \"{}\"]\nbandwidth = \"100Gbit\"\nqueue_packets = 1000\n",
            pair[0], pair[1]
        );
    }
    text
}

/// A process of a light host.
pub struct Host {
    child: Child,
    latest: Arc<Mutex<Option<Progress>>>,
    reader: Option<JoinHandle<Result<HostResult>>>,
}

impl Host {
    fn listen_to(mut child: Child) -> Result<Host> {
        let output = child.stdout.take().context("a child without its output")?;
        let latest = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&latest);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                match serde_json::from_str(&line?)? {
                    OutputLine::Progress(progress) => {
                        *shared.lock().expect("nobody panics with it") = Some(progress);
                    }
                    OutputLine::HostResult(account) => return Ok(account),
                }
            }
            bail!("a light host ended early; its errors are above")
        });
        Ok(Host { child, latest, reader: Some(reader) })
    }

    /// Returns the progress of the host.
    ///
    /// # Errors
    /// The process has ended.
    pub fn progress(&self) -> Result<Progress> {
        Ok(self.latest()?.unwrap_or_default())
    }

    /// Returns 1 once the host has written a line, which shows that its socket is open, and 0 before.
    ///
    /// # Errors
    /// The process has ended.
    pub fn started(&self) -> Result<u64> {
        Ok(self.latest()?.is_some().into())
    }

    fn latest(&self) -> Result<Option<Progress>> {
        if self.reader.as_ref().is_none_or(JoinHandle::is_finished) {
            bail!("a light host ended early; its errors are above");
        }
        Ok(*self.latest.lock().expect("nobody panics with it"))
    }

    /// Ends the host; returns its final result.
    pub fn finish(mut self) -> Result<HostResult> {
        drop(self.child.stdin.take());
        let reader = self.reader.take().context("it is finished once")?;
        let deadline = Instant::now() + RESULT_TIMEOUT;
        while !reader.is_finished() {
            if Instant::now() >= deadline {
                bail!("a light host does not end");
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        reader.join().expect("nothing there panics")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // Both fail only if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

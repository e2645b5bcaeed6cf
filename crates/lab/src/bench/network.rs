//! The network of a measurement: a chain of routers with real daemons, and a light host at either end.
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
use earmark::client::Client;
use earmark_core::Prefix;
use earmark_linux::link;
use earmark_linux::netns::Namespace;

use super::host::{Account, End, Line, Order, Progress};
use super::process::Sample;
use super::session::{DESTINATIONS, Sessions};
use crate::testbed::{Options, Settings, Testbed};
use earmark_scenario::topology::Topology;

/// How long a host may take to write its last line.
const FAREWELL: Duration = Duration::from_secs(20);

/// How the daemons of a measurement are set.
#[derive(Clone, Debug)]
pub struct Set {
    /// Routers in the chain.
    pub routers: usize,
    /// Their refresh period R.
    pub refresh: Duration,
    /// Whether daemons and hosts take part in refresh reduction (RFC 2961).
    pub reduction: bool,
    /// What else their configurations say.
    pub settings: Settings,
}

/// A network that is up. It goes down when it is dropped.
pub struct Network {
    testbed: Testbed,
    /// `earmark-lab`, for daemons and hosts.
    program: PathBuf,
    sender: usize,
    receiver: usize,
    reduction: bool,
}

impl Network {
    /// Builds one of this very program, with room for so many sessions.
    ///
    /// # Errors
    /// Namespaces are not to be had; a daemon does not start.
    pub fn up(set: &Set, sessions: u32) -> Result<Network> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        Network::of(program, set, sessions)
    }

    /// Likewise, for another program that runs `earmark-lab`.
    ///
    /// # Errors
    /// As of [`Network::up`].
    pub fn of(program: PathBuf, set: &Set, sessions: u32) -> Result<Network> {
        let topology = chain(["s", "d"], set.routers)?;
        let mut settings = set.settings.clone();
        // Writing to a string does not fail.
        let _ = writeln!(settings.rsvp, "reduction.enabled = {}", set.reduction);
        let options = Options::new(program.clone(), set.refresh);
        let options = Options { bound: true, bare_hosts: true, settings, ..options };
        let testbed = Testbed::up(topology, options)?;
        let (receiver, reduction) = (set.routers + 1, set.reduction);
        let network = Network { testbed, program, sender: 0, receiver, reduction };
        network.lead_to_destinations(sessions)?;
        Ok(network)
    }

    /// Sessions between its ends, whose hosts have a refresh period R of their own.
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
        let order = Order { end, sessions, here: self.address(node)? };
        let mut command = self.testbed.namespace(node).command(&self.program)?;
        command.args(["light-host", "--order", &serde_json::to_string(&order)?]);
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        Host::listen_to(child.context("cannot start a light host")?)
    }

    /// What the daemon of a router has cost so far; routers count from 1.
    pub fn sample(&self, router: usize) -> Result<Sample> {
        Sample::of(self.process(router)?)
            .with_context(|| format!("the daemon of r{router} does not run"))
    }

    /// The process of the daemon of a router.
    pub fn process(&self, router: usize) -> Result<u32> {
        self.testbed.process(router).context("the daemon has ended")
    }

    /// The namespaces of both ends: the sender's, the receiver's.
    pub fn ends(&self) -> [&Namespace; 2] {
        [self.sender, self.receiver].map(|node| self.testbed.namespace(node))
    }

    /// The receiver's own address.
    pub fn destination(&self) -> Result<Ipv4Addr> {
        self.address(self.receiver)
    }

    /// The address that the first router has towards the sender.
    pub fn first_router(&self) -> Result<Ipv4Addr> {
        self.address(1)
    }

    /// The control socket of a router's daemon.
    pub fn client(&self, router: usize) -> Result<Client> {
        Ok(Client::connect(self.testbed.control(router))?)
    }

    /// Kills the daemon of a router at once (SIGKILL), and starts another, which serves when this returns.
    pub fn restart(&mut self, router: usize) -> Result<()> {
        self.testbed.kill_daemon(router)?;
        self.testbed.start_daemon(router)?;
        self.testbed.await_daemon(router)
    }

    /// Messages that the sockets of all daemons have lost: where the receive buffer was full, where sending failed.
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

    /// The receiver's host has the destinations' addresses, and everybody knows the way.
    fn lead_to_destinations(&self, sessions: u32) -> Result<()> {
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

/// A chain of this many routers between two hosts of these names.
pub(super) fn chain(ends: [&str; 2], routers: usize) -> Result<Topology> {
    Ok(Topology::parse(&chain_text(ends, routers))?)
}

/// Likewise, as the text of a topology.
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

/// The process of a light host.
pub struct Host {
    child: Child,
    latest: Arc<Mutex<Option<Progress>>>,
    reader: Option<JoinHandle<Result<Account>>>,
}

impl Host {
    fn listen_to(mut child: Child) -> Result<Host> {
        let output = child.stdout.take().context("a child without its output")?;
        let latest = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&latest);
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(output).lines() {
                match serde_json::from_str(&line?)? {
                    Line::Progress(progress) => {
                        *shared.lock().expect("nobody panics with it") = Some(progress);
                    }
                    Line::Account(account) => return Ok(account),
                }
            }
            bail!("a light host ended early; what it said is above")
        });
        Ok(Host { child, latest, reader: Some(reader) })
    }

    /// How far it is.
    ///
    /// # Errors
    /// It has ended.
    pub fn progress(&self) -> Result<Progress> {
        Ok(self.latest()?.unwrap_or_default())
    }

    /// 1 once it has said something, and so has its socket open; 0 before.
    ///
    /// # Errors
    /// It has ended.
    pub fn heard_of(&self) -> Result<u64> {
        Ok(self.latest()?.is_some().into())
    }

    fn latest(&self) -> Result<Option<Progress>> {
        if self.reader.as_ref().is_none_or(JoinHandle::is_finished) {
            bail!("a light host ended early; what it said is above");
        }
        Ok(*self.latest.lock().expect("nobody panics with it"))
    }

    /// Ends it; gives everything it can tell.
    pub fn finish(mut self) -> Result<Account> {
        drop(self.child.stdin.take());
        let reader = self.reader.take().context("it is finished once")?;
        let deadline = Instant::now() + FAREWELL;
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
        // Both fail only where it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

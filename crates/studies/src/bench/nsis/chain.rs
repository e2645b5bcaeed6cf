//! Network of an NSIS measurement: a chain of daemons, and a first host inside this program.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use earmark_control::Client;
use earmark_control::Listing;
use earmark_linux::frames::Frames;
use earmark_node::AssociationRow;
use earmarkd::config::Config;
use earmarkd::protocols::nsis::NsisConfig;
use serde::Serialize;
use serde_json::Value;

use super::super::network::chain_text;
use super::super::process::Sample;
use super::sender::Sender;
use super::{Service, Transport};
use earmark_lab::protocols::nsis::tls_keys::Keys;
use earmark_lab::testbed::{Options, Settings, Testbed};
use earmark_scenario::topology::Topology;

/// Settings of the nodes of a chain.
#[derive(Clone, Debug)]
pub struct Set {
    /// Hops from host to host; one more than there are routers.
    pub hops: usize,
    /// Whether a second sender, `h3`, is attached to the first router; this needs two hops or more.
    pub second_sender: bool,
    /// Transport of the messages.
    pub transport: Transport,
    /// Application whose sessions are set up.
    pub service: Service,
    /// Refresh interval of the application.
    pub refresh: Duration,
    /// Largest number of further sessions that one refresh covers.
    pub summary: u32,
    /// Validity of GIST routing state without a refresh.
    pub validity: Duration,
    /// Time that a node keeps an idle association open.
    pub hold: Duration,
    /// Further settings of the `[[interface]]` tables.
    pub interface: String,
}

impl Set {
    /// A chain of `hops` hops over this transport, with refresh intervals of 30 s for QoS NSLP and 180 s for GIST, as
    /// in the published measurement; without traffic control.
    pub fn new(hops: usize, transport: Transport) -> Set {
        Set {
            hops,
            second_sender: false,
            transport,
            service: Service::Qos,
            refresh: Duration::from_secs(30),
            summary: 0,
            validity: Duration::from_secs(180),
            hold: Duration::from_secs(30),
            interface: "queues = \"none\"\n".to_owned(),
        }
    }
}

/// A running chain. Dropping the value removes it.
pub struct Chain {
    testbed: Testbed,
    /// Keys, read by the daemons at their start and by this host when it begins.
    _keys: Option<Keys>,
    last: usize,
    service: Service,
}

impl Chain {
    /// Builds a chain of this very program.
    ///
    /// # Errors
    /// Namespaces are unavailable; a daemon does not start.
    pub fn up(set: &Set) -> Result<Chain> {
        Chain::of(std::env::current_exe().context("cannot find this program's own file")?, set)
    }

    /// Builds a chain of another program that runs `earmark-studies`.
    ///
    /// # Errors
    /// The errors of [`Chain::up`].
    pub fn of(program: PathBuf, set: &Set) -> Result<Chain> {
        let topology = topology(set)?;
        let nodes = || topology.nodes.iter().map(|node| node.name.as_str());
        let keys = (set.transport == Transport::Tls)
            .then(|| Keys::make(&topology.name, nodes()))
            .transpose()?;
        let own = |node: &str| {
            let keys = keys.as_ref().map(|keys| keys.settings(node)).unwrap_or_default();
            let natfw = (set.service == Service::Natfw).then(|| natfw_settings(set, node));
            ((node.to_owned(), "nsis"), keys + &natfw.unwrap_or_default())
        };
        let own_protocols: BTreeMap<_, _> = nodes().map(own).collect();
        let millis = |time: Duration| time.as_millis();
        let nsis = format!(
            "refresh = \"{}ms\"\nsummary = {}\nvalidity = \"{}ms\"\nhold = \"{}ms\"\nrequire = \"{}\"\n",
            millis(set.refresh),
            set.summary,
            millis(set.validity),
            millis(set.hold),
            set.transport.need()
        );
        let settings = Settings {
            protocols: [("nsis", nsis)].into(),
            own_protocols,
            all_core: true,
            interface: format!("protocols = [\"nsis\"]\n{}", set.interface),
            ..Settings::default()
        };
        // The refresh period of RSVP, which this chain does not use.
        let options = Options::new(program, Duration::from_secs(30));
        let options = Options { bound: true, bare_hosts: true, settings, ..options };
        let mut testbed = Testbed::up(topology, options)?;
        testbed.start_daemon(set.hops)?;
        testbed.await_daemon(set.hops)?;
        Ok(Chain { testbed, _keys: keys, last: set.hops, service: set.service })
    }

    /// Nodes that are daemons, in the order of the path: the routers and the last host.
    pub fn daemons(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.last
    }

    /// Returns the name of a node.
    pub fn name(&self, node: usize) -> &str {
        &self.testbed.topology().nodes[node].name
    }

    /// Samples the resource use of a daemon.
    pub fn sample(&self, node: usize) -> Result<Sample> {
        let process = self.testbed.process(node).context("the daemon has ended")?;
        Sample::of(process)
            .with_context(|| format!("the daemon of {} does not run", self.name(node)))
    }

    /// Samples the resource use of all daemons.
    pub fn samples(&self) -> Result<Vec<Sample>> {
        self.daemons().map(|node| self.sample(node)).collect()
    }

    /// Connects to the control socket of a daemon.
    pub fn client(&self, node: usize) -> Result<Client> {
        Ok(Client::connect(self.testbed.control(node))?)
    }

    /// Associations with peers at all daemons, each counted at both ends.
    pub fn associations(&self) -> Result<usize> {
        let count = |node| {
            let rows = self.client(node)?.show::<AssociationRow>(Listing::Associations)?.rows;
            Ok(rows.len())
        };
        self.daemons().map(count).sum()
    }

    /// Losses at all daemons so far.
    pub fn losses(&self) -> Result<Losses> {
        let mut losses = Losses::default();
        for node in self.daemons() {
            let counters = self.client(node)?.show_counters()?;
            let count =
                |path: &str| counters.pointer(path).and_then(Value::as_u64).unwrap_or_default();
            losses.overflowed += count("/socket/overflowed");
            losses.unsent += count("/driver/send_failed");
            losses.expired += count("/qos_nslp/sessions/expired")
                + count("/natfw_nslp/sessions/expired")
                + count("/natfw_nslp/sessions/filter_refused");
            losses.repeated += count("/qos_nslp/messages/repeated")
                + count("/natfw_nslp/messages/repeated")
                + count("/gist/routing/repeated");
        }
        Ok(losses)
    }

    /// Runs a function on a thread inside the first host, with the node there.
    ///
    /// # Errors
    /// The node cannot start there, or the function fails.
    pub fn in_first_host<T: Send>(
        &self,
        work: impl FnOnce(&mut Sender) -> Result<T> + Send,
    ) -> Result<T> {
        self.in_host(0, &|_| {}, work)
    }

    /// Runs a function on a thread inside the second sender.
    ///
    /// # Errors
    /// The chain has no second sender; otherwise the errors of [`Chain::in_first_host`].
    pub fn in_second_sender<T: Send>(
        &self,
        work: impl FnOnce(&mut Sender) -> Result<T> + Send,
    ) -> Result<T> {
        ensure!(self.testbed.topology().nodes.len() > self.last + 1, "there is one sender");
        self.in_host(self.last + 1, &|_| {}, work)
    }

    /// Runs a function inside the first host, whose node proposes another validity of routing state than all others.
    ///
    /// # Errors
    /// The errors of [`Chain::in_first_host`].
    pub fn in_first_host_with_validity<T: Send>(
        &self,
        validity: Duration,
        work: impl FnOnce(&mut Sender) -> Result<T> + Send,
    ) -> Result<T> {
        let change = move |nsis: &mut NsisConfig| nsis.engine.gist.validity = validity;
        self.in_host(0, &move |config| config.settings.change(change), work)
    }

    fn in_host<T: Send>(
        &self,
        node: usize,
        change: &dyn Fn(&mut Config),
        work: impl FnOnce(&mut Sender) -> Result<T> + Send,
    ) -> Result<T> {
        let mut config = Config::load(&self.testbed.configuration(node))?;
        change(&mut config);
        let (from, to) = (self.address(node)?, self.address(self.last)?);
        self.testbed
            .namespace(node)
            .run_in(|| work(&mut Sender::start(&config, (from, to), self.service)?))?
    }

    /// Captures all frames that pass a node, from now on.
    ///
    /// # Errors
    /// A packet socket is unavailable there.
    pub fn frames(&self, node: usize) -> Result<Frames> {
        let seen = self.testbed.namespace(node).run_in(Frames::open)?;
        seen.with_context(|| format!("cannot see the frames of {}", self.name(node)))
    }

    /// Addresses of a node, one for each of its links.
    pub fn addresses(&self, node: usize) -> Vec<Ipv4Addr> {
        let ends = self.testbed.topology().interfaces(node);
        ends.map(|(end, _)| end.address).collect()
    }

    fn address(&self, node: usize) -> Result<Ipv4Addr> {
        self.testbed.topology().address(node).context("a node without a link")
    }
}

/// Losses and retransmissions at daemons, by their counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Losses {
    /// Messages lost because the socket's receive buffer was full.
    pub overflowed: u64,
    /// Messages that the kernel rejected.
    pub unsent: u64,
    /// Sessions that expired without a refresh.
    pub expired: u64,
    /// Messages that were retransmitted because no answer came.
    pub repeated: u64,
}

impl Losses {
    /// Returns the losses since an earlier sample.
    #[must_use]
    pub fn since(self, earlier: Losses) -> Losses {
        Losses {
            overflowed: self.overflowed - earlier.overflowed,
            unsent: self.unsent - earlier.unsent,
            expired: self.expired - earlier.expired,
            repeated: self.repeated - earlier.repeated,
        }
    }

    /// Number of lost messages and sessions.
    pub fn total(self) -> u64 {
        self.overflowed + self.unsent + self.expired
    }
}

/// Returns the table `[natfw]` of a node: routers are firewalls that grant everything, and hosts accept everything.
fn natfw_settings(set: &Set, node: &str) -> String {
    // The lifetime whose refreshes have this interval (RFC 5973 section 3.4).
    let lifetime = (set.refresh * 21 / 4).as_secs().max(1);
    // One host opens all paths, faster than a host is allowed to by default.
    let text = format!(
        "\n[natfw]\nenabled = true\nlifetime = \"{lifetime}s\"\nchanges_per_second = 1000000\n"
    );
    match node.starts_with('r') {
        true => format!("{text}firewall = true\n[[natfw.rule]]\n"),
        false => format!("{text}responder = \"any\"\n"),
    }
}

/// Topology of a chain between the hosts `h1` and `h2`, with `h3` at its first router if `set` requests it.
fn topology(set: &Set) -> Result<Topology> {
    let mut text = chain_text(["h1", "h2"], set.hops.saturating_sub(1));
    if set.second_sender {
        text.push_str(
            "[[node]]\nname = \"h3\"\n[[link]]\nends = [\"h3\", \"r1\"]\nbandwidth = \"100Gbit\"\nqueue_packets = 1000\n",
        );
    }
    Ok(Topology::parse(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_one_router_less_than_hops() {
        let topology = topology(&Set::new(4, Transport::Datagram)).unwrap();
        let names: Vec<_> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["h1", "r1", "r2", "r3", "h2"]);
        assert_eq!(topology.links.len(), 4);
        let two = Set { second_sender: true, ..Set::new(2, Transport::Datagram) };
        let topology = super::topology(&two).unwrap();
        let names: Vec<_> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["h1", "r1", "h2", "h3"]);
    }
}

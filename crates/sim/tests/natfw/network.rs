//! The network of these tests, its streams, and the requests of its applications.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Endpoint, FilterRule, Hop, InterfaceId, Prefix, Rate, Route, Time};
use earmark_node::{Command, Event as NodeEvent, NodeConfig};
use earmark_nsis::gist::UpstreamQueries;
use earmark_nsis::natfw::{
    Application, Command as NatfwCommand, Config, Event, ExposeRequest, OpenRequest, Refusal,
    Responder, Rule, SessionView, Translator,
};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::{Command as NsisCommand, Event as NsisEvent, Nsis};
use earmark_sim::{
    Keep, LinkEnd, LinkSpec, LogEvent, Network, NodeId, Source, StreamId, TrafficPattern,
};

/// Addresses of the ends of a link.
type Addresses = [&'static str; 2];

/// Links: nodes, and addresses in IPv4 and IPv6. The interfaces at both ends are named by the number: `eth0`, `eth1`.
const LINKS: [(&str, &str, Addresses, Addresses); 10] = [
    ("c", "fw1", ["10.0.0.1", "10.0.0.2"], ["2001:db8:a::1", "2001:db8:a::2"]),
    ("fw1", "nat", ["10.0.1.1", "10.0.1.2"], ["2001:db8:a:1::1", "2001:db8:a:1::2"]),
    ("nat", "r", ["203.0.113.1", "203.0.113.2"], ["2001:db8:b::1", "2001:db8:b::2"]),
    ("r", "fw2", ["198.51.100.1", "198.51.100.2"], ["2001:db8:c::1", "2001:db8:c::2"]),
    ("fw2", "e", ["198.51.100.5", "198.51.100.6"], ["2001:db8:c:1::1", "2001:db8:c:1::2"]),
    ("e", "s", ["198.51.100.9", "198.51.100.10"], ["2001:db8:c:2::1", "2001:db8:c:2::2"]),
    ("r", "fw3", ["198.51.100.13", "198.51.100.14"], ["2001:db8:c:3::1", "2001:db8:c:3::2"]),
    ("fw3", "e", ["198.51.100.17", "198.51.100.18"], ["2001:db8:c:4::1", "2001:db8:c:4::2"]),
    ("r", "o", ["192.0.2.1", "192.0.2.2"], ["2001:db8:d::1", "2001:db8:d::2"]),
    ("r", "p", ["192.0.2.5", "192.0.2.6"], ["2001:db8:d:1::1", "2001:db8:d:1::2"]),
];
/// Routes: node, link whose range they lead to (10: all), and link by which they do.
const ROUTES: [(&str, usize, usize); 17] = [
    ("c", 10, 0),
    ("fw1", 10, 1),
    ("nat", 10, 2),
    ("nat", 0, 1),
    ("r", 4, 3),
    ("r", 5, 3),
    ("r", 7, 6),
    ("fw2", 10, 3),
    ("fw2", 5, 4),
    ("e", 10, 4),
    ("fw3", 10, 6),
    ("fw3", 5, 7),
    ("s", 10, 5),
    ("o", 10, 8),
    ("p", 10, 9),
    // Without a translator the addresses inside are known outside.
    ("r", 0, 2),
    ("r", 1, 2),
];

/// Guarded interfaces: node and link.
const GUARDED: [(&str, usize); 5] = [("fw1", 0), ("fw1", 1), ("nat", 2), ("fw2", 3), ("fw3", 6)];

/// The network, and its nodes by name.
pub(crate) struct Net {
    pub(crate) network: Network,
    nodes: BTreeMap<&'static str, NodeId>,
    interfaces: BTreeMap<(&'static str, usize), InterfaceId>,
    ipv6: bool,
    /// Settings by node.
    pub(crate) settings: BTreeMap<&'static str, Config>,
}

/// Settings of an end, and of a router that is no middlebox.
fn usual() -> Config {
    Config { enabled: true, ..Config::default() }
}

/// Settings of a firewall with these external interfaces.
fn firewall(external: &[&str]) -> Config {
    let rule = Rule { wildcards: true, deny: true, ..Rule::default() };
    Config {
        firewall: true,
        external: external.iter().map(|name| (*name).to_owned()).collect(),
        rules: vec![rule],
        ..usual()
    }
}

impl Net {
    /// Creates the network; in IPv6 `nat` is a firewall only. `change` changes the settings of a node.
    pub(crate) fn with(ipv6: bool, change: &dyn Fn(&str, &mut Config)) -> Net {
        Net::with_transport(ipv6, change, Attributes::default())
    }

    /// Creates the network; QoS NSLP sends with these attributes.
    pub(crate) fn with_transport(
        ipv6: bool,
        change: &dyn Fn(&str, &mut Config),
        of_qos: Attributes,
    ) -> Net {
        let mut network = Network::new(5);
        let (mut nodes, mut settings) = (BTreeMap::new(), BTreeMap::new());
        for name in ["c", "fw1", "nat", "r", "fw2", "e", "s", "fw3", "o", "p"] {
            let mut natfw = match name {
                "fw1" => firewall(&[]),
                "nat" => Config {
                    translator: (!ipv6).then(Translator::default),
                    signaling_destination: None,
                    ..firewall(&["eth2"])
                },
                "fw2" => firewall(&["eth3"]),
                "fw3" => firewall(&["eth6"]),
                _ => usual(),
            };
            let outside = if ipv6 { "2001:db8:d::2" } else { "192.0.2.2" };
            natfw.signaling_destination = Some(address(outside));
            change(name, &mut natfw);
            settings.insert(name, natfw);
            let node = match name {
                "p" => network.add_plain_node(name, false),
                _ => network.add_node(
                    name,
                    !matches!(name, "c" | "s" | "o"),
                    config(&settings[name], of_qos),
                ),
            };
            nodes.insert(name, node);
        }
        let mut net = Net { network, nodes, interfaces: BTreeMap::new(), ipv6, settings };
        for (number, (a, b, v4, v6)) in LINKS.into_iter().enumerate() {
            net.connect(number, [a, b], if ipv6 { v6 } else { v4 });
        }
        let known = if ipv6 { ROUTES.len() } else { ROUTES.len() - 2 };
        for (node, to, by) in ROUTES.into_iter().take(known) {
            let route = net.route(node, to, by);
            net.network.add_route(net.nodes[node], route);
        }
        for (node, link) in GUARDED {
            // Without a signalling destination a firewall guards nothing.
            if net.settings[node].signaling_destination.is_some() {
                net.network.guard(net.nodes[node], net.interfaces[&(node, link)]);
            }
        }
        net
    }

    pub(crate) fn new() -> Net {
        Net::with(false, &|_, _| {})
    }

    fn connect(&mut self, number: usize, ends: [&'static str; 2], at: Addresses) {
        let end = |side: usize| LinkEnd {
            node: self.nodes[ends[side]],
            interface: format!("eth{number}"),
            address: address(at[side]),
        };
        let bandwidth = Rate::from_mbps(100);
        let ids = self.network.add_link(LinkSpec {
            ends: [end(0), end(1)],
            prefix: Prefix::new(address(at[0]), if self.ipv6 { 64 } else { 30 }),
            bandwidth,
            reservable: bandwidth,
            delay: Duration::from_millis(1),
            queue_packets: 50,
        });
        for side in [0, 1] {
            self.interfaces.insert((ends[side], number), ids[side]);
        }
    }

    /// Returns the route of a node to the range of a link by another link.
    pub(crate) fn route(&self, node: &'static str, to: usize, by: usize) -> Route {
        let (a, _, v4, v6) = LINKS[by];
        let gateway = (if self.ipv6 { v6 } else { v4 })[usize::from(a == node)];
        let prefix = match LINKS.get(to) {
            None => Prefix::everything(self.ipv6),
            Some((_, _, _, v6)) if self.ipv6 => Prefix::new(address(v6[0]), 64),
            Some((_, _, v4, _)) => Prefix::new(address(v4[0]), 30),
        };
        let interface = self.interfaces[&(node, by)];
        let hop = Hop { interface, gateway: Some(address(gateway)), source: None };
        Route { prefix, metric: 1, hop }
    }

    pub(crate) fn interface(&self, node: &'static str, link: usize) -> InterfaceId {
        self.interfaces[&(node, link)]
    }

    pub(crate) fn id(&self, node: &str) -> NodeId {
        self.nodes[node]
    }

    /// Returns the address of an end: `c`, `s`, `o` or `p`; of others that towards the client.
    pub(crate) fn address(&self, node: &str) -> IpAddr {
        let (side, (_, _, v4, v6)) = match node {
            "c" => (0, LINKS[0]),
            "nat" => (0, LINKS[2]),
            "s" => (1, LINKS[5]),
            "o" => (1, LINKS[8]),
            "p" => (1, LINKS[9]),
            _ => panic!("{node} is no end"),
        };
        address(if self.ipv6 { v6[side] } else { v4[side] })
    }

    pub(crate) fn run(&mut self, seconds: u64) {
        let until = self.network.now() + Duration::from_secs(seconds);
        self.network.run_until(until);
    }

    pub(crate) fn command(&mut self, node: &str, command: NatfwCommand) {
        self.network.command(self.nodes[node], Command::Nsis(NsisCommand::Natfw(command)));
    }

    /// Opens the path of UDP packets from a node, port 5000, to a destination, port 6000, and runs for two seconds.
    pub(crate) fn open(&mut self, node: &str, application: u64, destination: IpAddr) {
        self.open_with(node, application, OpenRequest { ..open_request(destination) });
    }

    pub(crate) fn open_with(&mut self, node: &str, application: u64, request: OpenRequest) {
        let application = Application(application);
        self.command(node, NatfwCommand::Open { application, request });
        self.run(2);
    }

    /// Exposes a port of a node, and runs for two seconds.
    pub(crate) fn expose(&mut self, node: &str, application: u64, request: ExposeRequest) {
        let application = Application(application);
        self.command(node, NatfwCommand::Expose { application, request });
        self.run(2);
    }

    pub(crate) fn release(&mut self, node: &str, application: u64) {
        self.command(node, NatfwCommand::Release { application: Application(application) });
        self.run(2);
    }

    /// Adds a stream of 100 packets a second that does not end.
    pub(crate) fn stream(&mut self, node: &str, port: u16, to: IpAddr, to_port: u16) -> StreamId {
        self.network.add_source(Source {
            node: self.nodes[node],
            port,
            destination: to,
            destination_port: to_port,
            dscp: 0,
            pattern: TrafficPattern::Constant(Rate::from_bps(80_000)),
            packet_octets: 100,
            from: self.network.now(),
            until: Time::MAX,
            keep: Keep::Counts,
        })
    }

    /// Runs for two seconds, and returns whether all packets of a stream of the second one arrive, or none.
    pub(crate) fn passes(&mut self, stream: StreamId) -> bool {
        self.run(1);
        let before = self.network.counts(stream).1;
        self.run(1);
        let received = self.network.counts(stream).1 - before;
        assert!(received == 0 || (98..=102).contains(&received), "{received} of 100");
        received > 0
    }

    /// Returns the events of NATFW NSLP at a node since the last call for any node.
    pub(crate) fn events(&mut self, node: &str) -> Vec<Event> {
        let id = self.nodes[node];
        let log = self.network.take_log();
        let of_node = log.into_iter().filter(|entry| entry.node == id);
        of_node
            .filter_map(|entry| match entry.what {
                LogEvent::Event(NodeEvent::Nsis(NsisEvent::Natfw(event))) => Some(event),
                _ => None,
            })
            .collect()
    }

    /// Returns the rules in the packet filter of a node.
    pub(crate) fn rules(&self, node: &str) -> Vec<FilterRule> {
        self.network.filter_rules(self.nodes[node]).map(|(rule, _)| rule).collect()
    }

    /// Returns the number of rules at each middlebox that is named.
    pub(crate) fn rule_counts<const N: usize>(&self, nodes: [&str; N]) -> [usize; N] {
        nodes.map(|node| self.rules(node).len())
    }

    /// Returns the sessions of a node.
    pub(crate) fn sessions(&self, node: &str) -> Vec<SessionView> {
        let engine = self.network.node(self.nodes[node]).and_then(|node| node.engine::<Nsis>());
        engine.map_or(Vec::new(), |engine| engine.natfw().sessions().collect())
    }

    /// Returns the source that the translator gives to the packets of the only rule that translates it.
    pub(crate) fn external_source(&self) -> Endpoint {
        let sources: Vec<Endpoint> =
            self.rules("nat").into_iter().filter_map(|rule| rule.source).collect();
        assert_eq!(sources.len(), 1, "{sources:?}");
        sources[0]
    }
}

/// Makes an end accept all sessions.
pub(crate) fn accept_all(name: &str, config: &mut Config) {
    if matches!(name, "c" | "s" | "o") {
        config.responder = Responder::Any;
    }
}

/// Returns whether a request was granted.
pub(crate) fn granted(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Granted { .. }))
}

/// Returns why a request was refused.
pub(crate) fn refusal(events: &[Event]) -> Option<Refusal> {
    events.iter().find_map(|event| match event {
        Event::Refused { refusal, .. } => Some(*refusal),
        _ => None,
    })
}

/// Returns the external address and port that a request was granted.
pub(crate) fn external_of(events: &[Event]) -> Endpoint {
    let external = events.iter().find_map(|event| match event {
        Event::Granted { external, .. } => *external,
        _ => None,
    });
    external.unwrap_or_else(|| panic!("no external address: {events:?}"))
}

pub(crate) fn config(natfw: &Config, of_qos: Attributes) -> NodeConfig {
    let mut config = NodeConfig::default();
    config.nsis.qos.attributes = of_qos;
    config.nsis.natfw = natfw.clone();
    config.nsis.gist.upstream_queries = UpstreamQueries::Routed;
    config
}

pub(crate) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns a request for UDP from port 5000 to port 6000.
pub(crate) fn open_request(destination: IpAddr) -> OpenRequest {
    OpenRequest {
        source_port: Some(5_000),
        destination_port: Some(6_000),
        protocol: Some(17),
        lifetime: Some(Duration::from_secs(60)),
        ..OpenRequest::new(destination)
    }
}

/// Returns a request that allows UDP from a data sender to port 6000.
pub(crate) fn expose_request(from: Option<IpAddr>) -> ExposeRequest {
    ExposeRequest { from, lifetime: Some(Duration::from_secs(60)), ..ExposeRequest::new(17, 6_000) }
}

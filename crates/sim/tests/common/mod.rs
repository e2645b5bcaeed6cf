//! Construction of test networks: nodes connected by links with addresses of their own, and routes to every link.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use earmark_core::{Hop, InterfaceId, Prefix, Rate, Route};
use earmark_node::{Node, NodeConfig, QueueView};
use earmark_rsvp as rsvp;
use earmark_sim::{LinkEnd, LinkSpec, Network, NodeId};

/// IP version of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    #[allow(dead_code, reason = "not every test has it")]
    V6,
}

/// A network under construction. Links are numbered in the order of their addition.
pub(crate) struct Bench {
    pub(crate) network: Network,
    pub(crate) links: Vec<Link>,
    family: Family,
    /// Whether a node is a router; by node.
    routers: BTreeMap<NodeId, bool>,
    config: NodeConfig,
}

/// One link, and the node and interface at each side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) ends: [(NodeId, InterfaceId); 2],
    pub(crate) addresses: [IpAddr; 2],
    prefix: Prefix,
}

impl Bench {
    #[allow(dead_code, reason = "for tests of RSVP alone")]
    pub(crate) fn new(seed: u64, family: Family, rsvp: rsvp::Config) -> Bench {
        Bench::with(seed, family, NodeConfig { rsvp, ..NodeConfig::default() })
    }

    pub(crate) fn with(seed: u64, family: Family, config: NodeConfig) -> Bench {
        let (network, routers) = (Network::new(seed), BTreeMap::new());
        Bench { network, links: Vec::new(), family, routers, config }
    }

    pub(crate) fn router(&mut self, name: &str) -> NodeId {
        let node = self.network.add_node(name, true, self.config.clone());
        self.routers.insert(node, true);
        node
    }

    /// Adds a router with settings of its own.
    #[allow(dead_code, reason = "not every test has one")]
    pub(crate) fn router_with(&mut self, name: &str, config: NodeConfig) -> NodeId {
        let node = self.network.add_node(name, true, config);
        self.routers.insert(node, true);
        node
    }

    /// Adds a host behind a router; returns it with the number of its link.
    pub(crate) fn host(&mut self, name: &str, router: NodeId, bandwidth: Rate) -> (NodeId, usize) {
        let node = self.network.add_node(name, false, self.config.clone());
        self.routers.insert(node, false);
        (node, self.connect(node, router, bandwidth))
    }

    /// Adds a host without Earmark behind a router; returns it with the number of its link.
    #[allow(dead_code, reason = "not every test has one")]
    pub(crate) fn plain_host(
        &mut self,
        name: &str,
        router: NodeId,
        bandwidth: Rate,
    ) -> (NodeId, usize) {
        let node = self.network.add_plain_node(name, false);
        self.routers.insert(node, false);
        (node, self.connect(node, router, bandwidth))
    }

    /// Connects two nodes by a link of 1 ms, all of which may be reserved; returns its number.
    pub(crate) fn connect(&mut self, a: NodeId, b: NodeId, bandwidth: Rate) -> usize {
        let number = self.links.len() as u16;
        let (prefix, addresses) = addresses(self.family, number);
        let end = |node, side: usize| LinkEnd {
            node,
            interface: format!("link{number}"),
            address: addresses[side],
        };
        let interfaces = self.network.add_link(LinkSpec {
            ends: [end(a, 0), end(b, 1)],
            prefix,
            bandwidth,
            reservable: bandwidth,
            delay: Duration::from_millis(1),
            queue_packets: 50,
        });
        let ends = [(a, interfaces[0]), (b, interfaces[1])];
        self.links.push(Link { ends, addresses, prefix });
        usize::from(number)
    }

    /// Adds the routes: the shortest path to each link, and a default route at each host. Call once, after all links.
    pub(crate) fn route(&mut self) {
        for (&node, &router) in &self.routers.clone() {
            let hops = self.first_hops(node);
            if router {
                for link in self.links.clone() {
                    let near = link.ends.iter().filter_map(|(end, _)| hops.get(end)).min();
                    if let Some(&(_, hop)) = near {
                        let prefix = link.prefix;
                        self.network.add_route(node, Route { prefix, metric: 1, hop });
                    }
                }
            } else if let Some((_, hop)) = hops.values().next() {
                let all = match self.family {
                    Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                    Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
                };
                let prefix = Prefix::new(all, 0);
                self.network.add_route(node, Route { prefix, metric: 1, hop: *hop });
            }
        }
    }

    /// Returns the distance of each other node, and the first hop towards it.
    fn first_hops(&self, root: NodeId) -> BTreeMap<NodeId, (usize, Hop)> {
        let mut hops: BTreeMap<NodeId, (usize, Hop)> = BTreeMap::new();
        let mut waiting = VecDeque::from([root]);
        while let Some(from) = waiting.pop_front() {
            if from != root && !self.routers[&from] {
                continue;
            }
            for link in &self.links {
                for side in [0, 1] {
                    let ((near, interface), (far, _)) = (link.ends[side], link.ends[1 - side]);
                    if near != from || far == root || hops.contains_key(&far) {
                        continue;
                    }
                    let gateway = Some(link.addresses[1 - side]);
                    let own = Hop { interface, gateway, source: None };
                    let (distance, first) = hops.get(&from).copied().unwrap_or((0, own));
                    hops.insert(far, (distance + 1, first));
                    waiting.push_back(far);
                }
            }
        }
        hops
    }
}

/// Returns the address range of a link, and the addresses of its two ends.
fn addresses(family: Family, number: u16) -> (Prefix, [IpAddr; 2]) {
    let [high, low] = number.to_be_bytes();
    match family {
        Family::V4 => {
            let at = |host| IpAddr::V4(Ipv4Addr::new(10, high, low, host));
            (Prefix::new(at(0), 30), [at(1), at(2)])
        }
        Family::V6 => {
            let at = |host| IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, number, 0, 0, 0, 0, host));
            (Prefix::new(at(0), 64), [at(1), at(2)])
        }
    }
}

/// Asserts that at every node with a daemon each link's ledger holds the sum of the reservations on it, of all
/// protocols, and that traffic control has exactly these reservations.
#[allow(dead_code, reason = "for the tests of more than one protocol")]
pub(crate) fn books_are_right(network: &Network) {
    for id in network.nodes() {
        let Some(node) = network.node(id) else { continue };
        let mut claims = Vec::new();
        // Rows without a claim are those of receivers on this host; each row that shares a claim shows it.
        let rows = node.reservation_rows(network.now(), |claim| {
            claims.push(claim);
            QueueView::default()
        });
        rows.for_each(drop);
        claims.sort_unstable();
        claims.dedup();
        let mut held: BTreeMap<InterfaceId, Rate> = BTreeMap::new();
        for &claim in &claims {
            let ledger = node.ledger();
            let link = ledger.link_of(claim).expect("a claim is on a link");
            let rate = ledger.demand(claim).expect("a claim holds something").rate;
            let sum = held.entry(link).or_insert(Rate::ZERO);
            *sum = Rate::from_bps(sum.as_bps() + rate.as_bps());
        }
        let mut installed: BTreeMap<InterfaceId, Rate> = BTreeMap::new();
        for (link, reserved) in network.traffic_control(id) {
            let sum = installed.entry(link).or_insert(Rate::ZERO);
            *sum = Rate::from_bps(sum.as_bps() + reserved.demand.rate.as_bps());
        }
        for (link, status) in node.ledger().links() {
            let expected = held.get(&link).copied().unwrap_or(Rate::ZERO);
            assert_eq!(status.held, expected, "{} link {}", node.name(), link.0);
            let queued = installed.get(&link).copied().unwrap_or(Rate::ZERO);
            assert_eq!(queued, expected, "traffic control of {} link {}", node.name(), link.0);
        }
    }
}

/// Returns the numbers of sessions and of own loops that Boomerang has on a node.
#[allow(dead_code, reason = "not every test has it")]
pub(crate) fn boomerang_population(node: &Node) -> (usize, usize) {
    let engine = node.engine::<earmark_boomerang::Boomerang>();
    engine.expect("a node with Boomerang").population()
}

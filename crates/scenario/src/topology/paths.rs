//! Paths through a topology: shortest paths from a node, the resulting routes, and their lengths.
//!
//! One Dijkstra per requested node, over the routers alone: a host on a single link is reached by its router. Costs
//! are compared first by the topology's [`Metric`], then by links, so that all shortest paths between two nodes have
//! equally many links, and a packet that each router forwards along a shortest path of its own comes nearer with
//! every hop. Among equals the one whose first links come first in the topology wins.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::Prefix;

use super::areas::{self, Covering};
use super::{Metric, Role, Topology};

/// Route of a node to a range other than those of its own links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// Destinations.
    pub prefix: Prefix,
    /// Next router.
    pub gateway: IpAddr,
    /// Outgoing interface.
    pub interface: String,
}

/// Paths of one topology, cached for several calls.
#[derive(Debug)]
pub struct Paths<'a> {
    topology: &'a Topology,
    /// Links of each node, with the end that it has.
    ends: Vec<Vec<Side>>,
    /// Anchor of each node: itself, or for a host on a single link its router.
    anchors: Vec<usize>,
    /// Number of links from a node to any other anchor, by node; `None` if not requested yet.
    lengths: Vec<Option<Vec<Option<u16>>>>,
    /// Whether routers have ranges for all that is attached to them.
    has_areas: bool,
}

/// A link, and its end (0 or 1).
type Side = (usize, usize);

/// Cost of a path: the metric, and links.
type Cost = (u64, u32);

/// Best path to a node.
#[derive(Clone, Copy, Debug)]
struct Reached {
    links: u32,
    delay: Duration,
    /// First link, by the end of the requesting node.
    first: Side,
}

impl<'a> Paths<'a> {
    /// Creates the paths of a topology.
    pub fn new(topology: &'a Topology) -> Paths<'a> {
        let mut ends = vec![Vec::new(); topology.nodes.len()];
        for (number, link) in topology.links.iter().enumerate() {
            for (side, end) in link.ends.iter().enumerate() {
                ends[end.node].push((number, side));
            }
        }
        let anchor = |(node, ends): (usize, &Vec<Side>)| match ends[..] {
            [(link, ours)] if topology.nodes[node].role == Role::Host => {
                let peer = topology.links[link].ends[1 - ours].node;
                if topology.nodes[peer].role == Role::Router { peer } else { node }
            }
            _ => node,
        };
        Paths {
            anchors: ends.iter().enumerate().map(anchor).collect(),
            lengths: vec![None; ends.len()],
            has_areas: topology.nodes.iter().any(|node| node.area.is_some()),
            topology,
            ends,
        }
    }

    /// Returns the address of each node: that of its first interface, or the first one in the range of a router that
    /// has its own. Each node has a link, or it would not be reachable.
    pub fn addresses(&self) -> Vec<IpAddr> {
        let of = |(node, sides): (usize, &Vec<Side>)| {
            let ends = sides.iter().map(|&(link, ours)| &self.topology.links[link].ends[ours]);
            self.topology.reached_by(node, ends).unwrap_or(Ipv4Addr::UNSPECIFIED).into()
        };
        self.ends.iter().enumerate().map(of).collect()
    }

    /// Returns the number of links from one node to another; `None` if hosts that do not forward are in between.
    pub fn distance(&mut self, from: usize, to: usize) -> Option<usize> {
        if from == to {
            return Some(0);
        }
        let [start, end] = [from, to].map(|node| self.anchors[node]);
        let beside = usize::from(start != from) + usize::from(end != to);
        if start == end {
            return Some(beside);
        }
        if self.lengths[start].is_none() {
            let links = |reached: &Option<Reached>| u16::try_from(reached.as_ref()?.links).ok();
            self.lengths[start] = Some(self.reach(start).iter().map(links).collect());
        }
        let between = self.lengths[start].as_ref().and_then(|lengths| lengths[end])?;
        Some(usize::from(between) + beside)
    }

    /// Returns the distance of each router from another one: links, and delay. That one itself and unreachable ones
    /// are left out.
    pub fn to_routers(&self, from: usize) -> Vec<(u32, Duration)> {
        let reached = self.reach(from).into_iter().zip(&self.topology.nodes);
        let routers = reached.filter(|(_, node)| node.role == Role::Router);
        routers.filter_map(|(reached, _)| reached.map(|r| (r.links, r.delay))).collect()
    }

    /// Returns the routes that a node needs besides those of its own links. If routers have ranges of their own, the
    /// number of routes is minimal; otherwise there is one for each link, in their order.
    pub fn routes(&self, node: usize) -> Vec<StaticRoute> {
        if !self.has_areas {
            return self.routes_to_links(node);
        }
        if self.anchors[node] != node {
            let everything = Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0);
            let first = self.ends[node].first();
            return first.map(|&first| self.route(everything, first)).into_iter().collect();
        }
        self.routes_to_areas(node)
    }

    /// Returns the first pair of nodes without a path.
    pub(super) fn unreachable(&self) -> Option<(usize, usize)> {
        (0..self.ends.len()).find_map(|node| {
            let reached = self.reach(node);
            let alone = |other: &usize| *other != node && reached[self.anchors[*other]].is_none();
            let cut_off = |other: &usize| alone(other) && self.anchors[*other] != node;
            (0..self.ends.len()).find(cut_off).map(|other| (node, other))
        })
    }

    fn routes_to_links(&self, node: usize) -> Vec<StaticRoute> {
        let reached = self.reach(node);
        let mut routes = Vec::new();
        for link in &self.topology.links {
            if link.ends.iter().any(|end| end.node == node) {
                continue;
            }
            let nearer = link.ends.iter().filter_map(|end| reached[end.node]);
            let Some(nearer) = nearer.min_by_key(|reached| (reached.links, reached.first)) else {
                continue;
            };
            routes.push(self.route(link.prefix, nearer.first));
            let (first, ours) = nearer.first;
            let gateway = self.topology.links[first].ends[1 - ours].address6;
            if let Some((prefix, gateway)) = link.prefix6.zip(gateway) {
                let gateway = gateway.into();
                routes.push(StaticRoute { gateway, ..self.route(prefix, nearer.first) });
            }
        }
        routes
    }

    fn routes_to_areas(&self, node: usize) -> Vec<StaticRoute> {
        let reached = self.reach(node);
        let nodes = self.topology.nodes.iter().enumerate();
        let others = nodes.filter(|(other, _)| *other != node);
        let areas: Vec<(Prefix, Option<Side>)> = others
            .filter_map(|(other, about)| Some((about.area?, reached[other].map(|r| r.first))))
            .collect();
        // Routes to unreachable destinations would loop: then nothing is aggregated.
        if areas.iter().any(|(_, first)| first.is_none()) {
            let there = areas.into_iter().filter_map(|(area, first)| Some((area, first?)));
            return there.map(|(area, first)| self.route(area, first)).collect();
        }
        let kinds = &self.ends[node];
        let kind = |first: Option<Side>| kinds.iter().position(|side| Some(*side) == first);
        let wanted: Vec<(Prefix, usize)> =
            areas.iter().filter_map(|(area, first)| Some((*area, kind(*first)?))).collect();
        let coverings = areas::cover(&wanted, kinds.len());
        coverings.into_iter().map(|Covering { range, way }| self.route(range, kinds[way])).collect()
    }

    fn route(&self, prefix: Prefix, (link, ours): Side) -> StaticRoute {
        let ends = &self.topology.links[link].ends;
        let gateway = ends[1 - ours].address.into();
        StaticRoute { prefix, gateway, interface: ends[ours].interface.clone() }
    }

    /// Returns the best paths from this node to the anchors; its own entry has no first link.
    fn reach(&self, from: usize) -> Vec<Option<Reached>> {
        let mut reached: Vec<Option<Reached>> = vec![None; self.ends.len()];
        let mut costs: Vec<Cost> = vec![(u64::MAX, u32::MAX); self.ends.len()];
        costs[from] = (0, 0);
        // Of equal cost comes first what was found first.
        let mut found = 0_u32;
        let mut heap = BinaryHeap::from([Reverse((costs[from], found, from))]);
        while let Some(Reverse((cost, _, at))) = heap.pop() {
            let is_end = at != from && self.topology.nodes[at].role == Role::Host;
            if cost > costs[at] || is_end {
                continue; // hosts do not forward
            }
            for &(link, ours) in &self.ends[at] {
                let next = self.topology.links[link].ends[1 - ours].node;
                let cost = self.farther(cost, link);
                if self.anchors[next] != next || cost >= costs[next] {
                    continue;
                }
                costs[next] = cost;
                let first = reached[at].map_or((link, ours), |reached| reached.first);
                let before = reached[at].map_or(Duration::ZERO, |reached| reached.delay);
                let delay = before + self.topology.links[link].delay;
                reached[next] = Some(Reached { links: cost.1, delay, first });
                found += 1;
                heap.push(Reverse((cost, found, next)));
            }
        }
        reached
    }

    fn farther(&self, (cost, links): Cost, link: usize) -> Cost {
        let added = match self.topology.metric {
            Metric::Links => 0,
            Metric::Delay => self.topology.links[link].delay.as_nanos() as u64, // 10 s at most
        };
        (cost.saturating_add(added), links.saturating_add(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node of the demo reaches every link, always through the neighbour on the path.
    #[test]
    fn demo_routes_follow_the_chain() {
        let topology = Topology::parse(super::super::DEMO).unwrap();
        let shown = |name| {
            let node = topology.node(name).unwrap();
            let show = |r: &StaticRoute| format!("{} via {} {}", r.prefix, r.gateway, r.interface);
            topology.routes(node).iter().map(show).collect::<Vec<_>>()
        };
        assert_eq!(shown("h1"), ["10.0.1.0/30 via 10.0.0.2 eth0", "10.0.2.0/30 via 10.0.0.2 eth0"]);
        assert_eq!(shown("r1"), ["10.0.2.0/30 via 10.0.1.2 eth1"]);
        assert_eq!(shown("r2"), ["10.0.0.0/30 via 10.0.1.1 eth0"]);
        assert_eq!(shown("h2"), ["10.0.0.0/30 via 10.0.2.1 eth0", "10.0.1.0/30 via 10.0.2.1 eth0"]);
    }

    /// With IPv6 each route has a counterpart through the same neighbour.
    #[test]
    fn ipv6_routes_match_ipv4_routes() {
        let text = format!("ipv6 = true\n{}", super::super::DEMO);
        let topology = Topology::parse(&text).unwrap();
        let shown: Vec<String> = topology
            .routes(1)
            .iter()
            .map(|r| format!("{} via {} {}", r.prefix, r.gateway, r.interface))
            .collect();
        let six = "2001:db8:0:2::/64 via 2001:db8:0:1::2 eth1";
        assert_eq!(shown, ["10.0.2.0/30 via 10.0.1.2 eth1", six]);
    }

    /// A ring of three routers: the path with fewer links wins.
    #[test]
    fn shorter_path_wins() {
        let text = r#"
            node = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
            link = [
                { ends = ["a", "b"], bandwidth = "1Mbit" },
                { ends = ["b", "c"], bandwidth = "1Mbit" },
                { ends = ["a", "c"], bandwidth = "1Mbit" },
                { ends = ["c", "d"], bandwidth = "1Mbit" },
            ]"#;
        let topology = Topology::parse(text).unwrap();
        let to_d = &topology.routes(0)[1];
        assert_eq!((to_d.interface.as_str(), to_d.gateway), ("eth1", IpAddr::from([10, 0, 2, 2])));
    }
}

//! Routes of a running network: those of the topology, and others while links are down.

use std::collections::BTreeSet;
use std::net::IpAddr;

use earmark_core::{Hop, InterfaceId, Prefix, Route};
use earmark_sim::{Network, NodeId};
use serde::Deserialize;

use crate::topology::{Family, Paths, Topology};

/// How a removed interface returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Returns {
    /// With its index and address.
    #[default]
    Same,
    /// With another index.
    Renumbered,
    /// With another index and another address.
    Readdressed,
}

/// Routes of all nodes; see the module documentation.
#[derive(Debug)]
pub(crate) struct Routing {
    /// Family of the addresses: links have one address each in the simulator.
    family: Family,
    /// Ports of each node.
    ports: Vec<Vec<Port>>,
    /// Routes of each node except those of its own links, in ascending order.
    routes: Vec<Vec<Route>>,
    /// Hosts that keep the address of their first link when another one is up.
    mobile: Vec<usize>,
}

/// One end of a link.
#[derive(Debug)]
struct Port {
    link: usize,
    /// Interface name in the topology.
    name: String,
    /// Interface in the network.
    interface: InterfaceId,
    /// Address range of the link.
    prefix: Prefix,
    /// Address of the interface.
    address: IpAddr,
    /// Index of the node at the other end.
    peer: usize,
}

impl Routing {
    /// Installs the routes of a topology in its network. `interfaces` are the ends of the links, in their order.
    pub(crate) fn install(
        family: Family,
        topology: &Topology,
        interfaces: &[[InterfaceId; 2]],
        network: &mut Network,
        nodes: &[NodeId],
    ) -> Routing {
        let mut ports: Vec<Vec<Port>> = nodes.iter().map(|_| Vec::new()).collect();
        for (number, (link, ids)) in topology.links.iter().zip(interfaces).enumerate() {
            for (side, (end, &interface)) in link.ends.iter().zip(ids).enumerate() {
                ports[end.node].push(Port {
                    link: number,
                    name: end.interface.clone(),
                    interface,
                    prefix: link.prefix_in(family).unwrap_or(link.prefix),
                    address: end.address_in(family).unwrap_or(end.address.into()),
                    peer: link.ends[1 - side].node,
                });
            }
        }
        let routes = vec![Vec::new(); nodes.len()];
        let mut ways = Routing { family, ports, routes, mobile: Vec::new() };
        ways.reroute_around(&BTreeSet::new(), network, nodes, topology);
        ways
    }

    /// Lets hosts keep the address of their first link when another one is up.
    pub(crate) fn let_move(
        &mut self,
        hosts: Vec<usize>,
        network: &mut Network,
        nodes: &[NodeId],
        topology: &Topology,
    ) {
        if !hosts.is_empty() {
            self.mobile = hosts;
            self.reroute_around(&BTreeSet::new(), network, nodes, topology);
        }
    }

    /// Returns the node and interface at an end of a link.
    pub(crate) fn end_of(&self, link: usize) -> Option<(usize, InterfaceId)> {
        self.ends_of(link).next()
    }

    /// Returns the nodes and interfaces at both ends of a link.
    pub(crate) fn ends_of(&self, link: usize) -> impl Iterator<Item = (usize, InterfaceId)> {
        self.ports.iter().enumerate().flat_map(move |(node, ports)| {
            let at_link = ports.iter().filter(move |port| port.link == link);
            at_link.map(move |port| (node, port.interface))
        })
    }

    /// Removes the interface of a node to a link. The routes through it are replaced with those around the link, which is down.
    pub(crate) fn remove_interface(
        &self,
        link: usize,
        node: usize,
        network: &mut Network,
        nodes: &[NodeId],
    ) {
        if let Some(port) = self.ports[node].iter().find(|port| port.link == link) {
            network.remove_interface(nodes[node], port.interface);
        }
    }

    /// Returns a removed interface. Routes through it return when the link is no longer down.
    pub(crate) fn return_interface(
        &mut self,
        link: usize,
        node: usize,
        how: Returns,
        network: &mut Network,
        nodes: &[NodeId],
    ) {
        let ends = self.ports.iter().flatten().filter(|port| port.link == link);
        let used: Vec<IpAddr> = ends.map(|port| port.address).collect();
        let Some(port) = self.ports[node].iter_mut().find(|port| port.link == link) else { return };
        let address = (how == Returns::Readdressed).then(|| free_address(port.prefix, &used));
        let (interface, address) = (port.interface, address.flatten());
        let renumbered = how != Returns::Same;
        let id = network.return_interface(nodes[node], interface, renumbered, address);
        port.interface = id.unwrap_or(interface);
        port.address = address.unwrap_or(port.address);
    }

    /// Replaces the routes of all nodes by those that avoid the links that are down.
    pub(crate) fn reroute_around(
        &mut self,
        down: &BTreeSet<usize>,
        network: &mut Network,
        nodes: &[NodeId],
        topology: &Topology,
    ) {
        let left = without_links(topology, down);
        let paths = left.paths();
        for (index, &node) in nodes.iter().enumerate() {
            let mut routes = self.routes_of(index, &paths);
            self.add_routes_to_mobile(index, down, &mut routes);
            let old = std::mem::replace(&mut self.routes[index], routes);
            let new = &self.routes[index];
            // New routes first, so that every destination always has a route.
            for route in
                new.iter().filter(|route| old.binary_search_by_key(&key(route), key).is_err())
            {
                network.add_route(node, *route);
            }
            for route in
                old.iter().filter(|route| new.binary_search_by_key(&key(route), key).is_err())
            {
                network.remove_route(node, *route);
            }
        }
    }

    /// Returns the nodes on the path of packets from one node to another, with their outgoing interfaces; `None` if
    /// the packets do not arrive. Links that are down are avoided.
    pub(crate) fn path(
        &self,
        topology: &Topology,
        down: &BTreeSet<usize>,
        from: usize,
        to: usize,
    ) -> Option<Vec<(usize, InterfaceId)>> {
        let destination = topology.address_in(to, self.family)?;
        let (mut at, mut path) = (from, Vec::new());
        while at != to {
            if path.len() > self.ports.len() {
                return None; // a routing loop
            }
            let port = self.port(down, at, destination)?;
            path.push((at, port.interface));
            at = port.peer;
        }
        Some(path)
    }

    /// Returns the port through which packets leave a node.
    fn port(&self, down: &BTreeSet<usize>, at: usize, destination: IpAddr) -> Option<&Port> {
        let ports = &self.ports[at];
        let near = |port: &&Port| port.prefix.contains(destination) && !down.contains(&port.link);
        ports.iter().find(near).or_else(|| {
            let routes = self.routes[at].iter().filter(|route| route.prefix.contains(destination));
            let route = routes.max_by_key(|route| route.prefix.length())?;
            ports.iter().find(|port| port.interface == route.hop.interface)
        })
    }

    /// Adds the routes of a node to hosts that are not on their first link. What such a host itself sends has its one address.
    fn add_routes_to_mobile(&self, node: usize, down: &BTreeSet<usize>, routes: &mut Vec<Route>) {
        if self.mobile.is_empty() {
            return;
        }
        let home = |host: usize| self.ports[host].first().map(|port| (port.address, port.link));
        if let Some((address, _)) = home(node).filter(|_| self.mobile.contains(&node)) {
            routes.iter_mut().for_each(|route| route.hop.source = Some(address));
        }
        for host in self.mobile.iter().copied().filter(|host| *host != node) {
            let Some((address, _)) = home(host).filter(|(_, link)| down.contains(link)) else {
                continue;
            };
            let Some(there) = self.ports[host].iter().find(|port| !down.contains(&port.link))
            else {
                continue;
            };
            let direct = self.ports[node].iter().find(|port| port.link == there.link);
            let hop = match direct {
                Some(port) => Some(Hop {
                    interface: port.interface,
                    gateway: Some(there.address),
                    source: None,
                }),
                None => {
                    let leading =
                        routes.iter().filter(|route| route.prefix.contains(there.address));
                    leading.max_by_key(|route| route.prefix.length()).map(|route| route.hop)
                }
            };
            routes.extend(hop.map(|hop| Route { prefix: Prefix::host(address), metric: 0, hop }));
        }
        routes.sort_unstable_by_key(key);
    }

    /// Returns the routes of a node along these paths.
    fn routes_of(&self, node: usize, paths: &Paths<'_>) -> Vec<Route> {
        let is_ipv4 = self.family == Family::Ipv4;
        let routes = paths.routes(node).into_iter();
        let mut routes: Vec<Route> = routes
            .filter(|route| route.gateway.is_ipv4() == is_ipv4)
            .filter_map(|route| {
                let port = self.ports[node].iter().find(|port| port.name == route.interface)?;
                let mut there = self.ports[port.peer].iter();
                let gateway = there.find(|other| other.link == port.link)?.address;
                let hop = Hop { interface: port.interface, gateway: Some(gateway), source: None };
                Some(Route { prefix: route.prefix, metric: 0, hop })
            })
            .collect();
        routes.sort_unstable_by_key(key);
        routes
    }
}

/// Returns the first address of a range that nobody uses; `None` if there is none.
fn free_address(range: Prefix, used: &[IpAddr]) -> Option<IpAddr> {
    let nth = |n: u32| match range.address() {
        IpAddr::V4(first) => IpAddr::V4((first.to_bits() + n).into()),
        IpAddr::V6(first) => IpAddr::V6((first.to_bits() + u128::from(n)).into()),
    };
    let mut addresses = (1..).map(nth).take(used.len() + 1);
    addresses.find(|free| range.contains(*free) && !used.contains(free))
}

fn key(route: &Route) -> (Prefix, Hop) {
    (route.prefix, route.hop)
}

/// Returns the topology without the links that are down.
fn without_links(topology: &Topology, down: &BTreeSet<usize>) -> Topology {
    let numbered = topology.links.iter().enumerate();
    let up = numbered.filter(|(number, _)| !down.contains(number));
    Topology { links: up.map(|(_, link)| link.clone()).collect(), ..topology.clone() }
}

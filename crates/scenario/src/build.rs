//! Conversion of a topology into a network of the simulator.

use earmark_core::InterfaceId;
use earmark_node::NodeConfig;
use earmark_sim::{LinkEnd, LinkSpec, Network, NodeId};

use crate::routing::Routing;
use crate::topology::{Family, Link, Role, Topology};

/// A network ready to run.
pub(crate) struct Built {
    pub(crate) network: Network,
    /// Nodes, in the order of the topology.
    pub(crate) nodes: Vec<NodeId>,
    /// An end of each link, in the order of the topology.
    pub(crate) links: Vec<(NodeId, InterfaceId)>,
    /// Interfaces at both ends of each link.
    pub(crate) interfaces: Vec<[InterfaceId; 2]>,
    pub(crate) routing: Routing,
}

/// Builds the network of a topology. Returns it with its nodes in their order; `settings` are those of every node.
pub fn network(topology: &Topology, seed: u64, settings: &NodeConfig) -> (Network, Vec<NodeId>) {
    network_in(Family::Ipv4, topology, seed, settings)
}

/// Builds the network of a topology with the addresses of one family, as [`network`]. A link without IPv6 keeps IPv4.
pub fn network_in(
    family: Family,
    topology: &Topology,
    seed: u64,
    settings: &NodeConfig,
) -> (Network, Vec<NodeId>) {
    let Built { network, nodes, .. } = build_in(family, topology, seed, settings);
    (network, nodes)
}

/// Builds the network of a topology, including its routing for later changes.
pub(crate) fn build(topology: &Topology, seed: u64, settings: &NodeConfig) -> Built {
    build_each(Family::Ipv4, topology, seed, &|_| settings.clone())
}

pub(crate) fn build_in(
    family: Family,
    topology: &Topology,
    seed: u64,
    settings: &NodeConfig,
) -> Built {
    build_each(family, topology, seed, &|_| settings.clone())
}

/// Builds the network of a topology with settings for each node by its index.
pub(crate) fn build_each(
    family: Family,
    topology: &Topology,
    seed: u64,
    settings: &dyn Fn(usize) -> NodeConfig,
) -> Built {
    let mut network = Network::new(seed);
    let add = |(index, node): (usize, &crate::topology::Node)| {
        network.add_node(&node.name, node.role == Role::Router, settings(index))
    };
    let nodes: Vec<NodeId> = topology.nodes.iter().enumerate().map(add).collect();
    let mut interfaces = Vec::new();
    for link in &topology.links {
        let end = |side: usize| LinkEnd {
            node: nodes[link.ends[side].node],
            interface: link.ends[side].interface.clone(),
            address: link.ends[side].address_in(family).unwrap_or(link.ends[side].address.into()),
        };
        interfaces.push(network.add_link(LinkSpec {
            ends: [end(0), end(1)],
            prefix: link.prefix_in(family).unwrap_or(link.prefix),
            bandwidth: link.bandwidth,
            reservable: link.reservable,
            delay: link.delay,
            queue_packets: link.queue_packets,
        }));
    }
    let first = |(link, ids): (&Link, &[InterfaceId; 2])| (nodes[link.ends[0].node], ids[0]);
    let links = topology.links.iter().zip(&interfaces).map(first).collect();
    let routing = Routing::install(family, topology, &interfaces, &mut network, &nodes);
    Built { network, nodes, links, interfaces, routing }
}

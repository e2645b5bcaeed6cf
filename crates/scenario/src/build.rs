//! From a topology to a network of the simulator.

use earmark_node::NodeConfig;
use earmark_sim::{LinkEnd, LinkSpec, Network, NodeId};

use crate::routing::Routing;
use crate::topology::{Role, Topology};

/// A network in play.
pub(crate) struct Built {
    pub(crate) network: Network,
    /// Its nodes, in the order of the topology.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) ways: Routing,
}

/// The network that a topology describes, and its nodes in their order; `settings` are those of every node.
pub fn network(topology: &Topology, seed: u64, settings: &NodeConfig) -> (Network, Vec<NodeId>) {
    let Built { network, nodes, .. } = build(topology, seed, settings);
    (network, nodes)
}

/// Likewise, with its routes, which are to be changed.
pub(crate) fn build(topology: &Topology, seed: u64, settings: &NodeConfig) -> Built {
    let mut network = Network::new(seed);
    let add = |node: &crate::topology::Node| {
        network.add_node(&node.name, node.role == Role::Router, settings.clone())
    };
    let nodes: Vec<NodeId> = topology.nodes.iter().map(add).collect();
    let mut interfaces = Vec::new();
    for link in &topology.links {
        let end = |side: usize| LinkEnd {
            node: nodes[link.ends[side].node],
            interface: link.ends[side].interface.clone(),
            address: link.ends[side].address.into(),
        };
        interfaces.push(network.add_link(LinkSpec {
            ends: [end(0), end(1)],
            prefix: link.prefix,
            bandwidth: link.bandwidth,
            reservable: link.reservable,
            delay: link.delay,
            queue_packets: link.queue_packets,
        }));
    }
    let ways = Routing::enter(topology, &interfaces, &mut network, &nodes);
    Built { network, nodes, ways }
}

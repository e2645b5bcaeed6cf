//! From a topology to a network of the simulator.

use earmark_core::{Hop, Route};
use earmark_node::NodeConfig;
use earmark_sim::{LinkEnd, LinkSpec, Network, NodeId};

use crate::topology::{Role, Topology};

/// The network that a topology describes, and its nodes in their order; `settings` are those of every node.
pub fn network(topology: &Topology, seed: u64, settings: &NodeConfig) -> (Network, Vec<NodeId>) {
    let mut network = Network::new(seed);
    let add = |node: &crate::topology::Node| {
        network.add_node(&node.name, node.role == Role::Router, settings.clone())
    };
    let nodes: Vec<NodeId> = topology.nodes.iter().map(add).collect();
    // The interface of a route is known by its name in the topology and by its index in the network.
    let mut interfaces = Vec::new();
    for link in &topology.links {
        let end = |side: usize| LinkEnd {
            node: nodes[link.ends[side].node],
            interface: link.ends[side].interface.clone(),
            address: link.ends[side].address.into(),
        };
        let ids = network.add_link(LinkSpec {
            ends: [end(0), end(1)],
            prefix: link.prefix,
            bandwidth: link.bandwidth,
            reservable: link.reservable,
            delay: link.delay,
            queue_packets: link.queue_packets,
        });
        for (end, id) in link.ends.iter().zip(ids) {
            interfaces.push((end.node, end.interface.clone(), id));
        }
    }
    for (index, &node) in nodes.iter().enumerate() {
        // Its links have one address each.
        for route in topology.routes(index).into_iter().filter(|route| route.gateway.is_ipv4()) {
            let known =
                interfaces.iter().find(|(at, name, _)| *at == index && *name == route.interface);
            let Some(&(_, _, interface)) = known else {
                continue;
            };
            let hop = Hop { interface, gateway: Some(route.gateway), source: None };
            network.add_route(node, Route { prefix: route.prefix, metric: 0, hop });
        }
    }
    (network, nodes)
}

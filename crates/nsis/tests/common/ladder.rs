//! The network: two alternatives for each of the two inner hops, in both families.
//!
//! ```text
//!       +-- n1 --+-- n3 --+
//!  n0 --+    \ / |        +-- n5
//!       |    / \ |        |
//!       +-- n2 --+-- n4 --+
//! ```

use std::collections::VecDeque;

use earmark_core::Transport;
use earmark_core::random::RandomStreams;
use earmark_nsis::{Config, Nsis};

use super::diamond::Family;
use super::qos::make_reservable;
use super::{Network, Place};

/// Nodes that each network joins, the one on the side of the sender first.
pub const LINKS: [(usize, usize); 8] =
    [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 5), (4, 5)];
/// The sender of all flows.
pub const SENDER: usize = 0;
/// The receiver of all flows.
pub const RECEIVER: usize = 5;
pub const NODES: usize = 6;
/// Network of the destination of all flows.
pub const DESTINATION: usize = 6;

/// Alternatives for the next node of a flow; the last ones before the receiver have none.
pub const NEXT: [[usize; 2]; 5] = [[1, 2], [3, 4], [3, 4], [5, 5], [5, 5]];

/// Returns the network that joins two nodes.
pub fn link_between(left: usize, right: usize) -> usize {
    LINKS.iter().position(|&ends| ends == (left, right)).expect("neighbors")
}

/// Returns the number of the interface of a node on a network.
pub fn interface_on(node: usize, link: usize) -> u32 {
    let own = LINKS[..=link].iter().filter(|(left, right)| *left == node || *right == node);
    own.count() as u32
}

/// Creates the engine of a node.
pub fn engine(config: &Config, seed: u64, node: usize, number: u64) -> Nsis {
    Nsis::new(config.clone(), &RandomStreams::new(seed ^ (node as u64) << 32 ^ number << 40))
}

/// Returns the prefix of a network.
pub fn prefix(family: Family, link: usize) -> String {
    match family {
        Family::Four => format!("10.0.{link}.0/24"),
        Family::Six => format!("fd00:{link}::/64"),
    }
}

/// Creates the network; all flows take n1 and n3.
pub fn ladder(config: &Config, seed: u64) -> Network {
    let mut network = Network::new();
    for node in 0..NODES {
        network.add_node(node, &Place::Aware(config.clone()));
        network.nodes[node].engine = Some(engine(config, seed, node, 0));
        let ports = config.gist.associations;
        let listens = &mut network.nodes[node].listens;
        listens.extend(ports.tcp_port.map(|port| (port, Transport::Tcp)));
        listens.extend(ports.tls_port.map(|port| (port, Transport::Tls)));
    }
    for (link, (left, right)) in LINKS.into_iter().enumerate() {
        network.join(left, right, link as u8);
    }
    make_reservable(&mut network);
    for family in Family::ALL {
        for node in 0..NODES {
            (0..LINKS.len()).for_each(|link| set_shortest(&mut network, family, node, link));
        }
    }
    network
}

/// Lets a node take another node to the destination of the flows.
pub fn route_through(network: &mut Network, family: Family, node: usize, next: usize) {
    set_next(network, family, node, DESTINATION, next);
}

fn set_next(network: &mut Network, family: Family, node: usize, link: usize, next: usize) {
    let (shared, host) = match node < next {
        true => (link_between(node, next), 2),
        false => (link_between(next, node), 1),
    };
    let gateway = family.host(shared as u8, host);
    let interface = interface_on(node, shared);
    network.set_route(node, &prefix(family, link), interface, Some(&gateway));
}

/// Sets the shortest route of a node to a network; the lower node of two.
fn set_shortest(network: &mut Network, family: Family, node: usize, link: usize) {
    let (left, right) = LINKS[link];
    if node == left || node == right {
        let interface = interface_on(node, link);
        return network.set_route(node, &prefix(family, link), interface, None);
    }
    let distances = distances_to(&[left, right]);
    let next = neighbors(node).min_by_key(|&next| (distances[next], next)).expect("a neighbor");
    set_next(network, family, node, link, next);
}

fn neighbors(node: usize) -> impl Iterator<Item = usize> {
    LINKS.into_iter().filter_map(move |(left, right)| match node {
        _ if node == left => Some(right),
        _ if node == right => Some(left),
        _ => None,
    })
}

/// Returns the number of hops from each node to the nearest of these nodes.
fn distances_to(ends: &[usize]) -> [usize; NODES] {
    let mut distances = [usize::MAX; NODES];
    let mut queue: VecDeque<usize> = ends.iter().copied().collect();
    ends.iter().for_each(|&end| distances[end] = 0);
    while let Some(node) = queue.pop_front() {
        for next in
            neighbors(node).filter(|&next| distances[next] == usize::MAX).collect::<Vec<_>>()
        {
            distances[next] = distances[node] + 1;
            queue.push_back(next);
        }
    }
    distances
}

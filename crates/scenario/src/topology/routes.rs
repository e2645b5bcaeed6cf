//! Static routes: a breadth-first search from each node over the links, stopping at hosts.

use std::collections::VecDeque;
use std::net::IpAddr;

use earmark_core::Prefix;

use super::{Role, Topology};

/// One route of a node to the range of a link that is not its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StaticRoute {
    /// For these destinations.
    pub prefix: Prefix,
    /// Next router.
    pub gateway: IpAddr,
    /// Interface that leads there.
    pub interface: String,
}

/// First step from the node that asks: link and the end of it that is ours (0 or 1).
type FirstStep = (usize, usize);

/// All static routes of `node`, in the order of the links in the file.
pub(super) fn from(topology: &Topology, node: usize) -> Vec<StaticRoute> {
    let steps = first_steps(topology, node);
    let mut routes = Vec::new();
    for link in &topology.links {
        if link.ends.iter().any(|end| end.node == node) {
            continue;
        }
        let nearer = link.ends.iter().filter_map(|end| steps[end.node]).min();
        let Some((_, (first, ours))) = nearer else {
            continue;
        };
        let ends = &topology.links[first].ends;
        let interface = &ends[ours].interface;
        let (gateway, gateway6) = (ends[1 - ours].address, ends[1 - ours].address6);
        let ways = [
            Some((link.prefix, IpAddr::from(gateway))),
            link.prefix6.zip(gateway6.map(IpAddr::from)),
        ];
        routes.extend(ways.into_iter().flatten().map(|(prefix, gateway)| StaticRoute {
            prefix,
            gateway,
            interface: interface.clone(),
        }));
    }
    routes
}

/// The nodes that `node` cannot reach.
pub(super) fn unreachable(topology: &Topology, node: usize) -> impl Iterator<Item = usize> {
    let steps = first_steps(topology, node);
    (0..topology.nodes.len()).filter(move |&other| other != node && steps[other].is_none())
}

/// How many links it takes from one node to another.
pub(super) fn distance(topology: &Topology, from: usize, to: usize) -> Option<usize> {
    let (distance, _) = first_steps(topology, from).get(to).copied().flatten()?;
    Some(distance)
}

/// For every other node the number of links to it and the first step, or `None` where no way leads there.
fn first_steps(topology: &Topology, node: usize) -> Vec<Option<(usize, FirstStep)>> {
    let mut neighbors = vec![Vec::new(); topology.nodes.len()];
    for (index, link) in topology.links.iter().enumerate() {
        neighbors[link.ends[0].node].push((index, 0));
        neighbors[link.ends[1].node].push((index, 1));
    }
    let mut steps = vec![None; topology.nodes.len()];
    let mut queue = VecDeque::from([(node, 0, None)]);
    while let Some((at, distance, first)) = queue.pop_front() {
        if at != node && topology.nodes[at].role == Role::Host {
            continue; // a host is an end, not a way
        }
        for &(link, ours) in &neighbors[at] {
            let next = topology.links[link].ends[1 - ours].node;
            if next != node && steps[next].is_none() {
                let first = first.unwrap_or((link, ours));
                steps[next] = Some((distance + 1, first));
                queue.push_back((next, distance + 1, Some(first)));
            }
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every node of the demo reaches every link, and always through the neighbour that lies on the way.
    #[test]
    fn demo_routes_follow_the_chain() {
        let topology = Topology::parse(super::super::DEMO).unwrap();
        let shown = |name| {
            let node = topology.node(name).unwrap();
            let show = |r: &StaticRoute| format!("{} via {} {}", r.prefix, r.gateway, r.interface);
            from(&topology, node).iter().map(show).collect::<Vec<_>>()
        };
        assert_eq!(shown("h1"), ["10.0.1.0/30 via 10.0.0.2 eth0", "10.0.2.0/30 via 10.0.0.2 eth0"]);
        assert_eq!(shown("r1"), ["10.0.2.0/30 via 10.0.1.2 eth1"]);
        assert_eq!(shown("r2"), ["10.0.0.0/30 via 10.0.1.1 eth0"]);
        assert_eq!(shown("h2"), ["10.0.0.0/30 via 10.0.2.1 eth0", "10.0.1.0/30 via 10.0.2.1 eth0"]);
    }

    /// With IPv6 each route has a counterpart, through the same neighbour.
    #[test]
    fn ipv6_takes_the_same_ways() {
        let text = format!("ipv6 = true\n{}", super::super::DEMO);
        let topology = Topology::parse(&text).unwrap();
        let shown: Vec<String> = from(&topology, 1)
            .iter()
            .map(|r| format!("{} via {} {}", r.prefix, r.gateway, r.interface))
            .collect();
        let six = "2001:db8:0:2::/64 via 2001:db8:0:1::2 eth1";
        assert_eq!(shown, ["10.0.2.0/30 via 10.0.1.2 eth1", six]);
    }

    /// A ring of three routers: the way with fewer links wins.
    #[test]
    fn shorter_ways_win() {
        let text = r#"
            node = [{ name = "a" }, { name = "b" }, { name = "c" }, { name = "d" }]
            link = [
                { ends = ["a", "b"], bandwidth = "1Mbit" },
                { ends = ["b", "c"], bandwidth = "1Mbit" },
                { ends = ["a", "c"], bandwidth = "1Mbit" },
                { ends = ["c", "d"], bandwidth = "1Mbit" },
            ]"#;
        let topology = Topology::parse(text).unwrap();
        let to_d = &from(&topology, 0)[1];
        assert_eq!((to_d.interface.as_str(), to_d.gateway), ("eth1", IpAddr::from([10, 0, 2, 2])));
    }
}

//! Extension of a backbone to a whole network with hosts, addresses and ranges of addresses.
//!
//! | item | rule |
//! |---|---|
//! | hosts | one link each, to a router, named after it: `Denver-h1`, `Denver-h2` |
//! | ranges | one per router, all of the same size, in 10.0.0.0/8; neighbouring routers have adjacent ranges, which saves routes |
//! | links | a /30 from the range of the router at their first end; for hosts, of their router |
//! | routes | least delay, or fewest links; a host has one, to its router |

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::random::RandomStreams;
use earmark_sim::distributions;

use super::areas::Areas;
use super::backbone::{Backbone, Site};
use super::error::ChoiceError;
use super::settings::{Attach, Made};
use super::{End, Link, Metric, Node, Role, Topology};

/// Maximum number of hosts attached to a backbone.
pub const MAX_HOSTS: usize = 200_000;

impl Backbone {
    /// Builds the whole network. Every router must be reachable from every other.
    pub(super) fn with_hosts(&self, settings: &Made) -> Result<Topology, ChoiceError> {
        let hosts = match settings.hosts {
            Some(hosts) => hosts as usize,
            None => self.routers.len(),
        };
        if hosts > MAX_HOSTS {
            return Err(ChoiceError::TooLarge { what: "hosts", most: MAX_HOSTS });
        }
        let mut making = TopologyBuilder::new(self, settings.metric);
        let mut fastest = Rate::ZERO;
        for (number, trunk) in self.trunks.iter().enumerate() {
            let bandwidth = settings.bandwidth.or(trunk.bandwidth);
            let bandwidth = bandwidth.ok_or_else(|| self.without_speed(number))?;
            fastest = fastest.max(bandwidth);
            making.join(trunk.ends, trunk.delay, bandwidth, settings)?;
        }
        let access = settings.access.unwrap_or(Rate::from_bps(fastest.as_bps().saturating_mul(10)));
        let mut places = RandomStreams::new(settings.seed).stream("hosts");
        let mut attached = vec![0_u32; self.routers.len()];
        for number in 0..hosts {
            let router = match settings.attach {
                Attach::Turns => number % self.routers.len(),
                Attach::Random => {
                    distributions::below(&mut places, self.routers.len() as u64) as usize
                }
            };
            attached[router] += 1;
            let name = format!("{}-h{}", self.routers[router].name, attached[router]);
            let node = Node { name, role: Role::Host, area: None, place: None };
            making.topology.nodes.push(node);
            making.interfaces.push(0);
            let host = making.topology.nodes.len() - 1;
            making.join([router, host], settings.access_delay, access, settings)?;
        }
        Ok(making.topology)
    }

    fn without_speed(&self, trunk: usize) -> ChoiceError {
        let [from, to] = self.trunks[trunk].ends.map(|end| self.routers[end].name.clone());
        ChoiceError::NoSpeed { from, to }
    }

    /// Returns the routers in an order that keeps those together that distant routers reach by the same next hop:
    /// along a tree of paths from the first one, each branch whole before the next.
    fn in_order_of_branches(&self) -> Vec<usize> {
        let mut neighbors = vec![Vec::new(); self.routers.len()];
        for trunk in &self.trunks {
            let [a, b] = trunk.ends;
            neighbors[a].push((trunk.delay, b));
            neighbors[b].push((trunk.delay, a));
        }
        // Prim's tree would follow chains; that of shortest paths branches where packets do.
        let mut parents = vec![None; self.routers.len()];
        let mut delays = vec![Duration::MAX; self.routers.len()];
        let mut heap = std::collections::BTreeSet::from([(Duration::ZERO, 0_usize)]);
        while let Some((delay, at)) = heap.pop_first() {
            for &(more, next) in &neighbors[at] {
                let farther = delay + more;
                if next != 0 && farther < delays[next] {
                    delays[next] = farther;
                    parents[next] = Some(at);
                    heap.insert((farther, next));
                }
            }
        }
        let mut branches = vec![Vec::new(); self.routers.len()];
        for (router, parent) in parents.iter().enumerate() {
            branches[parent.unwrap_or(0)].extend((router != 0).then_some(router));
        }
        let (mut order, mut stack) = (Vec::with_capacity(self.routers.len()), vec![0]);
        while let Some(router) = stack.pop() {
            order.push(router);
            stack.extend(branches[router].iter().rev());
        }
        order
    }
}

/// A topology under construction.
struct TopologyBuilder {
    topology: Topology,
    areas: Areas,
    /// Number of the range of each router.
    numbers: Vec<usize>,
    /// Number of links with an address from each range.
    links: Vec<usize>,
    /// Number of interfaces of each node.
    interfaces: Vec<usize>,
}

impl TopologyBuilder {
    fn new(backbone: &Backbone, metric: Metric) -> TopologyBuilder {
        let areas = Areas::for_routers(backbone.routers.len());
        let mut numbers = vec![0; backbone.routers.len()];
        for (number, router) in backbone.in_order_of_branches().into_iter().enumerate() {
            numbers[router] = number;
        }
        let node = |(site, &number): (&Site, &usize)| Node {
            name: site.name.clone(),
            role: Role::Router,
            area: Some(areas.area(number)),
            place: site.place,
        };
        let nodes: Vec<Node> = backbone.routers.iter().zip(&numbers).map(node).collect();
        let (links, interfaces) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        let topology = Topology { name: backbone.name.clone(), nodes, links: Vec::new(), metric };
        TopologyBuilder { topology, areas, numbers, links, interfaces }
    }

    /// Adds a link. The first of `nodes` must be a router.
    fn join(
        &mut self,
        nodes: [usize; 2],
        delay: Duration,
        bandwidth: Rate,
        settings: &Made,
    ) -> Result<(), ChoiceError> {
        let [router, _] = nodes;
        if self.links[router] >= self.areas.links() {
            let (router, most) = (self.topology.nodes[router].name.clone(), self.areas.links());
            return Err(ChoiceError::RouterIsFull { router, most });
        }
        let (prefix, addresses) = self.areas.link(self.numbers[router], self.links[router]);
        self.links[router] += 1;
        let interfaces = &mut self.interfaces;
        let mut end = |side: usize| {
            let node = nodes[side];
            let interface = format!("eth{}", interfaces[node]);
            interfaces[node] += 1;
            End { node, interface, address: addresses[side], address6: None }
        };
        self.topology.links.push(Link {
            ends: [end(0), end(1)],
            prefix,
            prefix6: None,
            bandwidth,
            delay,
            reservable: settings.reservable.of(bandwidth)?,
            queue_packets: settings.queue_packets,
        });
        Ok(())
    }
}

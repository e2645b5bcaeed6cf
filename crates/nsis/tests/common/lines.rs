//! Construction of networks: nodes, links, routes, and whole lines of nodes.

use earmark_core::admission::Ledger;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Effects, Hop, Interface, InterfaceId, Interfaces, Rate, Route, RouteTable, Trust,
};
use earmark_nsis::{Config, Nsis};
use earmark_wire::gist::Mri;

use super::{Network, Node, Place, address, flow};

impl Network {
    /// Creates a line of nodes, all with NSIS and the default settings.
    pub fn aware(count: usize) -> Network {
        Network::line(&vec![Place::Aware(Config::default()); count])
    }

    /// Creates a line of nodes.
    pub fn line(places: &[Place]) -> Network {
        let mut network = Network::new();
        for (number, place) in places.iter().enumerate() {
            network.add_node(number, place);
        }
        for left in 0..places.len().saturating_sub(1) {
            network.join(left, left + 1, left as u8);
        }
        for node in 0..places.len() {
            for link in 0..places.len().saturating_sub(1) {
                let (prefix_4, prefix_6) =
                    (format!("10.0.{link}.0/24"), format!("fd00:{link}::/64"));
                // Links 0..node are to the left, link `node` is the right one of this node.
                let (interface, gateway) = match link.cmp(&node) {
                    _ if link + 1 == node => (1, None),
                    std::cmp::Ordering::Equal => (if node == 0 { 1 } else { 2 }, None),
                    std::cmp::Ordering::Less => (1, Some((node - 1, 1))),
                    std::cmp::Ordering::Greater => (if node == 0 { 1 } else { 2 }, Some((node, 2))),
                };
                let four = gateway.map(|(net, host)| format!("10.0.{net}.{host}"));
                let six = gateway.map(|(net, host)| format!("fd00:{net}::{host}"));
                network.set_route(node, &prefix_4, interface, four.as_deref());
                network.set_route(node, &prefix_6, interface, six.as_deref());
            }
        }
        network
    }

    pub fn add_node(&mut self, number: usize, place: &Place) {
        let engine = match place {
            Place::Aware(config) => {
                Some(Nsis::new(config.clone(), &RandomStreams::new(number as u64 + 1)))
            }
            Place::Plain => None,
        };
        self.nodes.push(Node {
            name: format!("n{number}"),
            engine,
            interfaces: Interfaces::default(),
            routes: RouteTable::new(),
            ledger: Ledger::new(),
            effects: Effects::new(),
            events: Vec::new(),
            installed: Vec::new(),
            by_port: false,
            listens: Vec::new(),
            authentic: true,
            paused_until: None,
            next_connection: 1,
            armed: None,
        });
    }

    /// Joins two nodes by network `10.0.net.0/24`; returns both interfaces.
    pub fn join(&mut self, left: usize, right: usize, net: u8) -> (InterfaceId, InterfaceId) {
        let ends = [(left, 1), (right, 2)].map(|(node, host)| {
            let interfaces = &mut self.nodes[node].interfaces;
            let id = InterfaceId(interfaces.iter().count() as u32 + 1);
            interfaces.set(Interface {
                id,
                name: format!("eth{}", id.0),
                addresses: vec![
                    address(&format!("10.0.{net}.{host}")),
                    address(&format!("fd00:{net}::{host}")),
                ],
                mtu: 1_500,
                up: true,
                bandwidth: Rate::from_mbps(10),
                reservable: Rate::from_mbps(8),
                largest: None,
                overhead: 0,
                latency_us: 10,
                trust: Trust::CORE,
            });
            (node, id)
        });
        self.links.insert(ends[0], ends[1]);
        self.links.insert(ends[1], ends[0]);
        (ends[0].1, ends[1].1)
    }

    /// Replaces the routes of a prefix.
    pub fn set_route(&mut self, node: usize, prefix: &str, interface: u32, gateway: Option<&str>) {
        let prefix = prefix.parse().expect("a prefix");
        let routes = &mut self.nodes[node].routes;
        let old: Vec<Route> =
            routes.iter().filter(|route| route.prefix == prefix).copied().collect();
        old.iter().for_each(|route| assert!(routes.remove(route)));
        let hop =
            Hop { interface: InterfaceId(interface), gateway: gateway.map(address), source: None };
        routes.insert(Route { prefix, metric: 0, hop });
    }

    /// Returns the flow from the first node of a line to the last.
    pub fn flow(&self) -> Mri {
        let last = self.nodes.len() - 2;
        flow(address("10.0.0.1"), address(&format!("10.0.{last}.2")))
    }

    /// Returns the IPv6 flow from the first node of a line to the last.
    pub fn flow_six(&self) -> Mri {
        let last = self.nodes.len() - 2;
        flow(address("fd00:0::1"), address(&format!("fd00:{last}::2")))
    }
}

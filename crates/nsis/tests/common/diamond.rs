//! Two paths between two nodes, in both families.
//!
//! ```text
//!       +-- n1 --+
//!  n0 --+        +-- n3        n0's second interface leads to n2
//!       +-- n2 --+
//! ```
//!
//! Network 0 joins n0 and n1, 1 joins n0 and n2, 2 joins n1 and n3, 3 joins n2 and n3.

use std::time::Duration;

use earmark_core::{HostEvent, InterfaceId, Transport};
use earmark_nsis::Config;
use earmark_wire::gist::Mri;

use super::application::Handle;
use super::{Network, Place, address, flow};

const VALIDITY: Duration = Duration::from_secs(600);

/// Address family of the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Four,
    Six,
}

impl Family {
    pub const ALL: [Family; 2] = [Family::Four, Family::Six];

    /// Returns the address of a host of a network.
    pub fn host(self, net: u8, host: u8) -> String {
        match self {
            Family::Four => format!("10.0.{net}.{host}"),
            Family::Six => format!("fd00:{net}::{host}"),
        }
    }

    /// Returns the prefix of networks 0 to 1 or 2 to 3.
    pub fn pair(self, net: u8) -> String {
        match self {
            Family::Four => format!("10.0.{net}.0/23"),
            Family::Six => format!("fd00:{net}::/31"),
        }
    }
}

/// Creates the network with long validities; the flow of a family goes from n0 to n3 through n1.
pub fn diamond() -> (Network, Vec<Handle>) {
    let mut config = Config::default();
    config.gist.validity = VALIDITY;
    config.gist.inactivity = VALIDITY;
    diamond_of(&config)
}

/// Creates the network with these settings; the flow of a family goes from n0 to n3 through n1.
pub fn diamond_of(config: &Config) -> (Network, Vec<Handle>) {
    let mut network = Network::new();
    let handles: Vec<Handle> = (0..4).map(|_| Handle::default()).collect();
    for (number, handle) in handles.iter().enumerate() {
        network.add_node(number, &Place::Aware(config.clone()));
        network.engine_mut(number).add(handle.application());
        let port = config.gist.associations.tcp_port;
        network.nodes[number].listens.extend(port.map(|port| (port, Transport::Tcp)));
    }
    for (net, (left, right)) in [(0, 1), (0, 2), (1, 3), (2, 3)].into_iter().enumerate() {
        network.join(left, right, net as u8);
    }
    for family in Family::ALL {
        let net = |net: u8| match family {
            Family::Four => format!("10.0.{net}.0/24"),
            Family::Six => format!("fd00:{net}::/64"),
        };
        network.set_route(0, &net(0), 1, None);
        network.set_route(0, &net(1), 2, None);
        network.set_route(0, &family.pair(2), 1, Some(&family.host(0, 2)));
        for (node, left) in [(1, 0), (2, 1)] {
            network.set_route(node, &net(left), 1, None);
            network.set_route(node, &net(left + 2), 2, None);
            let gateway = family.host(left + 2, 2);
            network.set_route(node, &family.pair(2), 2, Some(&gateway));
        }
        network.set_route(3, &net(2), 1, None);
        network.set_route(3, &net(3), 2, None);
        network.set_route(3, &net(0), 1, Some(&family.host(2, 1)));
        network.set_route(3, &net(1), 2, Some(&family.host(3, 1)));
    }
    (network, handles)
}

/// Returns the flow of a family.
pub fn flow_of(family: Family) -> Mri {
    flow(address(&family.host(0, 1)), address(&family.host(2, 2)))
}

/// Changes the routing table of n0: the flow goes to n1 or n2.
pub fn route_to(network: &mut Network, family: Family, node: usize) {
    let net = node as u8 - 1;
    network.set_route(0, &family.pair(2), node as u32, Some(&family.host(net, 2)));
}

/// Reports the changed route to n0.
pub fn report_route(network: &mut Network, family: Family) {
    let prefix = family.pair(2).parse().expect("a prefix");
    network.host(0, HostEvent::RouteChanged(prefix));
}

/// Reports a changed interface to n0.
pub fn report_interface(network: &mut Network) {
    network.host(0, HostEvent::InterfaceChanged(InterfaceId(2)));
}

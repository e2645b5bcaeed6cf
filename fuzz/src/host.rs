//! One node with its host: interfaces, routes, traffic control.

use std::collections::BTreeMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, Installation, Interface, InterfaceId, Routes, Trust};
use earmark_node::{HostUpdate, Node, NodeConfig};

use crate::topology;

/// A node and its host.
pub struct Host {
    pub node: Node,
    pub config: NodeConfig,
    /// Trust in each interface, from 1.
    pub trust: [Trust; 4],
    /// Installed reservations.
    pub classes: BTreeMap<ClaimId, Installation>,
    /// Reservations of an earlier daemon in traffic control.
    pub orphans: Vec<(InterfaceId, Flow)>,
    /// Number of installations that traffic control refuses next.
    pub refusals: u32,
    /// Number of the node.
    pub index: usize,
    /// Units of state after the last input.
    pub size: usize,
}

impl Host {
    /// Creates a node whose interfaces and routes are not reported yet.
    pub fn new(index: usize, config: NodeConfig, trust: [Trust; 4]) -> Host {
        Host {
            node: Node::new(config.clone()),
            config,
            trust,
            classes: BTreeMap::new(),
            orphans: Vec::new(),
            refusals: 0,
            index,
            size: 0,
        }
    }

    /// Returns what the driver reports at the start.
    pub fn initial_updates(&self) -> Vec<HostUpdate> {
        let interfaces = topology::links(self.index).map(|link| self.interface(link));
        let routes = topology::routes(self.index).into_iter().map(HostUpdate::Route);
        interfaces.map(HostUpdate::Interface).chain(routes).collect()
    }

    pub fn interface(&self, link: u32) -> Interface {
        topology::interface(self.index, link, self.trust[link as usize - 1].clone())
    }

    /// Returns whether packets pass an interface.
    pub fn is_up(&self, interface: InterfaceId) -> bool {
        self.node.interfaces().by_id(interface).is_some_and(|interface| interface.up)
    }

    /// Returns the interface to a destination.
    pub fn outgoing(&self, destination: std::net::IpAddr) -> Option<InterfaceId> {
        self.node.routes().lookup(destination).map(|hop| hop.interface)
    }
}

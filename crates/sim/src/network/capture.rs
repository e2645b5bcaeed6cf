//! Captures of the signalling of nodes.

use alloc::vec::Vec;

use earmark_core::InterfaceId;

use super::Network;
use crate::NodeId;
use crate::capture::{Tapped, octets};
use crate::packet::Packet;

impl Network {
    /// Records the signalling that enters or leaves a node through its links from now on, for
    /// [`take_tapped`](Network::take_tapped). A forwarded message is recorded twice, as on the links of a router.
    pub fn tap(&mut self, node: NodeId) {
        self.tapped.entry(node).or_default();
    }

    /// Returns the packets that a tapped node has sent and received so far, oldest first, and removes them; empty
    /// without a tap.
    pub fn take_tapped(&mut self, node: NodeId) -> Vec<Tapped> {
        self.tapped.get_mut(&node).map(core::mem::take).unwrap_or_default()
    }

    /// Returns the node at the other end of the link behind an interface.
    pub fn peer(&self, node: NodeId, interface: InterfaceId) -> Option<NodeId> {
        self.hosts[node.0].ports.get(interface).map(|port| port.peer.0)
    }

    /// Whether any node has a tap.
    pub(crate) fn is_tapped(&self) -> bool {
        !self.tapped.is_empty()
    }

    /// Records a packet on a link of a node, if it has a tap.
    pub(crate) fn passes(&mut self, node: NodeId, interface: InterfaceId, packet: &Packet) {
        if let Some(tapped) = self.tapped.get_mut(&node)
            && let Some(octets) = octets(packet)
        {
            tapped.push(Tapped { at: self.now, interface, octets });
        }
    }
}

//! Captures of the signalling of nodes.

use alloc::vec::Vec;

use earmark_core::InterfaceId;

use super::Network;
use crate::NodeId;
use crate::capture::{CapturedPacket, octets};
use crate::packet::Packet;

impl Network {
    /// Records the signalling that enters or leaves a node through its links from now on, for
    /// [`take_captured`](Network::take_captured). A forwarded message is recorded twice, as on the links of a router.
    pub fn capture(&mut self, node: NodeId) {
        self.captured.entry(node).or_default();
    }

    /// Returns the packets that a node has sent and received so far, oldest first, and removes them; empty
    /// without a capture.
    pub fn take_captured(&mut self, node: NodeId) -> Vec<CapturedPacket> {
        self.captured.get_mut(&node).map(core::mem::take).unwrap_or_default()
    }

    /// Returns the node at the other end of the link behind an interface.
    pub fn peer(&self, node: NodeId, interface: InterfaceId) -> Option<NodeId> {
        self.hosts[node.0].ports.get(interface).map(|port| port.peer.0)
    }

    /// Whether the signalling of any node is captured.
    pub(crate) fn is_capturing(&self) -> bool {
        !self.captured.is_empty()
    }

    /// Records a packet on a link of a node, if it is captured.
    pub(crate) fn capture_packet(&mut self, node: NodeId, interface: InterfaceId, packet: &Packet) {
        if let Some(captured) = self.captured.get_mut(&node)
            && let Some(octets) = octets(packet)
        {
            captured.push(CapturedPacket { at: self.now, interface, octets });
        }
    }
}

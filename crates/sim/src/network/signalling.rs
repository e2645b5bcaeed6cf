//! Counts of the signalling that is sent over the links.

use earmark_core::{InterfaceId, Time};

use super::Network;
use crate::NodeId;
use crate::packet::{Body, Packet};
use crate::signalling::SignallingCount;

impl Network {
    /// Counts signalling from this time on; by default, from the beginning.
    pub fn count_signalling_from(&mut self, from: Time) {
        self.signalling_counted_from = from;
    }

    /// Returns the signalling that a node has sent over its links, lost messages included.
    pub fn signalling_sent(&self, node: NodeId) -> SignallingCount {
        let mut sent = SignallingCount::default();
        for (_, port) in self.hosts[node.0].ports.iter() {
            sent += port.signalling;
        }
        sent
    }

    /// Counts a packet that is put on a link, if it is signalling.
    pub(super) fn count_signalling(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        packet: &Packet,
    ) {
        if self.now < self.signalling_counted_from || !matches!(packet.body, Body::Signalling(_)) {
            return;
        }
        if let Some(port) = self.hosts[node.0].ports.get_mut(interface) {
            port.signalling += SignallingCount { packets: 1, octets: u64::from(packet.octets()) };
        }
    }
}

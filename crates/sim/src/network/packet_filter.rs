//! Packet filters of nodes: their settings, and what they have dropped.

use earmark_core::{FilterRule, InterfaceId, Time};

use super::Network;
use crate::NodeId;
use crate::packet_filter::PacketFilter;

impl Network {
    /// Guards an interface of a node from now on: a packet to be forwarded that arrives through it is dropped without a rule of
    /// the node's daemon, unless it answers one that left there, and so is a reply that leaves there.
    pub fn guard(&mut self, node: NodeId, interface: InterfaceId) {
        self.filter_of(node).guard(interface);
    }

    /// Makes the packet filter of a node refuse every installation with this error number from now on; `None`: no longer.
    pub fn refuse_filter_rules(&mut self, node: NodeId, errno: Option<u16>) {
        self.filter_of(node).refuse = errno;
    }

    /// Sets the limit of the rules of a node's packet filter, which refuses more.
    pub fn limit_filter_rules(&mut self, node: NodeId, limit: usize) {
        self.filter_of(node).limit = limit;
    }

    /// Returns the rules of a node's packet filter with their ends, including those of a dead daemon.
    pub fn filter_rules(&self, node: NodeId) -> impl Iterator<Item = (FilterRule, Time)> {
        let filter = self.hosts[node.0].filter.as_ref();
        filter.into_iter().flat_map(|filter| filter.rules(self.now))
    }

    /// Returns the number of packets that the packet filter of a node has dropped.
    pub fn filtered_packets(&self, node: NodeId) -> u64 {
        self.hosts[node.0].filter.as_ref().map_or(0, |filter| filter.dropped)
    }

    fn filter_of(&mut self, node: NodeId) -> &mut PacketFilter {
        self.hosts[node.0].filter.get_or_insert_default()
    }
}

//! Processes of a network that end, start again, or pause.

use earmark_core::admission::Ledger;
use earmark_core::{CloseReason, ConnectionId};
use earmark_nsis::Nsis;

use super::qos::make_reservable;
use super::{Network, Scheduled};

impl Network {
    /// Ends the process of a node: its reservations and its connections end, and the node forwards as a router without NSIS.
    pub fn stop(&mut self, node: usize) {
        self.nodes[node].engine = None;
        self.nodes[node].paused_until = None;
        self.nodes[node].armed = None;
        self.nodes[node].ledger = Ledger::new();
        make_reservable(self);
        for connection in self.connections_of(node) {
            self.close(node, connection, CloseReason::Broken);
        }
    }

    /// Starts another process on a node without one.
    pub fn start(&mut self, node: usize, engine: Nsis) {
        self.nodes[node].engine = Some(engine);
        self.arm(node);
    }

    /// Returns the connections of a node.
    pub fn connections_of(&self, node: usize) -> Vec<ConnectionId> {
        let ends = self.connections.keys();
        ends.filter(|(owner, _)| *owner == node).map(|&(_, connection)| connection).collect()
    }

    /// Returns an event whose node can handle it now. The events of a paused process wait; datagrams for it are lost.
    pub(super) fn unless_paused(&mut self, scheduled: Scheduled) -> Option<Scheduled> {
        let node = match scheduled {
            Scheduled::Packet { node, .. }
            | Scheduled::Expire { node }
            | Scheduled::Open { node, .. }
            | Scheduled::Octets { node, .. }
            | Scheduled::Closed { node, .. } => node,
        };
        let now = self.now;
        let Some(until) = self.nodes[node].paused_until.filter(|&until| until > now) else {
            return Some(scheduled);
        };
        if !matches!(scheduled, Scheduled::Packet { .. }) {
            self.later(until.since(now), scheduled);
        }
        None
    }
}

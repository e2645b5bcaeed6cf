//! Context of an input: the host view that an engine may read, and the ledger.

use core::net::IpAddr;

use crate::admission::Ledger;
use crate::{Flow, InterfaceId, Interfaces, Routes, Time};

/// The node around an engine.
pub struct Context<'a> {
    /// Routes of the node.
    pub routes: &'a dyn Routes,
    /// Interfaces of the node.
    pub interfaces: &'a Interfaces,
    /// Link capacity and its claims.
    pub ledger: &'a mut Ledger,
}

impl Context<'_> {
    /// Returns the next hop on the link of `interface` for a flow, if the flow decides and not its destination alone.
    /// `flow` gives the flow and its incoming interface. `None` also if the flow now leaves through another
    /// interface.
    #[inline]
    pub fn next_hop(
        &self,
        destination: IpAddr,
        interface: InterfaceId,
        flow: impl FnOnce() -> (Flow, Option<InterfaceId>),
    ) -> Option<IpAddr> {
        if !self.routes.differs_by_flow(destination) {
            return None;
        }
        let (flow, incoming) = flow();
        let hop = self.routes.lookup_flow(&flow, incoming)?;
        hop.gateway.filter(|_| hop.interface == interface)
    }

    /// Returns whether this many more messages for new or changed requests may be forwarded from one interface to another:
    /// each access interface may use half of the signalling class of a link ([`Ledger::admits_request`]).
    pub fn may_forward_request(
        &mut self,
        now: Time,
        (arrival, outgoing): (InterfaceId, InterfaceId),
        messages: u32,
    ) -> bool {
        let is_limited = self.interfaces.by_id(arrival).is_some_and(|port| !port.is_core());
        let link = self.interfaces.by_id(outgoing).filter(|_| is_limited);
        link.is_none_or(|link| self.ledger.admits_request(now, arrival.0.into(), link, messages))
    }

    /// Returns whether an address is this node's own or on one of its links, so that packets to it pass no further
    /// router.
    pub fn is_adjacent(&self, address: IpAddr) -> bool {
        self.interfaces.is_local(address)
            || self.routes.lookup(address).is_some_and(|hop| hop.gateway.is_none())
    }
}

//! Context of an input: the host view that an engine may read, and the ledger.

use core::net::IpAddr;

use crate::admission::Ledger;
use crate::{Flow, InterfaceId, Interfaces, Routes};

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

    /// Returns whether an address is this node's own or on one of its links, so that packets to it pass no further
    /// router.
    pub fn is_adjacent(&self, address: IpAddr) -> bool {
        self.interfaces.is_local(address)
            || self.routes.lookup(address).is_some_and(|hop| hop.gateway.is_none())
    }
}

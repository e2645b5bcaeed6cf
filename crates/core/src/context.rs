//! What an engine may look at and take from while it handles an input.

use core::net::IpAddr;

use crate::admission::Ledger;
use crate::{Flow, InterfaceId, Interfaces, Routes};

/// The node around an engine.
pub struct Context<'a> {
    /// Where packets go.
    pub routes: &'a dyn Routes,
    /// Through what they go.
    pub interfaces: &'a Interfaces,
    /// Who holds how much of it.
    pub ledger: &'a mut Ledger,
}

impl Context<'_> {
    /// The router on the link of `interface` that takes the packets of a flow, where the flow decides and not its
    /// destination alone. `flow` gives the flow and where its packets come in. `None` also where the flow leaves
    /// through another interface by now.
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

    /// Whether an address is this node's own or on a link of it, so that packets to it pass no router further on.
    pub fn is_adjacent(&self, address: IpAddr) -> bool {
        self.interfaces.is_local(address)
            || self.routes.lookup(address).is_some_and(|hop| hop.gateway.is_none())
    }
}

//! What an engine may look at and take from while it handles an input.

use core::net::IpAddr;

use crate::admission::Ledger;
use crate::{Interfaces, Routes};

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
    /// Whether an address is this node's own or on a link of it, so that packets to it pass no router further on.
    pub fn is_adjacent(&self, address: IpAddr) -> bool {
        self.interfaces.is_local(address)
            || self.routes.lookup(address).is_some_and(|hop| hop.gateway.is_none())
    }
}

//! Paths of packets through the network, as the routes lead now.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::InterfaceId;

use super::Network;
use crate::NodeId;
use crate::packet::DEFAULT_TTL;

impl Network {
    /// Returns the nodes on the path of packets to a destination, the first one included, with their outgoing interfaces;
    /// `None` if the packets would not arrive.
    pub fn path(&self, from: NodeId, destination: IpAddr) -> Option<Vec<(NodeId, InterfaceId)>> {
        let (hops, arrives) = self.path_towards(from, destination);
        arrives.then_some(hops)
    }

    /// Returns the links from a node towards a destination, and whether they reach it.
    pub(super) fn path_towards(
        &self,
        from: NodeId,
        destination: IpAddr,
    ) -> (Vec<(NodeId, InterfaceId)>, bool) {
        let (mut hops, mut at) = (Vec::new(), from);
        while hops.len() < usize::from(DEFAULT_TTL) {
            let host = &self.hosts[at.0];
            if host.interfaces.is_local(destination) {
                return (hops, true);
            }
            let port = host
                .routes_to(destination)
                .filter(|_| host.forwards || at == from)
                .and_then(|interface| Some((interface, host.ports.get(interface)?)))
                .filter(|(_, port)| port.up);
            let Some((interface, port)) = port else { break };
            hops.push((at, interface));
            at = port.peer.0;
        }
        (hops, false)
    }
}

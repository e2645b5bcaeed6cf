//! Messages to neighbours: own address, header, encapsulation and receiver.

use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId, Outgoing};

use crate::context::HandlerContext;
use crate::instance::{NEIGHBOR_TTL, PROTOCOL, Rsvp};
use crate::neighbors::refresh_reduction::OutgoingMessage;

impl Rsvp {
    /// Returns the own address towards a neighbour behind an interface, and the header and receiver of a message to it;
    /// `None` if the interface has no such address.
    #[inline]
    pub(crate) fn message_to<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        neighbor: IpAddr,
    ) -> Option<(IpAddr, OutgoingMessage)> {
        let own = cx.context.interfaces.by_id(interface)?.address_like(neighbor)?;
        let how = self.to_neighbor(interface, own, neighbor);
        let peer = self.refresh_reduction.peer(interface, neighbor);
        Some((own, OutgoingMessage::new(how).to(peer)))
    }

    /// Returns the header of a message to a neighbour behind an interface, UDP-encapsulated if the neighbour is.
    pub(crate) fn to_neighbor(
        &self,
        interface: InterfaceId,
        source: IpAddr,
        destination: IpAddr,
    ) -> Outgoing {
        let has_state_inside_udp = || {
            let neighbor = self.store.find_neighbor(interface, destination);
            neighbor.is_some_and(|index| self.store.neighbors[index as usize].encapsulated)
        };
        // A peer may have no state here, such as a receiver that has acknowledged a Path only.
        let encapsulated = self.encapsulating.contains(&interface)
            && self
                .refresh_reduction
                .is_encapsulated(interface, destination)
                .unwrap_or_else(has_state_inside_udp);
        Outgoing { encapsulated, ..to_neighbor(source, destination) }
    }

    /// Records whether the neighbour that sent a message uses UDP encapsulation, on interfaces where any does.
    #[inline]
    pub(crate) fn note_encapsulation(
        &mut self,
        datagram: &Datagram<'_>,
        interface: InterfaceId,
        address: IpAddr,
    ) {
        if !self.encapsulating.is_empty() {
            self.store.set_encapsulated(interface, address, datagram.encapsulated);
        }
    }
}

/// Returns the header of a message to a neighbour.
pub(crate) fn to_neighbor(source: IpAddr, destination: IpAddr) -> Outgoing {
    Outgoing::new(PROTOCOL, source, destination, NEIGHBOR_TTL)
}

//! Read-only views of the engine's state for listings. Blocks are listed in slab order, a page at a time, so that
//! listing a million of them does not block the engine.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::{InterfaceId, RowFilter};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::{SenderTemplate, Session};

use crate::filters::Filters;
use crate::instance::Rsvp;
use crate::records::{NeighborView, ReservationView, SenderView};
use crate::state::{Block, Holder, Index, Rsb};

impl Rsvp {
    /// Returns the octets of the tables of sessions on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the numbers of sessions, senders and reservation requests.
    pub fn population(&self) -> (usize, usize, usize) {
        (self.store.session_blocks.len(), self.store.psbs.len(), self.store.rsbs.len())
    }

    /// Returns the claim that a request received through `interface` would change: that of a sender, or without one of
    /// all that share a reservation.
    pub fn claim_for(
        &self,
        session: &Session,
        sender: Option<&SenderTemplate>,
        interface: InterfaceId,
    ) -> Option<ClaimId> {
        let holder = match sender {
            Some(sender) => Holder::Sender(self.store.find_sender(session, sender)?),
            None => Holder::Pool(self.store.pool_of(self.store.find_session(session)?)?),
        };
        self.store.tcsb(self.store.find_tcsb(holder, Some(interface))?).claim
    }

    /// Returns all senders.
    pub fn senders(&self) -> impl Iterator<Item = SenderView<'_>> {
        (0..self.sender_slots()).filter_map(|slot| self.sender_at(slot, &RowFilter::ALL))
    }

    /// Returns the number of slots of the table of senders, empty ones included. A sender stays in its slot.
    pub fn sender_slots(&self) -> u32 {
        self.store.psbs.capacity() as u32
    }

    /// Returns the sender in a slot, if there is one that the filter includes by its addresses. O(1).
    pub fn sender_at(&self, slot: u32, filter: &RowFilter) -> Option<SenderView<'_>> {
        let psb = self.store.psbs.get(slot as usize)?;
        let session = self.store.session(psb.session).session;
        if !is_of(&session, filter) || !is_from(psb.template.parts(), filter) {
            return None;
        }
        Some(SenderView {
            session,
            template: psb.template,
            tspec: psb.tspec,
            previous_hop: self.store.neighbor_of(psb.hop).map(|(_, hop)| hop.address),
            incoming: self.store.neighbor_of(psb.hop).map(|(interface, _)| interface),
            outgoing: psb.outgoing.as_slice(),
            here: psb.is_here(),
            hops: psb
                .adspec
                .as_deref()
                .and_then(|body| Adspec::parse(body).ok())
                .map(|adspec| adspec.general.hops),
            expires_at: psb.expires_at,
            reserved: self.is_reserved(slot),
        })
    }

    /// Returns all reservation requests.
    pub fn reservations(&self) -> impl Iterator<Item = ReservationView> {
        let slots = 0..self.reservation_slots();
        slots.filter_map(|slot| self.reservation_at(slot, &RowFilter::ALL))
    }

    /// Returns the number of slots of the table of reservation requests, empty ones included. A request stays in its slot.
    pub fn reservation_slots(&self) -> u32 {
        self.store.rsbs.capacity() as u32
    }

    /// Returns the reservation request in a slot, if there is one that the filter includes by its addresses. Costs a step
    /// for each of its senders.
    pub fn reservation_at(&self, slot: u32, filter: &RowFilter) -> Option<ReservationView> {
        let rsb = self.store.rsbs.get(slot as usize)?;
        let session = self.store.session_key(self.store.tcsb(rsb.tcsb).holder);
        if !is_of(&session, filter) {
            return None;
        }
        let view = self.reservation_view(rsb);
        let senders = view.filters.as_slice();
        // A wildcard filter names no sender, and covers all.
        let is_included =
            senders.is_empty() || senders.iter().any(|sender| is_from(sender.parts(), filter));
        is_included.then_some(view)
    }

    /// The reservation that a claim is behind; of requests that are merged into one, the first.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<ReservationView> {
        let rsb = self.store.rsbs_of(self.block_of(claim, owner)?).next()?;
        Some(self.reservation_view(self.store.rsb(rsb)))
    }

    fn reservation_view(&self, rsb: &Rsb) -> ReservationView {
        let tcsb = self.store.tcsb(rsb.tcsb);
        ReservationView {
            session: self.store.session_key(tcsb.holder),
            style: self.store.style(tcsb.holder),
            filters: self.filters_of_request(rsb),
            flowspec: rsb.flowspec,
            outgoing: tcsb.outgoing,
            next_hop: self.store.neighbor_of(rsb.hop).map(|(_, hop)| hop.address),
            expires_at: rsb.expires_at,
            user: self.user_of(rsb),
            claim: tcsb.claim,
        }
    }

    /// Returns the senders of a request.
    pub(crate) fn filters_of_request(&self, rsb: &Rsb) -> Filters {
        match self.store.tcsb(rsb.tcsb).holder {
            Holder::Sender(psb) => Filters::One(self.store.psb(psb).template),
            Holder::Pool(_) => rsb.filters().iter().map(|f| f.spec).collect::<Vec<_>>().into(),
        }
    }

    /// Returns whether there is a reservation for a sender on an outgoing interface of its data.
    fn is_reserved(&self, index: Index) -> bool {
        let psb = self.store.psb(index);
        let mut holders = [Some(Holder::Sender(index)), None];
        holders[1] = self.store.pool_of(psb.session).map(Holder::Pool);
        holders.into_iter().flatten().any(|holder| {
            self.store.tcsbs_of(holder).any(|tcsb| {
                psb.leaves_through(self.store.tcsb(tcsb).outgoing)
                    && self.includes_sender(holder, tcsb, &psb.template)
            })
        })
    }

    /// Returns all neighbours: those with state in slab order, then those with only refresh reduction or Hello.
    pub fn neighbors(&self) -> impl Iterator<Item = NeighborView> {
        let with_state = self.store.neighbors.iter().map(|(_, neighbor)| {
            let view = self.view_without_state(neighbor.interface, neighbor.address);
            NeighborView {
                senders: neighbor.blocks[Block::Sender as usize],
                reservations: neighbor.blocks[Block::Reservation as usize],
                heard: neighbor.last_refresh_at,
                tolerated: view.tolerated.union(neighbor.deviations),
                ..view
            }
        });
        let without = self
            .refresh_reduction
            .addresses()
            .filter(|&(interface, address)| self.store.find_neighbor(interface, address).is_none());
        with_state
            .chain(without.map(|(interface, address)| self.view_without_state(interface, address)))
    }

    fn view_without_state(&self, interface: InterfaceId, address: IpAddr) -> NeighborView {
        let restart = self.graceful_restart.view((interface, address));
        NeighborView { restart, ..self.refresh_reduction.view(interface, address) }
    }

    /// Returns the epoch of this node and the number of messages waiting for acknowledgement.
    pub fn reduction(&self) -> (u32, usize) {
        self.refresh_reduction.epoch_and_unacknowledged()
    }
}

/// Returns whether a filter includes the data of a session.
fn is_of(session: &Session, filter: &RowFilter) -> bool {
    let port = if session.is_aggregate() { 0 } else { session.port };
    filter.admits_to(session.destination, port)
}

/// Returns whether a filter includes data of a sender.
fn is_from(
    (address, port, ..): (IpAddr, u16, Option<u32>, Option<u32>),
    filter: &RowFilter,
) -> bool {
    filter.admits_from(address, port)
}

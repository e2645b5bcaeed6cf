//! Neighbours with state: inserted with their first block, removed with their last.

use alloc::sync::Arc;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time, shares};
use earmark_wire::rsvp::RsvpHop;

use super::Store;
use crate::state::{Block, Index, Neighbor, Origin, Peer};
use crate::tolerated::Deviations;

impl Store {
    /// Returns the neighbour or application that a peer refers to.
    #[inline]
    pub(crate) fn origin(&self, peer: Peer) -> Origin {
        match peer {
            Peer::Neighbor { index, lih } => {
                let neighbor = &self.neighbors[index as usize];
                Origin::Neighbor(neighbor.interface, RsvpHop { address: neighbor.address, lih })
            }
            Peer::Local(application) => Origin::Local(application),
        }
    }

    /// Returns interface and hop of a peer that is a neighbour.
    #[inline]
    pub(crate) fn neighbor_of(&self, peer: Peer) -> Option<(InterfaceId, RsvpHop)> {
        match self.origin(peer) {
            Origin::Neighbor(interface, hop) => Some((interface, hop)),
            Origin::Local(_) => None,
        }
    }

    /// Returns a peer for a new state block. Inserts a new neighbour if necessary and counts the block.
    pub(crate) fn find_or_insert_hop(&mut self, origin: Origin, block: Block, now: Time) -> Peer {
        let (interface, hop) = match origin {
            Origin::Neighbor(interface, hop) => (interface, hop),
            Origin::Local(application) => {
                self.shares[block as usize].add(shares::OWN);
                return Peer::Local(application);
            }
        };
        self.shares[block as usize].add(interface);
        // In most cases the same neighbour as for the last block of this kind.
        let last = self.last_neighbors[block as usize];
        let is_it = |it: &Neighbor| (it.interface, it.address) == (interface, hop.address);
        let index = match self.neighbors.get(last as usize) {
            Some(neighbor) if is_it(neighbor) => last,
            _ => self.obtain_neighbor(interface, hop.address, now),
        };
        self.last_neighbors[block as usize] = index;
        let neighbor = &mut self.neighbors[index as usize];
        neighbor.last_refresh_at = now;
        neighbor.blocks[block as usize] += 1;
        Peer::Neighbor { index, lih: hop.lih }
    }

    /// Returns the number of blocks of a kind that a neighbour has.
    pub(crate) fn blocks_of_neighbor(
        &self,
        interface: InterfaceId,
        address: IpAddr,
        block: Block,
    ) -> u32 {
        let neighbor = self.find_neighbor(interface, address);
        neighbor.map_or(0, |index| self.neighbors[index as usize].blocks[block as usize])
    }

    /// Returns the neighbour with this address behind an interface, inserting it if it is new.
    fn obtain_neighbor(&mut self, interface: InterfaceId, address: IpAddr, now: Time) -> Index {
        let neighbors = &mut self.neighbors;
        *self.neighbors_by_address.entry((interface, address)).or_insert_with(|| {
            let new = Neighbor {
                interface,
                address,
                blocks: [0; 2],
                last_refresh_at: now,
                is_near: false,
                encapsulated: false,
                deviations: Deviations::default(),
                adspec: None,
            };
            neighbors.insert(new) as Index
        })
    }

    /// Counts a block of a peer less; removes a neighbour without blocks.
    pub(crate) fn release_neighbor(&mut self, peer: Peer, block: Block) {
        let Peer::Neighbor { index, .. } = peer else {
            return self.shares[block as usize].remove(shares::OWN);
        };
        let neighbor = &mut self.neighbors[index as usize];
        neighbor.blocks[block as usize] -= 1;
        self.shares[block as usize].remove(neighbor.interface);
        if neighbor.blocks == [0; 2] {
            let gone = self.neighbors.remove(index as usize);
            self.neighbors_by_address.remove(&(gone.interface, gone.address));
        }
    }

    /// Records the time of a message from a peer.
    #[inline]
    pub(crate) fn note_refresh(&mut self, peer: Peer, now: Time) {
        if let Peer::Neighbor { index, .. } = peer {
            self.neighbors[index as usize].last_refresh_at = now;
        }
    }

    /// Records that a neighbour with state is on this link.
    pub(crate) fn note_near(&mut self, peer: Peer) {
        if let Peer::Neighbor { index, .. } = peer {
            self.neighbors[index as usize].is_near = true;
            self.any_near = true;
        }
    }

    /// Returns whether a neighbour with state is known to be on this link.
    #[inline]
    pub(crate) fn is_near(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let neighbor = self.any_near.then(|| self.find_neighbor(interface, address)).flatten();
        neighbor.is_some_and(|index| self.neighbors[index as usize].is_near)
    }

    /// Returns the neighbour with this address behind an interface.
    pub(crate) fn find_neighbor(&self, interface: InterfaceId, address: IpAddr) -> Option<Index> {
        self.neighbors_by_address.get(&(interface, address)).copied()
    }

    /// Records whether a neighbour with state uses UDP encapsulation.
    #[cold]
    pub(crate) fn set_encapsulated(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        encapsulated: bool,
    ) {
        if let Some(index) = self.find_neighbor(interface, address) {
            self.neighbors[index as usize].encapsulated = encapsulated;
        }
    }

    /// Returns the ADSPEC of the last sender of a peer if it is equal, to be shared.
    #[inline]
    pub(crate) fn known_adspec(&self, peer: Peer, body: &[u8]) -> Option<Arc<[u8]>> {
        let last = self.neighbors[self.neighbor_index(peer)? as usize].adspec.as_ref();
        last.filter(|last| ***last == *body).cloned()
    }

    /// Returns an ADSPEC to store for a sender of a peer, which its next sender may share.
    pub(crate) fn keep_adspec(&mut self, peer: Peer, body: &[u8]) -> Arc<[u8]> {
        let new: Arc<[u8]> = body.into();
        if let Some(index) = self.neighbor_index(peer) {
            self.neighbors[index as usize].adspec = Some(new.clone());
        }
        new
    }

    /// Returns the deviations of a peer that is a neighbour.
    pub(crate) fn deviations_mut(&mut self, peer: Peer) -> Option<&mut Deviations> {
        let index = self.neighbor_index(peer)?;
        Some(&mut self.neighbors[index as usize].deviations)
    }

    /// Returns the index of a peer that is a neighbour.
    pub(crate) fn neighbor_index(&self, peer: Peer) -> Option<Index> {
        match peer {
            Peer::Neighbor { index, .. } => Some(index),
            Peer::Local(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    /// The index of a removed neighbour may be reused for another one.
    #[test]
    fn reused_index_is_not_taken_for_old_neighbor() {
        let mut store = Store::new(&mut RandomStreams::new(1).stream("hash"));
        let origin = |last: u8| {
            let hop = RsvpHop { address: [192, 0, 2, last].into(), lih: 0 };
            Origin::Neighbor(InterfaceId(1), hop)
        };
        let meet = |store: &mut Store, last| {
            store.find_or_insert_hop(origin(last), Block::Sender, Time::ZERO)
        };
        let first = meet(&mut store, 1);
        assert_eq!(meet(&mut store, 1), first);
        for _ in 0..2 {
            store.release_neighbor(first, Block::Sender);
        }
        assert_eq!(meet(&mut store, 2), first, "the place is free");
        let again = meet(&mut store, 1);
        assert_ne!(again, first);
        assert_eq!((store.origin(first), store.origin(again)), (origin(2), origin(1)));
        assert_eq!(store.find_or_insert_hop(origin(2), Block::Reservation, Time::ZERO), first);
        for (peer, block) in
            [(first, Block::Sender), (again, Block::Sender), (first, Block::Reservation)]
        {
            store.release_neighbor(peer, block);
        }
        assert!(store.neighbors.is_empty() && store.neighbors_by_address.is_empty());
    }
}

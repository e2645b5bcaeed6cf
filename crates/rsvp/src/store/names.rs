//! Blocks by the names that neighbours gave to the messages that made them.

use slab::Slab;

use super::Store;
use crate::exchange::names::{Name, Named};
use crate::state::{Block, Index, NONE, Peer, Psb, Rsb};

impl Store {
    /// The block that a neighbour named so.
    #[inline]
    pub(crate) fn find_named(&self, neighbor: Index, name: Name) -> Option<Named> {
        self.names.find(neighbor, name, |named| name_of(&self.psbs, &self.rsbs, named))
    }

    /// Gives a block the name under which its neighbour spoke of it last.
    #[inline]
    pub(crate) fn set_name(&mut self, named: Named, name: Name) {
        let (neighbor, before) = name_of(&self.psbs, &self.rsbs, named);
        if before != name {
            self.change_name(named, neighbor, before, name);
        }
    }

    fn change_name(&mut self, named: Named, neighbor: Index, before: Name, name: Name) {
        if before.is_some() {
            self.names.remove(named, neighbor, before);
        }
        match named.block() {
            (Block::Sender, index) => self.psb_mut(index).name = name,
            (Block::Reservation, index) => self.rsb_mut(index).name = name,
        }
        if name.is_some() {
            self.names.insert(named, |named| name_of(&self.psbs, &self.rsbs, named));
        }
    }
}

/// The neighbour that a block hangs on, and the name that it has there.
#[inline]
fn name_of(psbs: &Slab<Psb>, rsbs: &Slab<Rsb>, named: Named) -> (Index, Name) {
    let (peer, name) = match named.block() {
        (Block::Sender, index) => {
            let psb = &psbs[index as usize];
            (psb.hop, psb.name)
        }
        (Block::Reservation, index) => {
            let rsb = &rsbs[index as usize];
            (rsb.hop, rsb.name)
        }
    };
    match peer {
        Peer::Neighbor { index, .. } => (index, name),
        Peer::Local(_) => (NONE, name),
    }
}

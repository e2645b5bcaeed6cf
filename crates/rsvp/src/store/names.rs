//! Blocks by the names that neighbours gave to the messages that made them.

use slab::Slab;

use super::Store;
use crate::refresh_reduction::message_id_key::{MessageIdKey, NamedBlock};
use crate::state::{Block, Index, NONE, Peer, Psb, Rsb};

impl Store {
    /// The block that a neighbour named so.
    #[inline]
    pub(crate) fn find_named(&self, neighbor: Index, name: MessageIdKey) -> Option<NamedBlock> {
        self.names.find(neighbor, name, |named| name_of(&self.psbs, &self.rsbs, named))
    }

    /// Likewise, where another block was found just before: what was told one after the other stands side by side more
    /// often than not, and then nothing has to be hashed.
    #[inline]
    pub(crate) fn find_named_after(
        &self,
        before: Option<NamedBlock>,
        neighbor: Index,
        name: MessageIdKey,
    ) -> Option<NamedBlock> {
        let next = before.map(NamedBlock::next);
        next.filter(|&next| self.is_named(next, neighbor, name))
            .or_else(|| self.find_named(neighbor, name))
    }

    /// Whether there is a block at this place that a neighbour named so.
    #[inline]
    fn is_named(&self, block: NamedBlock, neighbor: Index, name: MessageIdKey) -> bool {
        let is_it = |named: MessageIdKey, hop: &Peer| {
            named == name && matches!(*hop, Peer::Neighbor { index, .. } if index == neighbor)
        };
        match block.block() {
            (Block::Sender, index) => {
                self.psbs.get(index as usize).is_some_and(|psb| is_it(psb.name, &psb.hop))
            }
            (Block::Reservation, index) => {
                self.rsbs.get(index as usize).is_some_and(|rsb| is_it(rsb.name, &rsb.hop))
            }
        }
    }

    /// Gives a block the name under which its neighbour spoke of it last.
    #[inline]
    pub(crate) fn set_name(&mut self, named: NamedBlock, name: MessageIdKey) {
        let before = match named.block() {
            (Block::Sender, index) => self.psb(index).name,
            (Block::Reservation, index) => self.rsb(index).name,
        };
        if before != name {
            self.change_name(named, name);
        }
    }

    fn change_name(&mut self, named: NamedBlock, name: MessageIdKey) {
        let (neighbor, before) = name_of(&self.psbs, &self.rsbs, named);
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
fn name_of(psbs: &Slab<Psb>, rsbs: &Slab<Rsb>, named: NamedBlock) -> (Index, MessageIdKey) {
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

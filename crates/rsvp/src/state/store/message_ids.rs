//! State blocks by the MESSAGE_ID of the neighbour's last message about them.

use alloc::vec::Vec;

use slab::Slab;

use super::Store;
use super::message_id_index::NamedBlock;
use crate::state::message_id_key::MessageIdKey;
use crate::state::{Block, Index, NONE, Peer, Psb, Rsb};

impl Store {
    /// Returns the block with this MESSAGE_ID of a neighbour.
    #[inline]
    pub(crate) fn find_by_message_id(
        &self,
        neighbor: Index,
        name: MessageIdKey,
    ) -> Option<NamedBlock> {
        self.message_ids.find(neighbor, name, |named| message_id_of(&self.psbs, &self.rsbs, named))
    }

    /// Returns the block with this MESSAGE_ID of a neighbour, trying the one after `before` first: blocks whose
    /// messages were sent in sequence are mostly adjacent, which saves the hash.
    #[inline]
    pub(crate) fn find_by_message_id_after(
        &self,
        before: Option<NamedBlock>,
        neighbor: Index,
        name: MessageIdKey,
    ) -> Option<NamedBlock> {
        let next = before.map(NamedBlock::next);
        next.filter(|&next| self.has_message_id(next, neighbor, name))
            .or_else(|| self.find_by_message_id(neighbor, name))
    }

    /// Returns the requests of a message of a neighbour that stands for several.
    #[cold]
    pub(crate) fn requests_of_joint_message(
        &self,
        neighbor: Index,
        name: MessageIdKey,
    ) -> Vec<NamedBlock> {
        let name_of = |named| message_id_of(&self.psbs, &self.rsbs, named);
        self.message_ids.find_all(neighbor, name.joint(), name_of)
    }

    /// Sets the MESSAGE_ID of several requests of one message.
    #[cold]
    pub(crate) fn set_joint_message_id(&mut self, requests: &[Index], name: MessageIdKey) {
        let blocks = || requests.iter().map(|&rsb| NamedBlock::new(Block::Reservation, rsb));
        let name = if name.is_some() { name.joint() } else { name };
        if blocks().any(|block| message_id_of(&self.psbs, &self.rsbs, block).1 != name) {
            // Earlier messages, which may have stood for other requests as well, stand for nothing any more.
            blocks().for_each(|block| self.set_message_id(block, MessageIdKey::NONE));
            blocks().for_each(|block| self.set_message_id(block, name));
        }
    }

    /// Returns whether the block exists and has this MESSAGE_ID of the neighbour.
    #[inline]
    fn has_message_id(&self, block: NamedBlock, neighbor: Index, name: MessageIdKey) -> bool {
        let is_it = |named: MessageIdKey, hop: &Peer| {
            named == name && matches!(*hop, Peer::Neighbor { index, .. } if index == neighbor)
        };
        match block.block() {
            (Block::Sender, index) => {
                self.psbs.get(index as usize).is_some_and(|psb| is_it(psb.message_id, &psb.hop))
            }
            (Block::Reservation, index) => {
                self.rsbs.get(index as usize).is_some_and(|rsb| is_it(rsb.message_id, &rsb.hop))
            }
        }
    }

    /// Sets the MESSAGE_ID of a block.
    #[inline]
    pub(crate) fn set_message_id(&mut self, named: NamedBlock, name: MessageIdKey) {
        let before = match named.block() {
            (Block::Sender, index) => self.psb(index).message_id,
            (Block::Reservation, index) => self.rsb(index).message_id,
        };
        if before != name {
            self.replace_message_id(named, name);
        }
    }

    fn replace_message_id(&mut self, named: NamedBlock, name: MessageIdKey) {
        let (neighbor, before) = message_id_of(&self.psbs, &self.rsbs, named);
        if before.is_some() {
            self.message_ids.remove(named, neighbor, before);
        }
        if before.is_joint() {
            self.end_joint_message(named, neighbor, before);
        }
        match named.block() {
            (Block::Sender, index) => self.psb_mut(index).message_id = name,
            (Block::Reservation, index) => self.rsb_mut(index).message_id = name,
        }
        if name.is_some() {
            self.message_ids.insert(named, |named| message_id_of(&self.psbs, &self.rsbs, named));
        }
    }

    /// Removes the MESSAGE_ID of the other requests of a message, which does not stand for all of them any more.
    #[cold]
    fn end_joint_message(&mut self, but: NamedBlock, neighbor: Index, name: MessageIdKey) {
        for other in self.requests_of_joint_message(neighbor, name) {
            if other != but {
                self.message_ids.remove(other, neighbor, name);
                if let (Block::Reservation, index) = other.block() {
                    self.rsb_mut(index).message_id = MessageIdKey::NONE;
                }
            }
        }
    }
}

/// Returns the neighbour and MESSAGE_ID of a block.
#[inline]
fn message_id_of(psbs: &Slab<Psb>, rsbs: &Slab<Rsb>, named: NamedBlock) -> (Index, MessageIdKey) {
    let (peer, name) = match named.block() {
        (Block::Sender, index) => {
            let psb = &psbs[index as usize];
            (psb.hop, psb.message_id)
        }
        (Block::Reservation, index) => {
            let rsb = &rsbs[index as usize];
            (rsb.hop, rsb.message_id)
        }
    };
    match peer {
        Peer::Neighbor { index, .. } => (index, name),
        Peer::Local(_) => (NONE, name),
    }
}

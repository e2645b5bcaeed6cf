//! MESSAGE_ID without its flags: comparison, and the index of state blocks by it.
//!
//! A neighbour numbers its messages upward, and chooses a new random epoch when it restarts. Each state block keeps the
//! MESSAGE_ID of the last message that changed it. A later message can thus be distinguished from one that was
//! overtaken, and a list of identifiers can stand for the messages themselves.

use alloc::vec::Vec;

use earmark_core::hash::KeyedHash;
use earmark_wire::rsvp::MessageId;
use hashbrown::HashTable;

use crate::state::{Block, Index};

/// Epoch and Message_Identifier of a message. The context supplies the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageIdKey {
    /// 24 bits, and one above them if the key is [joint](MessageIdKey::joint); all bits are set only in
    /// [`MessageIdKey::NONE`].
    pub(crate) epoch: u32,
    pub(crate) id: u32,
}

impl MessageIdKey {
    /// Key of a message without MESSAGE_ID.
    pub(crate) const NONE: MessageIdKey = MessageIdKey { epoch: u32::MAX, id: 0 };

    pub(crate) fn is_some(self) -> bool {
        self != MessageIdKey::NONE
    }

    /// Marks a key that several blocks share.
    const JOINT: u32 = 1 << 24;

    /// Returns the key of each block of a message that stands for several blocks.
    pub(crate) fn joint(self) -> MessageIdKey {
        MessageIdKey { epoch: self.epoch | MessageIdKey::JOINT, ..self }
    }

    pub(crate) fn is_joint(self) -> bool {
        self.is_some() && self.epoch & MessageIdKey::JOINT != 0
    }

    /// Returns whether the message with this identifier was sent before the one with `other`. Identifiers of different
    /// epochs have no order (RFC 2961 section 4.5).
    pub(crate) fn is_before(self, other: MessageIdKey) -> bool {
        let is_same_epoch = (self.epoch ^ other.epoch) & !MessageIdKey::JOINT == 0;
        is_same_epoch && precedes(self.id, other.id)
    }
}

impl From<MessageId> for MessageIdKey {
    fn from(id: MessageId) -> MessageIdKey {
        MessageIdKey { epoch: id.epoch, id: id.id }
    }
}

/// Returns whether `a` comes before `b` in serial number order (modulo 2^32).
pub(crate) fn precedes(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// State block with a MESSAGE_ID: kind in the highest bit, index in the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedBlock(u32);

impl NamedBlock {
    const RESERVATION: u32 = 1 << 31;

    pub(crate) fn new(block: Block, index: Index) -> NamedBlock {
        match block {
            Block::Sender => NamedBlock(index),
            Block::Reservation => NamedBlock(index | NamedBlock::RESERVATION),
        }
    }

    /// Returns the next block of the same kind, which may be vacant.
    pub(crate) fn next(self) -> NamedBlock {
        NamedBlock(
            self.0 & NamedBlock::RESERVATION | (self.0 & !NamedBlock::RESERVATION).wrapping_add(1),
        )
    }

    pub(crate) fn block(self) -> (Block, Index) {
        if self.0 & NamedBlock::RESERVATION == 0 {
            (Block::Sender, self.0)
        } else {
            (Block::Reservation, self.0 & !NamedBlock::RESERVATION)
        }
    }
}

/// Index from (neighbour, MESSAGE_ID) to state blocks, with one entry for each block that has a MESSAGE_ID.
/// Neighbours choose the keys, so a [`KeyedHash`] hashes them. The blocks themselves hold the keys; the index is never
/// iterated.
#[derive(Debug)]
pub(crate) struct MessageIdIndex {
    blocks: HashTable<NamedBlock>,
    hash: KeyedHash,
}

impl MessageIdIndex {
    pub(crate) fn new(hash: KeyedHash) -> MessageIdIndex {
        MessageIdIndex { blocks: HashTable::new(), hash }
    }

    /// Returns the block with this MESSAGE_ID of `neighbor`; `name_of` returns the key of a block.
    #[inline]
    pub(crate) fn find(
        &self,
        neighbor: Index,
        name: MessageIdKey,
        name_of: impl Fn(NamedBlock) -> (Index, MessageIdKey),
    ) -> Option<NamedBlock> {
        let hash = hash(&self.hash, neighbor, name);
        self.blocks.find(hash, |&block| name_of(block) == (neighbor, name)).copied()
    }

    /// Returns all blocks with this MESSAGE_ID of `neighbor`.
    #[cold]
    pub(crate) fn find_all(
        &self,
        neighbor: Index,
        name: MessageIdKey,
        name_of: impl Fn(NamedBlock) -> (Index, MessageIdKey),
    ) -> Vec<NamedBlock> {
        let hash = hash(&self.hash, neighbor, name);
        let found = self.blocks.iter_hash(hash).copied();
        found.filter(|&block| name_of(block) == (neighbor, name)).collect()
    }

    /// Inserts a block under its current key.
    pub(crate) fn insert(
        &mut self,
        block: NamedBlock,
        name_of: impl Fn(NamedBlock) -> (Index, MessageIdKey),
    ) {
        let key = &self.hash;
        let of = |block: &NamedBlock| {
            let (neighbor, name) = name_of(*block);
            hash(key, neighbor, name)
        };
        self.blocks.insert_unique(of(&block), block, of);
    }

    /// Removes a block by its neighbour and key.
    pub(crate) fn remove(&mut self, block: NamedBlock, neighbor: Index, name: MessageIdKey) {
        let hash = hash(&self.hash, neighbor, name);
        if let Ok(entry) = self.blocks.find_entry(hash, |&other| other == block) {
            entry.remove();
        }
    }
}

#[inline]
fn hash(hash: &KeyedHash, neighbor: Index, name: MessageIdKey) -> u64 {
    hash.of_two([u64::from(name.epoch) << 32 | u64::from(name.id), neighbor.into()])
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    /// Serial numbers wrap: the smallest follows the largest.
    #[test]
    fn numbers_are_compared_across_the_wrap() {
        assert!(precedes(1, 2) && !precedes(2, 1) && !precedes(2, 2));
        assert!(precedes(u32::MAX, 0) && precedes(u32::MAX - 5, 5));
        assert!(!precedes(0, u32::MAX));
        assert!(precedes(7, 7 + (1 << 31) - 1));
    }

    #[test]
    fn message_ids_of_different_epochs_have_no_order() {
        let old = MessageIdKey { epoch: 1, id: 5 };
        assert!(
            old.is_before(MessageIdKey { id: 6, ..old })
                && !MessageIdKey { id: 6, ..old }.is_before(old)
        );
        assert!(!old.is_before(MessageIdKey { epoch: 2, id: 6 }));
        let joint = MessageIdKey { id: 6, ..old }.joint();
        assert!(old.is_before(joint) && old.joint().is_before(joint) && !joint.is_before(old));
        assert!(joint.is_joint() && !old.is_joint() && !MessageIdKey::NONE.is_joint());
        assert!(!old.is_before(MessageIdKey::NONE) && !MessageIdKey::NONE.is_before(old));
    }

    #[test]
    fn block_is_found_by_neighbor_and_message_id_only() {
        let names = [
            (3, MessageIdKey { epoch: 1, id: 5 }),
            (4, MessageIdKey { epoch: 1, id: 5 }),
            (3, MessageIdKey { epoch: 2, id: 5 }),
        ];
        let name_of = |named: NamedBlock| names[named.block().1 as usize];
        let mut index =
            MessageIdIndex::new(KeyedHash::draw(&mut RandomStreams::new(1).stream("names")));
        for (block, _) in names.iter().enumerate() {
            index.insert(NamedBlock::new(Block::Reservation, block as Index), name_of);
        }
        for (block, &(neighbor, name)) in names.iter().enumerate() {
            let found = index.find(neighbor, name, name_of).map(NamedBlock::block);
            assert_eq!(found, Some((Block::Reservation, block as Index)));
        }
        assert_eq!(index.find(4, names[2].1, name_of), None);
        index.remove(NamedBlock::new(Block::Reservation, 0), 3, names[0].1);
        assert_eq!(index.find(3, names[0].1, name_of), None);
        assert_eq!(index.blocks.len(), 2);
    }
}

//! Index of state blocks by the MESSAGE_ID of the message that set them.

use alloc::vec::Vec;

use earmark_core::hash::KeyedHash;
use earmark_core::memory::Table;
use hashbrown::HashTable;

use crate::state::message_id_key::MessageIdKey;
use crate::state::{Block, Index};

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
    /// Returns the octets of the table on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        self.blocks.octets()
    }

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

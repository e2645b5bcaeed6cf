//! Index that the engines of this project use: an open-addressing table of block numbers, with a keyed hash that
//! outsiders cannot predict.

use earmark_core::hash::KeyedHash;
use earmark_core::random::RandomStreams;
use hashbrown::HashTable;

use super::{Block, Blocks, Index, Key, NIL};

/// The table.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct KeyedHashTable {
    hash: KeyedHash,
    table: HashTable<u32>,
    blocks: Blocks,
}

impl KeyedHashTable {
    /// Creates a table without sessions. The key is the same each time, so that two runs measure the same.
    pub(in crate::paper_reproduction) fn new() -> KeyedHashTable {
        let hash = KeyedHash::draw(&mut RandomStreams::new(1).stream("index"));
        KeyedHashTable { hash, table: HashTable::new(), blocks: Blocks::default() }
    }
}

/// Hashes like the index of YESSIR for a stream of IPv4.
fn hash_of(hash: &KeyedHash, key: &Key) -> u64 {
    let ports = u64::from(key.source_port) << 16 | u64::from(key.destination_port);
    let addresses = u64::from(key.source) << 32 | u64::from(key.destination);
    hash.of_two([addresses, ports])
}

impl Index for KeyedHashTable {
    fn find(&self, key: &Key) -> Option<u32> {
        let hash = hash_of(&self.hash, key);
        self.table.find(hash, |&number| self.blocks.at(number).key == *key).copied()
    }

    fn enter(&mut self, key: Key) -> u32 {
        let number = self.blocks.add(Block { key, links: [NIL; 2] });
        let (hash, blocks) = (&self.hash, &self.blocks);
        let again = |&number: &u32| hash_of(hash, &blocks.at(number).key);
        self.table.insert_unique(hash_of(hash, &key), number, again);
        number
    }

    fn remove(&mut self, key: &Key) -> bool {
        let (hash, blocks) = (hash_of(&self.hash, key), &self.blocks);
        match self.table.find_entry(hash, |&number| blocks.at(number).key == *key) {
            Ok(entry) => {
                let (number, _) = entry.remove();
                self.blocks.free(number);
                true
            }
            Err(_) => false,
        }
    }
}

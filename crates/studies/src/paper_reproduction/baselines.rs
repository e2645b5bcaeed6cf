//! Session and timer structures of earlier implementations beside those of this project, for measurements on one
//! machine with the same load.
//!
//! | structure | implementation | source |
//! |---|---|---|
//! | [`chained_hash`]: hash of the destination alone | ISI RSVP | Budapest paper, section 4.1.1 |
//! | [`chained_hash`]: 1 537 chains by the sum of addresses and ports | YESSIR | Pan and Schulzrinne, section 4.1 |
//! | [`chained_hash`]: sum of octets, sum of words | GIST 0.1.0, 0.5.2 | Fu et al., section IV-E |
//! | [`bit_tree`] | Boomerang | Budapest paper, section 4.2.1 |
//! | [`keyed_hash`] | Earmark | `earmark_core::hash` |
//! | [`timers::list`] | ISI RSVP | Budapest paper, section 4.1.5 |
//! | [`timers::heap`] | XORP, in GIST 0.1.0 | Fu et al., section IV-C |
//! | [`timers::buckets`] | GIST 0.5.2 | Fu et al., section IV-D |
//! | [`timers::wheel`] | Earmark | `earmark_core::timer` |
//!
//! Where a source gives no detail, the choice favors the structure, and its comment says so.

pub(super) mod bit_tree;
pub(super) mod chained_hash;
pub(super) mod keyed_hash;
pub(super) mod timers;

use std::fmt;

/// Index of no block.
const NIL: u32 = u32::MAX;

/// Keys of a session: the five-tuple of its flow, and its NSIS session identifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    source: u32,
    destination: u32,
    source_port: u16,
    destination_port: u16,
    protocol: u8,
    name: [u8; 16],
}

impl Key {
    /// Returns the key of the session with this number, below 2^28: 16 sessions to a destination, and session
    /// identifiers that look random, as NSIS requires.
    pub(super) fn numbered(number: u32) -> Key {
        // Both factors are odd, so that different hosts stay different.
        let host = (number / 16).wrapping_mul(0x9e37_79b1) & 0xff_ffff;
        let name = u128::from(number) + 1;
        Key {
            source: 0xac10_0000 + (number.wrapping_mul(0x85eb_ca6b) & 0xf_ffff),
            destination: 0x0a00_0000 + host,
            source_port: 4_000,
            destination_port: 5_004 + 2 * (number % 16) as u16,
            protocol: 17,
            name: name.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes(),
        }
    }

    /// Returns the five-tuple as one number of 104 bits, the destination first.
    fn bits(&self) -> u128 {
        u128::from(self.destination) << 72
            | u128::from(self.source) << 40
            | u128::from(self.destination_port) << 24
            | u128::from(self.source_port) << 8
            | u128::from(self.protocol)
    }
}

/// State of a session: one cache line, so that a key comparison fetches it from memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Block {
    key: Key,
    /// Successors of the block in the structure.
    links: [u32; 2],
}

/// All blocks of a structure, and the free list.
#[derive(Debug, Default)]
struct Blocks {
    blocks: Vec<Block>,
    free: Vec<u32>,
}

impl Blocks {
    fn add(&mut self, block: Block) -> u32 {
        if let Some(number) = self.free.pop() {
            self.blocks[number as usize] = block;
            return number;
        }
        self.blocks.push(block);
        (self.blocks.len() - 1) as u32
    }

    fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    fn at(&self, number: u32) -> &Block {
        &self.blocks[number as usize]
    }

    fn at_mut(&mut self, number: u32) -> &mut Block {
        &mut self.blocks[number as usize]
    }
}

/// A structure for session look-ups.
pub(super) trait Index: fmt::Debug {
    /// Returns the number of a session's block.
    fn find(&self, key: &Key) -> Option<u32>;
    /// Inserts a session that is not present; returns the number of its block.
    fn enter(&mut self, key: Key) -> u32;
    /// Removes a session; returns whether it was present.
    fn remove(&mut self, key: &Key) -> bool;
}

/// Returns all look-up structures, each with its name.
pub(super) fn indexes() -> [(&'static str, Box<dyn Index>); 6] {
    [
        ("Earmark: keyed hash", Box::new(keyed_hash::KeyedHashTable::new())),
        ("ISI RSVP: hash of the destination", Box::new(chained_hash::ChainedHashTable::of_isi())),
        ("Boomerang: bit tree", Box::new(bit_tree::BitTree::new())),
        ("YESSIR: 1 537 chains", Box::new(chained_hash::ChainedHashTable::of_yessir())),
        ("GIST 0.1.0: sum of octets", Box::new(chained_hash::ChainedHashTable::of_gist_first())),
        ("GIST 0.5.2: sum of words", Box::new(chained_hash::ChainedHashTable::of_gist_second())),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_differ_and_blocks_fill_a_line() {
        let mut tuples: Vec<u128> = (0..100_000).map(|n| Key::numbered(n).bits()).collect();
        tuples.sort_unstable();
        tuples.dedup();
        assert_eq!(tuples.len(), 100_000);
        assert_eq!(size_of::<Block>(), 64);
    }

    /// The number of sessions is large, so that tables grow and trees are deep.
    #[test]
    fn thousands_of_sessions_are_found_and_no_others() {
        for (name, mut index) in indexes() {
            let numbers: Vec<u32> = (0..3_000).map(|n| index.enter(Key::numbered(n))).collect();
            for n in 0..3_000 {
                assert_eq!(index.find(&Key::numbered(n)), Some(numbers[n as usize]), "{name}");
            }
            assert_eq!(index.find(&Key::numbered(3_000)), None, "{name}");
            assert!((0..3_000).step_by(2).all(|n| index.remove(&Key::numbered(n))), "{name}");
            let left = (0..3_000).filter(|&n| index.find(&Key::numbered(n)).is_some());
            assert!(left.eq((1..3_000).step_by(2)), "{name}");
        }
    }

    proptest! {
        /// After any sequence of changes each structure finds what an ordered map finds.
        #[test]
        fn each_structure_finds_what_a_map_finds(
            steps in prop::collection::vec((any::<bool>(), 0_u32..60), 1..200),
        ) {
            for (name, mut index) in indexes() {
                let mut model = BTreeMap::new();
                for &(comes, number) in &steps {
                    let key = Key::numbered(number);
                    prop_assert_eq!(index.find(&key), model.get(&key).copied(), "{}", name);
                    if !comes {
                        prop_assert_eq!(index.remove(&key), model.remove(&key).is_some());
                    } else if !model.contains_key(&key) {
                        let block = index.enter(key);
                        prop_assert!(model.values().all(|&other| other != block), "{}", name);
                        model.insert(key, block);
                    }
                }
                for number in 0..60 {
                    let key = Key::numbered(number);
                    prop_assert_eq!(index.find(&key), model.get(&key).copied(), "{}", name);
                }
            }
        }
    }
}

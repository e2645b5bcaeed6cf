//! Hash tables with chains: an array of heads, and a list of blocks for each. The variants differ in the hash, and in
//! the growth of the array.

use super::{Block, Blocks, Index, Key, NIL};

/// Number of chains of ISI RSVP, which its papers do not state.
const ISI_CHAINS: usize = 256;
/// Number of chains of YESSIR.
const YESSIR_CHAINS: usize = 1_537;
/// Initial number of chains in the tables of GIST, which its paper does not state.
const GIST_CHAINS: usize = 101;

/// A hash table with chains. New sessions go to the head of their chain, which is the cheapest place.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct ChainedHashTable {
    hash: fn(&Key) -> u32,
    growth: Growth,
    heads: Vec<u32>,
    sessions: usize,
    blocks: Blocks,
}

/// Growth of the array of heads once there are more than half as many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    /// No growth.
    Fixed,
    /// Growth by an eighth, with frequent rehashing: the paper calls GIST's first list of sizes dense, without a
    /// figure.
    Dense,
    /// Growth to more than twice the size.
    Doubling,
}

impl ChainedHashTable {
    /// Creates the table of ISI RSVP: by the destination address alone, so that all sessions to a host share a chain.
    pub(in crate::paper_reproduction) fn of_isi() -> ChainedHashTable {
        ChainedHashTable::new(ISI_CHAINS, Growth::Fixed, |key| key.destination)
    }

    /// Creates the table of YESSIR: by the sum of both addresses and both ports.
    pub(in crate::paper_reproduction) fn of_yessir() -> ChainedHashTable {
        ChainedHashTable::new(YESSIR_CHAINS, Growth::Fixed, |key| {
            let ports = u32::from(key.source_port) + u32::from(key.destination_port);
            key.source.wrapping_add(key.destination).wrapping_add(ports)
        })
    }

    /// Creates the first table of GIST: by the sum of the octets of the session identifier, at most 4 080.
    pub(in crate::paper_reproduction) fn of_gist_first() -> ChainedHashTable {
        ChainedHashTable::new(GIST_CHAINS, Growth::Dense, |key| {
            key.name.iter().copied().map(u32::from).sum()
        })
    }

    /// Creates the second table of GIST: by the sum of the words of the session identifier.
    pub(in crate::paper_reproduction) fn of_gist_second() -> ChainedHashTable {
        ChainedHashTable::new(GIST_CHAINS, Growth::Doubling, |key| {
            let (words, _) = key.name.as_chunks::<4>();
            words.iter().fold(0, |sum: u32, &word| sum.wrapping_add(u32::from_be_bytes(word)))
        })
    }

    fn new(chains: usize, growth: Growth, hash: fn(&Key) -> u32) -> ChainedHashTable {
        ChainedHashTable {
            hash,
            growth,
            heads: vec![NIL; chains],
            sessions: 0,
            blocks: Blocks::default(),
        }
    }

    fn chain(&self, key: &Key) -> usize {
        (self.hash)(key) as usize % self.heads.len()
    }

    /// Returns the block of a session, and the one before it in its chain.
    fn search(&self, key: &Key) -> Option<(u32, u32)> {
        let (mut before, mut here) = (NIL, self.heads[self.chain(key)]);
        while here != NIL {
            let block = self.blocks.at(here);
            if block.key == *key {
                return Some((here, before));
            }
            (before, here) = (here, block.links[0]);
        }
        None
    }

    fn grow(&mut self) {
        let chains = self.heads.len();
        let more = match self.growth {
            Growth::Fixed => return,
            Growth::Dense => chains + chains / 8,
            Growth::Doubling => 2 * chains + 1,
        };
        let old = std::mem::replace(&mut self.heads, vec![NIL; more]);
        for mut here in old {
            while here != NIL {
                let Block { key, links: [next, _] } = *self.blocks.at(here);
                let chain = self.chain(&key);
                self.blocks.at_mut(here).links[0] = std::mem::replace(&mut self.heads[chain], here);
                here = next;
            }
        }
    }
}

impl Index for ChainedHashTable {
    fn find(&self, key: &Key) -> Option<u32> {
        self.search(key).map(|(here, _)| here)
    }

    fn enter(&mut self, key: Key) -> u32 {
        self.sessions += 1;
        if 2 * self.sessions > self.heads.len() {
            self.grow();
        }
        let chain = self.chain(&key);
        let number = self.blocks.add(Block { key, links: [self.heads[chain], NIL] });
        self.heads[chain] = number;
        number
    }

    fn remove(&mut self, key: &Key) -> bool {
        let Some((here, before)) = self.search(key) else { return false };
        let next = self.blocks.at(here).links[0];
        if before == NIL {
            let chain = self.chain(key);
            self.heads[chain] = next;
        } else {
            self.blocks.at_mut(before).links[0] = next;
        }
        self.blocks.free(here);
        self.sessions -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected hashes are those that the papers describe.
    #[test]
    fn hashes_are_those_of_the_papers() {
        let (one, other) = (Key::numbered(0), Key::numbered(1));
        assert_eq!(one.destination, other.destination);
        let isi = ChainedHashTable::of_isi();
        assert_eq!(isi.chain(&one), isi.chain(&other), "the same host");
        let yessir = ChainedHashTable::of_yessir();
        let sum = u64::from(one.source) + u64::from(one.destination) + 4_000 + 5_004;
        assert_eq!(yessir.chain(&one) as u64, (sum & 0xffff_ffff) % 1_537);
        let most = Key { name: [255; 16], ..one };
        assert_eq!((ChainedHashTable::of_gist_first().hash)(&most), 4_080);
        assert_eq!((ChainedHashTable::of_gist_second().hash)(&most), 0_u32.wrapping_sub(4));
    }

    #[test]
    fn tables_of_gist_grow_and_the_others_do_not() {
        let filled = |mut table: ChainedHashTable| {
            (0..2_000).for_each(|n| {
                table.enter(Key::numbered(n));
            });
            table.heads.len()
        };
        assert_eq!(filled(ChainedHashTable::of_isi()), ISI_CHAINS);
        assert_eq!(filled(ChainedHashTable::of_yessir()), YESSIR_CHAINS);
        let (dense, doubling) =
            (filled(ChainedHashTable::of_gist_first()), filled(ChainedHashTable::of_gist_second()));
        assert!((4_000..=4_500).contains(&dense), "{dense}: by an eighth each time");
        assert_eq!(doubling, 6_527, "101, 203, 407, .. 6 527");
    }
}

//! Binary tree over the bits of keys, in which each node holds a session: at depth d the search goes left or right by
//! bit d of the key. The length of a path is at most the number of bits of a key, and keys that differ in early bits
//! are found early.
//!
//! The Budapest paper describes no more of Boomerang's tree, and leaves the order of bits open: here the destination
//! comes first, most significant bit first, as masks of its aggregates need it.

use super::{Block, Blocks, Index, Key, NIL};

/// Position of the highest bit of a key.
const HIGHEST: u32 = 103;

/// The tree.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct BitTree {
    root: u32,
    blocks: Blocks,
}

/// Reference to a block: the root or a link of its parent.
#[derive(Clone, Copy, Debug)]
enum Place {
    Root,
    Below(u32, usize),
}

/// Returns the side of the key at this depth.
fn side(bits: u128, depth: u32) -> usize {
    (bits >> HIGHEST.saturating_sub(depth) & 1) as usize
}

impl BitTree {
    /// Creates a tree without sessions.
    pub(in crate::paper_reproduction) fn new() -> BitTree {
        BitTree { root: NIL, blocks: Blocks::default() }
    }

    /// Returns the reference to a key's block and the block; without a block, the reference where it belongs.
    fn search(&self, key: &Key) -> (Place, u32) {
        let bits = key.bits();
        let (mut place, mut here, mut depth) = (Place::Root, self.root, 0);
        while here != NIL {
            let block = self.blocks.at(here);
            if block.key == *key {
                break;
            }
            let side = side(bits, depth);
            (place, here) = (Place::Below(here, side), block.links[side]);
            depth += 1;
        }
        (place, here)
    }

    fn link(&mut self, place: Place, number: u32) {
        match place {
            Place::Root => self.root = number,
            Place::Below(above, side) => self.blocks.at_mut(above).links[side] = number,
        }
    }

    /// Returns a leaf at or below `top`, and the reference to it.
    fn leaf_below(&self, mut place: Place, top: u32) -> (Place, u32) {
        let mut here = top;
        loop {
            let links = self.blocks.at(here).links;
            let Some(side) = links.iter().position(|&link| link != NIL) else {
                return (place, here);
            };
            (place, here) = (Place::Below(here, side), links[side]);
        }
    }
}

impl Index for BitTree {
    fn find(&self, key: &Key) -> Option<u32> {
        let (_, here) = self.search(key);
        (here != NIL).then_some(here)
    }

    fn enter(&mut self, key: Key) -> u32 {
        let (place, _) = self.search(&key);
        let number = self.blocks.add(Block { key, links: [NIL; 2] });
        self.link(place, number);
        number
    }

    /// Removes a key, and returns whether it was present; a leaf below replaces its block, since all keys below a block
    /// agree with it in the bits of its path.
    fn remove(&mut self, key: &Key) -> bool {
        let (place, here) = self.search(key);
        if here == NIL {
            return false;
        }
        let (place_of_leaf, leaf) = self.leaf_below(place, here);
        self.link(place_of_leaf, NIL);
        if leaf != here {
            self.blocks.at_mut(leaf).links = self.blocks.at(here).links;
            self.link(place, leaf);
        }
        self.blocks.free(here);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sessions to one host by consecutive ports share all but a few of the first bits, and still no path is longer
    /// than a key.
    #[test]
    fn no_path_is_longer_than_a_key() {
        let mut tree = BitTree::new();
        let key = |n: u16| Key { destination_port: n, ..Key::numbered(0) };
        (0..1_000).for_each(|n| {
            tree.enter(key(n));
        });
        let depth = |n: u16| {
            let (mut here, mut depth) = (tree.root, 0);
            while tree.blocks.at(here).key != key(n) {
                here = tree.blocks.at(here).links[side(key(n).bits(), depth)];
                depth += 1;
            }
            depth
        };
        let deepest = (0..1_000).map(depth).max();
        assert!(deepest <= Some(HIGHEST + 1), "{deepest:?}");
    }
}

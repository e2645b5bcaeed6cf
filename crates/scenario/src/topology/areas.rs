//! Address ranges of routers, and the minimum set of routes to all of them.
//!
//! All ranges are of one size, a power of two of them in 10.0.0.0/8, so that they are the leaves of a binary tree of
//! ranges. The routes that cover them are computed by the algorithm of Draves, King, Venkatachary and Zill
//! ("Constructing optimal IP routing tables", INFOCOM 1999): from the leaves up, each range gets the next hops that
//! serve most of its contents; from the root down, one of them is chosen if the next hop of the enclosing range is
//! not among them. Unassigned ranges may use any next hop.

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::Prefix;

/// Range that contains all others.
const WHOLE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 0);
const WHOLE_LENGTH: u8 = 8;
/// Number of addresses of a link.
const LINK: u32 = 4;

/// Division of 10.0.0.0/8.
#[derive(Clone, Copy, Debug)]
pub(super) struct Areas {
    /// Bits of a range's number.
    bits: u8,
}

impl Areas {
    /// Creates a division into at least so many ranges, 65 536 at most.
    pub(super) fn for_routers(routers: usize) -> Areas {
        Areas { bits: routers.next_power_of_two().ilog2() as u8 }
    }

    /// Returns how many links fit in a range.
    pub(super) fn links(self) -> usize {
        1 << (32 - WHOLE_LENGTH - self.bits - LINK.ilog2() as u8)
    }

    /// Returns a range by its number.
    pub(super) fn area(self, number: usize) -> Prefix {
        let length = WHOLE_LENGTH + self.bits;
        Prefix::new(
            Ipv4Addr::from(WHOLE.to_bits() + ((number as u32) << (32 - length))).into(),
            length,
        )
    }

    /// Returns a link of a range: its prefix, and the addresses of its ends.
    pub(super) fn link(self, number: usize, link: usize) -> (Prefix, [Ipv4Addr; 2]) {
        let start = first_of(self.area(number)) + LINK * link as u32;
        let prefix = Prefix::new(Ipv4Addr::from(start).into(), 32 - LINK.ilog2() as u8);
        (prefix, [1, 2].map(|place| Ipv4Addr::from(start + place)))
    }
}

fn first_of(range: Prefix) -> u32 {
    match range.address() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(_) => 0, // ranges of routers are IPv4
    }
}

/// A range with its next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Covering {
    /// Destinations, except those of a smaller covering within.
    pub(super) range: Prefix,
    /// Number of the next hop.
    pub(super) way: usize,
}

/// Returns the minimum set of routes to all `wanted` ranges, each with the number of its next hop, below `ways`.
/// Larger ranges come first.
pub(super) fn cover(wanted: &[(Prefix, usize)], ways: usize) -> Vec<Covering> {
    let Some((first, _)) = wanted.first() else { return Vec::new() };
    let tree = Tree::new(first.length() - WHOLE_LENGTH, ways, wanted);
    let mut coverings = Vec::new();
    let mut chosen: Vec<usize> = vec![0; tree.nodes()];
    for node in 1..tree.nodes() {
        // The root has no enclosing range.
        let around = (node > 1).then(|| chosen[node / 2]);
        chosen[node] = match around {
            Some(way) if tree.serves(node, way) => way,
            _ => {
                let way = tree.first(node);
                coverings.push(Covering { range: tree.range(node), way });
                way
            }
        };
    }
    coverings
}

/// A binary tree of ranges: node 1 is the root, 2n and 2n + 1 are the halves of n.
struct Tree {
    bits: u8,
    words: usize,
    /// Set of next hops for each node, `words` long.
    sets: Vec<u64>,
}

impl Tree {
    fn new(bits: u8, ways: usize, wanted: &[(Prefix, usize)]) -> Tree {
        let words = ways.div_ceil(64).max(1);
        let mut tree = Tree { bits, words, sets: Vec::new() };
        tree.sets = vec![u64::MAX; words * tree.nodes()];
        for &(range, way) in wanted {
            let number = (first_of(range) - WHOLE.to_bits()) >> (32 - WHOLE_LENGTH - bits);
            let leaf = (1 << bits) + number as usize;
            tree.sets[words * leaf..words * (leaf + 1)].fill(0);
            tree.sets[words * leaf + way / 64] |= 1 << (way % 64);
        }
        for node in (1..1 << bits).rev() {
            tree.join(node);
        }
        tree
    }

    fn nodes(&self) -> usize {
        2 << self.bits
    }

    /// Sets the next hops that serve both halves, or else those that serve one.
    fn join(&mut self, node: usize) {
        let halves = [2 * node, 2 * node + 1].map(|half| half * self.words);
        let pair = |tree: &Tree, word: usize| halves.map(|half| tree.sets[half + word]);
        let common = (0..self.words).any(|word| {
            let [left, right] = pair(self, word);
            left & right != 0
        });
        for word in 0..self.words {
            let [left, right] = pair(self, word);
            self.sets[node * self.words + word] = if common { left & right } else { left | right };
        }
    }

    fn serves(&self, node: usize, way: usize) -> bool {
        self.sets[node * self.words + way / 64] >> (way % 64) & 1 == 1
    }

    fn first(&self, node: usize) -> usize {
        let words = &self.sets[node * self.words..(node + 1) * self.words];
        let word = words.iter().position(|word| *word != 0).unwrap_or(0);
        64 * word + words[word].trailing_zeros() as usize
    }

    fn range(&self, node: usize) -> Prefix {
        let depth = node.ilog2() as u8;
        let number = node as u32 - (1 << depth);
        let length = WHOLE_LENGTH + depth;
        Prefix::new(Ipv4Addr::from(WHOLE.to_bits() + (number << (32 - length))).into(), length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(ways: &[usize], kinds: usize) -> Vec<String> {
        let areas = Areas::for_routers(ways.len());
        let wanted: Vec<_> =
            ways.iter().enumerate().map(|(n, way)| (areas.area(n), *way)).collect();
        cover(&wanted, kinds).iter().map(|c| format!("{} {}", c.range, c.way)).collect()
    }

    #[test]
    fn one_next_hop_is_one_route_with_exceptions() {
        assert_eq!(shown(&[3, 3, 3, 3], 4), ["10.0.0.0/8 3"]);
        assert_eq!(shown(&[70, 70, 2, 70], 80), ["10.0.0.0/8 70", "10.128.0.0/10 2"]);
        // Unassigned numbers do not matter.
        assert_eq!(shown(&[1, 0, 0], 2), ["10.0.0.0/8 0", "10.0.0.0/10 1"]);
        assert!(cover(&[], 3).is_empty());
    }

    #[test]
    fn links_are_in_their_range_and_fill_it() {
        let areas = Areas::for_routers(1_000);
        assert_eq!(areas.area(1).to_string(), "10.0.64.0/18");
        assert_eq!(areas.links(), 4_096);
        let (prefix, ends) = areas.link(999, areas.links() - 1);
        assert!(areas.area(999).covers(prefix) && !areas.area(998).covers(prefix));
        assert!(ends.iter().all(|end| prefix.contains((*end).into())));
        assert_eq!(Areas::for_routers(1).area(0).to_string(), "10.0.0.0/8");
    }
}

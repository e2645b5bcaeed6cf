//! Prefixes of one address family, found by the longest match.

use core::hash::{BuildHasherDefault, Hash, Hasher};
use core::ops::BitOr;

use hashbrown::HashMap;

/// Best route for a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BestRoute {
    /// Index among all routes.
    pub(super) route: u32,
    /// Index of its hop among all hops.
    pub(super) hop: u32,
}

/// An address as a number.
pub(super) trait Bits: Copy + Eq + Hash + Default {
    /// A set of prefix lengths from 1: bit n - 1 stands for length n.
    type Lengths: Copy + Default + Eq + BitOr<Output = Self::Lengths> + Into<u128> + TryFrom<u128>;

    /// Block length: longer prefixes are grouped by the block of this length that contains them.
    const BLOCK: u8;

    /// Returns the first `length` bits, the others zero.
    fn leading(self, length: u8) -> Self;

    /// Returns the first `BLOCK` bits.
    fn block(self) -> u32;

    /// Removes and returns the longest of a set of lengths.
    fn pop_longest(lengths: &mut Self::Lengths) -> Option<u8>;
}

impl Bits for u32 {
    type Lengths = u32;

    const BLOCK: u8 = 16;

    #[inline]
    fn leading(self, length: u8) -> u32 {
        self & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }

    #[inline]
    fn block(self) -> u32 {
        self >> 16
    }

    #[inline]
    fn pop_longest(lengths: &mut u32) -> Option<u8> {
        let bit = lengths.checked_ilog2()?;
        *lengths &= !(1 << bit);
        Some(bit as u8 + 1)
    }
}

impl Bits for u128 {
    type Lengths = u128;

    const BLOCK: u8 = 32;

    #[inline]
    fn leading(self, length: u8) -> u128 {
        self & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
    }

    #[inline]
    fn block(self) -> u32 {
        (self >> 96) as u32
    }

    #[inline]
    fn pop_longest(lengths: &mut u128) -> Option<u8> {
        let bit = lengths.checked_ilog2()?;
        *lengths &= !(1 << bit);
        Some(bit as u8 + 1)
    }
}

/// Prefixes of one address family.
///
/// All keys come from the routing table of this host, which its administrator and its routing protocols fill; an
/// attacker who can flood that can do worse. So the hash is quick and not keyed. Nothing walks these maps.
#[derive(Clone, Debug, Default)]
pub(super) struct Family<A: Bits> {
    /// Best route by address and length.
    first: HashMap<(A, u8), BestRoute, FastHash>,
    /// Lengths above `BLOCK` that occur in a block.
    blocks: HashMap<u32, A::Lengths, FastHash>,
    /// Other lengths that occur. Length 0 has no bit and needs none: it is always tried last.
    short: A::Lengths,
    /// Number of prefixes of a length, per block if it is longer than `BLOCK`. Not used in lookups.
    counts: HashMap<(u32, u8), u32, FastHash>,
}

impl<A: Bits> Family<A> {
    #[inline]
    pub(super) fn first(&self, address: A, length: u8) -> Option<BestRoute> {
        self.first.get(&(address, length)).copied()
    }

    /// Sets or removes the best route for a prefix. Returns the previous one.
    pub(super) fn set_first(
        &mut self,
        address: A,
        length: u8,
        first: Option<BestRoute>,
    ) -> Option<BestRoute> {
        let before = match first {
            Some(first) => self.first.insert((address, length), first),
            None => self.first.remove(&(address, length)),
        };
        match (before, first) {
            (None, Some(_)) => self.prefix_came(address, length),
            (Some(_), None) => self.prefix_went(address, length),
            _ => {}
        }
        before
    }

    /// Returns the result of `usable` for the longest prefix around `address` that has one.
    #[inline]
    pub(super) fn longest<R>(
        &self,
        address: A,
        usable: impl Fn(BestRoute) -> Option<R>,
    ) -> Option<R> {
        let block = self.blocks.get(&address.block()).copied().unwrap_or_default();
        let mut lengths = block | self.short;
        while let Some(length) = A::pop_longest(&mut lengths) {
            let first = self.first(address.leading(length), length);
            if let Some(answer) = first.and_then(&usable) {
                return Some(answer);
            }
        }
        self.first(A::default(), 0).and_then(usable)
    }

    fn prefix_came(&mut self, address: A, length: u8) {
        let count = self.counts.entry(Self::counted(address, length)).or_insert(0);
        *count += 1;
        if *count == 1 {
            self.set_present(address, length, true);
        }
    }

    fn prefix_went(&mut self, address: A, length: u8) {
        let key = Self::counted(address, length);
        match self.counts.get_mut(&key) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.counts.remove(&key);
                self.set_present(address, length, false);
            }
        }
    }

    /// Returns the key of a prefix in `counts`.
    fn counted(address: A, length: u8) -> (u32, u8) {
        (if length > A::BLOCK { address.block() } else { 0 }, length)
    }

    fn set_present(&mut self, address: A, length: u8, present: bool) {
        let Some(bit) = length.checked_sub(1).map(|shift| 1_u128 << shift) else {
            return;
        };
        let change = |lengths: A::Lengths| -> A::Lengths {
            let lengths: u128 = lengths.into();
            let lengths = if present { lengths | bit } else { lengths & !bit };
            // No length exceeds the address, so it always fits.
            lengths.try_into().unwrap_or_default()
        };
        if length <= A::BLOCK {
            self.short = change(self.short);
            return;
        }
        let before = self.blocks.get(&address.block()).copied().unwrap_or_default();
        let lengths = change(before);
        if lengths == A::Lengths::default() {
            self.blocks.remove(&address.block());
        } else {
            self.blocks.insert(address.block(), lengths);
        }
    }

    /// Returns the octets that its maps take.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.first.allocation_size() + self.blocks.allocation_size() + self.counts.allocation_size()
    }
}

type FastHash = BuildHasherDefault<FoldingHasher>;

/// FastHash hash of a few numbers: each is mixed in by the two halves of a wide product.
#[derive(Clone, Copy, Debug, Default)]
struct FoldingHasher {
    state: u64,
}

impl FoldingHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        /// Binary digits of the golden ratio: odd, and without pattern.
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.state ^ word ^ FACTOR.rotate_left(32)) * u128::from(FACTOR);
        self.state = (product >> 64) as u64 ^ product as u64;
    }
}

impl Hasher for FoldingHasher {
    #[inline]
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, octets: &[u8]) {
        for octet in octets {
            self.mix(u64::from(*octet));
        }
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.mix((number >> 64) as u64);
        self.mix(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unused lengths would slow every lookup down, and blocks without prefixes would accumulate.
    #[test]
    fn length_and_block_are_removed_with_their_last_prefix() {
        let first = Some(BestRoute { route: 1, hop: 1 });
        let mut family = Family::<u32>::default();
        let prefixes = [(0x0a01_0200, 24), (0x0a01_0300, 24), (0x0a01_0000, 16), (0x0a00_0000, 8)];
        for (address, length) in prefixes {
            assert_eq!(family.set_first(address, length, first), None);
            assert_eq!(family.set_first(address, length, first), first, "a change is no second");
        }
        assert_eq!(family.blocks.get(&0x0a01), Some(&(1 << 23)));
        assert_eq!(family.short, 1 << 15 | 1 << 7);
        assert_eq!(family.set_first(0x0a01_0200, 24, None), first);
        assert_eq!(family.blocks.get(&0x0a01), Some(&(1 << 23)), "one /24 is left");
        for (address, length) in &prefixes[1..] {
            assert_eq!(family.set_first(*address, *length, None), first);
        }
        assert!(family.first.is_empty() && family.blocks.is_empty() && family.counts.is_empty());
        assert_eq!(family.short, 0);
    }
}

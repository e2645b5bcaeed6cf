//! Hashing of keys that peers choose, in a dozen instructions.
//!
//! A [`KeyedHash`] is drawn at random from a 2-independent family of functions: two different keys are hashed as if
//! by two independent draws, so that they share a bucket in a table of m with probability 1/m (Thorup, *High Speed
//! Hashing for Integers and Strings*, section 3.5: pair-multiply-shift). This holds for the worst keys of an attacker
//! who does not know the function: n chosen keys have n²/2m collisions in expectation, and a lookup costs as much as
//! with random keys. Hashes are not observable: they leave a table neither as a number nor as an order, and what
//! remains, some nanoseconds of a lookup that has compared one more key, is lost in the jitter of any network.
//!
//! A pseudo-random function such as SipHash guarantees more: nothing can be learned from observed hashes. It costs a
//! hundred instructions more, a fifth of the cheapest refresh of the engines.

use core::net::IpAddr;

use crate::random::Stream;

/// A function from the family; see the module documentation.
#[derive(Clone, Debug)]
pub struct KeyedHash {
    /// Two numbers for each pair of words.
    pairs: [[u128; 2]; PAIRS],
    offset: u128,
}

/// Maximum number of word pairs in a key.
const PAIRS: usize = 3;

impl KeyedHash {
    /// Draws a function that only this node knows.
    pub fn draw(stream: &mut Stream) -> KeyedHash {
        let mut number = || u128::from(stream.next_u64()) << 64 | u128::from(stream.next_u64());
        KeyedHash { pairs: [[(); 2]; PAIRS].map(|pair| pair.map(|()| number())), offset: number() }
    }

    /// Returns the hash of a key of two words.
    #[inline]
    pub fn of_two(&self, words: [u64; 2]) -> u64 {
        self.of_pairs([words])
    }

    /// Returns the hash of an address.
    #[inline]
    pub fn of_address(&self, address: IpAddr) -> u64 {
        match address {
            IpAddr::V4(address) => self.of_two([address.to_bits().into(), 0]),
            IpAddr::V6(address) => {
                let bits = address.to_bits();
                self.of_two([(bits >> 64) as u64, bits as u64])
            }
        }
    }

    /// Returns the hash of a key of six words.
    #[inline]
    pub fn of_six(&self, [a, b, c, d, e, f]: [u64; 6]) -> u64 {
        self.of_pairs([[a, b], [c, d], [e, f]])
    }

    /// Computes sums and products modulo 2^128 and returns the upper half.
    #[inline]
    fn of_pairs<const N: usize>(&self, words: [[u64; 2]; N]) -> u64 {
        let mut sum = self.offset;
        for ([x0, x1], [a0, a1]) in words.into_iter().zip(self.pairs) {
            let product = a0.wrapping_add(x1.into()).wrapping_mul(a1.wrapping_add(x0.into()));
            sum = sum.wrapping_add(product);
        }
        scramble((sum >> 64) as u64)
    }
}

/// Permutes the numbers, which preserves 2-independence. Without it consecutive keys, as networks have them, would
/// have consecutive buckets.
#[inline]
fn scramble(number: u64) -> u64 {
    // The fraction of the golden ratio: odd, and its bits are well mixed.
    let product = (number ^ number >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 29
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::random::RandomStreams;

    fn draw(seed: u64) -> KeyedHash {
        KeyedHash::draw(&mut RandomStreams::new(seed).stream("hash"))
    }

    #[test]
    fn hash_depends_on_every_word_and_position() {
        let hash = draw(1);
        let key = [1, 2, 3, 4, 5, 6];
        for place in 0..6 {
            for bit in 0..64 {
                let mut other = key;
                other[place] ^= 1 << bit;
                assert_ne!(hash.of_six(key), hash.of_six(other), "word {place}, bit {bit}");
            }
        }
        assert_ne!(hash.of_two([1, 2]), hash.of_two([2, 1]));
        assert_ne!(hash.of_two([1, 2]), draw(2).of_two([1, 2]));
        assert_eq!(hash.of_two([1, 2]), draw(1).of_two([1, 2]));
    }

    /// Tables use the low bits for the bucket, and the upper seven for the tag. Keys as networks have them,
    /// consecutive or with a stride, must fill a table as random ones do.
    #[test]
    fn consecutive_keys_fill_table_evenly() {
        const PLACES: usize = 1 << 12;
        for seed in 0..8 {
            let hash = draw(seed);
            for shift in [0, 8, 16, 24, 32, 48, 52] {
                for upper in [false, true] {
                    let mut filled = vec![0_u32; PLACES];
                    for number in 0..PLACES as u64 {
                        let hash = hash.of_two([0x0a00_0001 ^ number << shift, 17 << 40]);
                        let place = if upper { hash >> 52 } else { hash };
                        filled[place as usize % PLACES] += 1;
                    }
                    // Two of a pair share a bucket with probability 1/4096: 2048 pairs in expectation.
                    let pairs: u32 = filled.iter().map(|&n| n * n.saturating_sub(1) / 2).sum();
                    let most = filled.iter().max().copied().unwrap_or(0);
                    assert!(pairs < 3 * 2048 && most <= 24, "{seed} {shift}: {pairs}, {most}");
                }
            }
        }
    }

    /// 2-independence for keys that differ in one bit: over many draws they share one of 256 buckets once in 256
    /// times.
    #[test]
    fn two_keys_collide_as_often_as_by_chance() {
        const DRAWS: u64 = 20_000;
        for bit in [0, 7, 31, 63] {
            let meet = |hash: KeyedHash| hash.of_two([1, 2]) ^ hash.of_two([1 ^ 1 << bit, 2]);
            let same = (0..DRAWS).filter(|&seed| meet(draw(seed)) % 256 == 0).count();
            // 78 expected, standard deviation 9.
            assert!((35..130).contains(&same), "bit {bit}: {same}");
        }
    }
}

//! The Internet checksum (RFC 1071), eight octets at a time.
//!
//! The one's complement sum does not depend on the byte order in which it is formed (RFC 1071 section 2 B), and carries
//! may be folded in late. Whole machine words are therefore added, and only the result is converted to network order.

/// Returns the one's complement sum of `octets` as 16-bit big-endian words. An odd last octet is padded with zero.
///
/// The sum over octets that contain a valid checksum is `0xffff`.
#[inline]
pub fn sum(octets: &[u8]) -> u16 {
    fold(wide_sum(octets))
}

/// Returns the checksum of `octets` whose checksum field is zero: the complement of their [`sum`].
#[inline]
pub fn checksum(octets: &[u8]) -> u16 {
    !sum(octets)
}

/// Returns the [`sum`] of whole words. With a length known at compile time it compiles to one addition per word.
#[inline]
pub(crate) fn sum_of_words(words: &[[u8; 8]]) -> u16 {
    fold(add_words(0, words))
}

/// Returns the sum of `octets` in machine words, for [`fold`]. Sums of parts whose offsets differ by an even number can
/// be [added](add).
#[inline]
pub(crate) fn wide_sum(octets: &[u8]) -> u64 {
    let (blocks, rest) = octets.as_chunks::<32>();
    let mut total: u64 = 0;
    for block in blocks {
        total = add_words(total, block.as_chunks().0);
    }
    let (words, tail) = rest.as_chunks();
    total = add_words(total, words);
    match tail {
        [] => total,
        &[a, b, c, d] => add(total, u64::from(u32::from_ne_bytes([a, b, c, d]))),
        _ => {
            let mut last = [0; 8];
            for (target, octet) in last.iter_mut().zip(tail) {
                *target = *octet;
            }
            add(total, u64::from_ne_bytes(last))
        }
    }
}

/// Folds a wide sum to 16 bits.
#[inline]
pub(crate) fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + ((total >> 16) & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    u16::from_be(((total & 0xffff) + (total >> 16)) as u16) // below 2^16 after the last fold
}

/// One's complement addition: the carry is added at the low end.
#[inline]
pub(crate) fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

/// Adds whole machine words. Each carry goes into the next addition; the last one is added at the low end.
#[inline]
fn add_words(total: u64, words: &[[u8; 8]]) -> u64 {
    let (mut total, mut carry) = (total, false);
    for word in words {
        (total, carry) = total.carrying_add(u64::from_ne_bytes(*word), carry);
    }
    add(total, u64::from(carry))
}

/// Incremental update of a checksum after changes of the octets that it covers (RFC 1624).
///
/// A checksum that was wrong before stays wrong, so that edits in transit do not hide damage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IncrementalUpdate(u64);

impl IncrementalUpdate {
    /// Records that `new` replaces `old`; either may be empty. Both begin at an even offset of the covered octets.
    /// The lengths differ by an even number, so that the octets behind them keep their position within a word.
    #[inline]
    pub fn replace(&mut self, old: &[u8], new: &[u8]) {
        self.0 = add(self.0, add(!wide_sum(old), wide_sum(new)));
    }

    /// Returns the updated checksum (RFC 1624, equation 3). It is valid if and only if `checksum` was.
    #[inline]
    pub fn apply(self, checksum: u16) -> u16 {
        !fold(add(self.0, u64::from((!checksum).to_be())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition of the sum, as a reference for the fast implementation.
    fn slow_sum(octets: &[u8]) -> u16 {
        let mut total: u32 = 0;
        for pair in octets.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            total = (total & 0xffff) + (total >> 16);
        }
        total as u16
    }

    /// The worked example of RFC 1071 section 3.
    #[test]
    fn example_of_rfc_1071_is_reproduced() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[]), 0);
        assert_eq!(checksum(&[0xff; 64]), 0);
    }

    /// The example of RFC 1624 section 4, for which the older equation gives a wrong result.
    #[test]
    fn example_of_rfc_1624_is_reproduced() {
        let mut difference = IncrementalUpdate::default();
        difference.replace(&[0x55, 0x55], &[0x32, 0x85]);
        assert_eq!(difference.apply(0xdd2f), 0x0000);
        assert_eq!(IncrementalUpdate::default().apply(0x1234), 0x1234);
    }

    proptest! {
        /// The updated checksum equals the computed one after octets are changed, inserted and removed.
        #[test]
        fn updated_checksum_equals_computed_one(
            before in proptest::collection::vec(any::<u8>(), 2..40),
            old in proptest::collection::vec(any::<[u8; 2]>(), 0..20),
            new in proptest::collection::vec(any::<[u8; 2]>(), 0..20),
            after in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let before = &before[..before.len() & !1];
            let (old, new) = (old.as_flattened(), new.as_flattened());
            let checked = checksum(&[before, old, &after].concat());
            let mut difference = IncrementalUpdate::default();
            difference.replace(old, new);
            let expected = checksum(&[before, new, &after].concat());
            let updated = difference.apply(checked);
            // Zero has two representations in one's complement.
            prop_assert!(updated == expected || (updated ^ expected) == 0xffff && updated.min(expected) == 0);
        }

        #[test]
        fn fast_sum_equals_definition(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&octets), slow_sum(&octets));
        }

        #[test]
        fn valid_checksum_sums_to_all_ones(mut octets in proptest::collection::vec(any::<u8>(), 4..99)) {
            octets[2..4].fill(0);
            let check = checksum(&octets);
            octets[2..4].copy_from_slice(&check.to_be_bytes());
            // If no other bit is set, the sum is zero, which is the same number in one's complement.
            prop_assert!(matches!(sum(&octets), 0xffff | 0));
        }
    }
}

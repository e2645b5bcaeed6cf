//! The Internet checksum (RFC 1071), eight octets at a time.
//!
//! The one's complement sum does not depend on the byte order in which it is formed (RFC 1071 section 2 B), and carries
//! may be folded in late; so whole machine words are added and only the result is brought into network order.

/// The one's complement sum of `octets` taken as 16-bit big-endian words; an odd last octet is padded with zero.
///
/// Over octets that contain a right checksum it is `0xffff`.
#[inline]
pub fn sum(octets: &[u8]) -> u16 {
    let (words, tail) = octets.as_chunks::<8>();
    let mut total: u64 = 0;
    for word in words {
        total = add(total, u64::from_ne_bytes(*word));
    }
    if !tail.is_empty() {
        let mut last = [0; 8];
        for (target, octet) in last.iter_mut().zip(tail) {
            *target = *octet;
        }
        total = add(total, u64::from_ne_bytes(last));
    }
    u16::from_be(fold(total))
}

/// The checksum to be written over `octets`, whose checksum field holds zero: the complement of their [`sum`].
#[inline]
pub fn checksum(octets: &[u8]) -> u16 {
    !sum(octets)
}

/// One's complement addition: the carry comes in again at the low end.
#[inline]
fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

#[inline]
fn fold(total: u64) -> u16 {
    let total = (total & 0xffff_ffff) + (total >> 32);
    let total = (total & 0xffff) + ((total >> 16) & 0xffff) + (total >> 32);
    let total = (total & 0xffff) + (total >> 16);
    let total = (total & 0xffff) + (total >> 16);
    total as u16 // below 2^16 after the last fold
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, word for word: what the fast sum must agree with.
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
    fn the_example_of_the_rfc() {
        assert_eq!(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
        assert_eq!(sum(&[]), 0);
        assert_eq!(checksum(&[0xff; 64]), 0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(sum(&octets), slow_sum(&octets));
        }

        #[test]
        fn a_right_checksum_gives_all_ones(mut octets in proptest::collection::vec(any::<u8>(), 4..99)) {
            octets[2..4].fill(0);
            let check = checksum(&octets);
            octets[2..4].copy_from_slice(&check.to_be_bytes());
            // Without any one bit in the rest the sum is zero, which is the same number in one's complement.
            prop_assert!(matches!(sum(&octets), 0xffff | 0));
        }
    }
}

//! The key of a session: the number of its mask, and the classifier under that mask, in words.
//!
//! Words are in the byte order of the machine; they are compared, masked and hashed, but not calculated with.

use earmark_core::hash::KeyedHash;
use earmark_wire::boomerang::{Family, Keys};

use super::masks::{Mask, words};
use crate::state::Session;

/// The key of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) mask: u16,
    pub(crate) family: Family,
    /// Words; the last three are zero for IPv4.
    pub(crate) words: [u64; 5],
}

impl Key {
    /// Creates the key of the packets that `octets`, a classifier, names under a mask.
    #[inline]
    pub(crate) fn new(number: u16, mask: &Mask, octets: &[u8]) -> Key {
        let mut words = words(octets).map_or([0; 5], |(_, words)| words);
        for (word, mask) in words.iter_mut().zip(mask.words) {
            *word &= mask;
        }
        Key { mask: number, family: mask.family, words }
    }

    /// Returns the key of a session with a mask of this family.
    #[inline]
    pub(super) fn of(session: &Session, family: Family) -> Key {
        let [w0, w1] = session.words;
        let [w2, w3, w4] = session.extra.as_ref().map_or([0; 3], |extra| extra.rest);
        Key { mask: session.mask, family, words: [w0, w1, w2, w3, w4] }
    }

    /// Returns whether this is the key of a session.
    #[inline]
    pub(super) fn is_of(&self, session: &Session) -> bool {
        let [w0, w1, rest @ ..] = self.words;
        session.words == [w0, w1]
            && session.mask == self.mask
            && (self.family == Family::V4
                || session.extra.as_ref().map_or([0; 3], |extra| extra.rest) == rest)
    }

    /// Returns a hash that peers cannot predict.
    #[inline]
    pub(super) fn hash(&self, hash: &KeyedHash) -> u64 {
        match (self.family, self.words) {
            (Family::V4, [w0, w1, ..]) => hash_short(hash, self.mask, [w0, w1]),
            (Family::V6, [w0, w1, w2, w3, w4]) => {
                hash.of_six([w0, w1, w2, w3, w4, u64::from(self.mask)])
            }
        }
    }

    /// Returns the key as a classifier, with zeros where the mask has them.
    #[inline]
    pub(crate) fn keys(&self) -> Option<Keys> {
        let mut octets = [0; 40];
        fill(&mut octets, &self.words);
        Keys::from_octets(octets.get(..self.family.keys_len())?)
    }
}

/// Returns [`Key::hash`] of an IPv4 key.
#[inline]
pub(super) fn hash_short(hash: &KeyedHash, mask: u16, [w0, w1]: [u64; 2]) -> u64 {
    // The flags of a classifier, its last two octets, are zero under every mask: there is room for the number of the mask.
    let [m0, m1] = mask.to_ne_bytes();
    hash.of_two([w0, w1 | u64::from_ne_bytes([0, 0, 0, 0, 0, 0, m0, m1])])
}

/// Writes as many words as fit.
#[inline]
fn fill(octets: &mut [u8], words: &[u64]) {
    let (places, _) = octets.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_ne_bytes();
    }
}

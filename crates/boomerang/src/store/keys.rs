//! The key of a session: the number of its mask, and the classifier under that mask, in words.
//!
//! Words are in the byte order of the machine; they are compared, masked and hashed, but never counted with.

use earmark_wire::boomerang::{Family, Keys};
use siphasher::sip::SipHasher13;

use super::masks::Mask;
use crate::state::Session;

/// The key of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) mask: u16,
    pub(crate) family: Family,
    /// The last three are zero for IPv4.
    pub(crate) words: [u64; 5],
}

impl Key {
    /// Of the packets that `octets`, a classifier, names under a mask.
    #[inline]
    pub(crate) fn new(number: u16, mask: &Mask, octets: &[u8]) -> Key {
        let mut words = words(octets).map_or([0; 5], |(_, words)| words);
        for (word, mask) in words.iter_mut().zip(mask.words) {
            *word &= mask;
        }
        Key { mask: number, family: mask.family, words }
    }

    /// Of a session.
    #[inline]
    pub(super) fn of(session: &Session) -> Key {
        let [w0, w1] = session.words;
        match &session.extra {
            // The rest is zero for IPv4; the mask tells the families apart.
            Some(extra) if extra.rest != [0; 3] => {
                let [w2, w3, w4] = extra.rest;
                Key { mask: session.mask, family: Family::V6, words: [w0, w1, w2, w3, w4] }
            }
            _ => Key { mask: session.mask, family: Family::V4, words: [w0, w1, 0, 0, 0] },
        }
    }

    /// Whether it is the key of this session.
    #[inline]
    pub(super) fn is_of(&self, session: &Session) -> bool {
        let [w0, w1, rest @ ..] = self.words;
        session.words == [w0, w1]
            && session.mask == self.mask
            && (self.family == Family::V4
                || session.extra.as_ref().map_or([0; 3], |extra| extra.rest) == rest)
    }

    /// A number that peers cannot foretell.
    #[inline]
    pub(super) fn hash(&self, key: (u64, u64)) -> u64 {
        let hasher = SipHasher13::new_with_keys(key.0, key.1);
        let mut octets = [0; 42];
        octets[..2].copy_from_slice(&self.mask.to_ne_bytes());
        let (places, _) = octets[2..].as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(self.words) {
            *place = word.to_ne_bytes();
        }
        // What is zero in every key of a short kind need not be hashed.
        let short = self.words[2..] == [0; 3];
        hasher.hash(if short { &octets[..18] } else { &octets })
    }

    /// As a classifier, with zeros where the mask has them.
    pub(crate) fn keys(&self) -> Option<Keys> {
        let mut octets = [0; 40];
        let (places, _) = octets.as_chunks_mut::<8>();
        for (place, word) in places.iter_mut().zip(self.words) {
            *place = word.to_ne_bytes();
        }
        Keys::from_octets(octets.get(..self.family.keys_len())?)
    }
}

/// Classifier or mask in words; `None` where they have the length of neither family.
#[inline]
pub(super) fn words(octets: &[u8]) -> Option<(Family, [u64; 5])> {
    let word = |octets: &[u8; 8]| u64::from_ne_bytes(*octets);
    match octets.as_chunks::<8>() {
        ([w0, w1], []) => Some((Family::V4, [word(w0), word(w1), 0, 0, 0])),
        ([w0, w1, w2, w3, w4], []) => {
            Some((Family::V6, [word(w0), word(w1), word(w2), word(w3), word(w4)]))
        }
        _ => None,
    }
}

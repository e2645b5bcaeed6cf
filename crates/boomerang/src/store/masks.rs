//! Numbered masks of sessions.
//!
//! There are few masks: nearly all sessions are of one flow, and aggregates follow the prefixes of a network. So a
//! linear search serves, and the two masks of one flow, IPv4 and IPv6, are always the first.

use alloc::vec::Vec;

use earmark_wire::boomerang::{Family, Shape};

/// One mask.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mask {
    /// Mask as in messages, in words; the last three are zero for IPv4.
    pub(crate) words: [u64; 5],
    pub(crate) family: Family,
    pub(crate) shape: Shape,
    /// Number of sessions with this mask. The number of an unused mask is reused.
    sessions: u32,
}

/// All masks.
#[derive(Debug)]
pub(crate) struct Masks {
    list: Vec<Mask>,
    /// Numbers of the masks, the most specific first, then the lowest number.
    order: Vec<u16>,
}

impl Masks {
    /// Number of the mask of one IPv4 flow.
    pub(crate) const ONE_FLOW: u16 = 0;

    pub(super) fn new() -> Masks {
        let mut masks = Masks { list: Vec::new(), order: Vec::new() };
        for family in [Family::V4, Family::V6] {
            masks.insert(family, Shape::exact(family), 2);
        }
        masks
    }

    /// Returns the number of a mask in a message.
    #[inline]
    pub(crate) fn find(&self, octets: &[u8]) -> Option<u16> {
        // Nearly all messages have the first mask.
        if let ([usual, ..], ([w0, w1], [])) = (&self.list[..], octets.as_chunks())
            && usual.words[..2] == [w0, w1].map(|word| u64::from_ne_bytes(*word))
        {
            return Some(Self::ONE_FLOW);
        }
        let (family, words) = words(octets)?;
        let same = |mask: &Mask| mask.words == words && mask.family == family;
        self.list.iter().position(same).map(|number| number as u16)
    }

    #[inline]
    pub(crate) fn mask(&self, number: u16) -> &Mask {
        &self.list[usize::from(number)]
    }

    /// Numbers a new mask; `None` if `most` are in use already, not counting the two of one flow.
    pub(crate) fn insert(&mut self, family: Family, shape: Shape, most: u16) -> Option<u16> {
        let mask = Mask { words: octets_of(family, &shape)?, family, shape, sessions: 0 };
        let free = self.list.iter().skip(2).position(|mask| mask.sessions == 0);
        let number = match free {
            Some(place) => {
                self.list[place + 2] = mask;
                place + 2
            }
            None if self.list.len() < usize::from(most).saturating_add(2) => {
                self.list.push(mask);
                self.list.len() - 1
            }
            None => return None,
        };
        let list = &self.list;
        self.order = (0..list.len() as u16).collect();
        self.order
            .sort_by_key(|&n| (core::cmp::Reverse(list[usize::from(n)].shape.specificity()), n));
        Some(number as u16)
    }

    /// Returns masks in use for keys of `length` octets, the most specific first.
    pub(crate) fn by_specificity(&self, length: usize) -> impl Iterator<Item = (u16, &Mask)> {
        let numbered = self.order.iter().map(|&number| (number, self.mask(number)));
        numbered.filter(move |(_, mask)| mask.sessions > 0 && mask.family.keys_len() == length)
    }

    pub(super) fn acquire(&mut self, number: u16) {
        self.list[usize::from(number)].sessions += 1;
    }

    pub(super) fn release(&mut self, number: u16) {
        self.list[usize::from(number)].sessions -= 1;
    }
}

/// Returns a mask as in messages, in words.
fn octets_of(family: Family, shape: &Shape) -> Option<[u64; 5]> {
    let keys = shape.keys(family).ok()?;
    let mut octets = [0; 40];
    let octets = octets.get_mut(..family.keys_len())?;
    keys.emit_to(octets).ok()?;
    words(octets).map(|(_, words)| words)
}

/// Returns classifier or mask in words; `None` if the length fits neither family.
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

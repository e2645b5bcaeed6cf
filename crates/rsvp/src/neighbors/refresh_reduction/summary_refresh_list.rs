//! The MESSAGE_IDs that one neighbour gets in summary refreshes, in rounds.
//!
//! Identifiers stand one behind the other, as in an Srefresh, so that a message is a copy of a slice. A cursor divides
//! the identifiers that this round has sent from those that it has still to send. A removed one is replaced from its
//! own side of the cursor, so that a round leaves none out. A new one is sent in this round.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{Time, growth};

/// Message_Identifiers in rounds. The owner of an identifier keeps its position.
#[derive(Debug, Default)]
pub(crate) struct SummaryRefreshList {
    ids: Vec<u32>,
    /// Position of the current round: identifiers before it are sent.
    cursor: usize,
    /// End of the current round and start of the next.
    round_ends: Time,
}

impl SummaryRefreshList {
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Appends an identifier; returns its position.
    pub(crate) fn push(&mut self, id: u32) -> u32 {
        growth::push(&mut self.ids, id);
        (self.ids.len() - 1) as u32
    }

    /// Removes the identifier at a position, if it is there. Returns the identifiers that have moved, with their new
    /// positions: a gap among the sent ones is filled with the last sent one, and the gap left there with the last of
    /// all.
    pub(crate) fn remove(&mut self, id: u32, place: u32) -> [Option<(u32, u32)>; 2] {
        let place = place as usize;
        if self.ids.get(place) != Some(&id) {
            return [None; 2]; // already removed with all others
        }
        let mut moved = [None; 2];
        let mut hole = place;
        if place < self.cursor {
            self.cursor -= 1;
            moved[0] = self.shift(self.cursor, hole);
            hole = self.cursor;
        }
        moved[1] = self.shift(self.ids.len() - 1, hole);
        self.ids.pop();
        moved
    }

    /// Removes and returns all identifiers.
    pub(crate) fn take(&mut self) -> Vec<u32> {
        self.cursor = 0;
        core::mem::take(&mut self.ids)
    }

    /// Returns the next identifiers to send, at most `most`, and counts them as sent. A complete round returns none
    /// until the next begins.
    pub(crate) fn next_chunk(&mut self, most: usize) -> &[u32] {
        let start = self.cursor;
        self.cursor = self.ids.len().min(start + most.max(1));
        &self.ids[start..self.cursor]
    }

    /// Returns the due time of the next `most` identifiers. The rest of the round is spread evenly over its remaining
    /// time.
    pub(crate) fn due(&self, now: Time, most: usize) -> Time {
        let left = (self.ids.len() - self.cursor).div_ceil(most.max(1));
        if left == 0 {
            return self.round_ends;
        }
        let time = self.round_ends.since(now);
        now + time / (left as u32 + 1)
    }

    /// Returns whether the next round may begin.
    pub(crate) fn round_is_over(&self, now: Time) -> bool {
        now >= self.round_ends
    }

    /// Begins a round of duration `length`.
    pub(crate) fn begin_round(&mut self, now: Time, length: Duration) {
        self.cursor = 0;
        self.round_ends = now + length;
    }

    fn shift(&mut self, from: usize, to: usize) -> Option<(u32, u32)> {
        if from == to {
            return None;
        }
        self.ids[to] = self.ids[from];
        Some((self.ids[to], to as u32))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn round_is_spread_over_its_time() {
        let mut list = SummaryRefreshList::default();
        let start = Time::from_secs(100);
        list.begin_round(start, 30 * SECOND);
        (0..25).for_each(|id| {
            list.push(id);
        });
        assert_eq!(list.due(start, 10), start + 30 * SECOND / 4);
        assert_eq!(list.next_chunk(10).len(), 10);
        assert_eq!(list.next_chunk(10).len(), 10);
        assert_eq!(list.next_chunk(10), [20, 21, 22, 23, 24]);
        assert!(list.next_chunk(10).is_empty());
        assert_eq!(list.due(start + 20 * SECOND, 10), start + 30 * SECOND);
        assert!(!list.round_is_over(start + 29 * SECOND));
        assert!(list.round_is_over(start + 30 * SECOND));
    }

    proptest! {
        /// Each identifier that stays for a whole round is sent once in it, whatever else is added or removed.
        #[test]
        fn every_id_is_sent_once_in_round(
            at_first in 0..20u32,
            steps in proptest::collection::vec((0..3u8, any::<u16>()), 0..80),
        ) {
            let mut list = SummaryRefreshList::default();
            let mut places = BTreeMap::new();
            let mut next = 0;
            let mut enter = |list: &mut SummaryRefreshList, places: &mut BTreeMap<u32, u32>| {
                places.insert(next, list.push(next));
                next += 1;
            };
            for _ in 0..at_first {
                enter(&mut list, &mut places);
            }
            list.begin_round(Time::ZERO, SECOND);
            let mut sent = std::vec::Vec::new();
            for (step, number) in steps {
                match step {
                    0 => enter(&mut list, &mut places),
                    1 if !places.is_empty() => {
                        let nth = usize::from(number) % places.len();
                        let (&id, &place) = places.iter().nth(nth).expect("it is one of them");
                        places.remove(&id);
                        for (moved, place) in list.remove(id, place).into_iter().flatten() {
                            places.insert(moved, place);
                        }
                    }
                    _ => sent.extend_from_slice(list.next_chunk(usize::from(number) % 4)),
                }
            }
            sent.extend_from_slice(list.next_chunk(1_000));
            let once: BTreeSet<u32> = sent.iter().copied().collect();
            prop_assert_eq!(once.len(), sent.len(), "sent twice");
            prop_assert!(places.keys().all(|id| once.contains(id)));
            prop_assert_eq!(list.len(), places.len());
            for (&id, &place) in &places {
                prop_assert_eq!(list.ids[place as usize], id);
            }
        }
    }
}

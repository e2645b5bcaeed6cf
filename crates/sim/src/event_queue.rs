//! Event list: a total order by time and, within one instant, by the order of entry.
//!
//! # Description
//! A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan, *Faster Algorithms for the Shortest Path Problem*, section 4), with
//! digits of six bits: no event is entered for a past time, so an entry is stored by the first digit in which its time
//! differs from the present one, and the value of that digit. Entries that differ in the lowest digit alone are in
//! order; when there are none, the first bucket of the next digit is spread over the lower ones. So entries move a few
//! times, in sequence, and are never compared. Entries of one time always share their bucket, and keep their order in
//! it.
//!
//! The events stay in a slab; only their times and slab indexes move.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use earmark_core::Time;
use slab::Slab;

/// Bits of a digit.
const BITS: u32 = 6;
/// Values of a digit.
const VALUES: usize = 1 << BITS;
/// Digits of a time.
const DIGITS: usize = u64::BITS.div_ceil(BITS) as usize;

/// A radix heap of events.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    /// The present: time of the last removed entry, nanoseconds.
    now: u64,
    /// Bit mask for each digit: the values that differ from the present one and have entries.
    occupied: [u64; DIGITS],
    /// Time and slab index of entries, by the highest digit in which they differ from the present, and its value.
    buckets: Vec<Vec<(u64, u32)>>,
    /// Slab indexes of the current events, in order.
    due: VecDeque<u32>,
    entries: Slab<T>,
}

impl<T> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue {
            now: 0,
            occupied: [0; DIGITS],
            buckets: (0..DIGITS * VALUES).map(|_| Vec::new()).collect(),
            due: VecDeque::new(),
            entries: Slab::new(),
        }
    }
}

impl<T> EventQueue<T> {
    /// Enters an event, after all earlier ones for the same time. An event before the time of the last removed entry is
    /// due now.
    pub(crate) fn enter(&mut self, at: Time, entry: T) {
        let place = self.entries.insert(entry) as u32; // memory limits entries to fewer than 2^32
        self.put(at.as_nanos().max(self.now), place);
    }

    fn put(&mut self, at: u64, place: u32) {
        if at == self.now {
            return self.due.push_back(place);
        }
        let digit = ((u64::BITS - 1 - (at ^ self.now).leading_zeros()) / BITS) as usize;
        let value = value(at, digit);
        self.occupied[digit] |= 1 << value;
        self.buckets[digit * VALUES + value].push((at, place));
    }

    /// Removes the next event and returns it with its time, if that is not after `until`.
    pub(crate) fn next(&mut self, until: Time) -> Option<(Time, T)> {
        let until = until.as_nanos();
        loop {
            if self.now > until {
                return None;
            }
            if let Some(place) = self.due.pop_front() {
                return Some((Time::from_nanos(self.now), self.entries.remove(place as usize)));
            }
            self.advance(until)?;
        }
    }

    /// Makes the time of the next entry the present; `None` if that would be after `until`.
    fn advance(&mut self, until: u64) -> Option<()> {
        let digit = self.occupied.iter().position(|values| *values != 0)?;
        let value = self.occupied[digit].trailing_zeros() as usize;
        let number = digit * VALUES + value;
        let first = self.buckets[number].iter().map(|(at, _)| *at).min()?;
        if first > until {
            return None;
        }
        self.now = first;
        self.occupied[digit] &= !(1 << value);
        let mut bucket = core::mem::take(&mut self.buckets[number]);
        for (at, place) in bucket.drain(..) {
            self.put(at, place);
        }
        self.buckets[number] = bucket; // keeps its capacity
        Some(())
    }
}

/// Returns a digit of a time.
fn value(at: u64, digit: usize) -> usize {
    (at >> (digit as u32 * BITS)) as usize % VALUES
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn events_are_ordered_by_time_then_by_entry() {
        let mut queue = EventQueue::default();
        for (at, name) in [(3, "d"), (1, "a"), (2, "c"), (1, "b"), (9, "f")] {
            queue.enter(Time::from_secs(at), name);
        }
        let mut seen = Vec::new();
        while let Some((at, name)) = queue.next(Time::from_secs(3)) {
            if name == "a" {
                queue.enter(Time::from_secs(3), "e");
            }
            seen.push((at.as_nanos() / 1_000_000_000, name));
        }
        assert_eq!(seen, [(1, "a"), (1, "b"), (2, "c"), (3, "d"), (3, "e")]);
        assert_eq!(queue.next(Time::MAX), Some((Time::from_secs(9), "f")));
        assert_eq!(queue.next(Time::MAX), None);
    }

    proptest! {
        /// For any entries, and any `until`, the order is that of a sorted map.
        #[test]
        fn order_equals_that_of_a_sorted_map(
            steps in prop::collection::vec(
                (prop::collection::vec((0..64_u32, any::<u64>()), 0..6), 0..64_u32, any::<u64>(), 0..8_usize),
                1..60,
            ),
        ) {
            let (mut queue, mut model) = (EventQueue::default(), BTreeMap::new());
            let (mut now, mut entered) = (0_u64, 0_u64);
            for (entries, scale, ahead, take) in steps {
                for (scale, ahead) in entries {
                    let at = now.saturating_add(ahead >> scale);
                    entered += 1;
                    queue.enter(Time::from_nanos(at), entered);
                    model.insert((at, entered), ());
                }
                let until = now.saturating_add(ahead >> scale);
                for _ in 0..take {
                    let expected = model.keys().next().copied().filter(|(at, _)| *at <= until);
                    let expected = expected.map(|(at, number)| (Time::from_nanos(at), number));
                    let taken = queue.next(Time::from_nanos(until));
                    prop_assert_eq!(taken, expected);
                    let Some((at, number)) = taken else { break };
                    now = at.as_nanos();
                    model.remove(&(now, number));
                }
            }
        }
    }
}

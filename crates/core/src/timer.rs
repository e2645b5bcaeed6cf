//! One hashed, hierarchical timing wheel: arm, cancel and fire in O(1).
//!
//! All soft state of a node uses one [`TimingWheel`]. Time is divided into ticks of one millisecond, and a tick is
//! read as a number of eight digits to the base 64. A timer is at the level of the highest digit in which its tick
//! differs from the wheel's current tick, in the slot of this digit: level 0 is the near future, a tick per slot;
//! level 1 has 64 ticks per slot, and so on, until level 7 reaches past [`Time::MAX`]. When the wheel enters a slot
//! of a higher level, its timers cascade to lower ones, at most seven times in a timer's life. A bitmap per level
//! marks occupied slots, so that an idle hour is skipped as quickly as an idle millisecond.
//!
//! The timers of a slot form a doubly linked list through one slab, oldest first, and keep that order as they
//! cascade. So timers of one tick fire in the order in which they were armed, on every machine and in every run.
//!
//! Deadlines in whole milliseconds fire exactly then; others at the next whole millisecond, and never early.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::memory::{Table, octets};
use crate::{Time, growth};

/// Length of a tick, nanoseconds.
const TICK: u64 = 1_000_000;
/// Bits of one digit of a tick.
const DIGIT_BITS: u32 = 6;
/// Number of slots of a level.
const SLOTS: usize = 1 << DIGIT_BITS;
/// Number of levels; 48 bits hold every tick that `Time` can represent (45).
const LEVELS: usize = 8;
/// No timer.
const NIL: u32 = u32::MAX;

/// Identifier of an armed timer. Once the timer has fired or was cancelled, the id is stale and has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerId {
    index: u32,
    /// Non-zero, so that an `Option<TimerId>` is as small as a `TimerId`.
    generation: NonZeroU32,
}

/// Timers with a payload each; see the module documentation.
///
/// The wheel learns the time from [`pop_due`](TimingWheel::pop_due) alone; it must never go back.
#[derive(Clone, Debug)]
pub struct TimingWheel<T> {
    /// Every slot before this tick is empty, and so is every slot of a higher level that this tick lies in.
    current: u64,
    /// Armed and free timers.
    timers: Vec<Timer<T>>,
    /// First of the free timers, linked by `next`.
    free: u32,
    /// Number of armed timers.
    armed: usize,
    /// Occupied slots, one bit each.
    occupied: [u64; LEVELS],
    /// `LEVELS` times `SLOTS` lists.
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
struct Timer<T> {
    deadline: Time,
    previous: u32,
    next: u32,
    /// Generation of the id that is, or will be, valid.
    generation: NonZeroU32,
    payload: T,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
    /// Lower bound of the ticks in the slot. Exact until the earliest timer leaves the slot before its time.
    earliest: u64,
}

impl<T: Copy> Default for TimingWheel<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Table for TimingWheel<T> {
    fn octets(&self) -> usize {
        octets([&self.timers, &self.slots])
    }
}

impl<T: Copy> TimingWheel<T> {
    /// Creates a wheel without timers at [`Time::ZERO`].
    pub fn new() -> Self {
        TimingWheel {
            current: 0,
            timers: Vec::new(),
            free: NIL,
            armed: 0,
            occupied: [0; LEVELS],
            slots: vec![Slot { head: NIL, tail: NIL, earliest: 0 }; LEVELS * SLOTS],
        }
    }

    /// Returns the number of armed timers.
    pub fn len(&self) -> usize {
        self.armed
    }

    /// Returns whether no timer is armed.
    pub fn is_empty(&self) -> bool {
        self.armed == 0
    }

    /// Arms a timer for `at`; a time in the past is due at once, after the timers that are due already. At
    /// [`Time::MAX`] it never fires. O(1).
    pub fn arm(&mut self, at: Time, payload: T) -> TimerId {
        let id = self.allocate(at, payload);
        self.link(id.index, at);
        self.armed += 1;
        id
    }

    /// Moves an armed timer to `at`, behind those already armed for that tick; `false` if the id is stale. O(1).
    pub fn rearm(&mut self, id: TimerId, at: Time) -> bool {
        if !self.is_armed(id) {
            return false;
        }
        self.unlink(id.index);
        self.timers[id.index as usize].deadline = at;
        self.link(id.index, at);
        true
    }

    /// Disarms a timer and returns its payload; `None` if the id is stale. O(1).
    pub fn cancel(&mut self, id: TimerId) -> Option<T> {
        if !self.is_armed(id) {
            return None;
        }
        self.unlink(id.index);
        Some(self.release(id.index).1)
    }

    /// Returns the deadline of an armed timer; `None` if the id is stale.
    pub fn deadline(&self, id: TimerId) -> Option<Time> {
        self.is_armed(id).then(|| self.timers[id.index as usize].deadline)
    }

    /// Removes one timer that is due at `now` and returns its original deadline and its payload. Call until it
    /// returns `None`. By tick, then by the order of arming. Amortised O(1), however far `now` has jumped.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, T)> {
        let target = now.as_nanos() / TICK;
        while let Some((level, digit)) = self.nearest_slot() {
            let start = self.slot_start(level, digit);
            if start > target {
                break;
            }
            self.current = start;
            if level == 0 {
                let index = self.slots[digit].head;
                self.unlink(index);
                return Some(self.release(index));
            }
            self.cascade(level, digit);
        }
        self.current = self.current.max(target);
        None
    }

    /// Returns when to call [`pop_due`](TimingWheel::pop_due) next: no timer is due earlier. O(1).
    ///
    /// The time is exact, unless the earliest timer of a slot of a higher level was cancelled or moved; then it may
    /// be early. Calling `pop_due` at an early time cascades the slot, and the next answer is closer: at most seven
    /// calls in a row find nothing. A whole millisecond, except for [`Time::MAX`].
    pub fn next_deadline(&self) -> Option<Time> {
        self.peek().map(|(at, _)| at)
    }

    /// Returns [`next_deadline`](TimingWheel::next_deadline), and the payload of the oldest timer in the nearest
    /// slot: within the next 64 ms the one that fires next, otherwise one of those that fire around then. For a
    /// reason shown to people.
    pub fn peek(&self) -> Option<(Time, T)> {
        let (level, digit) = self.nearest_slot()?;
        let slot = self.slots[level * SLOTS + digit];
        let at = Time::from_nanos(slot.earliest.saturating_mul(TICK));
        Some((at, self.timers[slot.head as usize].payload))
    }

    fn is_armed(&self, id: TimerId) -> bool {
        self.timers.get(id.index as usize).is_some_and(|t| t.generation == id.generation)
    }

    /// Returns level and digit of the first occupied slot. All of one level come before all of the next.
    fn nearest_slot(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|&bits| bits != 0)?;
        // Slots before `current` are empty, so the lowest bit is the nearest slot.
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    /// Returns the first tick of a slot.
    fn slot_start(&self, level: usize, digit: usize) -> u64 {
        let shift = level as u32 * DIGIT_BITS;
        let above = shift + DIGIT_BITS;
        (self.current >> above << above) | (digit as u64) << shift
    }

    /// Returns level and digit of a timer with this tick. The answer stays the same until the timer cascades or
    /// fires, because until then `current` changes only in digits below the one that decides.
    fn place(&self, tick: u64) -> (usize, usize) {
        let differing = (tick ^ self.current) | 1; // the same tick is level 0 too
        let level = (differing.ilog2() / DIGIT_BITS) as usize;
        (level, (tick >> (level as u32 * DIGIT_BITS)) as usize % SLOTS)
    }

    /// Returns the tick at which a timer fires: the first that is neither before its deadline nor in the past.
    fn tick(&self, deadline: Time) -> u64 {
        deadline.as_nanos().div_ceil(TICK).max(self.current)
    }

    /// Appends a timer with this deadline to the list of its slot.
    fn link(&mut self, index: u32, deadline: Time) {
        let tick = self.tick(deadline);
        let (level, digit) = self.place(tick);
        let slot = &mut self.slots[level * SLOTS + digit];
        let tail = slot.tail;
        slot.tail = index;
        if tail == NIL {
            slot.head = index;
            slot.earliest = tick;
            self.occupied[level] |= 1 << digit;
        } else {
            slot.earliest = slot.earliest.min(tick);
            self.timers[tail as usize].next = index;
        }
        let timer = &mut self.timers[index as usize];
        timer.previous = tail;
        timer.next = NIL;
    }

    /// Removes a timer from its slot.
    fn unlink(&mut self, index: u32) {
        let Timer { deadline, previous, next, .. } = self.timers[index as usize];
        let (level, digit) = self.place(self.tick(deadline));
        let slot = &mut self.slots[level * SLOTS + digit];
        match previous {
            NIL => slot.head = next,
            _ => self.timers[previous as usize].next = next,
        }
        match next {
            NIL => slot.tail = previous,
            _ => self.timers[next as usize].previous = previous,
        }
        if slot.head == NIL {
            self.occupied[level] &= !(1 << digit);
        }
    }

    /// Cascades the timers of a slot, which `current` has just entered, to lower levels.
    fn cascade(&mut self, level: usize, digit: usize) {
        let slot = &mut self.slots[level * SLOTS + digit];
        let mut index = slot.head;
        slot.head = NIL;
        slot.tail = NIL;
        self.occupied[level] &= !(1 << digit);
        while index != NIL {
            let Timer { deadline, next, .. } = self.timers[index as usize];
            self.link(index, deadline);
            index = next;
        }
    }

    /// Allocates a timer that is in no slot yet.
    fn allocate(&mut self, deadline: Time, payload: T) -> TimerId {
        if self.free == NIL {
            // Memory ends long before the numbers do: 2^32 timers take 100 GB.
            let index = self.timers.len() as u32;
            let generation = NonZeroU32::MIN;
            let timer = Timer { deadline, previous: NIL, next: NIL, generation, payload };
            growth::push(&mut self.timers, timer);
            return TimerId { index, generation };
        }
        let index = self.free;
        let timer = &mut self.timers[index as usize];
        self.free = timer.next;
        timer.deadline = deadline;
        timer.payload = payload;
        TimerId { index, generation: timer.generation }
    }

    /// Frees a timer that is in no slot, and makes its id stale.
    fn release(&mut self, index: u32) -> (Time, T) {
        let timer = &mut self.timers[index as usize];
        timer.generation = timer.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        timer.next = self.free;
        self.free = index;
        self.armed -= 1;
        (timer.deadline, timer.payload)
    }
}

#[cfg(test)]
mod tests {
    use core::mem::size_of;

    use super::*;

    fn ms(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    /// A million sessions with two timers each must fit beside everything else: 48 MB.
    #[test]
    fn a_timer_takes_24_octets() {
        assert_eq!(size_of::<Timer<u32>>(), 24);
        assert_eq!(size_of::<Option<TimerId>>(), 8);
    }

    #[test]
    fn timer_fires_at_its_deadline_not_before() {
        let mut wheel = TimingWheel::new();
        assert!(wheel.is_empty());
        wheel.arm(ms(30_000), 'b');
        wheel.arm(ms(5), 'a');
        assert_eq!((wheel.is_empty(), wheel.len()), (false, 2));
        assert_eq!(wheel.next_deadline(), Some(ms(5)));
        assert_eq!(wheel.pop_due(Time::from_nanos(4_999_999)), None);
        assert_eq!(wheel.pop_due(ms(5)), Some((ms(5), 'a')));
        assert_eq!(wheel.pop_due(ms(5)), None);
        assert_eq!(wheel.next_deadline(), Some(ms(30_000)), "exact on higher levels too");
        assert_eq!(wheel.pop_due(ms(29_999)), None);
        assert_eq!(wheel.pop_due(ms(30_000)), Some((ms(30_000), 'b')));
        assert_eq!(wheel.next_deadline(), None);
        assert!(wheel.is_empty());
    }

    /// A deadline within a tick fires at its end, and is returned as given.
    #[test]
    fn deadline_within_tick_rounds_up() {
        let mut wheel = TimingWheel::new();
        let at = Time::from_nanos(1_000_001);
        wheel.arm(at, ());
        assert_eq!(wheel.next_deadline(), Some(ms(2)));
        assert_eq!(wheel.pop_due(Time::from_nanos(1_999_999)), None);
        assert_eq!(wheel.pop_due(ms(2)), Some((at, ())));
    }

    #[test]
    fn timers_of_one_tick_fire_in_arming_order() {
        let mut wheel = TimingWheel::new();
        wheel.arm(ms(5_000), 1); // cascades from level 2 to 1 to 0
        assert_eq!(wheel.pop_due(ms(4_100)), None);
        wheel.arm(ms(5_000), 2); // cascades from level 1
        assert_eq!(wheel.pop_due(ms(4_999)), None);
        wheel.arm(ms(5_000), 3);
        let moved = wheel.arm(ms(4_999), 4);
        wheel.arm(ms(5_000), 5);
        assert!(wheel.rearm(moved, ms(5_000)));
        for expected in [1, 2, 3, 5, 4] {
            assert_eq!(wheel.pop_due(ms(6_000)).map(|(_, payload)| payload), Some(expected));
        }
    }

    #[test]
    fn overdue_timer_fires_after_those_due() {
        let mut wheel = TimingWheel::new();
        wheel.arm(ms(100), 1);
        wheel.arm(ms(100), 2);
        assert_eq!(wheel.pop_due(ms(100)), Some((ms(100), 1)));
        wheel.arm(ms(50), 3);
        assert_eq!(wheel.next_deadline(), Some(ms(100)));
        assert_eq!(wheel.pop_due(ms(100)), Some((ms(100), 2)));
        assert_eq!(wheel.pop_due(ms(100)), Some((ms(50), 3)));
        assert_eq!(wheel.pop_due(ms(100)), None);
    }

    #[test]
    fn stale_timer_id_has_no_effect() {
        let mut wheel = TimingWheel::new();
        let first = wheel.arm(ms(1), 1);
        assert_eq!(wheel.deadline(first), Some(ms(1)));
        assert_eq!(wheel.cancel(first), Some(1));
        let second = wheel.arm(ms(2), 2); // in the same slot
        assert_eq!(wheel.cancel(first), None);
        assert!(!wheel.rearm(first, ms(9)));
        assert_eq!(wheel.deadline(first), None);
        assert_eq!(wheel.pop_due(ms(2)), Some((ms(2), 2)));
        assert_eq!(wheel.cancel(second), None);
    }

    /// Centuries without timers take a handful of steps; `Time::MAX` means never.
    #[test]
    fn wheel_covers_all_of_time() {
        let mut wheel = TimingWheel::new();
        wheel.arm(Time::MAX, 'z');
        let far = Time::from_secs(500 * 365 * 86_400);
        wheel.arm(far, 'y');
        assert_eq!(wheel.pop_due(Time::from_secs(86_400)), None);
        assert_eq!(wheel.next_deadline(), Some(far));
        assert_eq!(wheel.pop_due(far), Some((far, 'y')));
        assert_eq!(wheel.next_deadline(), Some(Time::MAX));
        assert_eq!(wheel.pop_due(Time::MAX), None);
        assert_eq!(wheel.len(), 1);
    }

    /// The worst case of `next_deadline`: the earliest timer of a coarse slot is cancelled.
    #[test]
    fn early_deadline_costs_at_most_seven_calls() {
        let mut wheel = TimingWheel::new();
        let earliest = wheel.arm(Time::from_secs(40_000_000), 0);
        let at = Time::from_secs(40_000_123);
        wheel.arm(at, 1);
        wheel.cancel(earliest);
        let mut vain = 0;
        let fired = loop {
            let next = wheel.next_deadline().expect("one is armed");
            match wheel.pop_due(next) {
                Some(fired) => break fired,
                None => vain += 1,
            }
            assert!(wheel.next_deadline() > Some(next), "each call brings it closer");
        };
        assert_eq!(fired, (at, 1));
        assert!(vain <= 7, "{vain}");
    }
}

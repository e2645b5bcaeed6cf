//! Sequence numbers from a clock.

use crate::Time;

/// Source of sequence numbers from a clock that survives restarts (RFC 2747 section 3.2): units of 2^-32 seconds since
/// 1900 as in NTP, or since another origin that the driver chooses, if it does not start lower in the next run.
#[derive(Clone, Copy, Debug)]
pub struct SequenceClock {
    /// Number at [`Time::ZERO`].
    start: u64,
}

impl SequenceClock {
    /// Creates a source that begins at `start`.
    pub fn new(start: u64) -> SequenceClock {
        SequenceClock { start }
    }

    /// Returns the number after `last`: that of the clock, or `last` plus one if the clock has not advanced.
    pub fn next(&self, now: Time, last: Option<u64>) -> u64 {
        let seconds = now.as_nanos() / 1_000_000_000;
        let fraction = ((now.as_nanos() % 1_000_000_000) << 32) / 1_000_000_000;
        let clock = self.start.wrapping_add(seconds << 32).wrapping_add(fraction);
        match last {
            Some(last) if !is_newer(clock, last) => last.wrapping_add(1),
            _ => clock,
        }
    }
}

/// Returns whether `one` comes after `other`, modulo 2^64.
pub fn is_newer(one: u64, other: u64) -> bool {
    one.wrapping_sub(other).cast_signed() > 0
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn numbers_follow_the_clock_and_never_repeat() {
        let clock = SequenceClock::new(7 << 32);
        assert_eq!(clock.next(Time::ZERO, None), 7 << 32);
        assert_eq!(clock.next(Time::from_millis(1_500), None), (8 << 32) + (1 << 31));
        let last = clock.next(Time::from_secs(1), None);
        assert_eq!(clock.next(Time::from_secs(1), Some(last)), last + 1);
        assert_eq!(clock.next(Time::from_secs(1), Some(last + 5)), last + 6);
        // One nanosecond is more than four steps of the clock.
        let later = Time::from_secs(1) + Duration::from_nanos(1);
        assert_eq!(clock.next(later, Some(last)), last + 4);
        // Wrap at 2^64.
        let clock = SequenceClock::new(u64::MAX);
        assert_eq!(clock.next(Time::ZERO, Some(u64::MAX)), 0);
        assert_eq!(clock.next(Time::from_secs(1), Some(0)), (1 << 32) - 1);
    }
}

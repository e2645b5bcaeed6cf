//! Random values of several kinds.

use std::time::Duration;

use earmark_core::random::Stream;

/// Returns a number from 0 to `end` - 1; 0, if `end` is 0.
pub(crate) fn below(dice: &mut Stream, end: usize) -> usize {
    ((u128::from(dice.next_u64()) * end as u128) >> 64) as usize
}

/// Returns a number from `low` to `high`, both included.
pub(crate) fn between(dice: &mut Stream, low: usize, high: usize) -> usize {
    low + below(dice, high.saturating_sub(low) + 1)
}

/// Returns one of several values.
pub(crate) fn one_of<T: Copy>(dice: &mut Stream, of: &[T]) -> T {
    of[below(dice, of.len())]
}

/// Returns a time from `low` to `high` milliseconds.
pub(crate) fn milliseconds(dice: &mut Stream, low: u64, high: u64) -> Duration {
    dice.uniform(Duration::from_millis(low), Duration::from_millis(high))
}

//! What is drawn of dice.

use std::time::Duration;

use earmark_core::random::Stream;

/// A number from 0 up to and without `end`; 0, if that is 0.
pub(super) fn below(dice: &mut Stream, end: usize) -> usize {
    ((u128::from(dice.next_u64()) * end as u128) >> 64) as usize
}

/// A number from `low` up to and with `high`.
pub(super) fn between(dice: &mut Stream, low: usize, high: usize) -> usize {
    low + below(dice, high.saturating_sub(low) + 1)
}

/// One of several.
pub(super) fn one_of<T: Copy>(dice: &mut Stream, of: &[T]) -> T {
    of[below(dice, of.len())]
}

/// A time from `low` to `high` milliseconds.
pub(super) fn milliseconds(dice: &mut Stream, low: u64, high: u64) -> Duration {
    dice.uniform(Duration::from_millis(low), Duration::from_millis(high))
}

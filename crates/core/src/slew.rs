//! Refresh periods that rise slowly (RFC 2205 section 3.7).
//!
//! State at the neighbours lives as long as the period says that they were told last. If the period grew at once, the loss of
//! the message that tells them so would end the state before the next one. With Slew.Max it takes more losses than K permits.

use core::time::Duration;

/// Returns the next refresh period on the way from `current` to `wanted`: at most 1 + Slew.Max (0.30) times as long.
pub fn next_period(current: Duration, wanted: Duration) -> Duration {
    wanted.min(current + current * 3 / 10)
}

/// Returns the longest time between two refreshes of one state with a refresh period, after which every state has told it.
pub fn longest_interval(period: Duration) -> Duration {
    period * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_rises_by_slew_max_and_falls_at_once() {
        let seconds = Duration::from_secs;
        assert_eq!(next_period(seconds(10), seconds(100)), seconds(13));
        assert_eq!(next_period(seconds(10), seconds(11)), seconds(11));
        assert_eq!(next_period(seconds(100), seconds(10)), seconds(10));
        assert_eq!(longest_interval(seconds(10)), seconds(15));
        let (mut period, mut steps) = (Duration::from_millis(1), 0);
        while period < seconds(3_600) {
            (period, steps) = (next_period(period, seconds(3_600)), steps + 1);
        }
        assert_eq!(steps, 58, "it ends, also from the shortest period");
    }
}

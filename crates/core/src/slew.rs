//! Refresh periods that rise slowly (RFC 2205 section 3.7).
//!
//! A neighbour keeps state for a time that follows from the period in the last message. If the period rose at once, and the first
//! message with the new one were lost, the state would end before the second. So the period rises in steps.

use core::time::Duration;

use crate::time::Time;

/// Slew.Max of RFC 2205, percent.
pub const DEFAULT_PERCENT: u32 = 30;

/// Brings the refresh period `current` nearer to `wanted`. It falls at once, and rises again at `rises_at` or later, each time by
/// at most `percent`, but not by less than one. Returns the new period, and when it rises again, if it does.
pub fn step(
    now: Time,
    current: Duration,
    wanted: Duration,
    percent: u32,
    rises_at: Option<Time>,
) -> (Duration, Option<Time>) {
    let waiting = rises_at.filter(|&at| now < at);
    let period = match waiting {
        Some(_) => current.min(wanted),
        None => next_period(current, wanted, percent.max(1)),
    };
    let next = waiting.unwrap_or(now + longest_interval(period));
    (period, (period < wanted).then_some(next))
}

/// Returns the next refresh period on the way from `current` to `wanted`: at most 1 + Slew.Max times as long.
fn next_period(current: Duration, wanted: Duration, percent: u32) -> Duration {
    wanted.min(current.saturating_add(current.saturating_mul(percent) / 100))
}

/// Returns the longest time between two refreshes of one state with a refresh period, after which every state has told it.
fn longest_interval(period: Duration) -> Duration {
    period * 3 / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_rises_by_slew_max_and_falls_at_once() {
        let seconds = Duration::from_secs;
        assert_eq!(next_period(seconds(10), seconds(100), 30), seconds(13));
        assert_eq!(next_period(seconds(10), seconds(11), 30), seconds(11));
        assert_eq!(next_period(seconds(100), seconds(10), 30), seconds(10));
        assert_eq!(longest_interval(seconds(10)), seconds(15));
        assert_eq!(next_period(seconds(10), seconds(100), 50), seconds(15));
        assert_eq!(
            next_period(seconds(10), Duration::MAX, u32::MAX),
            seconds(429_496_739) + Duration::from_millis(500)
        );
        let (mut period, mut steps) = (Duration::from_millis(1), 0);
        while period < seconds(3_600) {
            (period, steps) = (next_period(period, seconds(3_600), 30), steps + 1);
        }
        assert_eq!(steps, 58, "it ends, also from the shortest period");
    }

    #[test]
    fn step_waits_until_every_state_has_told_the_period() {
        let (seconds, at) = (Duration::from_secs, Time::from_secs);
        assert_eq!(
            step(at(0), seconds(10), seconds(15), 30, None),
            (seconds(13), Some(at(0) + seconds(13) * 3 / 2))
        );
        assert_eq!(
            step(at(5), seconds(13), seconds(15), 30, Some(at(20))),
            (seconds(13), Some(at(20)))
        );
        assert_eq!(step(at(5), seconds(13), seconds(9), 30, Some(at(20))), (seconds(9), None));
        assert_eq!(step(at(20), seconds(13), seconds(15), 30, Some(at(20))), (seconds(15), None));
    }
}

//! Jumps of the wall clock. Engines have a clock of their own that never jumps; only what is valid until a date needs the
//! wall clock.

use std::time::Duration;

use earmark_core::Time;
use jiff::{SignedDuration, Timestamp};

/// Smallest jump that is followed. Smaller ones are within the tolerance of whatever depends on dates.
const JUMP: SignedDuration = SignedDuration::from_secs(1);

/// Wall clock next to the engine's clock.
#[derive(Debug)]
pub(crate) struct WallClock {
    /// Wall-clock time at which the engine's clock started.
    origin: Timestamp,
}

impl WallClock {
    pub(crate) fn new(origin: Timestamp) -> WallClock {
        WallClock { origin }
    }

    /// Compares the clocks. Returns the time at which the engine's clock started by a wall clock that has jumped; `None` if
    /// it has not.
    pub(crate) fn jumped(&mut self, now: Time, wall: Timestamp) -> Option<Timestamp> {
        let running = SignedDuration::try_from(Duration::from_nanos(now.as_nanos())).ok()?;
        let origin = wall.saturating_sub(running).ok()?;
        if origin.duration_since(self.origin).abs() < JUMP {
            return None;
        }
        self.origin = origin;
        Some(origin)
    }
}

/// Converts a time to nanoseconds since 1970; earlier times are zero.
pub(crate) fn since_1970(at: Timestamp) -> u64 {
    u64::try_from(at.as_nanosecond().max(0)).unwrap_or(u64::MAX)
}

/// Converts a time to units of 2^-32 seconds since 1970, for sequence numbers.
pub(crate) fn sequence_number(at: Timestamp) -> u64 {
    let nanoseconds = u128::from(since_1970(at));
    u64::try_from((nanoseconds << 32) / 1_000_000_000).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a date")
    }

    #[test]
    fn only_jumps_are_reported_and_each_once() {
        let mut clock = WallClock::new(at("2026-11-26T00:00:00Z"));
        for (seconds, wall, jump) in [
            (0, "2026-11-26T00:00:00Z", None),
            (10, "2026-11-26T00:00:10.9Z", None),
            (20, "2026-11-26T01:00:20Z", Some("2026-11-26T01:00:00Z")),
            (30, "2026-11-26T01:00:30Z", None),
            // Back, and to dates before and after all that a clock can show.
            (40, "2026-11-25T00:00:40Z", Some("2026-11-25T00:00:00Z")),
            (50, "1969-12-31T00:00:50Z", Some("1969-12-31T00:00:00Z")),
            (60, "9999-12-30T00:01:00Z", Some("9999-12-30T00:00:00Z")),
        ] {
            let found = clock.jumped(Time::from_secs(seconds), at(wall));
            assert_eq!(found, jump.map(at), "{wall}");
        }
    }

    #[test]
    fn extreme_clocks_do_not_panic() {
        for wall in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            for now in [Time::ZERO, Time::from_secs(1), Time::MAX] {
                for origin in [Timestamp::MIN, Timestamp::MAX] {
                    let _ = WallClock::new(origin).jumped(now, wall);
                }
            }
        }
    }
}

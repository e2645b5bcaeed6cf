//! A point in time, in nanoseconds since an origin that only the driver knows.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Nanoseconds since the driver's origin: start of the daemon, or of the simulation. Reaches 584 years.
///
/// Arithmetic saturates: a deadline too far away is [`Time::MAX`], which means never.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Time = Time(0);
    /// Never.
    pub const MAX: Time = Time(u64::MAX);

    /// Returns the time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Returns the time `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1_000_000))
    }

    /// Returns the time `secs` seconds after the origin.
    pub const fn from_secs(secs: u64) -> Time {
        Time(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the time so many milliseconds later.
    pub const fn after_millis(self, millis: u64) -> Time {
        Time(self.0.saturating_add(Time::from_millis(millis).0))
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the seconds since the origin, for people.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the duration since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, later: Duration) -> Time {
        let nanos = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        Time(self.0.saturating_add(nanos))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:09}s", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn arithmetic_saturates_at_never_and_origin() {
        let later = Time::from_secs(2);
        assert_eq!(Time::from_secs(1) + Duration::from_millis(1_000), later);
        assert_eq!(later + Duration::MAX, Time::MAX);
        assert_eq!(Time::MAX + Duration::from_nanos(1), Time::MAX);
        assert_eq!(Time::from_secs(1).after_millis(500), Time::from_millis(1_500));
        assert_eq!(Time::from_secs(1).after_millis(u64::MAX), Time::MAX);
        assert_eq!(Time::from_secs(u64::MAX), Time::MAX);
        assert_eq!(Time::from_millis(u64::MAX), Time::MAX);
        assert_eq!(later - Time::from_millis(500), Duration::from_millis(1_500));
        assert_eq!(Time::ZERO - later, Duration::ZERO);
        assert_eq!(Time::from_nanos(7).as_nanos(), 7);
    }

    #[test]
    fn time_is_shown_in_seconds() {
        assert_eq!(Time::from_millis(1_500).to_string(), "1.500000000s");
        assert_eq!(Time::from_nanos(1).to_string(), "0.000000001s");
        assert_eq!(Time::from_millis(1_500).as_secs_f64().to_bits(), 1.5_f64.to_bits());
    }
}

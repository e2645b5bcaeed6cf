//! The monotonic clock as [`Time`]: the source of the daemon's current time.

use std::time::Instant;

use earmark_core::Time;

/// A clock whose origin is the moment of its creation. Monotonic; does not advance while the host sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts a clock at [`Time::ZERO`].
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

//! The monotonic clock as [`Time`]: where wall time enters.

use std::time::Instant;

use earmark_core::Time;

/// A clock whose origin is the moment of its creation. It never goes back; it stands still while the host sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// Starts a clock at [`Time::ZERO`].
    pub fn start() -> Clock {
        Clock { origin: Instant::now() }
    }

    /// Time since the start.
    pub fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }
}

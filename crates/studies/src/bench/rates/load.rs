//! Loads of a rate measurement, and their results.

use std::time::Duration;

/// An offered load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// Number of set-ups at once.
    Burst(u32),
    /// Pairs of a set-up and a release at a constant rate.
    Rate {
        /// Pairs a second.
        rate: u32,
        /// Duration.
        window: Duration,
    },
}

impl Load {
    /// Returns whether the load could continue indefinitely at this cost of a session in the daemon, microseconds. A
    /// short load at too high a rate may be served after its end, when only the last releases arrive.
    pub fn can_go_on(self, session_us: f64) -> bool {
        match self {
            Load::Burst(_) => true,
            Load::Rate { rate, .. } => f64::from(rate) * session_us <= 1e6,
        }
    }

    /// Returns a description for tables.
    pub fn describe(self) -> String {
        match self {
            Load::Burst(count) => format!("{count} set-ups at once"),
            Load::Rate { rate, window } => {
                format!("{rate} set-ups and releases a second for {:.1} s", window.as_secs_f64())
            }
        }
    }
}

/// Result of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadResult {
    /// Messages sent.
    pub sent: u64,
    /// Messages that came through.
    pub through: u64,
    /// Whether messages were sent at the planned pace and did not wait for long.
    pub in_time: bool,
}

impl LoadResult {
    /// Returns whether the load went through.
    pub fn is_whole(&self) -> bool {
        self.through == self.sent && self.in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_can_go_on_up_to_a_full_processor() {
        let rate = Load::Rate { rate: 50_000, window: Duration::from_millis(200) };
        assert!(rate.can_go_on(20.0) && !rate.can_go_on(20.1));
        assert!(Load::Burst(50_000).can_go_on(1_000.0));
    }

    #[test]
    fn load_is_complete_if_all_messages_came_through_in_time() {
        let result = LoadResult { sent: 10, through: 10, in_time: true };
        assert!(result.is_whole());
        assert!(!LoadResult { through: 9, ..result }.is_whole());
        assert!(!LoadResult { in_time: false, ..result }.is_whole());
        assert_eq!(Load::Burst(7).describe(), "7 set-ups at once");
    }
}

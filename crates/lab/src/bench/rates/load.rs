//! What is offered in a measurement of rates, and what became of it.

use std::time::Duration;

/// What is offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Load {
    /// So many set-ups at once.
    Burst(u32),
    /// So many pairs of a set-up and a release a second, for so long.
    Rate {
        /// Pairs a second.
        rate: u32,
        /// For how long.
        window: Duration,
    },
}

impl Load {
    /// Whether it could go on for ever where a session costs the daemon so many microseconds: what a short rate asks for may be done
    /// after its end, when only the last releases come.
    pub fn can_go_on(self, session_us: f64) -> bool {
        match self {
            Load::Burst(_) => true,
            Load::Rate { rate, .. } => f64::from(rate) * session_us <= 1e6,
        }
    }

    /// For people.
    pub fn describe(self) -> String {
        match self {
            Load::Burst(count) => format!("{count} set-ups at once"),
            Load::Rate { rate, window } => {
                format!("{rate} set-ups and releases a second for {:.1} s", window.as_secs_f64())
            }
        }
    }
}

/// What became of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Messages that were sent.
    pub sent: u64,
    /// Those that came through.
    pub through: u64,
    /// Whether they were sent as fast as they should have been, and did not wait for long.
    pub in_time: bool,
}

impl Course {
    /// Whether the load went through.
    pub fn is_whole(&self) -> bool {
        self.through == self.sent && self.in_time
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_goes_on_as_long_as_a_processor_suffices() {
        let rate = Load::Rate { rate: 50_000, window: Duration::from_millis(200) };
        assert!(rate.can_go_on(20.0) && !rate.can_go_on(20.1));
        assert!(Load::Burst(50_000).can_go_on(1_000.0));
    }

    #[test]
    fn a_load_is_whole_when_all_of_it_came_through_in_time() {
        let course = Course { sent: 10, through: 10, in_time: true };
        assert!(course.is_whole());
        assert!(!Course { through: 9, ..course }.is_whole());
        assert!(!Course { in_time: false, ..course }.is_whole());
        assert_eq!(Load::Burst(7).describe(), "7 set-ups at once");
    }
}

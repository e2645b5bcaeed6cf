//! Timing wheel of this project, as the engines use it.

use earmark_core::Time;
use earmark_core::timer::{TimerId, TimingWheel};

use super::Timers;

/// The wheel, and the id of each timer in it.
#[derive(Debug)]
pub(in crate::paper_reproduction) struct Wheel {
    wheel: TimingWheel<u32>,
    ids: Vec<Option<TimerId>>,
}

impl Wheel {
    /// Creates an empty wheel at `now`.
    pub(in crate::paper_reproduction) fn new(timers: usize, now: u64) -> Wheel {
        let mut wheel = TimingWheel::new();
        // Without timers this only sets the time.
        wheel.pop_due(Time::from_millis(now));
        Wheel { wheel, ids: vec![None; timers] }
    }
}

impl Timers for Wheel {
    fn arm(&mut self, timer: u32, now: u64, interval: u64) {
        let id = self.wheel.arm(Time::from_millis(now + interval), timer);
        self.ids[timer as usize] = Some(id);
    }

    fn restart(&mut self, timer: u32, now: u64, interval: u64) {
        if let Some(id) = self.ids[timer as usize] {
            self.wheel.rearm(id, Time::from_millis(now + interval));
        }
    }

    fn next(&self) -> u64 {
        self.wheel.next_deadline().map_or(u64::MAX, |at| at.as_nanos() / 1_000_000)
    }

    fn expire(&mut self, now: u64, fired: &mut Vec<u32>) {
        while let Some((_, timer)) = self.wheel.pop_due(Time::from_millis(now)) {
            self.ids[timer as usize] = None;
            fired.push(timer);
        }
    }
}

//! Level of each target: that of the start, and one that was set while the daemon runs, with its end.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use earmark_control::LogLevel;

/// Levels of all targets, by their places.
#[derive(Debug)]
pub(super) struct Levels {
    started_with: Vec<LogLevel>,
    now: Vec<AtomicU8>,
    /// Times at which targets return to the level of the start.
    ends: Mutex<Vec<Option<Instant>>>,
}

impl Levels {
    pub(super) fn new(started_with: Vec<LogLevel>) -> Levels {
        let now = started_with.iter().map(|level| AtomicU8::new(*level as u8)).collect();
        let ends = Mutex::new(vec![None; started_with.len()]);
        Levels { started_with, now, ends }
    }

    /// Returns the level of a target.
    pub(super) fn of(&self, place: usize) -> LogLevel {
        let level = self.now.get(place).map_or(0, |level| level.load(Ordering::Relaxed));
        LogLevel::ALL.get(usize::from(level)).copied().unwrap_or(LogLevel::Off)
    }

    /// Returns the level of the most detailed target.
    pub(super) fn most_detailed(&self) -> LogLevel {
        (0..self.now.len()).map(|place| self.of(place)).max().unwrap_or(LogLevel::Off)
    }

    pub(super) fn now(&self) -> Vec<LogLevel> {
        (0..self.now.len()).map(|place| self.of(place)).collect()
    }

    pub(super) fn started_with(&self) -> Vec<LogLevel> {
        self.started_with.clone()
    }

    /// Sets the level of a target, until `end` if there is one.
    pub(super) fn set(&self, place: usize, level: LogLevel, end: Option<Instant>) {
        self.now[place].store(level as u8, Ordering::Relaxed);
        self.ends()[place] = end;
    }

    /// Returns all targets to the levels of the start.
    pub(super) fn reset(&self) {
        for (place, level) in self.started_with.iter().enumerate() {
            self.set(place, *level, None);
        }
    }

    /// Time at which a target returns to the level of the start.
    pub(super) fn end(&self, place: usize) -> Option<Instant> {
        self.ends()[place]
    }

    /// The first of these times.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.ends().iter().flatten().min().copied()
    }

    /// Returns the targets whose time is over to the levels of the start. Returns their places.
    pub(super) fn take_ended(&self, now: Instant) -> Vec<usize> {
        let ended: Vec<usize> = {
            let mut ends = self.ends();
            let is_over = |end: &mut Option<Instant>| end.take_if(|end| *end <= now).is_some();
            ends.iter_mut()
                .enumerate()
                .filter_map(|(place, end)| is_over(end).then_some(place))
                .collect()
        };
        for place in &ended {
            self.set(*place, self.started_with[*place], None);
        }
        ended
    }

    fn ends(&self) -> MutexGuard<'_, Vec<Option<Instant>>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

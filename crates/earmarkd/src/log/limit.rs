//! Limits on lines that other hosts and programs can cause: some lines of each sort, then only their number.
//!
//! A sort is a kind, or a place in the code for lines without one, so that memory is bounded by the program.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Most lines of one sort in one [`WINDOW`].
pub(super) const MAX_LINES: u32 = 20;
/// Time in which the lines of a sort are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(10);

/// Windows by the name of the sort. The map is ordered, and only the program's code chooses its keys.
#[derive(Debug, Default)]
pub(super) struct Limits {
    windows: BTreeMap<&'static str, Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    written: u32,
    suppressed: u64,
}

impl Limits {
    /// Returns whether a line of this sort may be written, and counts it.
    pub(super) fn admits(&mut self, sort: &'static str, now: Instant) -> bool {
        let new = Window { began: now, written: 0, suppressed: 0 };
        let window = self.windows.entry(sort).or_insert(new);
        // Suppressed lines are reported before a new window begins.
        if window.suppressed == 0 && now >= window.began + WINDOW {
            *window = new;
        }
        let is_admitted = window.written < MAX_LINES;
        if is_admitted {
            window.written += 1;
        } else {
            window.suppressed += 1;
        }
        is_admitted
    }

    /// Ends the windows that are over. Returns the sorts whose lines were left out in them, with their number.
    pub(super) fn take_suppressed(&mut self, now: Instant) -> Vec<(&'static str, u64)> {
        let over = self.windows.extract_if(.., |_, window| now >= window.began + WINDOW);
        let suppressed = over.map(|(sort, window)| (sort, window.suppressed));
        suppressed.filter(|(_, count)| *count > 0).collect()
    }

    /// Time at which the first window with lines that were left out is over.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let due = self.windows.values().filter(|window| window.suppressed > 0);
        due.map(|window| window.began + WINDOW).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_one_sort_is_counted_and_another_sort_is_written() {
        let (mut limits, began) = (Limits::default(), Instant::now());
        let written = (0..1_000).filter(|_| limits.admits("flood", began)).count();
        assert_eq!(written, MAX_LINES as usize);
        assert!(limits.admits("other", began));
        assert_eq!(limits.next_deadline(), Some(began + WINDOW));
        assert!(limits.take_suppressed(began + WINDOW / 2).is_empty());
        assert_eq!(limits.take_suppressed(began + WINDOW), [("flood", 980)]);
        assert_eq!(limits.next_deadline(), None);
        assert!(limits.admits("flood", began + WINDOW));
    }

    #[test]
    fn slow_lines_are_all_written() {
        let (mut limits, mut now) = (Limits::default(), Instant::now());
        for _ in 0..1_000 {
            assert!(limits.admits("slow", now));
            now += WINDOW / MAX_LINES;
        }
        assert!(limits.take_suppressed(now + WINDOW).is_empty());
    }
}

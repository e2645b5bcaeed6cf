//! Ranges of destinations whose routes have changed, and how far their routing states were checked.

use alloc::collections::VecDeque;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Prefix, Time};

use super::state::{Index, NONE};
use super::store::Store;

/// Limit of changed ranges that are kept; above it all destinations count as changed.
const MAX_CHANGED_RANGES: usize = 1_024;

/// Ranges of destinations whose routing states must be checked.
#[derive(Debug, Default)]
pub(super) struct ChangedRanges {
    ranges: VecDeque<Prefix>,
    /// Progress in the first range: the highest destination that was checked.
    done: Option<IpAddr>,
    /// First routing state of this destination that is still to be checked.
    next: Index,
    /// When the first unchecked range was added.
    since: Option<Time>,
}

impl ChangedRanges {
    pub(super) fn deadline(&self) -> Option<Time> {
        self.since
    }

    /// Adds a range.
    pub(super) fn add(&mut self, now: Time, range: Prefix) {
        if self.since.is_none() {
            self.next = NONE;
        }
        if self.ranges.iter().skip(1).any(|other| other.covers(range)) {
            return;
        }
        if self.ranges.len() >= MAX_CHANGED_RANGES {
            self.ranges.clear();
            (self.done, self.next) = (None, NONE);
            self.ranges.push_back(Prefix::new(Ipv4Addr::UNSPECIFIED.into(), 0));
            self.ranges.push_back(Prefix::new(Ipv6Addr::UNSPECIFIED.into(), 0));
        } else {
            self.ranges.push_back(range);
        }
        self.since = Some(now);
    }

    /// Returns the next routing state to be checked; `None` if all are checked.
    pub(super) fn next_state(&mut self, store: &Store) -> Option<Index> {
        loop {
            if self.next != NONE {
                let index = self.next;
                self.next = store.state(index).next;
                return Some(index);
            }
            let Some(&range) = self.ranges.front() else {
                self.since = None;
                return None;
            };
            match store.by_destination.next_in(range, self.done) {
                Some((address, first)) => {
                    self.done = Some(address);
                    self.next = first;
                }
                None => {
                    self.done = None;
                    self.ranges.pop_front();
                }
            }
        }
    }

    /// Skips a routing state that is being removed.
    #[inline]
    pub(super) fn skip(&mut self, removed: Index, store: &Store) {
        if self.next == removed {
            self.next = store.state(removed).next;
        }
    }
}

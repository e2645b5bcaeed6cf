//! State of a writer, as its daemon sees it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// State of a writer, for its daemon.
#[derive(Debug, Default)]
pub struct Status {
    pub(crate) oldest: AtomicU64,
    pub(crate) applied: AtomicU64,
    pub(crate) invalid: AtomicU64,
    pub(crate) failing: AtomicBool,
}

impl Status {
    /// Number of the oldest segment that is not applied as a whole.
    pub fn oldest_segment(&self) -> u64 {
        self.oldest.load(Ordering::Acquire)
    }

    /// Records applied so far.
    pub fn applied(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// Lines that were no records.
    pub fn invalid(&self) -> u64 {
        self.invalid.load(Ordering::Relaxed)
    }

    /// Whether the database cannot be written at the moment.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }
}

//! Settings of the accounting records.

use std::path::PathBuf;
use std::time::Duration;

/// Settings of the accounting records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorySettings {
    /// Path of the database.
    pub database: PathBuf,
    /// Directory of the journal, in a file system in memory.
    pub journal: PathBuf,
    /// Most octets of the journal.
    pub journal_size: u64,
    /// Age at which ended reservations are removed; `None` for never.
    pub retention: Option<Duration>,
    /// Interval at which the counters of each reservation are read.
    pub interval: Duration,
}

//! The writer of a program that was built without a database: there is none.

use std::convert::Infallible;
use std::io;

use super::{Applied, HistorySettings};
use crate::syscall_filter::SyscallFilter;

/// The writer, which cannot exist.
pub(crate) struct WriterThread(Infallible);

impl WriterThread {
    /// Fails.
    ///
    /// # Errors
    /// Always: the program has no database.
    pub(crate) fn start(
        _settings: &HistorySettings,
        _group: Option<u32>,
        _filter: SyscallFilter,
    ) -> io::Result<WriterThread> {
        Err(io::Error::other("this program was built without the feature `history`"))
    }

    /// Returns how far the journal is applied.
    pub(crate) fn applied(&self) -> Applied {
        match self.0 {}
    }

    /// Ends the thread once everything is applied.
    pub(crate) fn stop(self) {
        match self.0 {}
    }
}

//! Accounting records of reservations (`[history]`): the driver notes what it installs and removes, and a thread of its own writes the
//! database.
//!
//! The event loop appends to a journal in memory and never waits: neither for the thread, nor for a disk.

#[cfg(not(feature = "history"))]
mod absent;
mod accounts;
mod settings;
#[cfg(feature = "history")]
mod thread;

#[cfg(not(feature = "history"))]
pub(crate) use absent::WriterThread;
pub use accounts::{AccountCounters, Accounts};
pub(crate) use accounts::{Applied, flow_key};
pub use settings::HistorySettings;
#[cfg(feature = "history")]
pub(crate) use thread::WriterThread;

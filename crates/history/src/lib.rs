//! Accounting records of reservations: who reserved what on which link, from when to when, why it ended, and what its packets used.
//!
//! The daemon appends [`Record`]s to a [`Journal`] and never waits. A `Writer`, in a thread of its own, applies them to a
//! `Database` in transactions that also hold the position in the journal, so that each record is applied exactly once whoever is
//! killed in between. `query` reads the database.

#[cfg(feature = "database")]
mod apply;
#[cfg(feature = "database")]
mod database;
#[cfg(feature = "database")]
pub mod export;
mod journal;
#[cfg(feature = "database")]
pub mod query;
mod record;
#[cfg(feature = "database")]
mod segment;
mod status;
#[cfg(feature = "database")]
mod writer;

#[cfg(feature = "database")]
pub use apply::UNKNOWN_END;
#[cfg(feature = "database")]
pub use database::{Database, DatabaseError, Position, SCHEMA_VERSION};
pub use journal::{Append, Journal, JournalError, LEAST_BOUND};
pub use record::{Counts, FlowKey, Record, Reservation};
pub use status::Status;
#[cfg(feature = "database")]
pub use writer::{Settings, Writer, WriterError};

//! What has changed in a database since a program last read it, for programs that copy the records elsewhere.

use rusqlite::{OptionalExtension, params};

use crate::database::{Database, DatabaseError};
use crate::query::HistoryRow;

/// A row of the table `usage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HourlyUsage {
    /// Begin of the hour, milliseconds since 1970.
    pub hour_ms: i64,
    /// Name of the node.
    pub node: String,
    /// Name of the user; empty if the requests name none.
    pub user: String,
    /// `verified` or `claimed`; empty without a user.
    pub proof: String,
    /// Name of the interface.
    pub link: String,
    /// Name of the protocol.
    pub protocol: String,
    /// Reservations that began, octets, packets, drops, and octets that the rates would have allowed.
    pub numbers: [i64; 5],
}

/// A row of the table `gap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Number in this database.
    pub id: i64,
    /// Name of the node.
    pub node: String,
    /// Time of the next record that was kept, milliseconds since 1970.
    pub at_ms: i64,
    /// Records that were lost.
    pub records: i64,
}

/// Rows that have changed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Reservations.
    pub reservations: Vec<HistoryRow>,
    /// Use by the hour.
    pub usage: Vec<HourlyUsage>,
    /// Gaps.
    pub gaps: Vec<Gap>,
    /// Revision up to which these are all changes.
    pub revision: i64,
}

impl Changes {
    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.reservations.is_empty() && self.usage.is_empty() && self.gaps.is_empty()
    }
}

impl Database {
    /// Returns the identity of this database.
    ///
    /// # Errors
    /// SQLite reports an error.
    pub fn source(&self) -> Result<String, DatabaseError> {
        let source = self.connection().query_row("SELECT source FROM meta", [], |row| row.get(0));
        source.map_err(|error| self.failed(error))
    }

    /// Returns the revision that a program has read, 0 if it has read nothing.
    ///
    /// # Errors
    /// SQLite reports an error.
    pub fn exported(&self, name: &str) -> Result<i64, DatabaseError> {
        let select = "SELECT revision FROM export WHERE name = ?1";
        let revision = self.connection().query_row(select, [name], |row| row.get(0)).optional();
        Ok(revision.map_err(|error| self.failed(error))?.unwrap_or(0))
    }

    /// Notes the revision that a program has read, so that older rows may be removed once they are old enough.
    ///
    /// # Errors
    /// SQLite reports an error.
    pub fn set_exported(&self, name: &str, revision: i64) -> Result<(), DatabaseError> {
        let upsert = "INSERT INTO export VALUES (?1, ?2) ON CONFLICT DO UPDATE SET revision = ?2";
        let done = self.connection().execute(upsert, params![name, revision]);
        done.map(drop).map_err(|error| self.failed(error))
    }

    /// Returns the rows that have changed since a revision, oldest change first, about `most` of them.
    ///
    /// # Errors
    /// SQLite reports an error.
    pub fn changes_since(&mut self, revision: i64, most: usize) -> Result<Changes, DatabaseError> {
        self.read_changes(revision, most).map_err(|error| self.failed(error))
    }

    fn read_changes(&mut self, after: i64, most: usize) -> rusqlite::Result<Changes> {
        // All selects see the same state.
        let transaction = self.connection_mut().transaction()?;
        let end = "SELECT max(revision) FROM (SELECT revision FROM reservation WHERE revision > ?1 UNION ALL \
                   SELECT revision FROM usage WHERE revision > ?1 UNION ALL SELECT revision FROM gap WHERE revision > ?1 \
                   ORDER BY revision LIMIT ?2)";
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let revision: Option<i64> = transaction.query_row(end, [after, most], |row| row.get(0))?;
        let Some(revision) = revision else {
            return Ok(Changes { revision: after, ..Changes::default() });
        };
        let within = "WHERE revision > ?1 AND revision <= ?2 ORDER BY revision";
        let select = format!("SELECT {} FROM reservation {within}", HistoryRow::COLUMNS);
        let reservations = transaction
            .prepare_cached(&select)?
            .query_map([after, revision], HistoryRow::read)?
            .collect::<rusqlite::Result<_>>()?;
        let select = format!(
            "SELECT hour_ms, node, user_name, proof, link, protocol, begun, octets, packets, drops, reserved_octets FROM usage {within}"
        );
        let usage = transaction
            .prepare_cached(&select)?
            .query_map([after, revision], |row| {
                Ok(HourlyUsage {
                    hour_ms: row.get(0)?,
                    node: row.get(1)?,
                    user: row.get(2)?,
                    proof: row.get(3)?,
                    link: row.get(4)?,
                    protocol: row.get(5)?,
                    numbers: [row.get(6)?, row.get(7)?, row.get(8)?, row.get(9)?, row.get(10)?],
                })
            })?
            .collect::<rusqlite::Result<_>>()?;
        let select = format!("SELECT id, node, at_ms, records FROM gap {within}");
        let gaps = transaction
            .prepare_cached(&select)?
            .query_map([after, revision], |row| {
                let (id, node) = (row.get(0)?, row.get(1)?);
                Ok(Gap { id, node, at_ms: row.get(2)?, records: row.get(3)? })
            })?
            .collect::<rusqlite::Result<_>>()?;
        Ok(Changes { reservations, usage, gaps, revision })
    }
}

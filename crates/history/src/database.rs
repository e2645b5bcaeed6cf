//! The database: an SQLite file with reservations, their use by the hour, and how far the journal is applied.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior, ffi};

/// Version of the schema that this program reads and writes.
pub const SCHEMA_VERSION: i64 = 1;

/// Time that a statement waits for another program that writes.
const PATIENCE: Duration = Duration::from_millis(500);

/// Tables of the schema. `docs/accounting.md` describes them for those who query them.
const SCHEMA: &str = include_str!("schema.sql");

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// A newer program has written it.
    #[error("{} has schema {found}, and this program knows schema {SCHEMA_VERSION}; install the newer version", path.display())]
    NewerSchema {
        /// Path of the database.
        path: PathBuf,
        /// Version of its schema.
        found: i64,
    },
    /// The file is no database of accounting records.
    #[error("{} is not a database of accounting records; name another file", .0.display())]
    Foreign(PathBuf),
    /// The file does not exist.
    #[error("{} does not exist; `[history] database` in the configuration of the daemon creates it", .0.display())]
    Missing(PathBuf),
    /// SQLite reports an error.
    #[error("{}: {source}", path.display())]
    Sqlite {
        /// Path of the database.
        path: PathBuf,
        /// SQLite's error.
        source: rusqlite::Error,
    },
}

/// How far a journal is applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the segment.
    pub segment: u64,
    /// Octets of the segment.
    pub offset: u64,
    /// Number of the run of the daemon that the next record belongs to.
    pub run: i64,
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    path: PathBuf,
    connection: Connection,
}

impl Database {
    /// Opens a database to write, and creates it if it does not exist.
    ///
    /// # Errors
    /// The file cannot be used, is something else, or has a newer schema.
    pub fn open(path: &Path) -> Result<Database, DatabaseError> {
        let failed = |source| DatabaseError::Sqlite { path: path.to_owned(), source };
        let mut connection = Connection::open(path).map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        let foreign = |source: rusqlite::Error| match source.sqlite_error_code() {
            Some(ffi::ErrorCode::NotADatabase) => DatabaseError::Foreign(path.to_owned()),
            _ => failed(source),
        };
        // What is committed survives a loss of power.
        connection.pragma_update(None, "journal_mode", "wal").map_err(foreign)?;
        connection.pragma_update(None, "synchronous", "full").map_err(failed)?;
        connection.set_prepared_statement_cache_capacity(32);
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let is_empty: bool = transaction
            .query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))
            .map_err(failed)?;
        if is_empty {
            transaction.execute_batch(SCHEMA).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        Database { path: path.to_owned(), connection }.checked()
    }

    /// Opens an existing database to read.
    ///
    /// # Errors
    /// The file does not exist or cannot be read, is something else, or has another schema.
    pub fn open_to_read(path: &Path) -> Result<Database, DatabaseError> {
        let failed = |source| DatabaseError::Sqlite { path: path.to_owned(), source };
        if !path.exists() {
            return Err(DatabaseError::Missing(path.to_owned()));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        // Without a writer there is no write-ahead log, and whoever may only read cannot create one.
        let is_at_rest = !with_suffix(path, "-wal").exists();
        let connection = if is_at_rest {
            let uri = format!("file:{}?immutable=1", escaped(path));
            Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
        } else {
            Connection::open_with_flags(path, flags)
        };
        let connection = connection.map_err(failed)?;
        connection.busy_timeout(PATIENCE).map_err(failed)?;
        Database { path: path.to_owned(), connection }.checked()
    }

    fn checked(self) -> Result<Database, DatabaseError> {
        let version = "SELECT version FROM meta";
        match self.connection.query_row(version, [], |row| row.get::<_, i64>(0)) {
            Ok(SCHEMA_VERSION) => Ok(self),
            Ok(found) if found > SCHEMA_VERSION => {
                Err(DatabaseError::NewerSchema { path: self.path, found })
            }
            Err(source) if source.sqlite_error_code().is_some_and(is_passing) => {
                Err(self.failed(source))
            }
            _ => Err(DatabaseError::Foreign(self.path)),
        }
    }

    /// Returns how far a journal is applied; `None` if nothing of it is.
    pub(crate) fn position(&self, journal: u64) -> Result<Option<Position>, DatabaseError> {
        let select = "SELECT segment, position, run FROM journal WHERE journal = ?1";
        let mut statement = self.connection.prepare_cached(select).map_err(|e| self.failed(e))?;
        let mut rows = statement.query([journal.cast_signed()]).map_err(|e| self.failed(e))?;
        let Some(row) = rows.next().map_err(|e| self.failed(e))? else { return Ok(None) };
        let read = || -> rusqlite::Result<Position> {
            Ok(Position {
                segment: row.get::<_, i64>(0)?.cast_unsigned(),
                offset: row.get::<_, i64>(1)?.cast_unsigned(),
                run: row.get(2)?,
            })
        };
        read().map(Some).map_err(|e| self.failed(e))
    }

    /// Begins a transaction that writes.
    pub(crate) fn begin(&mut self) -> rusqlite::Result<Transaction<'_>> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate)
    }

    /// Returns the connection for queries.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Removes reservations that ended, and use of hours that ended, before this time: at most `most` of each. Nothing that a program
    /// of the table `export` has not read yet is removed. Returns whether more may be left.
    ///
    /// # Errors
    /// SQLite reports an error.
    pub fn forget_before(&mut self, at_ms: i64, most: usize) -> Result<bool, DatabaseError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let done = || -> rusqlite::Result<usize> {
            let exported = "(SELECT coalesce(min(revision), 9223372036854775807) FROM export)";
            let reservations = format!(
                "DELETE FROM reservation WHERE id IN (SELECT id FROM reservation \
                 WHERE ended_ms < ?1 AND revision <= {exported} LIMIT ?2)"
            );
            let usage = format!(
                "DELETE FROM usage WHERE rowid IN (SELECT rowid FROM usage \
                 WHERE hour_ms < ?1 - 3600000 AND revision <= {exported} LIMIT ?2)"
            );
            let removed = self.connection.execute(&reservations, [at_ms, most])?;
            Ok(removed.max(self.connection.execute(&usage, [at_ms, most])?))
        };
        let removed = done().map_err(|source| self.failed(source))?;
        Ok(removed as i64 == most)
    }

    /// Wraps an error of SQLite.
    pub fn failed(&self, source: rusqlite::Error) -> DatabaseError {
        DatabaseError::Sqlite { path: self.path.clone(), source }
    }
}

/// Whether an error says nothing about the content of the file.
fn is_passing(code: ffi::ErrorCode) -> bool {
    use ffi::ErrorCode;
    !matches!(code, ErrorCode::NotADatabase | ErrorCode::Unknown)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Escapes a path for a URI.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for octet in path.as_os_str().as_encoded_bytes() {
        match octet {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => {
                text.push(char::from(*octet));
            }
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

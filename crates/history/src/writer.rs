//! The writer: applies a journal to a database, again and again, and outlives every failure of the database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::apply::Applied;
use crate::database::{Database, DatabaseError, Position};
use crate::journal::JournalError;
use crate::record::Record;
use crate::segment::Segment;
use crate::status::Status;

/// Most records of a transaction.
const BATCH: usize = 10_000;
/// Pause after a failure at first, and at most; it doubles in between.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Interval at which old rows are removed, and the most of them at a time.
const FORGET_EVERY: Duration = Duration::from_secs(60);
const FORGET_MOST: usize = 5_000;

/// Settings of a writer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Path of the database.
    pub database: PathBuf,
    /// Directory of the journal.
    pub journal: PathBuf,
    /// Age at which ended reservations are removed; `None` for never.
    pub retention: Option<Duration>,
}

/// Why a writer cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum WriterError {
    /// The database fails.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// The journal cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Writer of a journal's records into a database.
#[derive(Debug)]
pub struct Writer {
    settings: Settings,
    status: Arc<Status>,
    database: Option<Database>,
    pause: Duration,
    forgotten: Option<Instant>,
}

impl Writer {
    /// Creates a writer. The database is opened when there is something to write.
    pub fn new(settings: Settings) -> Writer {
        let status = Arc::default();
        Writer { settings, status, database: None, pause: FIRST_PAUSE, forgotten: None }
    }

    /// Returns the state that the writer keeps up to date.
    pub fn status(&self) -> Arc<Status> {
        self.status.clone()
    }

    /// Applies all records of the journal.
    ///
    /// # Errors
    /// The journal or the database fails; nothing is lost, and a later call goes on.
    pub fn apply(&mut self) -> Result<(), WriterError> {
        let done = self.apply_batches();
        self.status.failing.store(done.is_err(), Ordering::Relaxed);
        match &done {
            Ok(()) => self.pause = FIRST_PAUSE,
            // A file that was replaced or repaired meanwhile is opened again.
            Err(_) => self.database = None,
        }
        done
    }

    /// Returns how long to wait after a failure; longer each time.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = LONGEST_PAUSE.min(pause * 2);
        pause
    }

    fn apply_batches(&mut self) -> Result<(), WriterError> {
        if self.database.is_none() {
            self.database = Some(Database::open(&self.settings.database)?);
        }
        while self.apply_batch()? {}
        Ok(())
    }

    /// Applies the records of a transaction. Returns whether more may be left.
    fn apply_batch(&mut self) -> Result<bool, WriterError> {
        let Some(database) = &mut self.database else { return Ok(false) };
        let journal_failed = JournalError::io(&self.settings.journal);
        let journal_failed = &journal_failed;
        let known = |database: &Database, journal| database.position(journal).ok().flatten();
        let segments = Segment::open_from(&self.settings.journal, |journal| {
            known(database, journal).map(|position| (position.segment, position.offset))
        });
        let segments = segments.map_err(journal_failed)?;
        let Some((first, last)) = segments.first().zip(segments.last()) else { return Ok(false) };
        let (journal, last) = (first.journal(), last.number());
        self.status.oldest.store(first.number(), Ordering::Release);
        let position = database.position(journal)?;
        let begin = position.unwrap_or(Position { segment: first.number(), ..Position::default() });
        let (mut records, mut invalid, mut line) = (Vec::new(), 0, Vec::new());
        let (mut at, mut whole) = ((begin.segment, begin.offset), true);
        for mut segment in segments.into_iter().filter(|segment| segment.journal() == journal) {
            while records.len() < BATCH && segment.read_line(&mut line).map_err(journal_failed)? {
                match serde_json::from_slice::<Record>(&line) {
                    Ok(record) => records.push(record),
                    Err(_) => invalid += 1,
                }
            }
            at = (segment.number(), segment.offset());
            whole = records.len() < BATCH;
            if !whole {
                break;
            }
        }
        let many = records.len() as u64;
        if at != (begin.segment, begin.offset) || position.is_none() {
            let done = write(database, journal, begin, &records, at);
            done.map_err(|source| database.failed(source))?;
            self.status.applied.fetch_add(many, Ordering::Relaxed);
            self.status.invalid.fetch_add(invalid, Ordering::Relaxed);
            self.status.oldest.store(at.0, Ordering::Release);
        }
        Ok(!whole || at.0 < last)
    }

    /// Removes old rows now and then. `now_ms` is the time since 1970.
    ///
    /// # Errors
    /// The database fails.
    pub fn forget(&mut self, now_ms: i64) -> Result<(), WriterError> {
        let (Some(retention), Some(database)) = (self.settings.retention, &mut self.database)
        else {
            return Ok(());
        };
        if self.forgotten.is_some_and(|last| last.elapsed() < FORGET_EVERY) {
            return Ok(());
        }
        let age = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
        let has_more = database.forget_before(now_ms.saturating_sub(age), FORGET_MOST)?;
        self.forgotten = (!has_more).then(Instant::now);
        Ok(())
    }
}

fn write(
    database: &mut Database,
    journal: u64,
    begin: Position,
    records: &[Record],
    at: (u64, u64),
) -> rusqlite::Result<Position> {
    let transaction = database.begin()?;
    let mut applied = Applied::begin(&transaction, begin)?;
    for record in records {
        applied.apply(record)?;
    }
    let position = applied.finish(journal, at)?;
    transaction.commit()?;
    Ok(position)
}

//! The loop of an exporter: reads what has changed, delivers it, and notes that; goes on after every failure.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use earmark_control::command::with_cause;
use earmark_history::{Database, DatabaseError};
use postgres::Config;

use crate::ipfix::{Collector, Transport};
use crate::postgres::{Copy, CopyError};

/// About the most rows that are delivered at a time.
const BATCH: usize = 1_000;
/// Pause after a failure at first, and at most; it doubles in between.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest time until a signal is noticed.
const STEP: Duration = Duration::from_millis(100);

/// Why records were not delivered.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The database of the daemon cannot be read, or cannot be told what was delivered.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// PostgreSQL does not take them.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The collector does not take them.
    #[error("collector {to}: {source}")]
    Collector {
        /// Address of the collector.
        to: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Where records go.
#[derive(Clone, Debug)]
pub enum Target {
    /// A PostgreSQL database.
    Postgres(Box<Config>),
    /// A collector of IPFIX.
    Ipfix {
        /// Host and port.
        to: String,
        /// Transport.
        transport: Transport,
        /// Observation domain.
        domain: u32,
    },
}

/// An exporter.
#[derive(Debug)]
pub struct Exporter {
    /// Path of the daemon's database.
    pub database: PathBuf,
    /// Where records go.
    pub target: Target,
    /// Name under which the daemon's database notes what was delivered.
    pub name: String,
}

impl Exporter {
    /// Delivers what has changed since the last call. Returns the number of rows.
    ///
    /// # Errors
    /// Something fails; what was delivered before is noted.
    pub fn deliver(&self) -> Result<u64, ExportError> {
        let mut database = Database::open(&self.database)?;
        match &self.target {
            Target::Postgres(config) => {
                let mut copy = Copy::open(config, &database.source()?)?;
                let revision = copy.revision()?;
                self.deliver_with(&mut database, revision, |changes| Ok(copy.write(changes)?))
            }
            Target::Ipfix { to, transport, domain } => {
                let failed = |source| ExportError::Collector { to: to.clone(), source };
                let revision = database.exported(&self.name)?;
                let mut collector = None;
                self.deliver_with(&mut database, revision, |changes| {
                    let ended = changes.reservations.iter().filter(|row| row.ended_ms.is_some());
                    let ended: Vec<_> = ended.cloned().collect();
                    if ended.is_empty() {
                        return Ok(());
                    }
                    if collector.is_none() {
                        collector =
                            Some(Collector::connect(to, *transport, *domain).map_err(failed)?);
                    }
                    match &mut collector {
                        Some(collector) => collector.send(&ended).map_err(failed),
                        None => Ok(()),
                    }
                })
            }
        }
    }

    fn deliver_with(
        &self,
        database: &mut Database,
        mut revision: i64,
        mut deliver: impl FnMut(&earmark_history::export::Changes) -> Result<(), ExportError>,
    ) -> Result<u64, ExportError> {
        // Also if there is nothing yet: from now on nothing is removed before it was delivered.
        database.set_exported(&self.name, revision)?;
        let mut rows = 0;
        loop {
            let changes = database.changes_since(revision, BATCH)?;
            if changes.is_empty() {
                return Ok(rows);
            }
            deliver(&changes)?;
            revision = changes.revision;
            database.set_exported(&self.name, revision)?;
            rows += (changes.reservations.len() + changes.usage.len() + changes.gaps.len()) as u64;
        }
    }

    /// Delivers what changes, until `stop` is set. `say` gets each new failure, and `None` when things work again.
    pub fn run(&self, every: Duration, stop: &AtomicBool, mut say: impl FnMut(Option<&str>)) {
        let (mut failure, mut pause) = (None, FIRST_PAUSE);
        while !stop.load(Ordering::Relaxed) {
            match self.deliver() {
                Ok(_) => {
                    if failure.take().is_some() {
                        say(None);
                    }
                    pause = FIRST_PAUSE;
                    wait(every, stop);
                }
                Err(error) => {
                    let text = with_cause(&error);
                    if failure.as_ref() != Some(&text) {
                        say(Some(&text));
                    }
                    failure = Some(text);
                    wait(pause, stop);
                    pause = LONGEST_PAUSE.min(pause * 2);
                }
            }
        }
    }
}

/// Waits, at most until `stop` is set.
pub(crate) fn wait(span: Duration, stop: &AtomicBool) {
    let mut left = span;
    while !left.is_zero() && !stop.load(Ordering::Relaxed) {
        let step = left.min(STEP);
        std::thread::sleep(step);
        left -= step;
    }
}

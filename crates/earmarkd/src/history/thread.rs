//! The thread that applies the journal to the database.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use earmark_control::command::with_cause;
use earmark_history::{Settings, Status, Writer};
use earmark_linux::capabilities;
use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Gid, Mode, chmodat, chownat};
use tracing::{error, info};

use super::{Applied, HistorySettings};
use crate::log::kind;
use crate::syscall_filter::SyscallFilter;

/// Longest wait for records.
const IDLE: Duration = Duration::from_secs(5);
/// Time in which records gather for one transaction.
const GATHER: Duration = Duration::from_millis(100);
/// Time that the daemon waits at its end for the last records. What is left then stays in the journal.
const LAST: Duration = Duration::from_secs(5);
/// Who may read the database: its owner and the group.
const MODE: u32 = 0o640;

/// The writer on the side of the event loop.
pub(crate) struct WriterThread {
    status: Arc<Status>,
    stop: Arc<AtomicBool>,
    ended: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl WriterThread {
    /// Starts the thread, without privileges and with a filter for system calls. The group with this number may read the database.
    ///
    /// # Errors
    /// The system refuses the thread.
    pub(crate) fn start(
        settings: &HistorySettings,
        group: Option<u32>,
        filter: SyscallFilter,
    ) -> io::Result<WriterThread> {
        let mut writer = Writer::new(Settings {
            database: settings.database.clone(),
            journal: settings.journal.clone(),
            retention: settings.retention,
        });
        let status = writer.status();
        let stop = Arc::new(AtomicBool::new(false));
        let (ending, ended) = mpsc::channel();
        let (ready, is_ready) = mpsc::channel();
        let (must_stop, database) = (stop.clone(), settings.database.clone());
        let run = move || {
            let prepared = capabilities::drop_all().and_then(|()| filter.apply_with_files());
            let is_prepared = prepared.is_ok();
            let _ = ready.send(prepared);
            if is_prepared {
                serve(&mut writer, &database, group, &must_stop);
            }
            drop(ending);
        };
        let thread = thread::Builder::new().name("earmark-history".into()).spawn(run)?;
        is_ready.recv().map_err(io::Error::other)??;
        Ok(WriterThread { status, stop, ended, thread })
    }

    /// Returns how far the journal is applied.
    pub(crate) fn applied(&self) -> Applied {
        Applied { status: self.status.clone(), thread: Some(self.thread.thread().clone()) }
    }

    /// Ends the thread once everything is applied, or after a while: a disk that hangs does not keep the daemon.
    pub(crate) fn stop(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        // The channel ends with the thread.
        if self.ended.recv_timeout(LAST) == Err(mpsc::RecvTimeoutError::Disconnected) {
            let _ = self.thread.join();
        }
    }
}

fn serve(writer: &mut Writer, database: &Path, group: Option<u32>, must_stop: &AtomicBool) {
    let (mut failure, mut said_unshared) = (None, false);
    loop {
        let stops = must_stop.load(Ordering::Acquire);
        let now_ms = Timestamp::now().as_millisecond();
        let done = writer.apply().and_then(|()| writer.forget(now_ms));
        if done.is_ok()
            && let Some(error) = share(database, group).err()
            && !said_unshared
        {
            error!(
                kind = kind::HISTORY_FAILING.name,
                "others cannot read {}: {error}",
                database.display()
            );
            said_unshared = true;
        }
        let pause = match done {
            Ok(()) => {
                if failure.take().is_some() {
                    info!(
                        kind = kind::HISTORY_RESTORED.name,
                        "accounting records are written again"
                    );
                }
                IDLE
            }
            Err(error) => {
                let text = with_cause(&error);
                if failure.as_ref() != Some(&text) {
                    error!(
                        kind = kind::HISTORY_FAILING.name,
                        "accounting records wait in the journal: {text}"
                    );
                }
                failure = Some(text);
                writer.pause()
            }
        };
        if stops {
            return;
        }
        match failure.is_some() {
            // New records wake nobody as long as they cannot be written.
            true => wait(pause, must_stop),
            false => {
                thread::park_timeout(pause);
                if !must_stop.load(Ordering::Acquire) {
                    thread::sleep(GATHER);
                }
            }
        }
    }
}

/// Lets a group read the database, and the files beside it, which SQLite creates whenever the database is opened.
fn share(database: &Path, group: Option<u32>) -> io::Result<()> {
    // By the calls that the filter allows on every architecture.
    for suffix in ["", "-wal", "-shm"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        let found = match std::fs::metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        if let Some(group) = group.filter(|group| *group != found.gid()) {
            chownat(CWD, &path, None, Some(Gid::from_raw(group)), AtFlags::empty())?;
        }
        if found.mode() & 0o777 != MODE {
            chmodat(CWD, &path, Mode::from_raw_mode(MODE), AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Waits, but not for long once the thread must stop.
fn wait(pause: Duration, must_stop: &AtomicBool) {
    let mut left = pause;
    while !left.is_zero() && !must_stop.load(Ordering::Acquire) {
        let step = left.min(GATHER);
        thread::sleep(step);
        left -= step;
    }
}

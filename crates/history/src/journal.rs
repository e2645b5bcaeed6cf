//! The journal: records in the order in which they were made, in files that survive the daemon, until a database has them.
//!
//! The directory lies in a file system in memory, so that appending never waits for a disk; a killed daemon loses nothing that it has
//! appended, a host that loses power loses what no database has yet. A file of the journal, a segment, has a first line with the
//! identity of the journal and its own number, and then one record a line, as JSON. A line without an end was cut off and does not
//! count.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::record::Record;

/// Length at which a segment is complete, octets.
const SEGMENT: u64 = 1 << 20;
/// Smallest bound of a journal, octets.
pub const LEAST_BOUND: u64 = 4 * SEGMENT;
/// Longest line, octets; a record with the most senders has less.
pub(crate) const LONGEST_LINE: u64 = 1 << 20;
/// End of the names of segments.
const SUFFIX: &str = ".journal";
/// File that is locked by whoever appends.
const LOCK: &str = "lock";

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another daemon appends to it.
    #[error("{} is in use by another daemon; name another directory", .0.display())]
    InUse(PathBuf),
    /// The system refuses an operation.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl JournalError {
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> JournalError {
        move |source| JournalError::Io { path: path.to_owned(), source }
    }
}

/// First line of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) journal: u64,
    pub(crate) segment: u64,
}

/// Whether records were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Append {
    /// The records are in the journal.
    Done,
    /// The journal is full, or the system refuses to write.
    Full,
}

/// The end of a journal to which the daemon appends.
#[derive(Debug)]
pub struct Journal {
    directory: PathBuf,
    header: Header,
    file: File,
    length: u64,
    /// Most segments at a time.
    most: u64,
    /// Number of the oldest segment when the journal was opened.
    first: u64,
    /// Held as long as the journal is in use.
    _lock: File,
}

impl Journal {
    /// Opens the journal in a directory, which is created if it is missing, and begins a segment. `bound` is the largest length of all
    /// segments together in octets, at least [`LEAST_BOUND`].
    ///
    /// # Errors
    /// The directory cannot be used, or another daemon uses it.
    pub fn open(directory: &Path, bound: u64) -> Result<Journal, JournalError> {
        let failed = JournalError::io(directory);
        fs::DirBuilder::new().recursive(true).mode(0o750).create(directory).map_err(failed)?;
        let path = directory.join(LOCK);
        let create =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let lock = create.map_err(JournalError::io(&path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(JournalError::InUse(directory.to_owned()));
            }
            Err(TryLockError::Error(error)) => return Err(JournalError::io(&path)(error)),
        }
        let (mut first, mut last) = (None, None);
        for path in segments(directory).map_err(JournalError::io(directory))? {
            match open_segment(&path).map_err(JournalError::io(&path))? {
                Some(segment) => {
                    first.get_or_insert(segment.header.segment);
                    last = Some(segment);
                }
                // Its daemon was killed as it began it.
                None => fs::remove_file(&path).map_err(JournalError::io(&path))?,
            }
        }
        let header = match last {
            Some(last) => Header { segment: last.header.segment + 1, ..last.header },
            None => Header { journal: random(), segment: 0 },
        };
        let (file, length) = begin(directory, header).map_err(JournalError::io(directory))?;
        let most = bound.max(LEAST_BOUND) / SEGMENT;
        let first = first.unwrap_or(header.segment);
        let directory = directory.to_owned();
        Ok(Journal { directory, header, file, length, most, first, _lock: lock })
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the paths of the directory and of its files.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn paths(&self) -> Result<Vec<PathBuf>, JournalError> {
        let mut paths = segments(&self.directory).map_err(JournalError::io(&self.directory))?;
        paths.extend([self.directory.join(LOCK), self.directory.clone()]);
        Ok(paths)
    }

    /// Appends lines, each a record with a line end, whole or not at all. `oldest` is the number of the oldest segment that is not
    /// applied yet, as [`crate::Status::oldest_segment`] says.
    pub fn append(&mut self, lines: &[u8], oldest: u64) -> Append {
        if self.length >= SEGMENT && self.next_segment(oldest).is_err() {
            return Append::Full;
        }
        match (&self.file).write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Append::Done
            }
            Err(_) => {
                // What was written of them is removed, or else stays a line without an end, which the next append would continue.
                if self.file.set_len(self.length).is_err() {
                    self.length = SEGMENT;
                }
                Append::Full
            }
        }
    }

    fn next_segment(&mut self, oldest: u64) -> io::Result<()> {
        let next = Header { segment: self.header.segment + 1, ..self.header };
        if next.segment - oldest.clamp(self.first, next.segment) >= self.most {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        (self.file, self.length) = begin(&self.directory, next)?;
        self.header = next;
        Ok(())
    }

    /// Returns the number of the current segment.
    pub fn segment(&self) -> u64 {
        self.header.segment
    }
}

/// Appends a record and a line end to `lines`.
pub(crate) fn add_line(lines: &mut Vec<u8>, record: &Record) {
    let before = lines.len();
    match serde_json::to_writer(&mut *lines, record) {
        Ok(()) => lines.push(b'\n'),
        // Cannot happen: records have only members that JSON has.
        Err(_) => lines.truncate(before),
    }
}

impl Record {
    /// Appends this record to lines for [`Journal::append`].
    pub fn add_to(&self, lines: &mut Vec<u8>) {
        add_line(lines, self);
    }
}

fn begin(directory: &Path, header: Header) -> io::Result<(File, u64)> {
    let path = directory.join(name(header.segment));
    let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
    let mut line = serde_json::to_vec(&header)?;
    line.push(b'\n');
    if let Err(error) = file.write_all(&line) {
        let _ = fs::remove_file(&path);
        return Err(error);
    }
    Ok((file, line.len() as u64))
}

fn name(segment: u64) -> String {
    format!("{segment:020}{SUFFIX}")
}

/// Returns a number that no other journal has.
fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The keys of the hash are random. A database stores numbers with a sign.
    RandomState::new().hash_one(std::process::id()) >> 1
}

/// Returns the paths of the segments of a directory, oldest first.
pub(crate) fn segments(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_segment = path.file_name().is_some_and(|name| {
            name.to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse::<u64>().ok()).is_some()
        });
        if is_segment {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Opens a segment behind its first line. `None` if that line is not that of a segment, because its daemon was killed as it began it.
pub(crate) fn open_segment(path: &Path) -> io::Result<Option<OpenSegment>> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut line = Vec::new();
    reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
    let header = serde_json::from_slice(&line).ok();
    Ok(header.map(|header| OpenSegment { header, reader, offset: line.len() as u64 }))
}

/// A segment behind its first line.
pub(crate) struct OpenSegment {
    pub(crate) header: Header,
    /// What follows.
    #[cfg_attr(not(feature = "database"), allow(dead_code))]
    pub(crate) reader: BufReader<File>,
    /// Length of the first line, octets.
    #[cfg_attr(not(feature = "database"), allow(dead_code))]
    pub(crate) offset: u64,
}

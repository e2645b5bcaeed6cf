//! Segments of a journal, as their reader sees them.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::journal::{Header, LONGEST_LINE, OpenSegment, open_segment, segments};

/// A segment that is read.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
    header: Header,
    reader: BufReader<File>,
    /// Octets read up to the end of the last whole line.
    offset: u64,
}

impl Segment {
    /// Opens the segments of a directory, oldest first, from this one of this journal on, and there from this offset on. Removes those
    /// before it.
    pub(crate) fn open_from(
        directory: &Path,
        applied: impl Fn(u64) -> Option<(u64, u64)>,
    ) -> io::Result<Vec<Segment>> {
        let mut opened = Vec::new();
        for path in segments(directory)? {
            let found = match open_segment(&path) {
                Ok(found) => found,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let Some(OpenSegment { header, reader, offset }) = found else { continue };
            let mut segment = Segment { path, header, reader, offset };
            if let Some((number, offset)) = applied(segment.header.journal) {
                if segment.header.segment < number {
                    segment.remove()?;
                    continue;
                }
                if segment.header.segment == number {
                    segment.skip_to(offset)?;
                }
            }
            opened.push(segment);
        }
        Ok(opened)
    }

    pub(crate) fn journal(&self) -> u64 {
        self.header.journal
    }

    pub(crate) fn number(&self) -> u64 {
        self.header.segment
    }

    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    fn skip_to(&mut self, offset: u64) -> io::Result<()> {
        if offset > self.offset {
            self.reader.seek(SeekFrom::Start(offset))?;
            self.offset = offset;
        }
        Ok(())
    }

    /// Reads the next whole line into `line`. Returns `false` if there is none yet.
    pub(crate) fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
        if line.last() != Some(&b'\n') {
            self.reader.seek(SeekFrom::Start(self.offset))?;
            return Ok(false);
        }
        self.offset += line.len() as u64;
        Ok(true)
    }

    /// Removes the file.
    pub(crate) fn remove(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

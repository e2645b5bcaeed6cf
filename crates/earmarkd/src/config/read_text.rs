//! Reads a file as text: a bounded one, without waiting, and at once although a program may write it meanwhile.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use super::{ConfigError, Place};

/// Most attempts to read a file that changes meanwhile.
const ATTEMPTS: usize = 3;

/// Files that may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadFrom {
    /// Any file; a pipe is waited for.
    Anything,
    /// Regular files only, so that nothing is waited for.
    RegularFile,
}

/// Reads a file as text, together with its metadata. There is no text if it has more octets than `most`.
pub(super) fn read_text(
    path: &Path,
    from: ReadFrom,
    most: usize,
) -> Result<(Option<String>, Metadata), ConfigError> {
    unchanged(path, || {
        let read = || -> io::Result<(Option<String>, Metadata)> {
            let mut options = File::options();
            options.read(true);
            if from == ReadFrom::RegularFile {
                options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
            }
            let file = options.open(path)?;
            let metadata = file.metadata()?;
            if metadata.is_dir() {
                return Err(rustix::io::Errno::ISDIR.into());
            }
            if from == ReadFrom::RegularFile && !metadata.is_file() {
                return Err(io::Error::other("it is not a regular file"));
            }
            let most = u64::try_from(most).unwrap_or(u64::MAX);
            let text = io::read_to_string(file.take(most.saturating_add(1)));
            Ok((Some(text?).filter(|text| text.len() as u64 <= most), metadata))
        };
        read().map_err(|error| ConfigError::unreadable(path, &error))
    })
}

/// Calls `read`, which reads the file, again if the file has changed meanwhile.
pub(super) fn unchanged<T>(
    path: &Path,
    mut read: impl FnMut() -> Result<T, ConfigError>,
) -> Result<T, ConfigError> {
    for _ in 0..ATTEMPTS {
        let before = state(path);
        let read = read();
        if before == state(path) {
            return read;
        }
    }
    let message = format!("{} changed while it was read", path.display());
    let hint = format!(
        "write a new file beside it and rename that to {}, so that it changes at once",
        path.display()
    );
    Err(ConfigError::at(Place { file: path.to_owned(), ..Place::default() }, message, hint))
}

/// What changes whenever a regular file is written or replaced; `None` for other files, and for those that are out of reach.
fn state(path: &Path) -> Option<[i64; 6]> {
    let file = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
    let (inode, size) = (file.ino().cast_signed(), file.size().cast_signed());
    Some([inode, size, file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()])
}

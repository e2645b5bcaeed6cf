//! The earlier configuration on disk, while a later one awaits confirmation and after it was taken back.
//!
//! The file exists before the later configuration is applied and is replaced as a whole, so that a daemon that is killed at any
//! moment, even with its host, is followed by one with confirmed settings.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, Files, Place, read_own};

/// Permissions of the file: the texts may have secrets.
const MODE: u32 = 0o600;

/// What the file contains.
#[derive(Serialize, Deserialize)]
pub(super) struct Rollback {
    /// Texts of the configuration that was confirmed last.
    pub(super) earlier: Files,
    pub(super) state: RollbackState,
}

/// State of the configuration in the files of the operator.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RollbackState {
    /// A later configuration is applied and not confirmed.
    Pending,
    /// The later configuration was taken back when the files had these texts, which are not used; `None` if they could not be read.
    TakenBack(Option<Files>),
}

/// The path of the file.
#[derive(Clone, Debug)]
pub(super) struct RollbackFile {
    directory: PathBuf,
    path: PathBuf,
}

impl RollbackFile {
    /// Returns the file for a configuration in a directory that the daemons of several configurations may share.
    pub(super) fn new(directory: &Path, config: &Path) -> io::Result<RollbackFile> {
        let mut name = OsString::new();
        for &octet in std::path::absolute(config)?.as_os_str().as_bytes() {
            match octet.is_ascii_alphanumeric() || b"._-".contains(&octet) {
                true => name.push(char::from(octet).to_string()),
                false => name.push(format!("%{octet:02X}")),
            }
        }
        name.push(".rollback");
        Ok(RollbackFile { directory: directory.to_owned(), path: directory.join(name) })
    }

    /// Reads the file; `None` if there is none.
    ///
    /// # Errors
    /// The file has another owner, others may use it, or it has no such contents.
    pub(super) fn read(&self) -> Result<Option<Rollback>, ConfigError> {
        match std::fs::metadata(&self.path) {
            // What this user may not read, or cannot name, it has not written.
            Err(error) if is_absence(&error) => return Ok(None),
            _ => {}
        }
        let text = read_own(&self.path)?;
        serde_json::from_str(&text).map(Some).map_err(|error| {
            let place = Place { file: self.path.clone(), ..Place::default() };
            let message = format!("no earlier configuration of a daemon: {error}");
            ConfigError::at(place, message, "remove it to start with the present configuration")
        })
    }

    /// Writes the file, and returns once it is on disk.
    pub(super) fn write(&self, rollback: &Rollback) -> io::Result<()> {
        let text = serde_json::to_vec(rollback).map_err(io::Error::other)?;
        let new = self.path.with_extension("new");
        // A daemon that was killed may have left one.
        match std::fs::remove_file(&new) {
            Err(error) if !is_absence(&error) => return Err(error),
            _ => {}
        }
        // A new file has its mode from the beginning: the filter of system calls lets no mode be changed.
        let mut file = File::options().write(true).create_new(true).mode(MODE).open(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&new, &self.path)?;
        self.sync_directory()
    }

    /// Removes the file, if there is one, and returns once that is on disk.
    pub(super) fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Ok(()) => self.sync_directory(),
            Err(error) if is_absence(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        File::open(&self.directory)?.sync_all()
    }
}

fn is_absence(error: &io::Error) -> bool {
    let kinds = [ErrorKind::NotFound, ErrorKind::PermissionDenied, ErrorKind::InvalidFilename];
    kinds.contains(&error.kind())
}

//! Reads the files of a configuration: a main file, the files that it includes, and its drop-ins.
//!
//! The order is that in which later files override earlier ones: a file comes after what it includes, and the drop-ins come
//! last, by name. `merge` combines their tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::DeValue;

use super::files::{FileText, Files};
use super::read_text::{ReadFrom, read_text};
use super::source::Source;
use super::table::{INCLUDE, Table};
use super::{ConfigError, Place};

/// Most files of a configuration.
pub(super) const MAX_FILES: usize = 256;
/// Most files of a chain in which each includes the next.
pub(super) const MAX_DEPTH: usize = 8;
/// Most octets of all files together.
pub(super) const MAX_OCTETS: usize = 16 << 20;

const TOO_LARGE: &str = "is this the right file? 16 MiB in all files are possible";

/// Reads a file, the files that it includes, and its drop-ins, with their metadata.
pub(super) fn read_files(path: &Path) -> Result<(Files, Vec<Metadata>), ConfigError> {
    let mut reader = Reader::default();
    reader.read(path, None, ReadFrom::Anything)?;
    for drop_in in drop_ins(path)? {
        reader.read(&drop_in, None, ReadFrom::RegularFile)?;
    }
    Ok((Files { files: reader.files }, reader.metadata))
}

/// Returns the directory of the drop-ins of a configuration file: its path with `.d` behind it.
pub fn drop_in_directory(file: &Path) -> PathBuf {
    let mut path = OsString::from(file);
    path.push(".d");
    path.into()
}

/// Returns the drop-ins of a configuration file by name: the files `*.toml` of its directory that are not hidden.
fn drop_ins(file: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let directory = drop_in_directory(file);
    let unreadable = |error: &io::Error| {
        let place = Place { file: directory.clone(), ..Place::default() };
        let message = format!("cannot read the directory of drop-ins: {error}");
        ConfigError::at(place, message, "it has files *.toml that override the configuration")
    };
    let entries = match std::fs::read_dir(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| unreadable(&error))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| unreadable(&error))?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if is_hidden || path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        if found.len() == MAX_FILES {
            return Err(too_many(Place { file: directory, ..Place::default() }));
        }
        found.push(path);
    }
    found.sort_unstable();
    Ok(found)
}

fn too_many(place: Place) -> ConfigError {
    let message = format!("the configuration has more than {MAX_FILES} files");
    ConfigError::at(place, message, "write the settings of several files into one")
}

/// State while the files of a configuration are read.
#[derive(Default)]
struct Reader {
    files: Vec<FileText>,
    metadata: Vec<Metadata>,
    /// Files that have been read or are being read, by device and inode, with how they were named.
    known: BTreeMap<(u64, u64), PathBuf>,
    /// Files of which each includes the next.
    chain: Vec<((u64, u64), PathBuf)>,
    octets: usize,
}

impl Reader {
    /// Reads a file that is included at a place, and first the files that it includes itself.
    fn read(
        &mut self,
        path: &Path,
        place: Option<Place>,
        from: ReadFrom,
    ) -> Result<(), ConfigError> {
        let refused = |message: String, hint: &str| {
            let own = Place { file: path.to_owned(), ..Place::default() };
            Err(ConfigError::at(place.clone().unwrap_or(own), message, hint))
        };
        if self.chain.len() == MAX_DEPTH {
            let message = format!("files include each other {MAX_DEPTH} levels deep");
            return refused(message, "include the files from the main file");
        }
        if self.files.len() + self.chain.len() == MAX_FILES {
            return Err(too_many(place.unwrap_or_default()));
        }
        let (text, metadata) = match (read_text(path, from, MAX_OCTETS - self.octets), &place) {
            (Err(error), Some(place)) => {
                let message = format!("{}: {}", path.display(), error.message);
                return Err(ConfigError::at(place.clone(), message, error.hint));
            }
            (read, _) => read?,
        };
        let Some(text) = text else {
            return refused(format!("{} is too large", path.display()), TOO_LARGE);
        };
        self.octets += text.len();
        // Two pipes are no circle.
        let id = (metadata.dev(), metadata.ino());
        if metadata.is_file() {
            if let Some(begin) = self.chain.iter().position(|(known, _)| *known == id) {
                let chain = self.chain[begin..].iter().map(|(_, path)| path.as_path());
                let names: Vec<String> =
                    chain.chain([path]).map(|path| path.display().to_string()).collect();
                let message = format!("circular include: {}", names.join(" includes "));
                return refused(message, "remove one of these includes");
            }
            if let Some(known) = self.known.insert(id, path.to_owned()) {
                let message = format!("{} is part of the configuration already", known.display());
                return refused(message, "remove one of the two: each file is read once");
            }
        }
        self.chain.push((id, path.to_owned()));
        for (place, included) in includes(&text, path)? {
            self.read(&included, Some(place), ReadFrom::RegularFile)?;
        }
        self.chain.pop();
        self.files.push(FileText { path: path.to_owned(), text });
        self.metadata.push(metadata);
        Ok(())
    }
}

/// Returns the files that a file includes, each with the place that names it. Relative paths begin at the directory of the file.
fn includes(text: &str, path: &Path) -> Result<Vec<(Place, PathBuf)>, ConfigError> {
    const HINT: &str = "include = [\"common.toml\"]: paths of files, relative to this one";
    let source = Source::new(text, path);
    let mut table = Table::parse(text, &source)?;
    let Some(value) = table.take(INCLUDE) else { return Ok(Vec::new()) };
    let error = |span, message: &str| Err(source.error(span, message, HINT));
    let span = value.span();
    let DeValue::Array(names) = value.into_inner() else {
        return error(span, "a list of files is expected");
    };
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut included = Vec::with_capacity(names.len());
    for name in names {
        let span = name.span();
        match name.into_inner() {
            DeValue::String(name) if !name.is_empty() && !name.contains('\0') => {
                included.push((source.place(span), directory.join(&*name)));
            }
            DeValue::String(_) => return error(span, "a path is empty or contains a NUL"),
            _ => return error(span, "a list of paths is expected"),
        }
    }
    Ok(included)
}

/// Returns the error about an `include` in a configuration that is no file.
pub(super) fn cannot_include(value: &Spanned<DeValue<'_>>, source: &Source<'_>) -> ConfigError {
    let hint = "write the settings of the included files instead";
    source.error(
        value.span(),
        "only a configuration that is read from a file includes others",
        hint,
    )
}

#[cfg(test)]
#[path = "read_files_tests.rs"]
mod tests;

//! The texts of the files of a configuration.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Texts of the files of a configuration; later ones override earlier ones.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Files {
    pub(super) files: Vec<FileText>,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileText {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

// The texts may have secrets.
impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.paths()).finish()
    }
}

impl Files {
    /// Returns the paths of the files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Returns all texts, one after the other and each with a line break behind it, and the path and the begin of each.
    pub(super) fn joined(&self) -> (String, Vec<(usize, &Path)>) {
        let mut all =
            String::with_capacity(self.files.iter().map(|file| file.text.len() + 1).sum());
        let mut parts = Vec::with_capacity(self.files.len());
        for FileText { path, text } in &self.files {
            parts.push((all.len(), path.as_path()));
            all.push_str(text);
            all.push('\n');
        }
        (all, parts)
    }
}

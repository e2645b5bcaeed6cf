//! Stored sections of completed parts, with which an interrupted report continues.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::section::Section;

/// A stored section, with the conditions of its measurement.
#[derive(Serialize, Deserialize)]
struct StoredSection {
    /// Whether the report was a quick one.
    quick: bool,
    /// Whether the measurement ran as root.
    privileged: bool,
    /// Machine of the measurement.
    environment: Environment,
    section: Section,
}

/// Directory of stored sections.
pub struct Store {
    directory: PathBuf,
    quick: bool,
    privileged: bool,
    environment: Environment,
}

impl Store {
    /// Opens the store in a report's directory, for parts that are measured under these conditions.
    ///
    /// # Errors
    /// The directory cannot be created.
    /// The directory cannot be created.
    pub fn open(
        report: &Path,
        quick: bool,
        privileged: bool,
        environment: &Environment,
    ) -> Result<Store> {
        let directory = report.join("parts");
        fs::create_dir_all(&directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Store { directory, quick, privileged, environment: environment.clone() })
    }

    /// Returns the stored section of a part that was measured on this machine under the same conditions.
    ///
    /// # Errors
    /// The file cannot be read. A file of another version, or a truncated one, counts as missing.
    pub fn load(&self, part: &str) -> Result<Option<Section>> {
        let file = self.file(part);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", file.display()));
            }
        };
        let done: Option<StoredSection> = serde_json::from_str(&text).ok();
        let fits = |done: &StoredSection| {
            (done.quick, done.privileged) == (self.quick, self.privileged)
                && done.environment.is_same_machine(&self.environment)
        };
        Ok(done.filter(fits).map(|done| done.section))
    }

    /// Stores the section of a part.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, part: &str, section: &Section) -> Result<()> {
        let Store { quick, privileged, .. } = *self;
        let (environment, section) = (self.environment.clone(), section.clone());
        let done = StoredSection { quick, privileged, environment, section };
        let (file, half) = (self.file(part), self.directory.join(format!("{part}.half")));
        // The rename is atomic: an interrupt here leaves the former file, or none.
        fs::write(&half, serde_json::to_string(&done)?)
            .and_then(|()| fs::rename(&half, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }

    /// Removes the stored section of a part, so that it is measured again.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn forget(&self, part: &str) -> Result<()> {
        match fs::remove_file(self.file(part)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", self.file(part).display()))
            }
            _ => Ok(()),
        }
    }

    fn file(&self, part: &str) -> PathBuf {
        self.directory.join(format!("{part}.json"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_parts_are_loaded_under_equal_conditions() {
        let report = std::env::temp_dir().join(format!("earmark-store-{}", std::process::id()));
        let here = Environment { processor: "this".to_owned(), ..Environment::default() };
        let there = Environment { processor: "that".to_owned(), ..Environment::default() };
        let mut section = Section::default();
        section.text("done");
        let store = Store::open(&report, true, false, &here).unwrap();
        assert_eq!(store.load("some").unwrap(), None);
        store.save("some", &section).unwrap();
        assert_eq!(store.load("some").unwrap(), Some(section));
        for (quick, privileged, environment) in
            [(false, false, &here), (true, true, &here), (true, false, &there)]
        {
            let other = Store::open(&report, quick, privileged, environment).unwrap();
            assert_eq!(other.load("some").unwrap(), None);
        }
        fs::write(store.file("some"), "{\"quick\":true").unwrap();
        assert_eq!(store.load("some").unwrap(), None, "half a file");
        store.forget("some").unwrap();
        store.forget("some").unwrap();
        fs::remove_dir_all(report).unwrap();
    }
}

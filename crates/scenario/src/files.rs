//! Scenario and topology files: a scenario names its topology by a relative path.

use std::io;
use std::path::{Path, PathBuf};

use crate::error::ScenarioError;
use crate::overrides::Override;
use crate::scenario::Scenario;
use crate::topology::{ChoiceError, Topology};

/// Reason why a scenario could not be loaded, with the file and the position.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file does not exist, or is not text.
    #[error("cannot read {}: {why}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: io::Error,
    },
    /// The scenario is invalid.
    #[error("{}: {why}", file.display())]
    Scenario {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: ScenarioError,
    },
    /// The topology is invalid.
    #[error("{}: topology: {why}", file.display())]
    Topology {
        /// The file.
        file: PathBuf,
        /// The reason.
        why: ChoiceError,
    },
}

/// Loads a scenario, with overrides, and its topology.
///
/// # Errors
/// [`LoadError`], at the first error.
pub fn load(file: &Path, overrides: &[Override]) -> Result<(Scenario, Topology), LoadError> {
    load_text(&read(file)?, file, overrides)
}

/// Loads a scenario from its text, as if it were in `file`: this name is used in errors, and the topology is searched
/// for beside it.
///
/// # Errors
/// [`LoadError`], at the first error.
pub fn load_text(
    text: &str,
    file: &Path,
    overrides: &[Override],
) -> Result<(Scenario, Topology), LoadError> {
    let invalid = |why| LoadError::Scenario { file: file.to_owned(), why };
    let mut scenario = Scenario::parse_with(text, overrides).map_err(invalid)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| std::fs::read_to_string(folder.join(name));
    if let Some(processing) = &mut scenario.processing {
        processing.load(beside).map_err(invalid)?;
    }
    let topology = scenario
        .topology
        .build(beside)
        .map_err(|why| LoadError::Topology { file: file.to_owned(), why })?;
    Ok((scenario, topology))
}

fn read(file: &Path) -> Result<String, LoadError> {
    std::fs::read_to_string(file)
        .map_err(|why| LoadError::Unreadable { file: file.to_owned(), why })
}

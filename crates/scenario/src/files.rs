//! Scenarios and topologies as files: a scenario names its topology, which lies beside it.

use std::io;
use std::path::{Path, PathBuf};

use crate::overrides::Override;
use crate::scenario::{Scenario, ScenarioError};
use crate::topology::{ChoiceError, Topology};

/// Why a scenario cannot be had. Each says in which file, and where in it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No such file, or no text.
    #[error("cannot read {}: {why}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It is no scenario.
    #[error("{}: {why}", file.display())]
    Scenario {
        /// Which file.
        file: PathBuf,
        /// Why.
        why: ScenarioError,
    },
    /// What it says of its topology gives none.
    #[error("{}: topology: {why}", file.display())]
    Topology {
        /// Which file.
        file: PathBuf,
        /// Why.
        why: ChoiceError,
    },
}

/// Reads a scenario, with other values where some are set, and its topology.
///
/// # Errors
/// [`LoadError`], at the first thing that is wrong.
pub fn load(file: &Path, overrides: &[Override]) -> Result<(Scenario, Topology), LoadError> {
    load_text(&read(file)?, file, overrides)
}

/// The same where the text of the scenario is at hand, as if it stood in `file`: it is named in errors, and beside it the topology is
/// sought.
///
/// # Errors
/// [`LoadError`], at the first thing that is wrong.
pub fn load_text(
    text: &str,
    file: &Path,
    overrides: &[Override],
) -> Result<(Scenario, Topology), LoadError> {
    let scenario = Scenario::parse_with(text, overrides)
        .map_err(|why| LoadError::Scenario { file: file.to_owned(), why })?;
    let folder = file.parent().unwrap_or(Path::new(""));
    let beside = |name: &str| std::fs::read_to_string(folder.join(name));
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

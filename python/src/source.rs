//! Scenarios and topologies, from files, text or Python values.

use std::path::{Path, PathBuf};

use earmark_scenario::topology::Topology;
use earmark_scenario::{LoadError, Override, Scenario, load, load_text};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use toml::Value;

use crate::errors::{ScenarioError, of_load};
use crate::value::{read_overrides, read_value};

/// Name in errors of a scenario given as text or as a dict; its topology is relative to the working directory.
const TEXT: &str = "<scenario>";
/// Name in errors of a topology given as a dict.
const TOPOLOGY: &str = "<topology>";

/// A scenario that is not read so far, with its overrides.
pub(crate) struct Source {
    scenario: Given,
    /// Text of the topology file that replaces the scenario's topology.
    topology: Option<String>,
    overrides: Vec<Override>,
}

enum Given {
    File(PathBuf),
    Text(String),
}

impl Source {
    /// Reads the arguments of a run: a path, a text or a dict; a topology file as a dict, or `None`; and overrides.
    pub(crate) fn from_python(
        scenario: &Bound<'_, PyAny>,
        topology: Option<&Bound<'_, PyAny>>,
        overrides: &Bound<'_, PyDict>,
    ) -> PyResult<Source> {
        let topology = topology.map(|topology| text_of("topology", topology)).transpose()?;
        let mut read = Vec::new();
        if topology.is_some() {
            let value = Value::String(TOPOLOGY.to_owned());
            read.push(Override { key: "topology".to_owned(), value });
        }
        read.extend(read_overrides(overrides)?);
        Ok(Source { scenario: Given::from_python(scenario)?, topology, overrides: read })
    }

    /// Loads the scenario and its topology.
    pub(crate) fn load(&self) -> PyResult<(Scenario, Topology)> {
        let (text, file) = match (&self.scenario, &self.topology) {
            (Given::File(file), None) => return load(file, &self.overrides).map_err(of_load),
            (Given::Text(text), None) => {
                return load_text(text, Path::new(TEXT), &self.overrides).map_err(of_load);
            }
            (Given::Text(text), Some(_)) => (text.clone(), PathBuf::from(TEXT)),
            (Given::File(file), Some(_)) => {
                let unreadable = |why| of_load(LoadError::Unreadable { file: file.clone(), why });
                (std::fs::read_to_string(file).map_err(unreadable)?, file.clone())
            }
        };
        let scenario = Scenario::parse_with(&text, &self.overrides)
            .map_err(|why| of_load(LoadError::Scenario { file: file.clone(), why }))?;
        // An override may name another topology after all.
        let folder = file.parent().unwrap_or(Path::new(""));
        let read = |name: &str| match &self.topology {
            Some(given) if name == TOPOLOGY => Ok(given.clone()),
            _ => std::fs::read_to_string(folder.join(name)),
        };
        let topology = scenario
            .topology
            .build(read)
            .map_err(|why| of_load(LoadError::Topology { file: file.clone(), why }))?;
        Ok((scenario, topology))
    }

    /// Returns an error of the scenario.
    pub(crate) fn error(&self, why: &dyn std::fmt::Display) -> PyErr {
        let name = match &self.scenario {
            Given::File(file) => file.display().to_string(),
            Given::Text(_) => TEXT.to_owned(),
        };
        ScenarioError::new_err(format!("{name}: {why}"))
    }
}

impl Given {
    /// Classifies a string with a line break as text, because no meaningful path has one.
    fn from_python(scenario: &Bound<'_, PyAny>) -> PyResult<Given> {
        if scenario.cast::<PyDict>().is_ok() {
            return text_of("", scenario).map(Given::Text);
        }
        if let Ok(text) = scenario.cast::<PyString>()
            && let text = text.to_str()?
            && text.contains('\n')
        {
            return Ok(Given::Text(text.to_owned()));
        }
        scenario.extract().map(Given::File)
    }
}

/// Returns the TOML of a dict.
fn text_of(key: &str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    let value = read_value(key, value)?;
    toml::to_string(&value).map_err(|why| PyValueError::new_err(format!("`{key}`: {why}")))
}

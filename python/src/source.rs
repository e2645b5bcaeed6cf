//! Scenarios and topologies, from files, text or Python values.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use earmark_scenario::topology::Topology;
use earmark_scenario::{LoadError, Override, Scenario};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::errors::{ScenarioError, of_load};
use crate::value::{read_overrides, read_value};

/// Name in errors of a scenario given as text or as a dict; its topology is relative to the working directory.
const TEXT: &str = "<scenario>";

/// A scenario that is not read so far, with its overrides.
pub(crate) struct Source {
    scenario: Given,
    /// Texts that replace files, by the names that the call and the scenario have for these.
    /// The caller chooses the names; a standard map resists chosen keys.
    files: HashMap<String, String>,
    overrides: Vec<Override>,
}

enum Given {
    File(PathBuf),
    Text(String),
}

impl Source {
    /// Reads the arguments of a run: a path, a text or a dict; texts or dicts that replace files, by name; and overrides.
    pub(crate) fn from_python(
        scenario: &Bound<'_, PyAny>,
        files: &Bound<'_, PyDict>,
        overrides: &Bound<'_, PyDict>,
    ) -> PyResult<Source> {
        let read = |(name, content): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
            let text = match content.extract() {
                Ok(text) => text,
                Err(_) => text_of("topology", &content)?,
            };
            Ok((name.extract()?, text))
        };
        Ok(Source {
            scenario: Given::from_python(scenario)?,
            files: files.iter().map(read).collect::<PyResult<_>>()?,
            overrides: read_overrides(overrides)?,
        })
    }

    /// Loads the scenario and the files that it names.
    pub(crate) fn load(&self) -> PyResult<(Scenario, Topology)> {
        let (text, file) = match &self.scenario {
            Given::File(file) => {
                let unreadable = |why| of_load(LoadError::Unreadable { file: file.clone(), why });
                (self.read(file).map_err(unreadable)?, file.clone())
            }
            Given::Text(text) => (text.clone(), PathBuf::from(TEXT)),
        };
        let invalid = |why| of_load(LoadError::Scenario { file: file.clone(), why });
        let mut scenario = Scenario::parse_with(&text, &self.overrides).map_err(invalid)?;
        let folder = file.parent().unwrap_or(Path::new(""));
        let beside = |name: &str| match self.files.get(name) {
            Some(text) => Ok(text.clone()),
            None => std::fs::read_to_string(folder.join(name)),
        };
        if let Some(processing) = &mut scenario.processing {
            processing.load(beside).map_err(invalid)?;
        }
        let topology = scenario
            .topology
            .build(beside)
            .map_err(|why| of_load(LoadError::Topology { file: file.clone(), why }))?;
        Ok((scenario, topology))
    }

    /// Reads the scenario's file.
    fn read(&self, file: &Path) -> io::Result<String> {
        match file.to_str().and_then(|name| self.files.get(name)) {
            Some(text) => Ok(text.clone()),
            None => std::fs::read_to_string(file),
        }
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

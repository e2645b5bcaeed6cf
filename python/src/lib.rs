//! Native half of the Python package `earmark`: runs scenarios of Earmark's simulator, and returns their outcomes as
//! text.
//!
//! The text is that of `earmark-lab simulate --json` for the same scenario and seed; the Python half of the package
//! converts it to plain data. A run releases Python's interpreter lock, so that other threads continue.

use std::path::{Path, PathBuf};

use earmark_scenario::{LoadError, Override, load, load_text, play};
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

create_exception!(
    earmark,
    ScenarioError,
    PyValueError,
    "A scenario or topology that makes no sense; says in which file, and at which line or key."
);

/// Name in errors of a scenario given as text; its topology is relative to the working directory.
const TEXT: &str = "<scenario>";

/// Largest nesting depth of lists and dicts. A list may contain itself.
const DEEPEST: u32 = 64;

/// Runs a scenario; returns the outcome as JSON, the line that `earmark-lab simulate --json` prints.
#[pyfunction]
#[pyo3(signature = (scenario, seed, overrides))]
fn simulate_json(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    seed: u64,
    overrides: &Bound<'_, PyDict>,
) -> PyResult<String> {
    let given = Given::from_python(scenario)?;
    let overrides = read_overrides(overrides)?;
    py.detach(|| {
        let loaded = match &given {
            Given::File(file) => load(file, &overrides),
            Given::Text(text) => load_text(text, Path::new(TEXT), &overrides),
        };
        let (scenario, topology) = loaded.map_err(exception)?;
        let outcome = play(&scenario, &topology, seed)
            .map_err(|why| ScenarioError::new_err(format!("{}: {why}", given.name())))?;
        serde_json::to_string(&outcome).map_err(|why| PyRuntimeError::new_err(why.to_string()))
    })
}

/// Source of a scenario.
enum Given {
    File(PathBuf),
    Text(String),
}

impl Given {
    /// Classifies a string with a line break as text, because no meaningful path has one.
    fn from_python(scenario: &Bound<'_, PyAny>) -> PyResult<Given> {
        if let Ok(text) = scenario.cast::<PyString>()
            && let text = text.to_str()?
            && text.contains('\n')
        {
            return Ok(Given::Text(text.to_owned()));
        }
        scenario.extract().map(Given::File)
    }

    fn name(&self) -> String {
        match self {
            Given::File(file) => file.display().to_string(),
            Given::Text(_) => TEXT.to_owned(),
        }
    }
}

/// Converts an error: a file that cannot be read is an `OSError`, like that of `open`.
fn exception(error: LoadError) -> PyErr {
    match error {
        LoadError::Unreadable { file, why } => match why.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, why.to_string(), file)),
            None => ScenarioError::new_err(format!("cannot read {}: {why}", file.display())),
        },
        error => ScenarioError::new_err(error.to_string()),
    }
}

fn read_overrides(overrides: &Bound<'_, PyDict>) -> PyResult<Vec<Override>> {
    let read = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let key: String = key.extract()?;
        let value = read_value(&key, &value, 0)?;
        Ok(Override { key, value })
    };
    overrides.iter().map(read).collect()
}

/// Converts a Python value to TOML. A bool is an integer in Python, too, so it is checked first.
fn read_value(key: &str, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Value> {
    if depth > DEEPEST {
        return Err(PyValueError::new_err(format!("`{key}`: nothing in a scenario is that deep")));
    }
    if value.is_instance_of::<PyBool>() {
        value.extract().map(Value::Boolean)
    } else if value.is_instance_of::<PyInt>() {
        value.extract().map(Value::Integer)
    } else if value.is_instance_of::<PyFloat>() {
        value.extract().map(Value::Float)
    } else if value.is_instance_of::<PyString>() {
        value.extract().map(Value::String)
    } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let items = value.try_iter()?.map(|item| read_value(key, &item?, depth + 1));
        items.collect::<PyResult<_>>().map(Value::Array)
    } else if let Ok(fields) = value.cast::<PyDict>() {
        let fields = fields.iter().map(|(name, item)| {
            let name: String = name.extract()?;
            let below = format!("{key}.{name}");
            Ok((name, read_value(&below, &item, depth + 1)?))
        });
        fields.collect::<PyResult<Table>>().map(Value::Table)
    } else {
        let kind = value.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "`{key}`: a scenario has no {kind}; give a number, a text, a bool, a list or a dict"
        )))
    }
}

/// Native module of the package `earmark`.
#[pymodule]
fn _earmark(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<ScenarioError>())?;
    module.add_function(wrap_pyfunction!(simulate_json, module)?)
}

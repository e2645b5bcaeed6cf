//! Conversion of Python values to TOML.

use earmark_scenario::Override;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use toml::{Table, Value};

/// Largest nesting depth of lists and dicts. A list may contain itself.
const DEEPEST: u32 = 64;

/// Reads overrides: values by key.
pub(crate) fn read_overrides(overrides: &Bound<'_, PyDict>) -> PyResult<Vec<Override>> {
    let read = |(key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let key: String = key.extract()?;
        let value = read_value(&key, &value)?;
        Ok(Override { key, value })
    };
    overrides.iter().map(read).collect()
}

/// Converts a value; errors name it `key`.
pub(crate) fn read_value(key: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    read_at(key, value, 0)
}

/// Converts a value at a depth. A bool is an integer in Python, too, so it is checked first.
fn read_at(key: &str, value: &Bound<'_, PyAny>, depth: u32) -> PyResult<Value> {
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
        let items = value.try_iter()?.map(|item| read_at(key, &item?, depth + 1));
        items.collect::<PyResult<_>>().map(Value::Array)
    } else if let Ok(fields) = value.cast::<PyDict>() {
        let fields = fields.iter().map(|(name, item)| {
            let name: String = name.extract()?;
            let below = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
            Ok((name, read_at(&below, &item, depth + 1)?))
        });
        fields.collect::<PyResult<Table>>().map(Value::Table)
    } else {
        let kind = value.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "`{key}`: a scenario has no {kind}; give a number, a text, a bool, a list or a dict"
        )))
    }
}

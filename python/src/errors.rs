//! Exceptions of the package.

use earmark_scenario::LoadError;
use pyo3::create_exception;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    earmark,
    ScenarioError,
    PyValueError,
    "A scenario or topology that makes no sense; says in which file, and at which line or key."
);

/// Converts an error: a file that cannot be read is an `OSError`, like that of `open`.
pub(crate) fn of_load(error: LoadError) -> PyErr {
    match error {
        LoadError::Unreadable { file, why } => match why.raw_os_error() {
            Some(errno) => PyOSError::new_err((errno, why.to_string(), file)),
            None => ScenarioError::new_err(format!("cannot read {}: {why}", file.display())),
        },
        error => ScenarioError::new_err(error.to_string()),
    }
}

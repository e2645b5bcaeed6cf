//! Native half of the Python package `earmark`: runs scenarios of Earmark's simulator, at once or step by step.
//!
//! - [`source`]: scenarios and topologies, from files, text or Python values.
//! - [`worker`]: the thread that owns a run. Python waits for it without the interpreter lock, answers its callbacks, and
//!   stays interruptible.
//! - [`simulation`]: a run that is played step by step, with callbacks.
//! - [`outcomes`]: outcomes of runs, as JSON, and as Arrow tables.
//!
//! The Python half of the package gives them types.

mod callbacks;
mod decoded;
mod errors;
mod outcomes;
mod simulation;
mod source;
mod value;
mod worker;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::outcomes::{Outcomes, Table};
use crate::simulation::Simulation;
use crate::source::Source;
use crate::worker::Worker;

/// Runs a scenario to its end.
#[pyfunction]
#[pyo3(signature = (scenario, files, seed, overrides))]
fn simulate(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    files: &Bound<'_, PyDict>,
    seed: u64,
    overrides: &Bound<'_, PyDict>,
) -> PyResult<Outcomes> {
    let source = Source::from_python(scenario, files, overrides)?;
    let worker = Worker::begin(py, source, seed)?;
    worker.play(py, None)?;
    worker.finish(py).and_then(Outcomes::of)
}

/// Native module of the package `earmark`.
#[pymodule]
fn _earmark(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("ScenarioError", module.py().get_type::<errors::ScenarioError>())?;
    module.add_class::<Outcomes>()?;
    module.add_class::<Table>()?;
    module.add_class::<Simulation>()?;
    module.add_class::<callbacks::Message>()?;
    module.add_class::<callbacks::AdmissionRequest>()?;
    module.add_function(wrap_pyfunction!(outcomes::columns, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)
}

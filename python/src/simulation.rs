//! A run that is played step by step.

use std::time::Duration;

use earmark_core::Time;
use earmark_core::admission::ParameterBased;
use earmark_node::QueueView;
use earmark_scenario::ScenarioRun;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde::Serialize;

use crate::callbacks::{AskAboutAdmission, AskAboutMessages, Names};
use crate::outcomes::Outcomes;
use crate::source::Source;
use crate::worker::Worker;

/// A run of a scenario.
#[pyclass(frozen, module = "earmark._earmark")]
pub(crate) struct Simulation {
    worker: Worker,
}

/// Row of a listing of a node, with the name of the node.
#[derive(Serialize)]
struct Row<T> {
    node: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    #[serde(flatten)]
    row: T,
}

#[pymethods]
impl Simulation {
    #[new]
    #[pyo3(signature = (scenario, files, seed, overrides))]
    fn new(
        py: Python<'_>,
        scenario: &Bound<'_, PyAny>,
        files: &Bound<'_, PyDict>,
        seed: u64,
        overrides: &Bound<'_, PyDict>,
    ) -> PyResult<Simulation> {
        let source = Source::from_python(scenario, files, overrides)?;
        Ok(Simulation { worker: Worker::begin(py, source, seed)? })
    }

    /// Plays until a time, seconds; to the end without one.
    #[pyo3(signature = (until_s))]
    fn play(&self, py: Python<'_>, until_s: Option<f64>) -> PyResult<()> {
        let until = until_s.map(time_of).transpose()?;
        let now = self.worker.ask(py, |run, _| run.network().now())?;
        if let Some(until) = until.filter(|until| *until < now) {
            let [until, now] = [until, now].map(Time::as_secs_f64);
            let why = format!("cannot step to {until} s: it is {now} s already");
            return Err(PyValueError::new_err(why));
        }
        self.worker.play(py, until)
    }

    /// Ends the run where it is.
    fn finish(&self, py: Python<'_>) -> PyResult<Outcomes> {
        self.worker.finish(py).and_then(Outcomes::of)
    }

    /// Time, and that of the end, seconds; and the number of events so far.
    fn clock(&self, py: Python<'_>) -> PyResult<(f64, f64, u64)> {
        self.worker.ask(py, |run, _| {
            let network = run.network();
            (network.now().as_secs_f64(), run.end().as_secs_f64(), network.event_count())
        })
    }

    /// Names of the nodes.
    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.worker.ask(py, |run, _| {
            let network = run.network();
            run.nodes().iter().map(|node| network.name(*node).to_owned()).collect()
        })
    }

    /// JSON of the links of all nodes whose daemons run, one row for each direction.
    fn links(&self, py: Python<'_>) -> PyResult<String> {
        self.list(py, None, |run, node| {
            let network = run.network();
            let peers: Vec<Row<_>> = network
                .node(node)
                .into_iter()
                .flat_map(|daemon| daemon.link_rows())
                .map(|row| {
                    let peer = network.peer(node, earmark_core::InterfaceId(row.index));
                    let peer = peer.map(|peer| network.name(peer).to_owned());
                    Row { node: network.name(node).to_owned(), peer, row }
                })
                .collect();
            peers
        })
    }

    /// JSON of the sessions of a node, or of all.
    fn sessions(&self, py: Python<'_>, node: Option<String>) -> PyResult<String> {
        self.list(py, node, |run, node| {
            let (network, now) = (run.network(), run.network().now());
            let rows = network.node(node).into_iter().flat_map(|daemon| daemon.session_rows(now));
            let name = || network.name(node).to_owned();
            rows.map(|row| Row { node: name(), peer: None, row }).collect()
        })
    }

    /// JSON of the reservations of a node, or of all.
    fn reservations(&self, py: Python<'_>, node: Option<String>) -> PyResult<String> {
        self.list(py, node, |run, node| {
            let (network, now) = (run.network(), run.network().now());
            let rows = network
                .node(node)
                .into_iter()
                .flat_map(|daemon| daemon.reservation_rows(now, |_| QueueView::default()));
            let name = || network.name(node).to_owned();
            rows.map(|row| Row { node: name(), peer: None, row }).collect()
        })
    }

    /// Sets or removes the callback for messages.
    fn on_message(&self, py: Python<'_>, callback: Option<Py<PyAny>>) -> PyResult<()> {
        let has_callback = callback.is_some();
        self.worker.ask(py, move |run, asker| {
            let network = run.network_mut();
            let names = Names::of(network);
            let hook = AskAboutMessages { names, asker: asker.clone() };
            network.set_message_hook(has_callback.then(|| Box::new(hook) as Box<_>));
        })?;
        self.worker.callbacks.set_message(callback);
        Ok(())
    }

    /// Sets or removes the callback for admission, at all links of nodes whose daemons run.
    fn on_admission(&self, py: Python<'_>, callback: Option<Py<PyAny>>) -> PyResult<()> {
        let has_callback = callback.is_some();
        self.worker.ask(py, move |run, asker| {
            let network = run.network_mut();
            for (&(node, interface), name) in Names::of(network).iter() {
                let (name, asker) = (name.clone(), asker.clone());
                match has_callback {
                    true => {
                        let control = AskAboutAdmission { name, asker };
                        network.set_admission(node, interface, Box::new(control));
                    }
                    false => network.set_admission(node, interface, Box::new(ParameterBased)),
                }
            }
        })?;
        self.worker.callbacks.set_admission(callback);
        Ok(())
    }
}

impl Simulation {
    /// Returns the rows of a node, or of all, as JSON.
    fn list<T: Serialize>(
        &self,
        py: Python<'_>,
        of: Option<String>,
        rows: impl Fn(&ScenarioRun<'_>, earmark_sim::NodeId) -> Vec<T> + Send + 'static,
    ) -> PyResult<String> {
        let name = of.clone();
        let listed = self.worker.ask(py, move |run, _| {
            let is_meant = |node: &earmark_sim::NodeId| {
                of.as_deref().is_none_or(|of| run.network().name(*node) == of)
            };
            let nodes: Vec<_> = run.nodes().iter().copied().filter(is_meant).collect();
            let listed: Vec<T> = nodes.iter().flat_map(|node| rows(run, *node)).collect();
            (!nodes.is_empty()).then(|| serde_json::to_string(&listed))
        })?;
        match listed {
            Some(text) => text.map_err(|why| PyRuntimeError::new_err(why.to_string())),
            None => {
                let name = name.unwrap_or_default();
                Err(PyKeyError::new_err(format!("the topology has no node `{name}`")))
            }
        }
    }
}

/// Returns the time of a number of seconds.
fn time_of(seconds: f64) -> PyResult<Time> {
    let after = Duration::try_from_secs_f64(seconds)
        .map_err(|why| PyValueError::new_err(format!("`until` of {seconds} s: {why}")))?;
    Ok(Time::ZERO + after)
}

//! Callbacks of a run: what they are asked, and what they answer.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use earmark_core::admission::{AdmissionControl, Demand, LinkLoad, ParameterBased, Service};
use earmark_core::{InterfaceId, Rate};
use earmark_sim::{Direction, HookedMessage, MessageAction, MessageHook, Network, NodeId};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyInt};

use crate::decoded;
use crate::worker::Asker;

/// A question of a run.
pub(crate) enum Question {
    Message(Message),
    Admission(AdmissionRequest),
}

/// An answer of a callback.
pub(crate) enum Answer {
    /// What happens without a callback.
    Default,
    /// The message is dropped.
    Drop,
    /// These octets replace the message.
    Replace(Vec<u8>),
    /// So much is available for the demand.
    Available(Rate),
}

/// The callbacks of a run.
#[derive(Default)]
pub(crate) struct Callbacks {
    message: Mutex<Option<Py<PyAny>>>,
    admission: Mutex<Option<Py<PyAny>>>,
}

impl Callbacks {
    pub(crate) fn set_message(&self, callback: Option<Py<PyAny>>) {
        *self.message.lock().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    pub(crate) fn set_admission(&self, callback: Option<Py<PyAny>>) {
        *self.admission.lock().unwrap_or_else(PoisonError::into_inner) = callback;
    }

    /// Returns the answer of the callback to a question.
    pub(crate) fn answer(&self, py: Python<'_>, question: Question) -> PyResult<Answer> {
        match question {
            Question::Message(message) => match callback(py, &self.message) {
                Some(callback) => about_message(callback.bind(py).call1((message,))?),
                None => Ok(Answer::Default),
            },
            Question::Admission(request) => match callback(py, &self.admission) {
                Some(callback) => {
                    let rate = request.rate_bit_s;
                    about_admission(&callback.bind(py).call1((request,))?, rate)
                }
                None => Ok(Answer::Default),
            },
        }
    }
}

/// Returns a callback. It is not locked while it runs, so that it may replace itself.
fn callback(py: Python<'_>, of: &Mutex<Option<Py<PyAny>>>) -> Option<Py<PyAny>> {
    let callback = of.lock().unwrap_or_else(PoisonError::into_inner);
    callback.as_ref().map(|callback| callback.clone_ref(py))
}

fn about_message(answer: Bound<'_, PyAny>) -> PyResult<Answer> {
    if answer.is_none() {
        return Ok(Answer::Default);
    }
    if let Ok(passes) = answer.cast::<PyBool>() {
        return Ok(if passes.is_true() { Answer::Default } else { Answer::Drop });
    }
    if let Ok(octets) = answer.cast::<PyBytes>() {
        return Ok(Answer::Replace(octets.as_bytes().to_vec()));
    }
    let kind = answer.get_type().name()?;
    let why = format!("on_message: return None to pass, False to drop, or bytes, not {kind}");
    Err(PyTypeError::new_err(why))
}

fn about_admission(answer: &Bound<'_, PyAny>, requested_bps: u64) -> PyResult<Answer> {
    if answer.is_none() {
        return Ok(Answer::Default);
    }
    if let Ok(granted) = answer.cast::<PyBool>() {
        let rate = if granted.is_true() { requested_bps } else { 0 };
        return Ok(Answer::Available(Rate::from_bps(rate)));
    }
    if answer.is_instance_of::<PyInt>() {
        return Ok(Answer::Available(Rate::from_bps(answer.extract()?)));
    }
    let kind = answer.get_type().name()?;
    let why =
        "on_admission: return True to grant, False to refuse, the available rate in bit/s, or None";
    Err(PyTypeError::new_err(format!("{why}, not {kind}")))
}

/// A signalling message at an interface of a node.
#[pyclass(frozen, module = "earmark")]
pub(crate) struct Message {
    /// Time, seconds.
    #[pyo3(get)]
    at_s: f64,
    /// Name of the node.
    #[pyo3(get)]
    node: String,
    /// Name of its interface.
    #[pyo3(get)]
    interface: String,
    /// Name of the node at the other end of the link.
    #[pyo3(get)]
    peer: String,
    /// `"in"` or `"out"`.
    #[pyo3(get)]
    direction: &'static str,
    /// Source address.
    #[pyo3(get)]
    source: String,
    /// Destination address.
    #[pyo3(get)]
    destination: String,
    /// IP protocol number.
    #[pyo3(get)]
    ip_protocol: u8,
    /// The message.
    octets: Vec<u8>,
    /// The whole IP packet.
    packet: Option<Vec<u8>>,
}

#[pymethods]
impl Message {
    /// The message: what follows the IP header.
    #[getter]
    fn octets<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.octets)
    }

    /// The whole IP packet; `None` if no valid one exists for the message.
    #[getter]
    fn packet<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.packet.as_ref().map(|packet| PyBytes::new(py, packet))
    }

    /// The message as text, as `earmark decode` prints it; empty if it is of no protocol that this knows.
    #[getter]
    fn text(&self) -> PyResult<String> {
        decoded::text(self.packet.as_deref().unwrap_or_default())
    }

    /// The message as a line of JSON, as `earmark decode --json` prints it.
    #[getter]
    fn json(&self) -> PyResult<String> {
        decoded::json(self.packet.as_deref().unwrap_or_default())
    }

    fn __repr__(&self) -> String {
        let Message { at_s, node, interface, direction, source, destination, .. } = self;
        let octets = self.octets.len();
        format!(
            "<Message at {at_s:.6} s, {direction} at {node} {interface}: {source} to {destination}, {octets} octets>"
        )
    }
}

/// A request for bandwidth of a link that is new or grows.
#[pyclass(frozen, module = "earmark", get_all)]
pub(crate) struct AdmissionRequest {
    /// Name of the node whose outgoing link it is.
    node: String,
    /// Name of the interface.
    interface: String,
    /// Name of the node at the other end of the link.
    peer: String,
    /// Requested rate, bits per second.
    rate_bit_s: u64,
    /// Depth of the token bucket, octets.
    burst_octets: u32,
    /// `"controlled_load"` or `"guaranteed"`.
    service: &'static str,
    /// Rate that the request has already and would give up, bits per second; `None` for a new one.
    previous_bit_s: Option<u64>,
    /// Reservable rate of the link, bits per second.
    reservable_bit_s: u64,
    /// Sum of the rates that are reserved, bits per second.
    held_bit_s: u64,
}

#[pymethods]
impl AdmissionRequest {
    /// Reservable rate that nobody holds, bits per second.
    #[getter]
    fn free_bit_s(&self) -> u64 {
        self.reservable_bit_s.saturating_sub(self.held_bit_s)
    }

    fn __repr__(&self) -> String {
        let AdmissionRequest { node, peer, rate_bit_s, .. } = self;
        let free = self.free_bit_s();
        format!("<AdmissionRequest {node} to {peer}: {rate_bit_s} bit/s of {free} bit/s free>")
    }
}

/// Names of the interfaces of a network: node, interface, and the node at the other end.
pub(crate) struct Names(HashMap<(NodeId, InterfaceId), [String; 3]>);

impl Names {
    /// Collects the names of the nodes whose daemons run.
    pub(crate) fn of(network: &Network) -> Names {
        let mut names = HashMap::new(); // keys are the network's own
        for node in network.nodes() {
            let daemon = network.node(node);
            for interface in daemon.into_iter().flat_map(|daemon| daemon.interfaces().iter()) {
                let peer = network.peer(node, interface.id).map(|peer| network.name(peer));
                let name = [network.name(node), &interface.name, peer.unwrap_or_default()];
                names.insert((node, interface.id), name.map(str::to_owned));
            }
        }
        Names(names)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&(NodeId, InterfaceId), &[String; 3])> {
        self.0.iter()
    }

    /// Returns the names of an interface; empty ones for an interface that has another number by now.
    fn get(&self, node: NodeId, interface: InterfaceId) -> [String; 3] {
        self.0.get(&(node, interface)).cloned().unwrap_or_default()
    }
}

/// The hook that asks the callback about each message.
pub(crate) struct AskAboutMessages {
    pub(crate) names: Names,
    pub(crate) asker: Asker,
}

impl MessageHook for AskAboutMessages {
    fn message(&mut self, message: &HookedMessage<'_>) -> MessageAction {
        let [node, interface, peer] = self.names.get(message.node, message.interface);
        let text = |address: IpAddr| address.to_string();
        let question = Question::Message(Message {
            at_s: message.at.as_secs_f64(),
            node,
            interface,
            peer,
            direction: match message.direction {
                Direction::In => "in",
                Direction::Out => "out",
            },
            source: text(message.source),
            destination: text(message.destination),
            ip_protocol: message.ip_protocol,
            octets: message.octets.to_vec(),
            packet: message.packet.map(<[u8]>::to_vec),
        });
        match self.asker.ask(question) {
            Answer::Drop => MessageAction::Drop,
            Answer::Replace(octets) => MessageAction::Replace(octets),
            Answer::Default | Answer::Available(_) => MessageAction::Pass,
        }
    }
}

/// The admission control of a link that asks the callback.
#[derive(Debug)]
pub(crate) struct AskAboutAdmission {
    pub(crate) name: [String; 3],
    pub(crate) asker: Asker,
}

impl AdmissionControl for AskAboutAdmission {
    fn name(&self) -> &'static str {
        "python"
    }

    fn available(&self, load: &LinkLoad, old: Option<&Demand>, demand: &Demand) -> Rate {
        let [node, interface, peer] = self.name.clone();
        let question = Question::Admission(AdmissionRequest {
            node,
            interface,
            peer,
            rate_bit_s: demand.rate.as_bps(),
            burst_octets: demand.burst,
            service: match demand.service {
                Service::ControlledLoad => "controlled_load",
                Service::Guaranteed => "guaranteed",
            },
            previous_bit_s: old.map(|old| old.rate.as_bps()),
            reservable_bit_s: load.reservable.as_bps(),
            held_bit_s: load.held.as_bps(),
        });
        match self.asker.ask(question) {
            Answer::Available(rate) => rate,
            Answer::Default | Answer::Drop | Answer::Replace(_) => {
                ParameterBased.available(load, old, demand)
            }
        }
    }
}

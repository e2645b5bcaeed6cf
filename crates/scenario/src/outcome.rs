//! Outcome of a run: plain data.

use std::collections::BTreeMap;

use earmark_sim::Delays;
use serde::{Deserialize, Serialize};

/// Outcome of one run of a scenario. Times are seconds from its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub scenario: String,
    /// Seed of the run.
    pub seed: u64,
    /// Number of events processed by the simulator.
    pub events: u64,
    /// Number of attempts to reserve on links of routers, after the discarded time.
    pub attempts: u64,
    /// Number of attempts among them that were not the first of their flow at that router.
    pub retries: u64,
    /// Number of refused retries.
    pub refused_retries: u64,
    /// Retries of each router.
    pub retries_at: BTreeMap<String, u64>,
    /// Share of the time with a requested reservation in which it was complete.
    pub served: f64,
    /// Share of the reserved bandwidth, rate times time, that was reserved in vain: for flows whose reservation was
    /// incomplete elsewhere, or beside their path.
    pub fragmented: f64,
    /// Number of flows that requested a reservation after the discarded time.
    pub wanted: u64,
    /// Number of flows among them whose reservation was completed.
    pub completed: u64,
    /// Quartiles of the time until the reservation was complete, seconds.
    pub waits: Option<[f64; 3]>,
    /// Number of times, after the discarded time, at which a complete reservation ceased to be complete while its flow
    /// still wanted it.
    pub interruptions: u64,
    /// Number of interrupted reservations that were complete again before their flow ended.
    pub recoveries: u64,
    /// Quartiles of the time until they were complete again, seconds.
    pub recovery_times: Option<[f64; 3]>,
    /// Paths through firewalls and translators that were asked for, after the discarded time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<PathsOutcome>,
    /// Signalling on all links, after the discarded time.
    pub signalling: Signalling,
    /// Number of entries of each kind of protocol state in all routers at the end, by protocol and kind; kinds without an entry are left out.
    pub state: BTreeMap<String, u64>,
    /// Outcome by name of flows, for those that reserve.
    pub groups: BTreeMap<String, Group>,
    /// Outcome by number of links of the path at the end of the flow, for those that reserve and have one.
    pub path_lengths: BTreeMap<usize, Group>,
    /// Outcome of each flow that is watched.
    pub watched: Vec<FlowOutcome>,
    /// Use of the processors, by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub processors: BTreeMap<String, ProcessorOutcome>,
}

/// Signalling that nodes have sent over links, counted link by link.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Signalling {
    /// IP packets.
    pub packets: u64,
    /// Octets of these packets, with the IP header.
    pub octets: u64,
    /// Router that has sent the most packets.
    pub busiest_router: Option<String>,
    /// Packets that it has sent.
    pub busiest_router_packets: u64,
}

/// Use of a processor in the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessorOutcome {
    /// Share of the time in which it has worked.
    pub busy: f64,
    /// Number of turns of the daemon.
    pub turns: u64,
    /// Number of messages that found a full receive buffer.
    pub lost: u64,
    /// Largest number of inputs that waited for it.
    pub longest_queue: usize,
}

/// Outcome of a group of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Number of flows that requested a reservation after the discarded time.
    pub wanted: u64,
    /// Number of flows whose reservation was completed.
    pub completed: u64,
    /// Share of the time with a requested reservation in which it was complete.
    pub served: f64,
}

/// Outcome of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowOutcome {
    /// Name of its group of flows.
    pub flows: String,
    /// Source node.
    pub from: String,
    /// Destination node.
    pub to: String,
    /// Time of its reservation request.
    pub reserves: Option<f64>,
    /// Time from the request until the reservation was first complete.
    pub completed_after: Option<f64>,
    /// Number of attempts at nodes of its path after the first there, until it was complete or the flow ended.
    pub retries: u64,
    /// All attempts.
    pub attempts: Vec<Attempted>,
    /// What the applications at its ends were told about the reservation, oldest first.
    pub reports: Vec<Reported>,
    /// Path that it has opened through firewalls, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathOutcome>,
    /// Packets sent and received.
    pub received: Received,
}

/// Requests of sources and destinations for paths through firewalls and translators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathsOutcome {
    /// Number of requests.
    pub asked: u64,
    /// Number of requests among them that were granted.
    pub granted: u64,
    /// Quartiles of the time until the grant, seconds.
    pub waits: Option<[f64; 3]>,
}

/// Path that a flow has opened through firewalls and translators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathOutcome {
    /// Time of the request of the source, or of the destination if the source does not ask.
    pub asked: f64,
    /// Time of the grant.
    pub granted: Option<f64>,
    /// Time of its end.
    pub ended: Option<f64>,
    /// Share of the packets lost that were sent before the grant.
    pub lost_before: f64,
    /// Share of the packets lost that were sent while the path was open.
    pub lost_while_open: f64,
    /// Share of the packets lost that were sent after its end.
    pub lost_after: f64,
}

/// An attempt to reserve on a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempted {
    /// Time.
    pub at: f64,
    /// Node.
    pub node: String,
    /// Whether it was granted.
    pub granted: bool,
    /// Rate that the node would have granted in its place, bits per second, if it was refused and this is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available: Option<u64>,
}

/// An outcome that an application at an end of a flow was told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reported {
    /// Time.
    pub at: f64,
    /// Node of the application: the source or the destination.
    pub node: String,
    /// The outcome.
    pub outcome: earmark_core::outcome::Outcome,
}

/// Received data of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Received {
    /// Packets sent.
    pub sent: u64,
    /// Packets received.
    pub arrived: u64,
    /// Packets dropped; the others that have not arrived are on their way. Fluid is lost or arrives at once.
    pub lost: u64,
    /// One-way delays of the received packets, seconds, if data is simulated packet by packet.
    pub delay: Option<Delays>,
    /// Received rate in each second of the run, bits per second.
    pub rates: Vec<u64>,
}

//! What came of a run: plain data.

use std::collections::BTreeMap;

use serde::Serialize;

/// One run of a scenario. Times are seconds from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub scenario: String,
    /// The seed it was played with.
    pub seed: u64,
    /// Events that the simulator worked off.
    pub events: u64,
    /// Attempts to reserve something of a link of a router, after what is discarded.
    pub attempts: u64,
    /// Those of them that were not the first of their flow at that router.
    pub retries: u64,
    /// How many of the retries were refused.
    pub refused_retries: u64,
    /// Retries of each router.
    pub retries_at: BTreeMap<String, u64>,
    /// Share of the time in which flows wanted reservations that they had all of them.
    pub served: f64,
    /// Share of what links had reserved, rate by time, that was for flows to which another part lacked.
    pub fragmented: f64,
    /// Flows that wanted a reservation after what is discarded,
    pub wanted: u64,
    /// and those of them that got all of it.
    pub completed: u64,
    /// How long those waited that got it: quartiles, seconds.
    pub waits: Option<[f64; 3]>,
    /// The same of the flows of each name that reserve.
    pub groups: BTreeMap<String, Group>,
    /// Each flow that is watched.
    pub watched: Vec<FlowOutcome>,
}

/// What came of flows that are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Group {
    /// How many wanted a reservation after what is discarded,
    pub wanted: u64,
    /// and got all of it.
    pub completed: u64,
    /// Share of the time in which they wanted it that they had all of it.
    pub served: f64,
}

/// What came of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FlowOutcome {
    /// Which flows it is one of.
    pub flows: String,
    /// Where it comes from,
    pub from: String,
    /// and goes to.
    pub to: String,
    /// When it asked for its reservation.
    pub reserves: Option<f64>,
    /// How long after that it had all of it for the first time.
    pub completed_after: Option<f64>,
    /// How often a node of its path was asked again, after the first time there, until then or its end.
    pub retries: u64,
    /// Every attempt.
    pub attempts: Vec<Attempted>,
    /// Packets that were sent, and that arrived.
    pub received: Received,
}

/// An attempt to reserve something of a link.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempted {
    /// When.
    pub at: f64,
    /// At which node.
    pub node: String,
    /// Whether it was granted.
    pub granted: bool,
}

/// What arrived of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Received {
    /// Packets that left.
    pub sent: u64,
    /// Those of them that arrived.
    pub arrived: u64,
    /// What arrived in each second of the run, bits per second.
    pub rates: Vec<u64>,
}

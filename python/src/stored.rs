//! Outcomes that are read back from their line of JSON: what the tables show of them. The line itself is kept beside.

use std::collections::BTreeMap;

use earmark_core::outcome;
use earmark_scenario::{Attempted, FlowOutcome, Outcome, Received, Reported};
use earmark_sim::Delays;
use serde::Deserialize;

/// Reads the line of JSON of an outcome.
pub(crate) fn read(json: &str) -> serde_json::Result<Outcome> {
    serde_json::from_str::<StoredOutcome>(json).map(StoredOutcome::into_outcome)
}

#[derive(Deserialize)]
struct StoredOutcome {
    scenario: String,
    seed: u64,
    events: u64,
    attempts: u64,
    retries: u64,
    refused_retries: u64,
    retries_at: BTreeMap<String, u64>,
    served: f64,
    fragmented: f64,
    wanted: u64,
    completed: u64,
    waits: Option<[f64; 3]>,
    watched: Vec<StoredFlow>,
}

#[derive(Deserialize)]
struct StoredFlow {
    flows: String,
    from: String,
    to: String,
    reserves: Option<f64>,
    completed_after: Option<f64>,
    retries: u64,
    attempts: Vec<StoredAttempt>,
    reports: Vec<StoredReport>,
    received: StoredData,
}

#[derive(Deserialize)]
struct StoredAttempt {
    at: f64,
    node: String,
    granted: bool,
    available: Option<u64>,
}

#[derive(Deserialize)]
struct StoredReport {
    at: f64,
    node: String,
    outcome: outcome::Outcome,
}

#[derive(Deserialize)]
struct StoredData {
    sent: u64,
    arrived: u64,
    lost: u64,
    delay: Option<Delays>,
    rates: Vec<u64>,
}

impl StoredOutcome {
    fn into_outcome(self) -> Outcome {
        Outcome {
            scenario: self.scenario,
            seed: self.seed,
            events: self.events,
            attempts: self.attempts,
            retries: self.retries,
            refused_retries: self.refused_retries,
            retries_at: self.retries_at,
            served: self.served,
            fragmented: self.fragmented,
            wanted: self.wanted,
            completed: self.completed,
            waits: self.waits,
            watched: self.watched.into_iter().map(StoredFlow::into_flow).collect(),
            ..Outcome::default()
        }
    }
}

impl StoredFlow {
    fn into_flow(self) -> FlowOutcome {
        let StoredData { sent, arrived, lost, delay, rates } = self.received;
        let attempts = self.attempts.into_iter().map(|attempt| Attempted {
            at: attempt.at,
            node: attempt.node,
            granted: attempt.granted,
            available: attempt.available,
        });
        let reports = self.reports.into_iter().map(|report| Reported {
            at: report.at,
            node: report.node,
            outcome: report.outcome,
        });
        FlowOutcome {
            flows: self.flows,
            from: self.from,
            to: self.to,
            reserves: self.reserves,
            completed_after: self.completed_after,
            retries: self.retries,
            attempts: attempts.collect(),
            reports: reports.collect(),
            received: Received { sent, arrived, lost, delay, rates },
            ..FlowOutcome::default()
        }
    }
}

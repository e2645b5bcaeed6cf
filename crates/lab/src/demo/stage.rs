//! Result of a stage of the demo.

use std::time::Duration;

use earmark_sim::Figures;
use serde::{Serialize, Serializer};

use super::protocol::Protocol;

/// What reserves in a stage of the demo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reserver {
    /// Nothing is reserved.
    Nothing,
    /// One protocol.
    Protocol(Protocol),
    /// All of them at once, each for a part.
    All,
}

impl Reserver {
    /// Returns the name that is used in results.
    pub fn name(self) -> &'static str {
        match self {
            Reserver::Nothing => "none",
            Reserver::Protocol(protocol) => protocol.name(),
            Reserver::All => "shared",
        }
    }
}

impl Serialize for Reserver {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One stage of the demo. Rates count IP packet octets, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StageResult {
    /// What reserves.
    pub protocol: Reserver,
    /// Reserved rate of the stream.
    pub reserved_bps: u64,
    /// Offered rate of the stream.
    pub offered_bps: u64,
    /// Received rate of the stream.
    pub received_bps: u64,
    /// Share of its packets that did not arrive, 0 to 1.
    pub loss: f64,
    /// Median one-way delay, milliseconds.
    pub delay_p50_ms: Option<f64>,
    /// 99th percentile of the one-way delay, milliseconds.
    pub delay_p99_ms: Option<f64>,
    /// Time from the sender's request until the reservation was complete on the whole path, milliseconds; `None`
    /// without reservation.
    pub setup_ms: Option<f64>,
}

impl StageResult {
    /// Returns a stage with these figures of its stream.
    pub fn new(
        protocol: Reserver,
        reserved_bps: u64,
        setup: Option<Duration>,
        figures: &Figures,
    ) -> StageResult {
        StageResult {
            protocol,
            reserved_bps,
            offered_bps: figures.offered_bps,
            received_bps: figures.received_bps,
            loss: figures.loss,
            delay_p50_ms: figures.delay_p50_ms,
            delay_p99_ms: figures.delay_p99_ms,
            setup_ms: setup.map(|setup| setup.as_secs_f64() * 1e3),
        }
    }
}

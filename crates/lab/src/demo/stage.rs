//! Result of a stage of the demo.

use std::time::Duration;

use earmark_sim::Figures;
use serde::{Deserialize, Serialize};

/// Protocol that reserves in a stage of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Nothing is reserved.
    None,
    /// RSVP.
    Rsvp,
    /// Boomerang.
    Boomerang,
    /// YESSIR.
    Yessir,
    /// QoS NSLP over GIST.
    Nsis,
    /// Several of them at once, each for a part.
    Shared,
}

impl Protocol {
    /// Returns the name that is used in results.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::None => "none",
            Protocol::Rsvp => "rsvp",
            Protocol::Boomerang => "boomerang",
            Protocol::Yessir => "yessir",
            Protocol::Nsis => "nsis",
            Protocol::Shared => "shared",
        }
    }
}

/// One stage of an experiment. Rates count IP packet octets, in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageResult {
    /// Reserving protocol.
    pub protocol: Protocol,
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
        protocol: Protocol,
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

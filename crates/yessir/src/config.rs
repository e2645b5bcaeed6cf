//! Settings of the engine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use earmark_core::Rate;
use serde::{Deserialize, Serialize};

use crate::auth;

/// Settings of one YESSIR engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Time between two reports of senders of this host, and of those that do not say; seconds, at least 1.
    pub interval: u16,
    /// Longest interval that a sender can give its state; more counts as this much. Seconds.
    pub max_interval: u16,
    /// State ends when this many reports in a row are missing.
    pub missed: u32,
    /// How much traffic may be sent at once where a request says only how fast: so long at the rate that is asked for,
    pub burst: Duration,
    /// and no less than this. Octets.
    pub min_burst: u32,
    /// How measured streams are judged that do not say so themselves.
    pub measuring: Measuring,
    /// Interfaces, by name, where senders that know nothing of YESSIR have their streams measured when they come in.
    pub measured: BTreeMap<String, Measuring>,
    /// How much there may be.
    pub limits: Limits,
    /// Who must prove who it is.
    pub auth: auth::Settings,
}

impl Default for Config {
    /// The timing of the study: reports every 30 s (21 to 39), gone after three that were missed.
    fn default() -> Self {
        Config {
            interval: 30,
            max_interval: 3_600,
            missed: 3,
            burst: Duration::from_millis(100),
            min_burst: 4_500,
            measuring: Measuring::default(),
            measured: BTreeMap::new(),
            limits: Limits::default(),
            auth: auth::Settings::default(),
        }
    }
}

impl Config {
    /// How long state lives whose sender reports every `interval` seconds; 0 is the node's own setting. Reports come after
    /// 0.7 to 1.3 intervals, so each that is missed counts as the longest of these.
    pub fn lifetime(&self, interval: u16) -> Duration {
        Duration::from_millis(u64::from(self.lifetime_ms(interval)))
    }

    /// Likewise, in milliseconds.
    #[inline]
    pub(crate) fn lifetime_ms(&self, interval: u16) -> u32 {
        let interval = match interval {
            0 => self.interval,
            said => said,
        };
        let interval = u32::from(interval.clamp(1, self.max_interval.max(1)));
        (1_300 * interval).saturating_mul(self.missed.max(1))
    }
}

/// How much of what reports show is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measuring {
    /// The largest rate of this time counts, seconds: a stream that sends less for a while keeps what it had.
    pub window: u16,
    /// What is added to it, percent.
    pub headroom: u16,
    /// Most for one stream.
    pub largest: Option<Rate>,
}

impl Default for Measuring {
    fn default() -> Self {
        Measuring { window: 60, headroom: 20, largest: None }
    }
}

/// How much there may be. Past a limit new requests are refused, with a note in the message that goes on; what is there
/// already stays, and is refreshed as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Streams that a node knows.
    pub sessions: u32,
    /// Streams of one source address.
    pub sessions_per_source: u32,
    /// How many new streams, and changes of what they ask for, one source address may bring in a second.
    pub changes_per_second: u32,
    /// Senders that share one reservation.
    pub sharers: u32,
    /// Branches of one stream to a group.
    pub branches: u32,
    /// Applications of this host; and receivers and senders that each of them keeps apart.
    pub applications: u32,
    /// Most for one reservation.
    pub largest: Option<Rate>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 2_000_000,
            sessions_per_source: 65_536,
            changes_per_second: 20_000,
            sharers: 1_024,
            branches: 64,
            applications: 4_096,
            largest: None,
        }
    }
}

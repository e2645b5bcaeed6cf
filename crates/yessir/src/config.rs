//! Configuration of the engine.

use alloc::collections::BTreeMap;
use alloc::string::String;
use core::time::Duration;

use earmark_core::Rate;
use serde::{Deserialize, Serialize};

use crate::auth;

/// Configuration of one YESSIR engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Time between two reports of this host's senders, and of senders that give no interval; seconds, at least 1.
    pub interval: u16,
    /// Longest interval of a sender that counts, seconds; longer ones are shortened to it.
    pub max_interval: u16,
    /// Number of consecutive missing reports after which state ends.
    pub missed: u32,
    /// Burst of a request that gives only a rate: the traffic of this time at that rate.
    pub burst: Duration,
    /// Minimum burst, octets.
    pub min_burst: u32,
    /// Measurement of streams whose messages do not specify it.
    pub measuring: Measuring,
    /// Interfaces, by name, where streams of senders without YESSIR are measured on arrival.
    pub measured: BTreeMap<String, Measuring>,
    /// Limits of the node.
    pub limits: Limits,
    /// Tokens that prove the names of users.
    pub tokens: earmark_token::Settings,
    /// Names that a token must prove. Refreshes that change nothing are not checked.
    pub required: earmark_token::Required,
    /// Settings of authentication.
    pub auth: auth::Settings,
}

impl Default for Config {
    /// Returns the timing of the study: reports every 30 s (21 to 39), state removed after three missing ones.
    fn default() -> Self {
        Config {
            interval: 30,
            max_interval: 120,
            missed: 3,
            burst: Duration::from_millis(100),
            min_burst: 4_500,
            measuring: Measuring::default(),
            measured: BTreeMap::new(),
            limits: Limits::default(),
            tokens: earmark_token::Settings::default(),
            required: earmark_token::Required::default(),
            auth: auth::Settings::default(),
        }
    }
}

impl Config {
    /// Returns the lifetime of state whose sender reports every `interval` seconds; 0 is the node's own setting.
    /// Reports follow after 0.7 to 1.3 intervals, so each missing one counts as the longest of these.
    pub fn lifetime(&self, interval: u16) -> Duration {
        Duration::from_millis(u64::from(self.lifetime_ms(interval)))
    }

    /// Returns [`Config::lifetime`] in milliseconds.
    #[inline]
    pub(crate) fn lifetime_ms(&self, interval: u16) -> u32 {
        let interval = match interval {
            0 => self.interval,
            interval => interval,
        };
        let interval = u32::from(interval.clamp(1, self.max_interval.max(1)));
        (1_300 * interval).saturating_mul(self.missed.max(1))
    }
}

/// How much of a measured rate is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Measuring {
    /// Window, seconds, whose largest rate counts: a stream that sends less for a while keeps its reservation.
    pub window: u16,
    /// Headroom added to the rate, percent.
    pub headroom: u16,
    /// Maximum rate for one stream.
    pub largest: Option<Rate>,
}

impl Default for Measuring {
    fn default() -> Self {
        Measuring { window: 60, headroom: 20, largest: None }
    }
}

/// Limits of a node. Over a limit, new requests are refused with a note in the forwarded message; existing state
/// stays and is refreshed as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of streams.
    pub sessions: u32,
    /// Maximum number of streams of one source address.
    pub sessions_per_source: u32,
    /// Maximum number of new streams and changed requests of one source address per second.
    pub changes_per_second: u32,
    /// Maximum number of senders that share one reservation.
    pub sharers: u32,
    /// Maximum number of branches of one stream to a group.
    pub branches: u32,
    /// Maximum number of applications of this host.
    pub applications: u32,
    /// Maximum rate of one reservation.
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

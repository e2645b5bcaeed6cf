//! Configuration of the engine.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{Rate, Time};
use serde::{Deserialize, Serialize};

use crate::credential;
use crate::selector::Selector;

/// Configuration of one Boomerang engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Seconds between refreshes of this host's own sessions.
    pub refresh_interval: u8,
    /// Longest refresh interval, seconds, that this node accepts: longer ones are lowered in transit.
    pub max_refresh_interval: u8,
    /// K: state expires this many refresh intervals after the last message.
    pub lifetime_multiplier: u8,
    /// Lifetime of state whose initiating node has sent one request only, until it repeats the request or the far
    /// end's reply passes.
    pub unproven_lifetime: Duration,
    /// Time after which a loop that has not come back is sent again; doubled each time, up to the refresh interval.
    pub retry: Duration,
    /// Number of attempts to send a release before the node gives up.
    pub release_attempts: u8,
    /// Length of the bursts that a reservation must hold, at its own rate.
    pub burst: Duration,
    /// Minimum burst, octets: some packets of the usual size.
    pub min_burst: u32,
    /// Whether to lock sessions with a private prime, so that they are in force only when the initiating node has
    /// returned the product.
    pub lock: bool,
    /// Users that may reserve.
    pub credentials: credential::Settings,
    /// Tokens that prove the names of users.
    pub tokens: earmark_token::Settings,
    /// Names that a token must prove. Refreshes that change nothing are not checked.
    pub required: earmark_token::Required,
    /// Aggregates that this node makes.
    pub aggregates: Vec<AggregateRule>,
    /// Whether aggregates of upstream nodes replace the flows in them.
    pub aggregate_only: bool,
    /// Whether an offload handles plain refreshes before they reach the engine, and is notified of the sessions.
    pub offload: bool,
    /// Limits.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            refresh_interval: 30,
            max_refresh_interval: 60,
            lifetime_multiplier: 3,
            unproven_lifetime: Duration::from_secs(10),
            retry: Duration::from_millis(500),
            release_attempts: 4,
            burst: Duration::from_millis(100),
            min_burst: 6_000,
            lock: false,
            credentials: credential::Settings::default(),
            tokens: earmark_token::Settings::default(),
            required: earmark_token::Required::default(),
            aggregates: Vec::new(),
            aggregate_only: false,
            offload: false,
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Returns when state refreshed at `now` expires, for a refresh interval of `interval` seconds. An interval of
    /// zero counts as one second.
    #[inline]
    pub(crate) fn expiry_time(&self, now: Time, interval: u8) -> Time {
        let seconds = u64::from(interval.max(1)) * u64::from(self.lifetime_multiplier.max(1));
        Time::from_nanos(now.as_nanos().saturating_add(seconds * 1_000_000_000))
    }
}

/// Limits of what peers may request of a node. Over a limit, new requests are refused (NACK without an offer) and
/// forwarded; existing sessions stay and are refreshed as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of sessions.
    pub sessions: u32,
    /// Maximum number of sessions of one initiating node, or of all nodes behind an access interface together.
    pub sessions_per_source: u32,
    /// Maximum number of new and changed sessions per second of one initiating node, or of all nodes behind an access
    /// interface together; those of one second may arrive in one burst.
    pub changes_per_second: u32,
    /// Maximum number of different masks. Each adds to the cost of a longest match.
    pub masks: u16,
    /// Maximum number of branches of one session to a group.
    pub branches: u16,
    /// Maximum number of sessions of this host's own applications.
    pub applications: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 2_000_000,
            sessions_per_source: 100_000,
            changes_per_second: 10_000,
            masks: 64,
            branches: 64,
            applications: 100_000,
        }
    }
}

/// An aggregate that this node makes of flows in the forward direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateRule {
    /// Name for people.
    pub name: String,
    /// Flows of the aggregate.
    pub selector: Selector,
    /// Step of the aggregate's rate: requests are whole multiples of it, so that they need not change with each flow;
    /// zero for exactly the sum of the flows.
    #[serde(default)]
    pub step: Rate,
}

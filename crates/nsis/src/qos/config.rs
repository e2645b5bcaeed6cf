//! Settings of QoS NSLP, with the defaults of RFC 5974.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{Prefix, Rate};
use serde::{Deserialize, Serialize};

use crate::nslp::Attributes;

/// Settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Aggregation level, 0 to 31: messages of other levels pass this node by (RFC 5974 section 6.6).
    pub level: u16,
    /// R, the mean time between refreshes that this node sends (REFRESH-PERIOD, section 5.1.3.3).
    pub refresh: Duration,
    /// K: how many refreshes in a row may be lost (RFC 2205 section 3.7).
    pub lost_refreshes: u32,
    /// Whether refreshes leave out what has not changed.
    pub reduced_refresh: bool,
    /// How many sessions a refresh speaks of besides its own, at most; 0 for single refreshes.
    pub summary: u16,
    /// Whether the next node is asked to acknowledge refreshes (ACK-REQ).
    pub acknowledge: bool,
    /// QOSNSLP_REQUEST_RETRY: wait before a request is repeated for the first time; doubles each time.
    pub retry: Duration,
    /// QOSNSLP_RETRY_MAX: how long a request is repeated.
    pub give_up: Duration,
    /// Interfaces, by name, that face a domain which flows cross in aggregates (section 4.5).
    pub inner: Vec<String>,
    /// The aggregates that begin at this node; a flow is in the first that fits.
    pub aggregates: Vec<AggregateRule>,
    /// How long an aggregate has to be wider than it need be before it shrinks or ends.
    pub shrink_after: Duration,
    /// Whether this node is the proxy of its domain, where messages with the PROXY scope end.
    pub proxy: bool,
    /// How messages travel where the application does not say.
    pub attributes: Attributes,
    /// Limits.
    pub limits: Limits,
    /// Who may reserve how much; the first rule that fits decides, and where none fits everything is allowed.
    pub policy: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            level: 0,
            refresh: Duration::from_secs(30),
            lost_refreshes: 3,
            reduced_refresh: true,
            summary: 0,
            acknowledge: false,
            retry: Duration::from_secs(2),
            give_up: Duration::from_secs(30),
            inner: Vec::new(),
            aggregates: Vec::new(),
            shrink_after: Duration::from_secs(10),
            proxy: false,
            attributes: Attributes::default(),
            limits: Limits::default(),
            policy: Vec::new(),
        }
    }
}

impl Config {
    /// These settings, with all of `new` that may change while QoS NSLP runs: all but the level, which neighbours know this
    /// node by, and which flows travel in aggregates.
    pub fn renewed(&self, new: Config) -> Config {
        let (inner, aggregates) = (self.inner.clone(), self.aggregates.clone());
        Config { level: self.level, inner, aggregates, ..new }
    }
}

/// Limits. Past one new requests are refused, and old ones go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Sessions.
    pub sessions: u32,
    /// Sessions that come from one peer.
    pub sessions_per_peer: u32,
    /// New and changed reservations that one peer may ask for in a second.
    pub changes_per_second: u32,
    /// Octets of a QSPEC.
    pub qspec: u16,
    /// Messages that wait for one that they are bound to.
    pub waiting: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1_000_000,
            sessions_per_peer: 1_000_000,
            changes_per_second: 50_000,
            qspec: 1_024,
            waiting: 1_000,
        }
    }
}

/// An aggregate: which flows travel in it, and how it grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateRule {
    /// Destinations of its flows.
    pub to: Prefix,
    /// Its rate is a multiple of this.
    pub step: Rate,
    /// The most that it may have.
    pub highest: Rate,
}

/// A rule of policy: for whom it is, and what they may have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Sources of the flow; any where it is none.
    pub from: Option<Prefix>,
    /// Destinations of the flow; any where it is none.
    pub to: Option<Prefix>,
    /// Only what came over an association whose peer has proved who it is.
    pub secure: bool,
    /// Whether they may have nothing.
    pub refuse: bool,
    /// The most that one flow may have.
    pub largest: Option<Rate>,
    /// The most that all flows under this rule may have together on this node.
    pub total: Option<Rate>,
}

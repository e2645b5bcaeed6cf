//! Settings of QoS NSLP, with the defaults of RFC 5974.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{Prefix, Rate};
use earmark_token::Required;
use serde::{Deserialize, Serialize};

use crate::nslp::Attributes;

/// Settings of QoS NSLP on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Aggregation level, 0 to 31. Messages of other levels bypass this node (RFC 5974 section 6.6).
    pub level: u16,
    /// R, the mean refresh interval of this node (REFRESH-PERIOD, section 5.1.3.3).
    pub refresh: Duration,
    /// Longest refresh period of a peer that counts: state of a peer that announces a longer one ends as if it had
    /// announced this one. If R is longer, R counts instead.
    pub longest_refresh: Duration,
    /// K: number of consecutive refreshes that may be lost (RFC 2205 section 3.7).
    pub lost_refreshes: u32,
    /// Whether refreshes omit unchanged objects.
    pub reduced_refresh: bool,
    /// Limit of additional sessions in a refresh; 0 for single refreshes.
    pub summary: u16,
    /// Whether refreshes ask the next node for an acknowledgement (ACK-REQ).
    pub acknowledge: bool,
    /// QOSNSLP_REQUEST_RETRY: time before the first retransmission of a request; doubles each time.
    pub retry: Duration,
    /// QOSNSLP_RETRY_MAX: time after which a request is abandoned.
    pub give_up: Duration,
    /// Names of interfaces that lead into a domain which flows cross in aggregates (section 4.5).
    pub inner: Vec<String>,
    /// Aggregates that begin at this node; a flow is in the first that matches.
    pub aggregates: Vec<AggregateRule>,
    /// Time that an aggregate must be wider than needed before it shrinks or ends.
    pub shrink_after: Duration,
    /// Whether this node is the proxy of its domain, where messages with the PROXY scope end.
    pub proxy: bool,
    /// Transport of messages, unless the application sets another one.
    pub attributes: Attributes,
    /// Refuse what deviates from the RFCs even if its meaning is unambiguous: see [`crate::Tolerated`].
    pub strict: bool,
    /// Limits of resources.
    pub limits: Limits,
    /// Tokens that prove the names of users (RFC 5981).
    pub tokens: earmark_token::Settings,
    /// Policy rules; the first match decides, and without a match everything is allowed.
    pub policy: Vec<Rule>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            level: 0,
            refresh: Duration::from_secs(30),
            longest_refresh: Duration::from_secs(120),
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
            strict: false,
            limits: Limits::default(),
            tokens: earmark_token::Settings::default(),
            policy: Vec::new(),
        }
    }
}

impl Config {
    /// Returns these settings with all values of `new` that may change while QoS NSLP runs: all except the level, which
    /// neighbors rely on, and the assignment of flows to aggregates.
    pub fn renewed(&self, new: Config) -> Config {
        let (inner, aggregates) = (self.inner.clone(), self.aggregates.clone());
        Config { level: self.level, inner, aggregates, ..new }
    }
}

/// Limits of resources. Above a limit new requests are refused, and existing ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Sessions.
    pub sessions: u32,
    /// Part of the sessions that may arrive through one interface, percent.
    pub share_of_interface: u32,
    /// Sessions from one peer.
    pub sessions_per_peer: u32,
    /// New and changed reservations per second: of one peer over associations, and of all peers behind one interface in
    /// datagrams.
    pub changes_per_second: u32,
    /// Octets of a QSPEC.
    pub qspec: u16,
    /// Messages that wait for a bound message.
    pub waiting: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1_000_000,
            share_of_interface: 75,
            sessions_per_peer: 1_000_000,
            changes_per_second: 50_000,
            qspec: 1_024,
            waiting: 1_000,
        }
    }
}

/// An aggregate: its flows and its rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregateRule {
    /// Destinations of its flows.
    pub to: Prefix,
    /// Step of the rate, which is always a multiple of it.
    pub step: Rate,
    /// Maximum rate.
    pub highest: Rate,
}

/// A policy rule: a match, and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Sources of the flow; `None` for any.
    pub from: Option<Prefix>,
    /// Destinations of the flow; `None` for any.
    pub to: Option<Prefix>,
    /// Match only messages over an association with an authenticated peer.
    pub secure: bool,
    /// Match only requests with these proven names.
    pub required: Required,
    /// Refuse every reservation.
    pub refuse: bool,
    /// Limit of the rate of one flow.
    pub largest: Option<Rate>,
    /// Limit of the total rate of all flows under this rule on this node.
    pub total: Option<Rate>,
}

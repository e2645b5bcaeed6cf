//! Settings of the engine.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use earmark_core::{Rate, Time};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::api::Selector;

/// Settings of one Boomerang engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Seconds between the refreshes of this host's own sessions.
    pub refresh_interval: u8,
    /// Longest refresh interval, seconds, that this node lets pass: longer ones are lowered on the way.
    pub max_refresh_interval: u8,
    /// K: state lives this many refresh intervals after the last message.
    pub lifetime_multiplier: u8,
    /// How long after a loop was sent it is sent again for the first time, if it has not come back; then twice as long each
    /// time, up to the refresh interval.
    pub retry: Duration,
    /// How often a release is sent before the node takes it that nobody is there any more.
    pub release_attempts: u8,
    /// How long the bursts are that a reservation is to bear, at its own rate.
    pub burst: Duration,
    /// Smallest burst, octets: some packets of the usual size.
    pub min_burst: u32,
    /// Sessions are locked with a private prime, and are in force only when the initiating node has shown that it got the
    /// product of them back.
    pub lock: bool,
    /// Who may reserve; everybody, if there is none here. Refreshes that change nothing are not looked at.
    pub users: Vec<Account>,
    /// What this node aggregates.
    pub aggregates: Vec<AggregateRule>,
    /// Whether aggregates of nodes before this one take the place of the flows in them.
    pub aggregate_only: bool,
    /// Whether somebody treats plain refreshes before they come here, and is told of which sessions it may.
    pub offload: bool,
    /// Limits.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            refresh_interval: 30,
            max_refresh_interval: u8::MAX,
            lifetime_multiplier: 3,
            retry: Duration::from_millis(500),
            release_attempts: 4,
            burst: Duration::from_millis(100),
            min_burst: 6_000,
            lock: false,
            users: Vec::new(),
            aggregates: Vec::new(),
            aggregate_only: false,
            offload: false,
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// When state ends that was heard of now and is promised to be refreshed every `interval` seconds. An interval of zero
    /// counts as one second.
    #[inline]
    pub(crate) fn end_of_life(&self, now: Time, interval: u8) -> Time {
        let seconds = u64::from(interval.max(1)) * u64::from(self.lifetime_multiplier.max(1));
        Time::from_nanos(now.as_nanos().saturating_add(seconds * 1_000_000_000))
    }
}

/// How much others may want of a node. Past a limit new requests are refused (NACK, and nothing offered) and sent on;
/// what is there stays, and is refreshed as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Most sessions.
    pub sessions: u32,
    /// Most sessions of one initiating node.
    pub sessions_per_source: u32,
    /// Most new sessions, and changes of them, of one initiating node in a second; those of one second may come at once.
    pub changes_per_second: u32,
    /// Most masks that differ. Each costs a look-up something where the longest match is wanted.
    pub masks: u16,
    /// Most branches of one session to a group.
    pub branches: u16,
    /// Most sessions of this host's own applications.
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

/// A user that may reserve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The user id; at most eight octets, padded with zeros in messages.
    pub name: String,
    /// What only the user and the nodes know.
    pub secret: Secret,
}

impl Account {
    /// The user id as messages have it; `None` where the name is too long.
    pub fn id(&self) -> Option<[u8; 8]> {
        let mut id = [0; 8];
        id.get_mut(..self.name.len())?.copy_from_slice(self.name.as_bytes());
        Some(id)
    }
}

/// A secret; wiped from memory when it is dropped, and not shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The octets that digests are made with.
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret(Zeroizing::new(text))
    }
}

impl From<Secret> for String {
    fn from(secret: Secret) -> String {
        (*secret.0).clone()
    }
}

/// An aggregate that this node makes of flows in the forward direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AggregateRule {
    /// Its name, for people.
    pub name: String,
    /// Which flows.
    pub selector: Selector,
    /// The aggregate asks for whole multiples of this, so that it need not change with each flow; zero for exactly what
    /// its flows have.
    #[serde(default)]
    pub step: Rate,
}

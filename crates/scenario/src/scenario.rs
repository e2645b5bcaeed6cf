//! A scenario: what happens in a network, and how long it is watched.
//!
//! ```toml
//! name = "high load"
//! topology = "../topologies/retry.toml"    # beside this file; or a published or a random one, see [`Choice`]
//! protocol = "yessir"                      # rsvp, boomerang, yessir or nsis
//! duration = "600s"
//! discard = "50s"                          # what happens before counts for nothing; default 0
//! refresh = "30s"                          # default 30s
//! retry = { threshold = 10 }               # a number, or "infinite"; 0: by refreshes alone, the default
//! rollback = { after = "5s", again = "uniform 20s 40s" } # give back what is partial, ask again later; default: wait
//! data = "packets"                         # the default; or "fluid", rates only, or "none"
//!
//! [[flows]]
//! name = "reserved"
//! between = [["h7", "h11"], ["h8", "h12"]] # by turns; or "random", any two hosts
//! count = 120                              # so many at a time
//! arrivals = "poisson"                     # count is their mean; or "replaced", each that ends by another, the default
//! lifetime = "exponential 60s"             # or "constant 60s", "uniform 30s 90s", "forever", the default
//! spread = "30s"                           # they start at random within this time; default 0
//! rate = "100kbit"
//! reserves = "0s"                          # so long after it starts; not at all, if nothing is said
//!
//! [[flows]]
//! name = "test"
//! between = [["h0", "h6"]]
//! rate = "100kbit"
//! reserves = "250s"
//! watch = true                             # each attempt to reserve is in the outcome, and what arrives each second
//!
//! [[faults]]                               # what goes wrong: see docs/simulator.md
//! link = ["r1", "r2"]
//! from = "300s"
//! until = "330s"
//! outage = true
//! ```

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::{Counting, Discipline, RetryPolicy};
use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::endpoints::Between;
use crate::faults::{self, Fault, FaultError};
use crate::overrides::{self, Override, OverrideError};
use crate::topology::{Choice, Topology, TopologyError};
use crate::value_syntax::{self, Lifetime};
use crate::values;

/// See the module's text.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Its topology; a file is meant beside its own.
    pub topology: Choice,
    /// By what flows reserve.
    pub protocol: Protocol,
    /// How long it lasts.
    #[serde(deserialize_with = "value_syntax::time")]
    pub duration: Duration,
    /// What happens before counts for nothing.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub discard: Duration,
    /// Mean time between refreshes.
    #[serde(default = "thirty_seconds", deserialize_with = "value_syntax::time")]
    pub refresh: Duration,
    /// How refused requests are retried.
    #[serde(default)]
    pub retry: Retry,
    /// What flows do that do not get all they asked for; nothing where nothing is said, but wait.
    pub rollback: Option<Rollback>,
    /// How the data of flows is sent.
    #[serde(default)]
    pub data: Data,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<Flows>,
    /// What goes wrong.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// By what flows reserve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RSVP.
    Rsvp,
    /// Boomerang.
    Boomerang,
    /// YESSIR: one pass, and partial reservations.
    Yessir,
    /// QoS NSLP over GIST.
    Nsis,
}

/// How refused requests are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The threshold T of resource grabbing.
    pub threshold: Threshold,
    /// Whose turn it is.
    pub discipline: Discipline,
    /// What counts against the threshold.
    pub counting: Counting,
}

impl Default for Retry {
    fn default() -> Retry {
        let (discipline, counting) = (Discipline::HeadOfLine, Counting::Entries);
        Retry { threshold: Threshold::Times(0), discipline, counting }
    }
}

/// Who lacks some part of a reservation gives back what it has, and asks again for all of it later, by dice: what Pan and
/// Schulzrinne call rollback. Nodes have no part in it.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// How long a flow waits for what lacks.
    #[serde(deserialize_with = "value_syntax::time")]
    pub after: Duration,
    /// How long it then waits before it asks again.
    pub again: Lifetime,
}

/// The threshold T.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Threshold {
    /// So many times; 0: only by refreshes.
    Times(u32),
    /// As often as there is a chance.
    Word(Infinite),
}

/// `"infinite"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Infinite {
    /// Without end.
    Infinite,
}

impl Retry {
    /// As the ledger has it.
    pub(crate) fn policy(&self) -> RetryPolicy {
        let threshold = match self.threshold {
            Threshold::Times(times) => times,
            Threshold::Word(Infinite::Infinite) => u32::MAX,
        };
        let Retry { discipline, counting, .. } = *self;
        RetryPolicy { threshold, discipline, counting, ..RetryPolicy::default() }
    }
}

/// Flows that are alike.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Their name.
    pub name: String,
    /// From which node to which.
    pub between: Between,
    /// How many there are at a time.
    #[serde(default = "one")]
    pub count: u32,
    /// How others come after them.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// How long each lives.
    #[serde(default = "forever")]
    pub lifetime: Lifetime,
    /// When the first ones start,
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub starts: Duration,
    /// at random within this time.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub spread: Duration,
    /// Rate of each, IP packet octets; what is reserved, too.
    #[serde(deserialize_with = "value_syntax::rate")]
    pub rate: Rate,
    /// Octets of each IP packet.
    #[serde(default = "packet_octets")]
    pub packet_octets: u32,
    /// Depth of the token bucket that is announced, octets.
    #[serde(default = "bucket_octets")]
    pub bucket_octets: u32,
    /// They are on and off by turns, for times that are distributed exponentially.
    pub bursts: Option<Bursts>,
    /// How important they are: whose reservation may take the place of others that are less so (RFC 3181). Only RSVP
    /// says it to routers; without one it is 0.
    pub priority: Option<u16>,
    /// How long after its start each asks for its reservation; none does where nothing is said.
    #[serde(default, deserialize_with = "value_syntax::some_time")]
    pub reserves: Option<Duration>,
    /// Whether each attempt to reserve, and what arrives each second, is in the outcome.
    #[serde(default)]
    pub watch: bool,
}

/// How flows come after those that are there at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arrivals {
    /// Each that ends is followed at once by another, from and to the same nodes.
    #[default]
    Replaced,
    /// Independently of those that end, by a Poisson process that brings as many as leave in the long run.
    Poisson,
}

/// Mean times of a source that is on and off by turns.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// On, at the rate.
    #[serde(deserialize_with = "value_syntax::time")]
    pub on: Duration,
    /// Off.
    #[serde(deserialize_with = "value_syntax::time")]
    pub off: Duration,
}

fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}

fn one() -> u32 {
    1
}

fn forever() -> Lifetime {
    Lifetime::Forever
}

fn packet_octets() -> u32 {
    125
}

fn bucket_octets() -> u32 {
    5_000
}

/// Why a scenario makes no sense.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// No TOML, or a key that is missing, unknown or of the wrong type.
    #[error("line {line}: {why}")]
    Toml {
        /// Line, from 1.
        line: usize,
        /// In the words of the TOML reader.
        why: String,
    },
    /// Of the topology.
    #[error("topology: {0}")]
    Topology(TopologyError),
    /// Flows of a node that is not there.
    #[error("flows `{flows}`: there is no node `{node}` in the topology")]
    NoSuchNode {
        /// Whose.
        flows: String,
        /// Its name.
        node: String,
    },
    /// A value that was to be set cannot be.
    #[error("`{key}`: {why}")]
    Override {
        /// Which.
        key: String,
        /// Why.
        why: OverrideError,
    },
    /// A value that can be read, and makes no sense.
    #[error("`{key}`: {why}")]
    Value {
        /// Which, as it is named where it is set from outside.
        key: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Priorities, of which the protocol knows nothing.
    #[error("flows `{0}` have a priority, but only rsvp tells routers of it")]
    Priority(String),
    /// Flows that go nowhere.
    #[error("flows `{0}` go from no node to another: say between = [[\"a\", \"b\"]]")]
    Nowhere(String),
    /// Faults of what is not there, or of no kind that it can have.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

impl Scenario {
    /// Reads a scenario.
    ///
    /// # Errors
    /// It is no scenario; nothing is said of its topology.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        toml::from_str(text).map_err(|error| of_toml(text, &error))
    }

    /// Reads a scenario with other values where some are set, one after the other.
    ///
    /// # Errors
    /// It is no scenario, by itself or with one of them.
    pub fn parse_with(text: &str, overrides: &[Override]) -> Result<Scenario, ScenarioError> {
        overrides::parse(text, overrides)
    }

    /// Whether its values make sense, and its flows are between nodes of a topology.
    ///
    /// # Errors
    /// The first that does not, or is not.
    pub fn check(&self, topology: &Topology) -> Result<(), ScenarioError> {
        values::check(self)?;
        for flows in &self.flows {
            if flows.priority.is_some() && self.protocol != Protocol::Rsvp {
                return Err(ScenarioError::Priority(flows.name.clone()));
            }
            if !flows.between.leads_anywhere(topology) {
                return Err(ScenarioError::Nowhere(flows.name.clone()));
            }
            for node in flows.between.names() {
                if topology.node(node).is_none() {
                    let (flows, node) = (flows.name.clone(), node.clone());
                    return Err(ScenarioError::NoSuchNode { flows, node });
                }
            }
        }
        faults::check(&self.faults, topology)?;
        Ok(())
    }
}

/// Where the TOML reader stumbled.
pub(crate) fn of_toml(text: &str, error: &toml::de::Error) -> ScenarioError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.as_bytes().iter().take(start);
    let line = 1 + before.filter(|&&octet| octet == b'\n').count();
    ScenarioError::Toml { line, why: error.message().to_owned() }
}

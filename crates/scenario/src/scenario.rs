//! A scenario: flows, reservations and faults in a network, and the duration of the run.
//!
//! ```toml
//! name = "high load"
//! topology = "../topologies/retry.toml"    # beside this file; or a published or a random one, see [`Choice`]
//! protocol = "..."                         # by its name
//! duration = "600s"
//! discard = "50s"                          # initial time that is not counted; default 0
//! refresh = "30s"                          # default 30s
//! refresh_reduction = true                 # summaries in place of refreshes, if the protocol has them; the default
//! retry = { threshold = 10 }               # a number, or "infinite"; 0: by refreshes alone, the default
//! rollback = { after = "5s", again = "uniform 20s 40s" } # release a partial reservation, retry later; default: wait
//! data = "packets"                         # the default; or "fluid", rates only, or "none"
//! scheduler = "priority"                   # of every link, the default; or "wfq", "fifo"; of some: see docs/simulator.md
//! processing = { profile = "pentium-ii-2001" } # daemons take time; see docs/simulator.md; default: none
//! admission = { measured = { target = 0.9, window = "10s", sample = "1s" } } # of controlled load; default: "parameter"
//!
//! [[flows]]
//! name = "reserved"
//! between = [["h7", "h11"], ["h8", "h12"]] # in turn; or "random", any two hosts
//! count = 120                              # simultaneous flows
//! arrivals = "poisson"                     # count is the mean; or "replaced" (default): each that ends is replaced;
//!                                          # "periodic", "pareto 1.5", "lognormal 1.2", "batches 10": see [`Arrivals`]
//! lifetime = "exponential 60s"             # or "constant 60s", "uniform 30s 90s", "pareto 60s 1.5" (mean, shape),
//!                                          # "lognormal 60s 1.2" (mean, deviation), "forever", the default
//! initial = "stationary"                   # the first flows have remaining lifetimes, the default; or "new", "none"
//! spread = "30s"                           # random start within this time; default 0
//! rate = "100kbit"
//! reserves = "0s"                          # time after its start; never by default
//!
//! [[flows]]
//! name = "test"
//! between = [["h0", "h6"]]
//! rate = "100kbit"
//! reserves = "250s"
//! watch = true                             # the outcome has each attempt, and the received rate in each second
//!
//! [[flows]]
//! name = "call"
//! between = [["h0", "h6"]]
//! rate = "100kbit"
//! opens = "10s"                            # time after its start at which its source opens the path; never by default
//! exposes = "5s"                           # and at which its destination makes its port reachable; never by default
//! closes = "60s"                           # and at which both end; default: the end of the flow
//! proxy = true                             # the edge acts for an end that does not ask; default false
//!
//! [[flows]]
//! name = "trace"
//! between = [["h0", "h6"]]
//! arrivals = ["0s", "1.5s", "1.5s"]        # each flow, ascending, from starts on; no count, and no flows before
//! lifetime = ["60s", "10s", "2s"]          # of each; or a law
//! rate = "100kbit"
//!
//! [[middleboxes]]                          # firewalls and translators: see docs/simulator.md
//! node = "r1"
//! guard = ["r2"]
//!
//! [[mobility]]                             # hosts that move: see docs/simulator.md
//! nodes = ["h9"]
//! stays = "exponential 60s"
//!
//! [[faults]]                               # faults: see docs/simulator.md
//! link = ["r1", "r2"]
//! from = "300s"
//! until = "330s"
//! outage = true
//! ```

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::{Counting, Discipline, RetryPolicy};
use serde::Deserialize;

use crate::admission::Admission;
use crate::arrivals::Arrivals;
use crate::data::Data;
use crate::endpoints::Between;
use crate::error::{ScenarioError, of_toml};
use crate::faults::Fault;
use crate::lifetime::{Lifetime, Lifetimes};
use crate::middlebox::Middlebox;
use crate::mobility::Mobility;
use crate::processing::Processing;
use crate::protocols::{Protocols, ScenarioProtocol};
use crate::scheduler::Schedulers;
use crate::topology::Choice;
use crate::value_syntax;

/// A scenario; see the module documentation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name.
    pub name: String,
    /// Topology; file names are relative to the scenario's file.
    pub topology: Choice,
    /// Name of the protocol of the reservations.
    pub protocol: String,
    /// Protocols that the scenario may name; by default those of this project.
    #[serde(skip)]
    pub protocols: Protocols,
    /// Duration of the run.
    #[serde(deserialize_with = "value_syntax::time")]
    pub duration: Duration,
    /// Initial time that is not counted.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub discard: Duration,
    /// Mean time between refreshes.
    #[serde(default = "thirty_seconds", deserialize_with = "value_syntax::time")]
    pub refresh: Duration,
    /// Whether refreshes are reduced to summaries, where the protocol has that.
    #[serde(default = "yes")]
    pub refresh_reduction: bool,
    /// Retry policy of refused requests.
    #[serde(default)]
    pub retry: Retry,
    /// Rollback of incomplete reservations; without it, flows wait.
    pub rollback: Option<Rollback>,
    /// Simulation of the flows' data.
    #[serde(default)]
    pub data: Data,
    /// Schedulers of the links.
    #[serde(default)]
    pub scheduler: Schedulers,
    /// Admission control of the links.
    #[serde(default)]
    pub admission: Admission,
    /// Processors of the nodes; without it, daemons take no time.
    pub processing: Option<Processing>,
    /// The flows.
    #[serde(default)]
    pub flows: Vec<Flows>,
    /// Firewalls and translators.
    #[serde(default)]
    pub middleboxes: Vec<Middlebox>,
    /// Hosts that move.
    #[serde(default)]
    pub mobility: Vec<Mobility>,
    /// Faults.
    #[serde(default)]
    pub faults: Vec<Fault>,
}

/// Retry policy of refused requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Retry {
    /// The threshold T of resource grabbing.
    pub threshold: Threshold,
    /// Order of grants.
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

/// Rollback, as named by Pan and Schulzrinne: a flow whose reservation is incomplete releases it, and requests it
/// again after a random time. Nodes are not involved.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rollback {
    /// Time that a flow waits for a complete reservation.
    #[serde(deserialize_with = "value_syntax::time")]
    pub after: Duration,
    /// Pause before the next request.
    pub again: Lifetime,
}

/// The threshold T.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Threshold {
    /// Number of retries; 0: by refreshes only.
    Times(u32),
    /// Unlimited.
    Word(Infinite),
}

/// `"infinite"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Infinite {
    /// Unlimited.
    Infinite,
}

impl Retry {
    /// Returns the policy of the ledger.
    pub(crate) fn policy(&self) -> RetryPolicy {
        let threshold = match self.threshold {
            Threshold::Times(times) => times,
            Threshold::Word(Infinite::Infinite) => u32::MAX,
        };
        let Retry { discipline, counting, .. } = *self;
        RetryPolicy { threshold, discipline, counting, ..RetryPolicy::default() }
    }
}

/// A group of flows with the same parameters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flows {
    /// Name.
    pub name: String,
    /// Endpoints.
    pub between: Between,
    /// Number of simultaneous flows, 1 by default; none with a trace of arrivals.
    pub count: Option<u32>,
    /// Arrival of later flows.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Lifetime of each flow.
    #[serde(default = "forever")]
    pub lifetime: Lifetimes,
    /// Flows at the start; without it, [`Initial::Stationary`], but none with a trace of arrivals.
    pub initial: Option<Initial>,
    /// Start time of the first flows.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub starts: Duration,
    /// Time after `starts` within which they start at random. The steady state begins after it.
    #[serde(default, deserialize_with = "value_syntax::time")]
    pub spread: Duration,
    /// Rate of each flow, in IP packet octets; also the reserved rate.
    #[serde(deserialize_with = "value_syntax::rate")]
    pub rate: Rate,
    /// Size of each IP packet, octets.
    #[serde(default = "packet_octets")]
    pub packet_octets: u32,
    /// Depth of the announced token bucket, octets.
    #[serde(default = "bucket_octets")]
    pub bucket_octets: u32,
    /// On-off behaviour with exponentially distributed times.
    pub bursts: Option<Bursts>,
    /// Preemption priority: a reservation may displace others of lower priority (RFC 3181). Not every protocol signals it
    /// to routers; the default is 0.
    pub priority: Option<u16>,
    /// Time from the start of a flow to its reservation request; none by default.
    #[serde(default, deserialize_with = "value_syntax::some_time")]
    pub reserves: Option<Duration>,
    /// Time from the start of a flow to the request of its source to open its path through firewalls; none by default.
    #[serde(default, deserialize_with = "value_syntax::some_time")]
    pub opens: Option<Duration>,
    /// Time from the start of a flow to the request of its destination to be reachable from outside; none by default.
    #[serde(default, deserialize_with = "value_syntax::some_time")]
    pub exposes: Option<Duration>,
    /// Time from the start of a flow to the end of these requests; its end by default.
    #[serde(default, deserialize_with = "value_syntax::some_time")]
    pub closes: Option<Duration>,
    /// Whether the edge of the network acts for the end that does not ask.
    #[serde(default)]
    pub proxy: bool,
    /// Whether the outcome includes each attempt to reserve, and the received rate in each second.
    #[serde(default)]
    pub watch: bool,
}

/// Flows that are present at the start, before any arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// As many as a steady state has, with their remaining lifetimes: [`Flows::count`] if each that ends is replaced or
    /// arrivals are periodic, otherwise a number of Poisson's distribution with this mean. Their mean is that of the
    /// steady state at any time. The spread of their number is so only if flows are replaced or arrive by a Poisson
    /// process; for the other laws, discard some lifetimes ([`Scenario::discard`]).
    #[default]
    Stationary,
    /// [`Flows::count`], each at the beginning of its lifetime.
    New,
    /// None: all arrive later.
    None,
}

/// Mean times of an on-off source.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Mean on time, at the rate.
    #[serde(deserialize_with = "value_syntax::time")]
    pub on: Duration,
    /// Mean off time.
    #[serde(deserialize_with = "value_syntax::time")]
    pub off: Duration,
}

fn yes() -> bool {
    true
}

fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}

fn forever() -> Lifetimes {
    Lifetime::Forever.into()
}

fn packet_octets() -> u32 {
    125
}

fn bucket_octets() -> u32 {
    5_000
}

impl Flows {
    /// Returns the number of simultaneous flows.
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(1)
    }

    /// Returns the flows at the start.
    pub fn initial(&self) -> Initial {
        match self.arrivals {
            Arrivals::Trace(_) => Initial::None,
            _ => self.initial.unwrap_or_default(),
        }
    }
}

impl Scenario {
    /// Parses a scenario.
    ///
    /// # Errors
    /// The text is not a scenario; the topology is not checked.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        toml::from_str(text).map_err(|error| of_toml(text, &error))
    }

    /// Returns the protocol that reserves.
    ///
    /// # Errors
    /// No protocol has the name.
    pub fn reserving_protocol(&self) -> Result<&'static dyn ScenarioProtocol, ScenarioError> {
        self.protocols.by_name(&self.protocol).ok_or_else(|| ScenarioError::Protocol {
            name: self.protocol.clone(),
            known: self.protocols.names().collect::<Vec<_>>().join(", "),
        })
    }
}

//! Faults of a scenario, as rules: lossy links, link failures, daemon crashes, refusals of traffic control.
//!
//! ```toml
//! [[faults]]
//! link = ["r1", "r2"]         # by its two nodes, in any order; parallel links share the rule
//! from = "10s"                # default 0
//! until = "60s"               # default: the end
//! loss = 0.1                  # shares of the signalling messages, both ways: lost,
//! duplication = 0.05          # delivered twice,
//! corruption = 0.01           # with one bit flipped;
//! jitter = "20ms"             # and each delayed by up to so much, which reorders them
//!
//! [[faults]]
//! link = ["r1", "r2"]
//! from = "100s"
//! until = "130s"
//! outage = true               # nothing passes; routes avoid the link if there is another path
//!
//! [[faults]]
//! link = ["r1", "r2"]
//! from = "140s"
//! until = "170s"
//! reservable = "1Mbit"        # no more of each direction can be reserved; what is reserved stays
//!
//! [[faults]]
//! node = "r2"
//! from = "200s"
//! until = "210s"              # when a new daemon starts; never by default
//! crash = true
//! grace = "30s"               # how long the new one keeps unclaimed reservations; default 30s
//!
//! [[faults]]
//! node = "r2"
//! from = "300s"
//! until = "310s"
//! refusal = true              # traffic control of the node refuses new and changed reservations
//! ```
//!
//! If rules for one link overlap, the worst of each kind counts; a link is down, and a daemon crashed, as long as any
//! rule is active. Signalling has a queue of its own and data never takes its place, so that without a rule no
//! message is lost. Routes change everywhere at once when a link goes down or up.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_sim::{Faults, Network, NodeId};
use serde::Deserialize;

use crate::routing::Routing;
use crate::topology::Topology;
use crate::value_syntax;

/// A rule; see the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// End nodes of the link.
    pub link: Option<[String; 2]>,
    /// The node.
    pub node: Option<String>,
    /// Start time.
    #[serde(deserialize_with = "value_syntax::time")]
    pub from: Duration,
    /// End time; the end of the run by default.
    #[serde(deserialize_with = "value_syntax::some_time")]
    pub until: Option<Duration>,
    /// Share of lost messages, 0 to 1.
    pub loss: f64,
    /// Share of duplicated messages.
    pub duplication: f64,
    /// Share of messages with one bit flipped.
    pub corruption: f64,
    /// Maximum additional delay.
    #[serde(deserialize_with = "value_syntax::time")]
    pub jitter: Duration,
    /// Whether the link is down.
    pub outage: bool,
    /// Rate of each direction that can be reserved.
    #[serde(deserialize_with = "value_syntax::some_rate")]
    pub reservable: Option<Rate>,
    /// Whether the daemon is down.
    pub crash: bool,
    /// Time after its restart for which the next daemon keeps unclaimed reservations.
    #[serde(deserialize_with = "value_syntax::some_time")]
    pub grace: Option<Duration>,
    /// Whether traffic control refuses installations.
    pub refusal: bool,
}

/// Default time for which a new daemon keeps unclaimed reservations.
const GRACE: Duration = Duration::from_secs(30);
/// Error number of refused installations: `ENOSPC`, no room for a class.
const ENOSPC: u16 = 28;

/// Reason why a rule is invalid. Rules are numbered from 1, in the order of the file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// The rule names neither a link nor a node, or both.
    #[error("fault {fault}: give either link = [\"a\", \"b\"] or node = \"a\"")]
    Nowhere {
        /// Number of the rule.
        fault: usize,
    },
    /// The link does not exist.
    #[error("fault {fault}: link: `{}` and `{}` are not joined; links of `{}` lead to {known}", ends[0], ends[1], ends[0])]
    NoSuchLink {
        /// Number of the rule.
        fault: usize,
        /// End nodes of the link.
        ends: [String; 2],
        /// Neighbours of the first of them.
        known: String,
    },
    /// The node does not exist.
    #[error("fault {fault}: {field}: unknown node `{node}`: one of {known}")]
    NoSuchNode {
        /// Number of the rule.
        fault: usize,
        /// `link` or `node`.
        field: &'static str,
        /// Name of the node.
        node: String,
        /// Nodes of the topology.
        known: String,
    },
    /// A share is not between 0 and 1.
    #[error("fault {fault}: invalid share {field} = {value}: give a number from 0 to 1")]
    NoShare {
        /// Number of the rule.
        fault: usize,
        /// The field.
        field: &'static str,
        /// Value of the field.
        value: f64,
    },
    /// The rule ends before it starts.
    #[error("fault {fault}: until must be after the start")]
    NoTime {
        /// Number of the rule.
        fault: usize,
    },
    /// A field for links in a rule for a node, or the other way round.
    #[error("fault {fault}: {field} does not apply to a {place}: use {known}")]
    Misplaced {
        /// Number of the rule.
        fault: usize,
        /// The field.
        field: &'static str,
        /// `link` or `node`.
        place: &'static str,
        /// Fields that are allowed.
        known: &'static str,
    },
    /// The rule has no effect.
    #[error("fault {fault}: empty fault: give {known}")]
    Harmless {
        /// Number of the rule.
        fault: usize,
        /// Fields that have an effect.
        known: &'static str,
    },
}

/// Fields of rules for links.
const OF_LINKS: &str = "loss, duplication, corruption, jitter, outage, reservable";
/// Fields of rules for nodes.
const OF_NODES: &str = "crash (with grace), refusal";

impl Fault {
    /// Checks rule number `fault` against a topology.
    fn check(&self, fault: usize, topology: &Topology) -> Result<(), FaultError> {
        let shares = [
            ("loss", self.loss),
            ("duplication", self.duplication),
            ("corruption", self.corruption),
        ];
        if let Some(&(field, value)) = shares.iter().find(|(_, s)| !(0.0..=1.0).contains(s)) {
            return Err(FaultError::NoShare { fault, field, value });
        }
        if self.until.is_some_and(|until| until <= self.from) {
            return Err(FaultError::NoTime { fault });
        }
        let said_of_links = [
            ("loss", self.loss > 0.0),
            ("duplication", self.duplication > 0.0),
            ("corruption", self.corruption > 0.0),
            ("jitter", !self.jitter.is_zero()),
            ("outage", self.outage),
            ("reservable", self.reservable.is_some()),
        ];
        let said_of_nodes =
            [("crash", self.crash), ("grace", self.grace.is_some()), ("refusal", self.refusal)];
        let first = |fields: &[(&'static str, bool)]| {
            fields.iter().find(|(_, given)| *given).map(|(field, _)| *field)
        };
        let (misplaced, place, known, harmless) = match (&self.link, &self.node) {
            (Some(ends), None) => {
                check_link(fault, ends, topology)?;
                let harmless = first(&said_of_links).is_none();
                (first(&said_of_nodes), "link", OF_LINKS, harmless)
            }
            (None, Some(node)) => {
                check_node(fault, "node", node, topology)?;
                let harmless = !self.crash && !self.refusal;
                (first(&said_of_links), "node", OF_NODES, harmless)
            }
            _ => return Err(FaultError::Nowhere { fault }),
        };
        if let Some(field) = misplaced {
            return Err(FaultError::Misplaced { fault, field, place, known });
        }
        if harmless {
            return Err(FaultError::Harmless { fault, known });
        }
        Ok(())
    }
}

fn check_node(
    fault: usize,
    field: &'static str,
    node: &str,
    topology: &Topology,
) -> Result<usize, FaultError> {
    topology.node(node).ok_or_else(|| {
        let known = listed(topology.nodes.iter().map(|node| node.name.as_str()));
        FaultError::NoSuchNode { fault, field, node: node.to_owned(), known }
    })
}

fn check_link(fault: usize, ends: &[String; 2], topology: &Topology) -> Result<(), FaultError> {
    let [first, second] = ends;
    let (one, other) =
        (check_node(fault, "link", first, topology)?, check_node(fault, "link", second, topology)?);
    if links_between(topology, one, other).next().is_some() {
        return Ok(());
    }
    let neighbors: BTreeSet<usize> = topology
        .links
        .iter()
        .map(|link| [link.ends[0].node, link.ends[1].node])
        .filter(|nodes| nodes.contains(&one))
        .flatten()
        .filter(|&node| node != one)
        .collect();
    let known = listed(neighbors.iter().map(|&node| topology.nodes[node].name.as_str()));
    Err(FaultError::NoSuchLink { fault, ends: ends.clone(), known })
}

/// Lists some names for people.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MAX_LISTED: usize = 12;
    let names: Vec<&str> = names.collect();
    match names.len() {
        0..=MAX_LISTED => names.join(", "),
        all => format!("{} and {} more", names[..MAX_LISTED].join(", "), all - MAX_LISTED),
    }
}

/// Returns the indices of the links between two nodes.
pub(crate) fn links_between(
    topology: &Topology,
    one: usize,
    other: usize,
) -> impl Iterator<Item = usize> + '_ {
    let numbered = topology.links.iter().enumerate();
    numbered.filter_map(move |(number, link)| {
        let ends = [link.ends[0].node, link.ends[1].node];
        (ends == [one, other] || ends == [other, one]).then_some(number)
    })
}

/// Checks all rules against a topology.
///
/// # Errors
/// The error of the first invalid rule.
pub(crate) fn check(faults: &[Fault], topology: &Topology) -> Result<(), FaultError> {
    faults.iter().enumerate().try_for_each(|(place, fault)| fault.check(place + 1, topology))
}

/// Link or node of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Link(usize),
    Node(usize),
}

/// One rule at one link or node.
#[derive(Clone, Debug)]
struct Rule {
    place: Place,
    fault: Fault,
}

impl Rule {
    fn begins(&self) -> Time {
        Time::ZERO + self.fault.from
    }

    fn ends(&self) -> Option<Time> {
        self.fault.until.map(|until| Time::ZERO + until)
    }

    fn holds(&self, place: Place, at: Time) -> bool {
        self.place == place && self.begins() <= at && self.ends().is_none_or(|end| at < end)
    }
}

/// Faults of a run in order.
#[derive(Debug)]
pub(crate) struct FaultSchedule {
    rules: Vec<Rule>,
    /// Times of changes, the last first.
    changes: Vec<(Time, Place)>,
    down: BTreeSet<usize>,
    crashed: BTreeSet<usize>,
}

impl FaultSchedule {
    /// Creates the schedule of rules that are valid in the topology ([`check`]).
    pub(crate) fn new(faults: &[Fault], topology: &Topology) -> FaultSchedule {
        let mut rules = Vec::new();
        for fault in faults {
            let place = |name: &String| topology.node(name);
            let mut add = |place| rules.push(Rule { place, fault: fault.clone() });
            if let Some(node) = fault.node.as_ref().and_then(place) {
                add(Place::Node(node));
            }
            if let Some([Some(one), Some(other)]) =
                fault.link.as_ref().map(|l| l.each_ref().map(place))
            {
                links_between(topology, one, other).for_each(|link| add(Place::Link(link)));
            }
        }
        let begin = |rule: &Rule| (rule.begins(), rule.place);
        let end = |rule: &Rule| rule.ends().map(|end| (end, rule.place));
        let mut changes: Vec<(Time, Place)> =
            rules.iter().map(begin).chain(rules.iter().filter_map(end)).collect();
        changes.sort_unstable();
        changes.dedup();
        changes.reverse();
        FaultSchedule { rules, changes, down: BTreeSet::new(), crashed: BTreeSet::new() }
    }

    /// Returns the time of the next change.
    pub(crate) fn next(&self) -> Option<Time> {
        self.changes.last().map(|(at, _)| *at)
    }

    /// Returns the indices of the links that are down.
    pub(crate) fn down(&self) -> &BTreeSet<usize> {
        &self.down
    }

    /// Applies the changes that are due.
    pub(crate) fn apply(
        &mut self,
        network: &mut Network,
        nodes: &[NodeId],
        topology: &Topology,
        routing: &mut Routing,
    ) {
        let now = network.now();
        let before = self.down.clone();
        while let Some((_, place)) = self.changes.pop_if(|(at, _)| *at <= now) {
            let rules: Vec<&Fault> = self
                .rules
                .iter()
                .filter(|rule| rule.holds(place, now))
                .map(|rule| &rule.fault)
                .collect();
            match place {
                Place::Link(link) => {
                    let Some((index, interface)) = routing.end_of(link) else { continue };
                    let node = nodes[index];
                    network.set_faults(node, interface, worst(&rules));
                    let reservable = rules.iter().filter_map(|fault| fault.reservable).min();
                    let reservable = reservable.unwrap_or(topology.links[link].reservable);
                    for (node, interface) in routing.ends_of(link) {
                        network.set_reservable(nodes[node], interface, reservable);
                    }
                    let is_down = rules.iter().any(|fault| fault.outage);
                    if is_down != self.down.contains(&link) {
                        network.set_link_up(node, interface, !is_down);
                        toggle(&mut self.down, link);
                    }
                }
                Place::Node(index) => {
                    let node = nodes[index];
                    let refuses = rules.iter().any(|fault| fault.refusal);
                    network.refuse_installations(node, refuses.then_some(ENOSPC));
                    let is_crashed = rules.iter().any(|fault| fault.crash);
                    if is_crashed == self.crashed.contains(&index) {
                        continue;
                    }
                    match is_crashed {
                        true => network.kill(node),
                        false => network.restart(node, self.grace(index, now)),
                    }
                    toggle(&mut self.crashed, index);
                }
            }
        }
        if self.down != before {
            routing.reroute_around(&self.down, network, nodes, topology);
        }
    }

    /// Returns the longest grace period of the rules that have just ended.
    fn grace(&self, node: usize, now: Time) -> Duration {
        let ended = |rule: &&Rule| {
            rule.place == Place::Node(node) && rule.fault.crash && rule.ends() == Some(now)
        };
        let graces = self.rules.iter().filter(ended).map(|rule| rule.fault.grace.unwrap_or(GRACE));
        graces.max().unwrap_or(GRACE)
    }
}

fn toggle(set: &mut BTreeSet<usize>, member: usize) {
    if !set.remove(&member) {
        set.insert(member);
    }
}

/// Combines rules by the worst of each kind.
fn worst(faults: &[&Fault]) -> Faults {
    let share = |of: fn(&Fault) -> f64| faults.iter().map(|fault| of(fault)).fold(0.0, f64::max);
    Faults {
        loss: share(|fault| fault.loss),
        duplication: share(|fault| fault.duplication),
        corruption: share(|fault| fault.corruption),
        jitter: faults.iter().map(|fault| fault.jitter).max().unwrap_or_default(),
    }
}

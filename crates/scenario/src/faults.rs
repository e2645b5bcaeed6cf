//! Faults of a scenario, as rules: lossy links, link failures, interfaces that vanish, daemon crashes, refusals of traffic
//! control.
//!
//! ```toml
//! [[faults]]
//! link = ["r1", "r2"]         # by its two nodes, in any order; parallel links share the rule
//! from = "10s"                # default 0
//! until = "60s"               # default: the end
//! loss = 0.1                  # shares of the signalling messages, both ways: lost; or "bursts 0.05 8", or a list, see below;
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
//! largest = "500kbit"         # and no new reservation is larger
//!
//! [[faults]]
//! link = ["r1", "r2"]
//! from = "180s"
//! until = "190s"              # when the interface is there again; never by default
//! removed = "r2"              # the interface of this end vanishes with its routes, and the link is down; it returns with
//! returns = "renumbered"      # "same": the same index (default); "renumbered": another one; "readdressed": another index
//!                             # and another address of the link's range
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
//! `loss` has other forms ([`Losses`]): `"bursts 0.05 8"` loses 5 % of the messages, in bursts of 8 on average (Gilbert's
//! Markov chain), `"bursts 0.05 8 0.5"` loses only half of the messages within bursts, and `[false, true, false]`
//! says of each message in turn whether it is lost, again and again. Each direction of a link has its own bursts, and its
//! own place in the list.
//!
//! If rules for one link overlap, the worst of each kind counts; a link is down, and a daemon crashed, as long as any
//! rule is active. Bursts and lists of several rules are all at work, beside the largest share: a message is lost if any of
//! them loses it. Signalling has a queue of its own and data never takes its place, so that without a rule no
//! message is lost. Routes change everywhere at once when a link goes down or up.

mod losses;
mod schedule;

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::{Prefix, Rate};
use serde::Deserialize;

pub use self::losses::Losses;
pub(crate) use self::schedule::FaultSchedule;
use crate::routing::Returns;
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
    /// Lost messages.
    pub loss: Losses,
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
    /// Rate of the largest new reservation.
    #[serde(deserialize_with = "value_syntax::some_rate")]
    pub largest: Option<Rate>,
    /// End node of the link whose interface is removed.
    pub removed: Option<String>,
    /// How it returns.
    pub returns: Returns,
    /// Whether the daemon is down.
    pub crash: bool,
    /// Time after its restart for which the next daemon keeps unclaimed reservations.
    #[serde(deserialize_with = "value_syntax::some_time")]
    pub grace: Option<Duration>,
    /// Whether traffic control refuses installations.
    pub refusal: bool,
}

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
    /// The removed interface is not at an end of the link.
    #[error("fault {fault}: removed: `{node}` is not an end of the link: use `{}` or `{}`", ends[0], ends[1])]
    NoEnd {
        /// Number of the rule.
        fault: usize,
        /// Name of the node.
        node: String,
        /// End nodes of the link.
        ends: [String; 2],
    },
    /// The address range of the link has two addresses only.
    #[error(
        "fault {fault}: {prefix} has no other address for the interface: give the link a prefix of /29 or larger"
    )]
    NoAddress {
        /// Number of the rule.
        fault: usize,
        /// Address range of the link.
        prefix: Prefix,
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
const OF_LINKS: &str =
    "loss, duplication, corruption, jitter, outage, reservable, largest, removed (with returns)";
/// Fields of rules for nodes.
const OF_NODES: &str = "crash (with grace), refusal";

impl Fault {
    /// Checks rule number `fault` against a topology.
    fn check(&self, fault: usize, topology: &Topology) -> Result<(), FaultError> {
        let shares = [
            ("loss", self.loss.share()),
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
            ("loss", self.loss != Losses::Share(0.0)),
            ("duplication", self.duplication > 0.0),
            ("corruption", self.corruption > 0.0),
            ("jitter", !self.jitter.is_zero()),
            ("outage", self.outage),
            ("reservable", self.reservable.is_some()),
            ("largest", self.largest.is_some()),
            ("removed", self.removed.is_some()),
            ("returns", self.returns != Returns::Same),
        ];
        let said_of_nodes =
            [("crash", self.crash), ("grace", self.grace.is_some()), ("refusal", self.refusal)];
        let first = |fields: &[(&'static str, bool)]| {
            fields.iter().find(|(_, given)| *given).map(|(field, _)| *field)
        };
        let (misplaced, place, known, harmless) = match (&self.link, &self.node) {
            (Some(ends), None) => {
                check_link(fault, ends, topology)?;
                self.check_removed(fault, ends, topology)?;
                let harmless = first(&said_of_links).is_none_or(|field| field == "returns");
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

impl Fault {
    /// Checks the interface that is removed from a link.
    fn check_removed(
        &self,
        fault: usize,
        ends: &[String; 2],
        topology: &Topology,
    ) -> Result<(), FaultError> {
        let Some(node) = &self.removed else { return Ok(()) };
        if !ends.contains(node) {
            let (node, ends) = (node.clone(), ends.clone());
            return Err(FaultError::NoEnd { fault, node, ends });
        }
        let [one, other] = ends.each_ref().map(|name| topology.node(name));
        let links = one.zip(other).map(|(one, other)| links_between(topology, one, other));
        let prefixes = links.into_iter().flatten().map(|link| topology.links[link].prefix);
        // /30 has two addresses besides those of the network and of broadcast.
        let mut small = prefixes.filter(|prefix| prefix.length() > 29);
        match small.next().filter(|_| self.returns == Returns::Readdressed) {
            Some(prefix) => Err(FaultError::NoAddress { fault, prefix }),
            None => Ok(()),
        }
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

//! What goes wrong in a scenario, as rules: bad links, links that fail, daemons that die, traffic control that refuses.
//!
//! ```toml
//! [[faults]]
//! link = ["r1", "r2"]         # by its two nodes, in any order; parallel links share the rule
//! from = "10s"                # default 0
//! until = "60s"               # default: the end
//! loss = 0.1                  # shares of the signalling messages, both ways: lost,
//! duplication = 0.05          # delivered twice,
//! corruption = 0.01           # with one bit turned over;
//! jitter = "20ms"             # and each delayed by up to so much more, so that they overtake one another
//!
//! [[faults]]
//! link = ["r1", "r2"]
//! from = "100s"
//! until = "130s"
//! outage = true               # nothing passes; routes lead round it, where there is another way
//!
//! [[faults]]
//! node = "r2"
//! from = "200s"
//! until = "210s"              # when a new daemon starts; none does, if nothing is said
//! crash = true
//! grace = "30s"               # what the dead one reserved stays for so long after that unclaimed; default 30s
//!
//! [[faults]]
//! node = "r2"
//! from = "300s"
//! until = "310s"
//! refusal = true              # traffic control of the node refuses what is new, and changes
//! ```
//!
//! Where rules for one link overlap, the worst of each kind counts; a link is down, and a daemon dead, as long as any rule
//! says so. Signalling has a queue of its own and data never takes its place, so that without a rule no message is lost.
//! Routes change everywhere at once when a link goes down or comes back.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::Time;
use earmark_sim::{Faults, Network, NodeId};
use serde::Deserialize;

use crate::routing::Routing;
use crate::topology::Topology;
use crate::value_syntax;

/// A rule. See the module's text.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fault {
    /// The nodes at both ends of the link that it concerns,
    pub link: Option<[String; 2]>,
    /// or the node.
    pub node: Option<String>,
    /// From when on.
    #[serde(deserialize_with = "value_syntax::time")]
    pub from: Duration,
    /// Until when; to the end, if nothing is said.
    #[serde(deserialize_with = "value_syntax::some_time")]
    pub until: Option<Duration>,
    /// Share of the messages that are lost, 0 to 1.
    pub loss: f64,
    /// Share of them that come twice.
    pub duplication: f64,
    /// Share of them in which one bit is turned over.
    pub corruption: f64,
    /// Largest additional delay.
    #[serde(deserialize_with = "value_syntax::time")]
    pub jitter: Duration,
    /// Whether the link is down.
    pub outage: bool,
    /// Whether the daemon is dead.
    pub crash: bool,
    /// How long after its restart the next daemon keeps what it left.
    #[serde(deserialize_with = "value_syntax::some_time")]
    pub grace: Option<Duration>,
    /// Whether traffic control refuses installations.
    pub refusal: bool,
}

/// How long a new daemon keeps what it found reserved, where a rule does not say.
const GRACE: Duration = Duration::from_secs(30);
/// What traffic control refuses installations with: `ENOSPC`, no room for a class.
const NO_ROOM: u16 = 28;

/// Why a rule makes no sense. Rules are numbered from 1, in the order of the file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// Neither a link nor a node, or both.
    #[error("fault {fault}: say either link = [\"a\", \"b\"] or node = \"a\"")]
    Nowhere {
        /// Its number.
        fault: usize,
    },
    /// A link that is not there.
    #[error("fault {fault}: link: `{}` and `{}` are not joined; links of `{}` lead to {known}", ends[0], ends[1], ends[0])]
    NoSuchLink {
        /// Its number.
        fault: usize,
        /// The nodes it names.
        ends: [String; 2],
        /// The neighbours of the first of them.
        known: String,
    },
    /// A node that is not there.
    #[error("fault {fault}: {field}: there is no node `{node}`; there are {known}")]
    NoSuchNode {
        /// Its number.
        fault: usize,
        /// `link` or `node`.
        field: &'static str,
        /// The name.
        node: String,
        /// The nodes of the topology.
        known: String,
    },
    /// A share that is none.
    #[error("fault {fault}: {field} = {value} is no share: say a number from 0 to 1")]
    NoShare {
        /// Its number.
        fault: usize,
        /// Which share.
        field: &'static str,
        /// What it says.
        value: f64,
    },
    /// It ends before it begins.
    #[error("fault {fault}: until: it ends before it begins, or at once")]
    NoTime {
        /// Its number.
        fault: usize,
    },
    /// What happens to links only said of a node, or the other way round.
    #[error("fault {fault}: {field} is nothing that happens to a {place}: {known} do")]
    Misplaced {
        /// Its number.
        fault: usize,
        /// What it says.
        field: &'static str,
        /// `link` or `node`.
        place: &'static str,
        /// What does.
        known: &'static str,
    },
    /// Nothing happens.
    #[error("fault {fault}: nothing goes wrong: say {known}")]
    Harmless {
        /// Its number.
        fault: usize,
        /// What can.
        known: &'static str,
    },
}

/// What can happen to a link,
const OF_LINKS: &str = "loss, duplication, corruption, jitter, outage";
/// and to a node.
const OF_NODES: &str = "crash (with grace), refusal";

impl Fault {
    /// Whether the rule number `fault` makes sense in a topology.
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
        ];
        let said_of_nodes =
            [("crash", self.crash), ("grace", self.grace.is_some()), ("refusal", self.refusal)];
        let first = |said: &[(&'static str, bool)]| {
            said.iter().find(|(_, said)| *said).map(|(field, _)| *field)
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

/// Some names, for people.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    const MOST: usize = 12;
    let names: Vec<&str> = names.collect();
    match names.len() {
        0..=MOST => names.join(", "),
        all => format!("{} and {} more", names[..MOST].join(", "), all - MOST),
    }
}

/// Indices of the links between two nodes.
fn links_between(
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

/// Whether all rules make sense in a topology.
///
/// # Errors
/// The first that does not.
pub(crate) fn check(faults: &[Fault], topology: &Topology) -> Result<(), FaultError> {
    faults.iter().enumerate().try_for_each(|(place, fault)| fault.check(place + 1, topology))
}

/// Where a rule applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Link(usize),
    Node(usize),
}

/// One rule at one place.
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

/// What goes wrong in a run, in its order.
#[derive(Debug)]
pub(crate) struct Timetable {
    rules: Vec<Rule>,
    /// When what changes, the last first.
    changes: Vec<(Time, Place)>,
    down: BTreeSet<usize>,
    dead: BTreeSet<usize>,
}

impl Timetable {
    /// That of rules that make sense in the topology ([`check`]).
    pub(crate) fn new(faults: &[Fault], topology: &Topology) -> Timetable {
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
        Timetable { rules, changes, down: BTreeSet::new(), dead: BTreeSet::new() }
    }

    /// When something changes next.
    pub(crate) fn next(&self) -> Option<Time> {
        self.changes.last().map(|(at, _)| *at)
    }

    /// Indices of the links that are down.
    pub(crate) fn down(&self) -> &BTreeSet<usize> {
        &self.down
    }

    /// Lets happen what is due now.
    pub(crate) fn apply(
        &mut self,
        network: &mut Network,
        nodes: &[NodeId],
        topology: &Topology,
        ways: &mut Routing,
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
                    let Some((index, interface)) = ways.end_of(link) else { continue };
                    let node = nodes[index];
                    network.set_faults(node, interface, worst(&rules));
                    let is_down = rules.iter().any(|fault| fault.outage);
                    if is_down != self.down.contains(&link) {
                        network.set_link_up(node, interface, !is_down);
                        toggle(&mut self.down, link);
                    }
                }
                Place::Node(index) => {
                    let node = nodes[index];
                    let refuses = rules.iter().any(|fault| fault.refusal);
                    network.refuse_installations(node, refuses.then_some(NO_ROOM));
                    let is_dead = rules.iter().any(|fault| fault.crash);
                    if is_dead == self.dead.contains(&index) {
                        continue;
                    }
                    match is_dead {
                        true => network.kill(node),
                        false => network.restart(node, self.grace(index, now)),
                    }
                    toggle(&mut self.dead, index);
                }
            }
        }
        if self.down != before {
            ways.lead_round(&self.down, network, nodes, topology);
        }
    }

    /// The longest that a rule which has just ended says.
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

/// The worst of each kind.
fn worst(faults: &[&Fault]) -> Faults {
    let share = |of: fn(&Fault) -> f64| faults.iter().map(|fault| of(fault)).fold(0.0, f64::max);
    Faults {
        loss: share(|fault| fault.loss),
        duplication: share(|fault| fault.duplication),
        corruption: share(|fault| fault.corruption),
        jitter: faults.iter().map(|fault| fault.jitter).max().unwrap_or_default(),
    }
}

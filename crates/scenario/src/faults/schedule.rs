//! Faults of a run, applied to its network in the order of their times.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::Time;
use earmark_sim::{Faults, Network, NodeId};

use super::{Fault, links_between};
use crate::routing::Routing;
use crate::topology::Topology;

/// Default time for which a new daemon keeps unclaimed reservations.
const GRACE: Duration = Duration::from_secs(30);
/// Error number of refused installations: `ENOSPC`, no room for a class.
const ENOSPC: u16 = 28;

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

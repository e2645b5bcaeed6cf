//! Faults of a run, applied to its network in the order of their times.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{InterfaceId, Time};
use earmark_sim::{Faults, Network, NodeId};

use super::{Fault, links_between};
use crate::routing::{Returns, Routing};
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

    fn holds(&self, at: Time) -> bool {
        self.begins() <= at && self.ends().is_none_or(|end| at < end)
    }
}

/// Faults of a run in order.
#[derive(Debug)]
pub(crate) struct FaultSchedule {
    rules: Vec<Rule>,
    /// Indices of the rules at each place.
    at: BTreeMap<Place, Vec<usize>>,
    /// Times of changes, the last first.
    changes: Vec<(Time, Place)>,
    /// Links that are down: failed, or without an interface.
    down: BTreeSet<usize>,
    failed: BTreeSet<usize>,
    /// Removed interfaces: the link, and the node.
    removed: BTreeSet<(usize, usize)>,
    crashed: BTreeSet<usize>,
    /// Rules, by index, whose loss laws are in the network.
    losing: BTreeSet<usize>,
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
        let mut at: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (number, rule) in rules.iter().enumerate() {
            at.entry(rule.place).or_default().push(number);
        }
        let begin = |rule: &Rule| (rule.begins(), rule.place);
        let end = |rule: &Rule| rule.ends().map(|end| (end, rule.place));
        let mut changes: Vec<(Time, Place)> =
            rules.iter().map(begin).chain(rules.iter().filter_map(end)).collect();
        changes.sort_unstable();
        changes.dedup();
        changes.reverse();
        FaultSchedule {
            rules,
            at,
            changes,
            down: BTreeSet::new(),
            failed: BTreeSet::new(),
            removed: BTreeSet::new(),
            crashed: BTreeSet::new(),
            losing: BTreeSet::new(),
        }
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
            match place {
                Place::Link(link) => self.apply_to_link(link, network, nodes, topology, routing),
                Place::Node(index) => self.apply_to_node(index, network, nodes[index]),
            }
        }
        if self.down != before {
            routing.reroute_around(&self.down, network, nodes, topology);
        }
    }

    /// Returns the rules at a place, with their indices.
    fn rules_at(&self, place: Place) -> impl Iterator<Item = (usize, &Rule)> {
        let numbers = self.at.get(&place).into_iter().flatten();
        numbers.map(|number| (*number, &self.rules[*number]))
    }

    /// Returns the faults at a place that hold now.
    fn current(&self, place: Place, now: Time) -> Vec<Fault> {
        let rules = self.rules_at(place).filter(|(_, rule)| rule.holds(now));
        rules.map(|(_, rule)| rule.fault.clone()).collect()
    }

    fn apply_to_link(
        &mut self,
        link: usize,
        network: &mut Network,
        nodes: &[NodeId],
        topology: &Topology,
        routing: &mut Routing,
    ) {
        let rules = self.current(Place::Link(link), network.now());
        let is_down = rules.iter().any(|fault| fault.outage || fault.removed.is_some());
        if is_down != self.down.contains(&link) {
            toggle(&mut self.down, link);
        }
        for end in &topology.links[link].ends {
            let name = Some(&topology.nodes[end.node].name);
            let is_removed = rules.iter().any(|fault| fault.removed.as_ref() == name);
            if is_removed == self.removed.contains(&(link, end.node)) {
                continue;
            }
            match is_removed {
                true => routing.remove_interface(link, end.node, network, nodes),
                false => {
                    let how = self.returns(link, network.now());
                    routing.return_interface(link, end.node, how, network, nodes);
                }
            }
            toggle(&mut self.removed, (link, end.node));
        }
        let Some((index, interface)) = routing.end_of(link) else { return };
        let node = nodes[index];
        network.set_faults(node, interface, worst(&rules));
        self.apply_loss_laws(link, network, (node, interface));
        let reservable = rules.iter().filter_map(|fault| fault.reservable).min();
        let reservable = reservable.unwrap_or(topology.links[link].reservable);
        let largest = rules.iter().filter_map(|fault| fault.largest).min();
        for (node, interface) in routing.ends_of(link) {
            network.set_reservable(nodes[node], interface, reservable);
            network.set_largest(nodes[node], interface, largest);
        }
        let has_failed = rules.iter().any(|fault| fault.outage);
        if has_failed != self.failed.contains(&link) {
            network.set_link_up(node, interface, !has_failed);
            toggle(&mut self.failed, link);
        }
    }

    /// Adds the loss laws of rules that begin at a link, and removes those of rules that end. The others keep their state.
    fn apply_loss_laws(
        &mut self,
        link: usize,
        network: &mut Network,
        (node, interface): (NodeId, InterfaceId),
    ) {
        let now = network.now();
        let mut changed = Vec::new();
        for (number, rule) in self.rules_at(Place::Link(link)) {
            let Some(law) = rule.fault.loss.law() else { continue };
            match (rule.holds(now), self.losing.contains(&number)) {
                (true, false) => network.add_loss_law(node, interface, number, law),
                (false, true) => network.remove_loss_law(node, interface, number),
                _ => continue,
            }
            changed.push(number);
        }
        changed.into_iter().for_each(|number| toggle(&mut self.losing, number));
    }

    fn apply_to_node(&mut self, index: usize, network: &mut Network, node: NodeId) {
        let now = network.now();
        let rules = self.current(Place::Node(index), now);
        let refuses = rules.iter().any(|fault| fault.refusal);
        network.refuse_installations(node, refuses.then_some(ENOSPC));
        let is_crashed = rules.iter().any(|fault| fault.crash);
        if is_crashed == self.crashed.contains(&index) {
            return;
        }
        match is_crashed {
            true => network.kill(node),
            false => network.restart(node, self.grace(index, now)),
        }
        toggle(&mut self.crashed, index);
    }

    /// Returns how the interface of a link returns by the rules that have just ended.
    fn returns(&self, link: usize, now: Time) -> Returns {
        let ended = self.rules_at(Place::Link(link)).filter(|(_, rule)| rule.ends() == Some(now));
        let removing = ended.filter(|(_, rule)| rule.fault.removed.is_some());
        removing.map(|(_, rule)| rule.fault.returns).max().unwrap_or_default()
    }

    /// Returns the longest grace period of the rules that have just ended.
    fn grace(&self, node: usize, now: Time) -> Duration {
        let ended = self.rules_at(Place::Node(node)).filter(|(_, rule)| rule.ends() == Some(now));
        let crashes = ended.filter(|(_, rule)| rule.fault.crash);
        crashes.map(|(_, rule)| rule.fault.grace.unwrap_or(GRACE)).max().unwrap_or(GRACE)
    }
}

fn toggle<T: Ord + Copy>(set: &mut BTreeSet<T>, member: T) {
    if !set.remove(&member) {
        set.insert(member);
    }
}

/// Combines rules by the worst of each kind.
fn worst(faults: &[Fault]) -> Faults {
    let share = |of: fn(&Fault) -> f64| faults.iter().map(of).fold(0.0, f64::max);
    Faults {
        loss: share(|fault| fault.loss.share()),
        duplication: share(|fault| fault.duplication),
        corruption: share(|fault| fault.corruption),
        jitter: faults.iter().map(|fault| fault.jitter).max().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;

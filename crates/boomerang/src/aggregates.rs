//! The aggregates that a node makes: their packets, their members, and the rates that they announce.

use alloc::string::String;
use alloc::vec::Vec;

use earmark_wire::boomerang::Keys;

use crate::config::AggregateRule;
use crate::selector::Selector;

/// The aggregates that this node makes.
#[derive(Debug, Default)]
pub(crate) struct Aggregates {
    /// Aggregates, addressed by members by index, so none moves. A free index is reused.
    pub(crate) list: Vec<Aggregate>,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    name: String,
    selector: Selector,
    /// Packets of the aggregate, as the note names them.
    pub(crate) keys: Keys,
    pub(crate) mask: Keys,
    /// Bits per second; see [`AggregateRule::step`].
    step: u64,
    /// Whether flows may join.
    pub(crate) active: bool,
    pub(crate) members: u32,
    /// Sum of the members' rates, bits per second.
    total: u64,
    /// Rate in the notes, bits per second.
    pub(crate) announced: u64,
}

/// Membership of a flow in an aggregate of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member {
    pub(crate) aggregate: u32,
    /// Rate that the flow adds, bits per second; 0 while it leaves.
    pub(crate) rate: u32,
    /// Whether the flow's message has come back or was repeated.
    pub(crate) settled: bool,
    /// Remaining announcements that the flow leaves; 0 while it stays.
    pub(crate) announcements_left: u8,
}

impl Aggregates {
    pub(crate) fn new(rules: &[AggregateRule]) -> Aggregates {
        let mut aggregates = Aggregates::default();
        aggregates.replace(rules);
        aggregates
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Replaces the rules. Flows of removed rules leave, each with its next message.
    pub(crate) fn replace(&mut self, rules: &[AggregateRule]) {
        for aggregate in &mut self.list {
            let same = |rule: &&AggregateRule| {
                rule.name == aggregate.name && rule.selector == aggregate.selector
            };
            let rule = rules.iter().find(same);
            aggregate.active = rule.is_some();
            aggregate.step = rule.map_or(aggregate.step, |rule| rule.step.as_bps());
        }
        for rule in rules {
            let known = |a: &Aggregate| a.name == rule.name && a.selector == rule.selector;
            if self.list.iter().any(known) {
                continue;
            }
            let Some(aggregate) = Aggregate::new(rule) else { continue };
            match self.list.iter_mut().find(|a| !a.active && a.members == 0) {
                Some(place) => *place = aggregate,
                None => self.list.push(aggregate),
            }
        }
    }

    /// Removes a member whose session ends.
    pub(crate) fn leave(&mut self, member: &Member) {
        let aggregate = &mut self.list[member.aggregate as usize];
        aggregate.count(member.rate, 0);
        aggregate.members -= 1;
    }

    /// Returns the first aggregate that contains all these packets.
    pub(crate) fn aggregate_for(&self, selector: &Selector) -> Option<u32> {
        let has = |a: &Aggregate| a.active && a.selector.contains(selector);
        self.list.iter().position(has).map(|place| place as u32)
    }
}

impl Aggregate {
    fn new(rule: &AggregateRule) -> Option<Aggregate> {
        let (keys, shape) = rule.selector.keys();
        let mask = shape.keys(keys.family().ok()?).ok()?;
        Some(Aggregate {
            name: rule.name.clone(),
            selector: rule.selector,
            keys,
            mask,
            step: rule.step.as_bps(),
            active: true,
            members: 0,
            total: 0,
            announced: 0,
        })
    }

    /// Changes a member's rate from `before` to `after`. Notes ask for whole steps and shrink by two at least, so
    /// that a flow that comes and goes does not make them oscillate.
    pub(crate) fn count(&mut self, before: u32, after: u32) {
        self.total = self.total - u64::from(before) + u64::from(after);
        let needed = match self.step {
            0 => self.total,
            step => self.total.div_ceil(step) * step,
        };
        if needed > self.announced || needed + 2 * self.step <= self.announced {
            self.announced = needed;
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::{Prefix, Rate};

    use super::*;

    /// A rule is known by its name and its packets, however often the settings are loaded.
    #[test]
    fn rules_that_are_loaded_again_make_no_aggregate() {
        let selector = |destination: &str| Selector {
            source: "10.1.0.0/16".parse::<Prefix>().expect("a prefix"),
            destination: destination.parse().expect("a prefix"),
            protocol: Some(17),
            source_port: None,
            destination_port: None,
        };
        let rule = |name: &str, destination| AggregateRule {
            name: name.into(),
            selector: selector(destination),
            step: Rate::ZERO,
        };
        let rules = [rule("one", "10.8.0.0/16"), rule("one", "10.9.0.0/16")];
        let rules = [&rules[..], &[rule("two", "10.8.0.0/16")]].concat();
        let mut aggregates = Aggregates::new(&rules);
        assert_eq!(aggregates.list.len(), 3);
        for _ in 0..3 {
            aggregates.replace(&rules);
        }
        assert_eq!(aggregates.list.len(), 3);
        assert!(aggregates.list.iter().all(|aggregate| aggregate.active));
    }
}

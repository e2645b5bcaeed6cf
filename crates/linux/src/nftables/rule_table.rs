//! Rules that the packet filter should have, by packets and by their ends.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::{FilterRule, FilteredPackets, Time};

use super::set::{Element, elements};
use super::shape::KeyShape;

/// An installed rule and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Installed {
    pub(super) rule: FilterRule,
    /// Shape of the key of its packets.
    pub(super) shape: KeyShape,
    pub(super) until: Time,
}

impl Installed {
    pub(super) fn elements(&self) -> Vec<Element> {
        elements(&self.rule, self.shape)
    }

    /// Whether connections get another translation by this rule than by another one.
    pub(super) fn translates_unlike(&self, other: Option<&Installed>) -> bool {
        let translation = |rule: &FilterRule| (rule.source, rule.destination);
        let others = other.map_or((None, None), |other| translation(&other.rule));
        translation(&self.rule) != others
    }
}

/// Rules by packets. Ordered maps: peers choose the packets, and no order may depend on a hash of them.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleTable {
    rules: BTreeMap<FilteredPackets, Installed>,
    /// Ends of all rules.
    ends: BTreeSet<(Time, FilteredPackets)>,
}

impl RuleTable {
    pub(super) fn len(&self) -> usize {
        self.rules.len()
    }

    pub(super) fn get(&self, packets: &FilteredPackets) -> Option<&Installed> {
        self.rules.get(packets)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Installed> {
        self.rules.values()
    }

    /// Installs, replaces or removes the rule of packets.
    pub(super) fn set(&mut self, packets: FilteredPackets, rule: Option<Installed>) {
        let before = match rule {
            Some(rule) => {
                self.ends.insert((rule.until, packets));
                self.rules.insert(packets, rule)
            }
            None => self.rules.remove(&packets),
        };
        if let Some(before) = before.filter(|before| rule.is_none_or(|r| r.until != before.until)) {
            self.ends.remove(&(before.until, packets));
        }
    }

    /// Returns the packets of rules that have ended by now.
    pub(super) fn ended(&self, now: Time) -> impl Iterator<Item = FilteredPackets> {
        self.ends.iter().take_while(move |(until, _)| *until <= now).map(|(_, packets)| *packets)
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::{FilterAction, Flow, Prefix};

    use super::*;

    fn rule(last: u8, until: u64) -> Installed {
        let prefix = Prefix::new([10, 0, 0, last].into(), 32);
        let packets = FilteredPackets { flow: Flow::to_range(prefix), icmp_type: None };
        let rule =
            FilterRule { packets, action: FilterAction::Allow, source: None, destination: None };
        let shape = KeyShape::of(&packets).expect("a shape");
        Installed { rule, shape, until: Time::from_secs(until) }
    }

    #[test]
    fn ends_follow_replaced_and_removed_rules() {
        let mut table = RuleTable::default();
        let of = |rule: Installed| rule.rule.packets;
        let [one, two] = [rule(1, 10), rule(2, 20)];
        let ended = |table: &RuleTable, now| table.ended(Time::from_secs(now)).collect::<Vec<_>>();
        for rule in [one, two] {
            table.set(of(rule), Some(rule));
        }
        assert_eq!(ended(&table, 9), []);
        assert_eq!(ended(&table, 10), [of(one)]);
        table.set(of(one), Some(rule(1, 30)));
        assert_eq!(ended(&table, 29), [of(two)], "a later end replaces the earlier one");
        table.set(of(one), Some(rule(1, 30)));
        assert_eq!(ended(&table, 30), [of(two), of(one)], "the same end is kept");
        table.set(of(two), None);
        assert_eq!(ended(&table, 99), [of(one)]);
        assert_eq!(table.len(), 1);
    }
}

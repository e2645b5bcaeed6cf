//! Changes of rules: all of one call in one batch, so that packets see none or all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{FilterChange, FilterRule, FilteredPackets, Time};

use super::answers;
use super::rule_table::Installed;
use super::set::SetId;
use super::shape::KeyShape;
use super::{PacketFilter, PacketFilterError, connections, messages};
use crate::netlink::Message;

/// Longest lifetime of an element, 30 years: the kernel's limit is larger, and what it counts in varies.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3_600);
/// Attempts at a batch. Each but the last tells which changes the kernel refuses, mostly all of them.
const ATTEMPTS: u32 = 8;

/// Messages of a batch of changes, and what holds after it.
#[derive(Debug, Default)]
struct Plan {
    messages: Vec<Message>,
    /// Position of the change of each message; `None` for those of sets, chains and ended rules.
    changes: Vec<Option<usize>>,
    /// Rules that change.
    rules: BTreeMap<FilteredPackets, Option<Installed>>,
    /// Number of rules afterwards.
    count: usize,
    /// Sets to be made.
    new_sets: BTreeSet<SetId>,
    /// Packets whose connections get another translation, or none.
    retranslated: BTreeSet<FilteredPackets>,
}

impl PacketFilter {
    /// Changes rules in the order of the changes, and removes those that have ended. All changes take effect at once; a
    /// packet of a rule that is replaced by the same one sees no gap. Returns the packets of refused rules, with the cause:
    /// nothing is installed for them, and the other changes are made.
    pub fn change(
        &mut self,
        changes: &[FilterChange],
    ) -> Vec<(FilteredPackets, PacketFilterError)> {
        let mut refused: BTreeMap<usize, PacketFilterError> = BTreeMap::new();
        for attempt in 1..=ATTEMPTS {
            let plan = self.plan(changes, &mut refused);
            match self.apply(plan) {
                Ok(()) => break,
                Err(Failure::Changes(failed)) if attempt < ATTEMPTS => refused.extend(failed),
                // Somebody has removed the table, or a part of it.
                Err(Failure::Whole(error))
                    if attempt < ATTEMPTS
                        && error.errno() == libc::ENOENT as u16
                        && self.repair().is_ok_and(|found| found.is_some()) => {}
                Err(failure) => {
                    let error = match failure {
                        Failure::Whole(error) => Some(error),
                        Failure::Changes(failed) => failed.into_values().next(),
                    };
                    if let Some(error) = error {
                        refuse_all(changes, &error, &mut refused);
                    }
                    break;
                }
            }
        }
        // A removal that failed leaves an element that ends by itself.
        let refused = refused.into_iter().filter_map(|(position, error)| match changes[position] {
            FilterChange::Install(rule, _) => Some((rule.packets, error)),
            FilterChange::Remove(_) => None,
        });
        refused.collect()
    }

    /// Plans the changes that are not refused; a refused installation removes the rule of its packets.
    fn plan(
        &self,
        changes: &[FilterChange],
        refused: &mut BTreeMap<usize, PacketFilterError>,
    ) -> Plan {
        let now = self.clock.now();
        let mut plan = Plan { count: self.rules.len(), ..Plan::default() };
        // The kernel's timers may be a moment behind.
        for packets in self.rules.ended(now).collect::<Vec<_>>() {
            self.plan_one(&mut plan, None, packets, None, now);
        }
        for (position, change) in changes.iter().enumerate() {
            let (packets, rule) = match *change {
                FilterChange::Remove(packets) => (packets, None),
                FilterChange::Install(rule, _) if refused.contains_key(&position) => {
                    (rule.packets, None)
                }
                FilterChange::Install(rule, until) => match self.accept(&plan, &rule) {
                    Ok(shape) => {
                        let installed = Installed { rule, shape, until };
                        (rule.packets, (until > now).then_some(installed))
                    }
                    Err(error) => {
                        refused.insert(position, error);
                        (rule.packets, None)
                    }
                },
            };
            self.plan_one(&mut plan, Some(position), packets, rule, now);
        }
        if !plan.new_sets.is_empty() {
            self.plan_sets(&mut plan);
        }
        plan
    }

    /// Checks whether a rule can be installed after the changes planned so far.
    fn accept(&self, plan: &Plan, rule: &FilterRule) -> Result<KeyShape, PacketFilterError> {
        rule.check()?;
        if rule.translates() && rule.packets.flow.spi != 0 {
            return Err(PacketFilterError::TranslatedSpi);
        }
        let shape = KeyShape::of(&rule.packets).ok_or(PacketFilterError::AuthenticationHeader)?;
        let limit = self.settings.limit;
        if plan.count >= limit as usize && self.current(plan, &rule.packets).is_none() {
            return Err(PacketFilterError::Full { limit });
        }
        Ok(shape)
    }

    /// Returns the rule of packets after the changes planned so far.
    fn current<'a>(&'a self, plan: &'a Plan, packets: &FilteredPackets) -> Option<&'a Installed> {
        match plan.rules.get(packets) {
            Some(planned) => planned.as_ref(),
            None => self.rules.get(packets),
        }
    }

    /// Plans the change from the current rule of packets to another one, or to none.
    fn plan_one(
        &self,
        plan: &mut Plan,
        change: Option<usize>,
        packets: FilteredPackets,
        after: Option<Installed>,
        now: Time,
    ) {
        let before = self.current(plan, &packets).copied();
        let old = before.as_ref().map(Installed::elements).unwrap_or_default();
        let new = after.as_ref().map(Installed::elements).unwrap_or_default();
        let mut add = |message| {
            plan.messages.push(message);
            plan.changes.push(change);
        };
        for element in &old {
            if !(self.extends_lifetimes && new.contains(element)) {
                add(messages::destroy_element(element));
            }
        }
        if let Some(after) = &after {
            let lifetime = lifetime_ms(after.until, now);
            for element in &new {
                add(messages::new_element(element, lifetime));
            }
        }
        let missing = new.iter().map(|element| element.set).filter(|set| !self.sets.contains(set));
        plan.new_sets.extend(missing);
        plan.count = plan.count + usize::from(after.is_some()) - usize::from(before.is_some());
        let is_retranslated = match (&before, &after) {
            (Some(before), after) => before.translates_unlike(after.as_ref()),
            (None, Some(after)) => after.translates_unlike(None),
            (None, None) => false,
        };
        if is_retranslated {
            plan.retranslated.insert(packets);
        }
        plan.rules.insert(packets, after);
    }

    /// Puts new sets, and the rules that look them up, before the elements.
    fn plan_sets(&self, plan: &mut Plan) {
        let all: BTreeSet<SetId> = self.sets.union(&plan.new_sets).copied().collect();
        let mut messages: Vec<Message> = (1..)
            .zip(&plan.new_sets)
            .map(|(number, &set)| messages::new_set(set, number))
            .collect();
        messages.extend(messages::chains_and_rules(&all));
        plan.changes.splice(0..0, vec![None; messages.len()]);
        plan.messages.splice(0..0, messages);
    }

    fn apply(&mut self, plan: Plan) -> Result<(), Failure> {
        if plan.messages.is_empty() {
            self.commit(plan);
            return Ok(());
        }
        let outcome = self.batch("change the packet filter", &plan.messages);
        let failed = outcome.map_err(|error| Failure::Whole(error.into()))?;
        if failed.is_empty() {
            self.commit(plan);
            return Ok(());
        }
        let mut of_changes = BTreeMap::new();
        for (position, error) in failed {
            match plan.changes.get(position) {
                // Without its set, every element is refused so.
                Some(Some(change)) if !error.is(libc::ENOENT) => {
                    of_changes.entry(*change).or_insert(error.into());
                }
                _ => return Err(Failure::Whole(error.into())),
            }
        }
        Err(Failure::Changes(of_changes))
    }

    /// Takes over what a batch has changed.
    fn commit(&mut self, plan: Plan) {
        for (packets, rule) in plan.rules {
            self.rules.set(packets, rule);
        }
        if !plan.new_sets.is_empty() {
            self.sets.extend(plan.new_sets);
            // If it cannot be read, the next reconciliation compares everything.
            self.made = answers::chains_and_rules(&mut self.netlink).unwrap_or_default();
        }
        if let Err(error) = connections::forget(&mut self.netlink, &plan.retranslated) {
            tracing::warn!(%error, "some connections keep their translation");
        }
    }
}

/// Why a batch was not applied.
enum Failure {
    /// Refused changes, by their position.
    Changes(BTreeMap<usize, PacketFilterError>),
    /// The whole batch.
    Whole(PacketFilterError),
}

fn refuse_all(
    changes: &[FilterChange],
    error: &PacketFilterError,
    refused: &mut BTreeMap<usize, PacketFilterError>,
) {
    let (errno, text) = (error.errno(), error.to_string());
    for position in 0..changes.len() {
        let error = || PacketFilterError::Batch { errno, text: text.clone() };
        refused.entry(position).or_insert_with(error);
    }
}

/// Returns the remaining time of a rule, milliseconds: never longer than the rule.
pub(super) fn lifetime_ms(until: Time, now: Time) -> u64 {
    // Zero would mean no end.
    u64::try_from(until.since(now).min(LONGEST).as_millis()).unwrap_or(u64::MAX).max(1)
}

//! Comparing the kernel's packet filter with the rules that it should have, and repairing it.
//!
//! Every change of nf_tables in the namespace, by anybody, raises one generation. While it is that of our own last change
//! there is nothing to compare: notifications would make the kernel write a message for each of our own elements, too.
//!
//! The kernel begins at the first element of a set for each part of a dump, so the time for many elements grows with the square
//! of their number. Comparisons of all elements take about a twentieth of the time at most, however often others change
//! their tables.

use std::collections::BTreeMap;
use std::time::Duration;

use super::answers::{self, Table, is_current};
use super::change::lifetime_ms;
use super::set::{Element, SetId};
use super::{PacketFilter, PacketFilterError, messages};
use crate::netlink::Message;

/// Elements in one batch, so that the memory for it is bounded.
const BATCH: usize = 50_000;
/// Pause after a comparison of all elements, in the time that it took, and the time that counts as none.
const PAUSE: u32 = 19;
const SHORT: Duration = Duration::from_millis(50);
/// Least difference between the remaining time of an element and that of its rule that counts as a change by others.
const TOLERANCE: Duration = Duration::from_secs(1);

/// Data and remaining time of elements by set and key.
type ActualElements = BTreeMap<(SetId, Vec<u8>), (Vec<u8>, Option<Duration>)>;

/// Findings and repairs of [`PacketFilter::reconcile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FilterReconciliation {
    /// Number of missing or altered elements, chains and sets that were restored.
    pub restored: u32,
    /// Number of elements without a rule that were removed.
    pub removed: u32,
    /// Whether the table was missing, so that nothing was enforced.
    pub was_absent: bool,
}

impl FilterReconciliation {
    fn add(&mut self, other: FilterReconciliation) {
        self.restored = self.restored.saturating_add(other.restored);
        self.removed = self.removed.saturating_add(other.removed);
        self.was_absent |= other.was_absent;
    }
}

impl PacketFilter {
    /// Removes rules that have ended, compares the kernel's table with the rules if anybody else has changed nf_tables since
    /// the last time, and repairs it. Without such a change this is one request. Returns what was repaired since the last call.
    ///
    /// # Errors
    /// [`PacketFilterError::ForeignTable`], or a refusal of the kernel.
    pub fn reconcile(&mut self) -> Result<FilterReconciliation, PacketFilterError> {
        let _ = self.change(&[]);
        self.repair()?;
        Ok(std::mem::take(&mut self.repaired))
    }

    /// Compares and repairs; returns `None` if nobody else has changed anything.
    pub(super) fn repair(&mut self) -> Result<Option<FilterReconciliation>, PacketFilterError> {
        let generation = answers::generation(&mut self.netlink)?;
        if self.generation == Some(generation) {
            return Ok(None);
        }
        // The changes below raise it by one each; one of others meanwhile is found the next time.
        self.generation = Some(generation);
        let (found, is_whole) = self.compare().inspect_err(|_| self.generation = None)?;
        if !is_whole {
            self.generation = None;
        }
        self.repaired.add(found);
        Ok(Some(found))
    }

    /// Compares and repairs the chains, and the elements if that is due or a set is missing. Returns also whether it has
    /// compared everything.
    fn compare(&mut self) -> Result<(FilterReconciliation, bool), PacketFilterError> {
        let mut found = FilterReconciliation::default();
        let mut changes = Vec::new();
        match answers::table(&mut self.netlink)? {
            Table::Foreign => return Err(PacketFilterError::ForeignTable),
            Table::Ours(layout) if is_current(layout) => {}
            table => {
                found.was_absent = true;
                if table != Table::Absent {
                    changes.push(messages::delete_table());
                }
                changes.push(messages::new_table());
            }
        }
        let began = self.clock.now();
        let is_whole = found.was_absent
            || began >= self.elements_due
            || !answers::sets(&mut self.netlink)?.is_superset(&self.sets);
        let mut actual = match found.was_absent || !is_whole {
            true => BTreeMap::new(),
            false => self.actual_elements()?,
        };
        let now = self.clock.now();
        let pause = now.since(began).saturating_sub(SHORT) * PAUSE;
        self.elements_due = self.elements_due.max(now + pause);
        let altered = found.was_absent
            || answers::guarded(&mut self.netlink).ok().as_ref() != Some(&self.settings.guard)
            || answers::chains_and_rules(&mut self.netlink)? != self.made;
        if altered {
            found.restored += 1;
            changes.extend(messages::guarded_interfaces(&self.settings.guard, u32::MAX));
            let sets = (1..).zip(&self.sets);
            changes.extend(sets.map(|(number, &set)| messages::new_set(set, number)));
            changes.extend(messages::chains_and_rules(&self.sets));
        }
        if is_whole {
            self.compare_elements(&mut actual, &mut changes, &mut found);
        }
        found.removed = u32::try_from(actual.len()).unwrap_or(u32::MAX);
        for ((set, key), _) in actual {
            changes.push(messages::destroy_element(&Element { set, key, data: Vec::new() }));
        }
        // The chains are in the first batch, so that packets are refused rather than forwarded until their rule is there.
        let first = changes.len().min(BATCH);
        let rest = changes.split_off(first);
        if !changes.is_empty() {
            self.make("repair the packet filter", &changes)?;
        }
        for some in rest.chunks(BATCH) {
            self.make("repair the packet filter", some)?;
        }
        if altered {
            self.made = answers::chains_and_rules(&mut self.netlink)?;
        }
        Ok((found, is_whole))
    }

    /// Returns the data and remaining time of every element of our sets.
    fn actual_elements(&mut self) -> Result<ActualElements, PacketFilterError> {
        let mut actual = BTreeMap::new();
        for set in answers::sets(&mut self.netlink)? {
            for found in answers::elements(&mut self.netlink, set)? {
                let remaining = found.remaining_ms.map(Duration::from_millis);
                let Element { set, key, data } = found.element;
                actual.insert((set, key), (data, remaining));
            }
        }
        Ok(actual)
    }

    /// Takes the elements of rules out of the actual ones, and adds changes for those that are missing or altered.
    fn compare_elements(
        &self,
        actual: &mut ActualElements,
        changes: &mut Vec<Message>,
        found: &mut FilterReconciliation,
    ) {
        let now = self.clock.now();
        for rule in self.rules.iter() {
            let left = rule.until.since(now);
            for element in rule.elements() {
                let there = actual.remove(&(element.set, element.key.clone()));
                let is_right = there.as_ref().is_some_and(|(data, remaining)| {
                    *data == element.data
                        && remaining.is_some_and(|remaining| remaining.abs_diff(left) < TOLERANCE)
                });
                // One that is about to end may have ended by the clock of the kernel.
                if is_right || there.is_none() && left < TOLERANCE {
                    continue;
                }
                if there.is_some() {
                    changes.push(messages::destroy_element(&element));
                }
                if left > Duration::ZERO {
                    changes.push(messages::new_element(&element, lifetime_ms(rule.until, now)));
                }
                found.restored += 1;
            }
        }
    }
}

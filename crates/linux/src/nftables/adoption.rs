//! Opening the packet filter: the table is made, or that of an earlier daemon is taken over with its rules.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::{FilterAction, FilterRule, FilteredPackets, Time};

use super::answers::{self, Found, Table, is_current};
use super::messages::{self, LAYOUT, probe};
use super::rule_table::{Installed, RuleTable};
use super::set::{Element, Purpose, SetId, Side};
use super::{FilterReconciliation, PacketFilter, PacketFilterError, PacketFilterSettings};
use crate::clock::Clock;
use crate::netlink::{Connection, NetlinkError};

/// What an earlier daemon had left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// Rules that stay, each with its end.
    pub rules: Vec<(FilterRule, Time)>,
    /// A table that was replaced, without its rules.
    pub replaced: Option<Replaced>,
}

/// A table of an earlier layout of ours, whose rules were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replaced the packet filter of an earlier version (layout {layout}), without its rules")]
pub struct Replaced {
    /// Number of its layout.
    pub layout: u32,
}

impl PacketFilter {
    /// Opens the packet filter: makes its table, or takes over that of an earlier daemon with its rules. The ends of rules
    /// are times of the clock.
    ///
    /// # Errors
    /// [`PacketFilterError::ForeignTable`], [`PacketFilterError::NewerLayout`], [`PacketFilterError::Unsupported`],
    /// [`PacketFilterError::NotPermitted`], an invalid name in the settings, or another refusal of the kernel. Nothing was changed then.
    pub fn open(
        settings: PacketFilterSettings,
        clock: Clock,
    ) -> Result<(PacketFilter, Adoption), PacketFilterError> {
        settings.check()?;
        let mut netlink = Connection::open_netfilter()?;
        let table = answers::table(&mut netlink).map_err(unsupported)?;
        let mut changes = Vec::new();
        let (mut sets, mut left, mut replaced) = (BTreeSet::new(), Vec::new(), None);
        match table {
            Table::Foreign => return Err(PacketFilterError::ForeignTable),
            Table::Absent => changes.push(messages::new_table()),
            Table::Ours(layout) if is_current(layout) => {
                sets = answers::sets(&mut netlink)?;
                for &set in &sets {
                    left.extend(answers::elements(&mut netlink, set)?);
                }
            }
            Table::Ours(layout) if layout > LAYOUT => {
                return Err(PacketFilterError::NewerLayout { layout });
            }
            Table::Ours(layout) => {
                replaced = Some(Replaced { layout });
                changes.extend([messages::delete_table(), messages::new_table()]);
            }
        }
        let (rules, strays) = rules_of(&left, clock.now());
        changes.extend(messages::guarded_interfaces(&settings.guard, 1));
        changes.extend(messages::chains_and_rules(&sets));
        changes.extend(strays.iter().map(messages::destroy_element));
        let adoption =
            Adoption { rules: rules.iter().map(|r| (r.rule, r.until)).collect(), replaced };
        let mut table = RuleTable::default();
        for rule in rules {
            table.set(rule.rule.packets, Some(rule));
        }
        let mut filter = PacketFilter {
            netlink,
            clock,
            settings,
            sets,
            rules: table,
            extends_lifetimes: false,
            generation: None,
            elements_due: Time::ZERO,
            made: Vec::new(),
            repaired: FilterReconciliation::default(),
        };
        filter.make("make the packet filter", &changes).map_err(|error| match error {
            PacketFilterError::Netlink(error) => unsupported(error),
            error => error,
        })?;
        filter.extends_lifetimes = filter.extends_lifetimes()?;
        filter.generation = Some(answers::generation(&mut filter.netlink)?);
        filter.made = answers::chains_and_rules(&mut filter.netlink)?;
        Ok((filter, adoption))
    }

    /// Whether the kernel changes the lifetime of an element that is added again.
    ///
    /// # Errors
    /// The kernel lacks something else that is needed.
    fn extends_lifetimes(&mut self) -> Result<bool, PacketFilterError> {
        let doing = "use the packet filter";
        let refused = self.netlink.batch(doing, messages::SUBSYSTEM, &probe::make())?;
        if let Some((_, error)) = refused.into_iter().next() {
            return Err(unsupported(error));
        }
        let lifetime = answers::probe_lifetime(&mut self.netlink);
        self.make(doing, &[probe::destroy()])?;
        Ok(lifetime? == Some(probe::LIFETIMES[1]))
    }
}

/// Returns the error for a kernel that does not know a message or an expression.
fn unsupported(error: NetlinkError) -> PacketFilterError {
    match error.errno() {
        Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT | libc::EPROTONOSUPPORT) => {
            PacketFilterError::Unsupported(error)
        }
        _ => error.into(),
    }
}

/// Returns the rules that elements mean, and the elements that belong to none: translations without a pinhole, pinholes
/// without an end, pinholes beside a denial.
fn rules_of(found: &[Found], now: Time) -> (Vec<Installed>, Vec<Element>) {
    let mut rules: BTreeMap<FilteredPackets, Installed> = BTreeMap::new();
    let mut strays = Vec::new();
    // Denials come before pinholes in this order, and translations last.
    let mut sorted: Vec<&Found> = found.iter().collect();
    sorted.sort_by_key(|found| (found.element.set.purpose.side().is_some(), found.element.set));
    for found in sorted {
        let Element { set: SetId { purpose, shape }, key, data } = &found.element;
        let is_known = shape.packets(key).zip(found.remaining_ms);
        let taken = is_known.and_then(|(packets, remaining)| {
            let Some(side) = purpose.side() else {
                let action = match purpose {
                    Purpose::Deny => FilterAction::Deny,
                    _ => FilterAction::Allow,
                };
                let rule = FilterRule { packets, action, source: None, destination: None };
                let until = now + Duration::from_millis(remaining);
                let std::collections::btree_map::Entry::Vacant(entry) = rules.entry(packets) else {
                    return None;
                };
                entry.insert(Installed { rule, shape: *shape, until });
                return Some(());
            };
            let rule = &mut rules.get_mut(&packets)?.rule;
            let endpoint = found.element.set.endpoint(data)?;
            let translated = match side {
                Side::Source => &mut rule.source,
                Side::Destination => &mut rule.destination,
            };
            if translated.is_some() || rule.action == FilterAction::Deny {
                return None;
            }
            *translated = Some(endpoint);
            Some(())
        });
        if taken.is_none() {
            strays.push(found.element.clone());
        }
    }
    (rules.into_values().collect(), strays)
}

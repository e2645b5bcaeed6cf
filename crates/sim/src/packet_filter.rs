//! The packet filter of a node: rules by their packets, each until its end.

use alloc::collections::BTreeMap;

use earmark_core::{FilterChange, FilterRule, FilteredPackets, Time};

/// Rules of one node.
#[derive(Debug, Default)]
pub(crate) struct PacketFilter {
    rules: BTreeMap<FilteredPackets, (FilterRule, Time)>,
}

impl PacketFilter {
    /// Installs, replaces or removes a rule.
    pub(crate) fn change(&mut self, change: &FilterChange) {
        match change {
            FilterChange::Install(rule, until) => {
                self.rules.insert(rule.packets, (*rule, *until));
            }
            FilterChange::Remove(packets) => {
                self.rules.remove(packets);
            }
        }
    }
}

//! Bandwidth reserved under each rule, by name and by interface.

use alloc::collections::BTreeMap;
use alloc::string::String;

use earmark_core::admission::Priority;
use earmark_core::{InterfaceId, Rate};

use super::merge::RequestPriority;
use super::rules::Used;

/// Policy decision about an existing reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Account number of the rule that matched; `None` if none did.
    pub(crate) rule: Option<usize>,
    /// Name under which the reservation is accounted; empty without a name.
    pub(crate) account: String,
    pub(crate) interface: InterfaceId,
    pub(crate) rate: Rate,
    pub(crate) priority: Priority,
    /// Merging strategy of its PREEMPTION_PRI.
    pub(crate) strategy: u8,
    /// End of the token that proves the account's name, seconds since 1970; `None` for a claimed name.
    pub(crate) token_until: Option<u64>,
}

impl Grant {
    pub(crate) fn request_priority(&self) -> RequestPriority {
        RequestPriority { rate: self.rate, strategy: self.strategy, priority: self.priority }
    }
}

/// Sums of all grants, without zero entries. Peers choose the names, so the maps are ordered, which no choice of names
/// can slow down.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accounts {
    by_name: BTreeMap<(usize, String), Rate>,
    by_interface: BTreeMap<(usize, InterfaceId), Rate>,
}

impl Accounts {
    /// Returns the bandwidth reserved under a rule by this name and on this interface, without `replaced`.
    pub(crate) fn used(
        &self,
        rule: usize,
        account: &str,
        interface: InterfaceId,
        replaced: Option<&Grant>,
    ) -> Used {
        let replaced = replaced.filter(|grant| grant.rule == Some(rule));
        let own = |same: bool| match replaced {
            Some(grant) if same => grant.rate,
            _ => Rate::ZERO,
        };
        let by_name = self.by_name.get(&(rule, String::from(account))).copied();
        let on_interface = self.by_interface.get(&(rule, interface)).copied();
        Used {
            by_name: by_name
                .unwrap_or_default()
                .saturating_sub(own(replaced.is_some_and(|grant| grant.account == account))),
            on_interface: on_interface
                .unwrap_or_default()
                .saturating_sub(own(replaced.is_some_and(|grant| grant.interface == interface))),
        }
    }

    /// Adds the grant of a reservation.
    pub(crate) fn add(&mut self, grant: &Grant) {
        let Some(rule) = grant.rule else { return };
        let by_name = self.by_name.entry((rule, grant.account.clone())).or_default();
        *by_name = *by_name + grant.rate;
        let on_interface = self.by_interface.entry((rule, grant.interface)).or_default();
        *on_interface = *on_interface + grant.rate;
    }

    /// Subtracts the grant of a reservation.
    pub(crate) fn subtract(&mut self, grant: &Grant) {
        let Some(rule) = grant.rule else { return };
        take(&mut self.by_name, &(rule, grant.account.clone()), grant.rate);
        take(&mut self.by_interface, &(rule, grant.interface), grant.rate);
    }
}

fn take<K: Ord>(sums: &mut BTreeMap<K, Rate>, key: &K, rate: Rate) {
    if let Some(sum) = sums.get_mut(key) {
        *sum = sum.saturating_sub(rate);
        if *sum == Rate::ZERO {
            sums.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(rule: usize, account: &str, interface: u32, mbps: u64) -> Grant {
        Grant {
            rule: Some(rule),
            account: account.into(),
            interface: InterfaceId(interface),
            rate: Rate::from_mbps(mbps),
            priority: Priority::default(),
            strategy: 0,
            token_until: None,
        }
    }

    #[test]
    fn sums_by_name_and_interface_return_to_zero() {
        let mut accounts = Accounts::default();
        let grants =
            [grant(0, "a", 1, 1), grant(0, "a", 2, 2), grant(0, "b", 1, 4), grant(1, "a", 1, 8)];
        for grant in &grants {
            accounts.add(grant);
        }
        let used = |accounts: &Accounts, rule, name, interface, replaced| {
            let used = accounts.used(rule, name, InterfaceId(interface), replaced);
            (used.by_name.as_bps() / 1_000_000, used.on_interface.as_bps() / 1_000_000)
        };
        assert_eq!(used(&accounts, 0, "a", 1, None), (3, 5));
        assert_eq!(used(&accounts, 1, "a", 1, None), (8, 8));
        assert_eq!(used(&accounts, 0, "c", 3, None), (0, 0));
        assert_eq!(used(&accounts, 0, "a", 1, Some(&grants[0])), (2, 4));
        // A replaced grant counts only where it was accounted.
        assert_eq!(used(&accounts, 0, "b", 1, Some(&grants[0])), (4, 4));
        assert_eq!(used(&accounts, 0, "a", 2, Some(&grants[0])), (2, 2));
        assert_eq!(used(&accounts, 1, "a", 1, Some(&grants[0])), (8, 8));
        for grant in &grants {
            accounts.subtract(grant);
        }
        assert!(accounts.by_name.is_empty() && accounts.by_interface.is_empty());
    }
}

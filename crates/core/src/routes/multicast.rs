//! Multicast forwarding entries of a node.
//!
//! A multicast packet does not follow its destination alone: an entry is for a source and a group, (S, G), or for
//! every source of a group, (*, G), if the source has no entry of its own. It gives the interface through which the
//! packets must arrive, and the interfaces through which copies leave.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::InterfaceId;

/// One multicast forwarding entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastRoute {
    /// Source; `None` for every source.
    pub source: Option<IpAddr>,
    /// The group.
    pub group: IpAddr,
    /// Expected incoming interface; packets that arrive elsewhere are not forwarded. `None` if unknown.
    pub incoming: Option<InterfaceId>,
    /// Outgoing interfaces in ascending order, each once; empty if the packets end here.
    pub outgoing: Vec<InterfaceId>,
}

/// Result of a multicast lookup; see [`MulticastRoute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'r> {
    /// Expected incoming interface.
    pub incoming: Option<InterfaceId>,
    /// Outgoing interfaces, in ascending order.
    pub outgoing: &'r [InterfaceId],
}

/// Entries of a node. The group comes first in the key, so that all sources of a group are adjacent.
#[derive(Clone, Debug, Default)]
pub(super) struct MulticastTable {
    entries: BTreeMap<(IpAddr, Option<IpAddr>), MulticastRoute>,
}

impl MulticastTable {
    /// Adds or replaces an entry; `false` if nothing changes.
    pub(super) fn insert(&mut self, mut route: MulticastRoute) -> bool {
        route.outgoing.sort_unstable();
        route.outgoing.dedup();
        let key = (route.group, route.source);
        if self.entries.get(&key) == Some(&route) {
            return false;
        }
        self.entries.insert(key, route);
        true
    }

    /// Removes an entry; `false` if there is none.
    pub(super) fn remove(&mut self, source: Option<IpAddr>, group: IpAddr) -> bool {
        self.entries.remove(&(group, source)).is_some()
    }

    /// Returns the entry for exactly this source, or else the one for every source.
    pub(super) fn lookup(&self, source: IpAddr, group: IpAddr) -> Option<Branches<'_>> {
        let exact = self.entries.get(&(group, Some(source)));
        let route = exact.or_else(|| self.entries.get(&(group, None)))?;
        Some(Branches { incoming: route.incoming, outgoing: &route.outgoing })
    }

    /// Returns all entries, by group and source.
    pub(super) fn iter(&self) -> impl Iterator<Item = &MulticastRoute> {
        self.entries.values()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn route(source: Option<&str>, incoming: u32, outgoing: &[u32]) -> MulticastRoute {
        MulticastRoute {
            source: source.map(address),
            group: address("239.1.1.1"),
            incoming: Some(InterfaceId(incoming)),
            outgoing: outgoing.iter().map(|&id| InterfaceId(id)).collect(),
        }
    }

    #[test]
    fn source_entry_precedes_any_source_entry() {
        let mut table = MulticastTable::default();
        assert!(table.insert(route(None, 1, &[2])));
        assert!(table.insert(route(Some("10.0.0.1"), 3, &[5, 4, 5])));
        let group = address("239.1.1.1");
        let own = table.lookup(address("10.0.0.1"), group).expect("an entry");
        assert_eq!(own.incoming, Some(InterfaceId(3)));
        assert_eq!(own.outgoing, vec![InterfaceId(4), InterfaceId(5)], "in order, each once");
        let other = table.lookup(address("10.0.0.2"), group).expect("an entry");
        assert_eq!(other.incoming, Some(InterfaceId(1)));
        assert_eq!(table.lookup(address("10.0.0.1"), address("239.1.1.2")), None);
        assert!(table.remove(Some(address("10.0.0.1")), group));
        assert!(!table.remove(Some(address("10.0.0.1")), group), "once only");
        let left = table.lookup(address("10.0.0.1"), group).expect("the entry for all");
        assert_eq!(left.outgoing, vec![InterfaceId(2)]);
        assert_eq!(table.iter().count(), 1);
    }

    #[test]
    fn repeated_entry_is_no_change() {
        let mut table = MulticastTable::default();
        assert!(table.insert(route(None, 1, &[2, 3])));
        assert!(!table.insert(route(None, 1, &[3, 2])), "order means nothing");
        assert!(table.insert(route(None, 1, &[2])));
        assert!(table.insert(route(None, 2, &[2])));
    }
}

//! Where packets to groups go: a node's multicast forwarding entries.
//!
//! A multicast packet does not follow its destination alone: an entry holds for a source and a group, (S, G), or for
//! every source of a group, (*, G), where there is none of its own. It says through which interface the packets must
//! come in, and through which copies of them leave.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::InterfaceId;

/// One multicast forwarding entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MulticastRoute {
    /// Whose packets; `None` for every source.
    pub source: Option<IpAddr>,
    /// To which group.
    pub group: IpAddr,
    /// Where they must come in; those that come in elsewhere are not forwarded. `None` where that is not known.
    pub incoming: Option<InterfaceId>,
    /// Where copies leave, in ascending order, each once; none where the packets end here.
    pub outgoing: Vec<InterfaceId>,
}

/// The answer of a multicast look-up; see [`MulticastRoute`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'r> {
    /// Where the packets must come in.
    pub incoming: Option<InterfaceId>,
    /// Where copies leave, in ascending order.
    pub outgoing: &'r [InterfaceId],
}

/// The entries of a node. The group comes first in the key, so that all sources of a group lie side by side.
#[derive(Clone, Debug, Default)]
pub(super) struct MulticastTable {
    entries: BTreeMap<(IpAddr, Option<IpAddr>), MulticastRoute>,
}

impl MulticastTable {
    /// Enters an entry in the place of the one for the same source and group; `false` where it says nothing new.
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

    /// Takes an entry out; `false` where there is none.
    pub(super) fn remove(&mut self, source: Option<IpAddr>, group: IpAddr) -> bool {
        self.entries.remove(&(group, source)).is_some()
    }

    /// The entry for exactly this source, or else the one for every source.
    pub(super) fn lookup(&self, source: IpAddr, group: IpAddr) -> Option<Branches<'_>> {
        let exact = self.entries.get(&(group, Some(source)));
        let route = exact.or_else(|| self.entries.get(&(group, None)))?;
        Some(Branches { incoming: route.incoming, outgoing: &route.outgoing })
    }

    /// All entries, by group and source.
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
    fn a_source_of_its_own_comes_before_every_source() {
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
    fn an_entry_that_says_nothing_new_is_no_change() {
        let mut table = MulticastTable::default();
        assert!(table.insert(route(None, 1, &[2, 3])));
        assert!(!table.insert(route(None, 1, &[3, 2])), "order means nothing");
        assert!(table.insert(route(None, 1, &[2])));
        assert!(table.insert(route(None, 2, &[2])));
    }
}

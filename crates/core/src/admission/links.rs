//! Links of a ledger, by outgoing interface.
//!
//! There are few, and each claim looks one up, so they are in a sorted list. The kernel's numbers usually begin at 1
//! and have no gaps, so the lookup first tries the position that a link has then.

use alloc::vec::Vec;

use super::link::Link;
use crate::InterfaceId;

#[derive(Debug, Default)]
pub(super) struct Links {
    list: Vec<(InterfaceId, Link)>,
}

impl Links {
    /// Returns the position of a link, or where it would be inserted.
    fn search(&self, id: InterfaceId) -> Result<usize, usize> {
        self.list.binary_search_by_key(&id, |(other, _)| *other)
    }

    #[inline]
    pub(super) fn get(&self, id: InterfaceId) -> Option<&Link> {
        match self.list.get(guess(id)) {
            Some((other, link)) if *other == id => Some(link),
            _ => self.list.get(self.search(id).ok()?).map(|(_, link)| link),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: InterfaceId) -> Option<&mut Link> {
        let place = match self.list.get(guess(id)) {
            Some((other, _)) if *other == id => guess(id),
            _ => return self.search_mut(id),
        };
        self.list.get_mut(place).map(|(_, link)| link)
    }

    #[cold]
    #[inline(never)]
    fn search_mut(&mut self, id: InterfaceId) -> Option<&mut Link> {
        let place = self.search(id).ok()?;
        self.list.get_mut(place).map(|(_, link)| link)
    }

    /// Returns the link of an interface, inserting `new` if it is missing.
    pub(super) fn get_or_insert(
        &mut self,
        id: InterfaceId,
        new: impl FnOnce() -> Link,
    ) -> &mut Link {
        let place = self.search(id).unwrap_or_else(|place| {
            self.list.insert(place, (id, new()));
            place
        });
        &mut self.list[place].1
    }

    pub(super) fn remove(&mut self, id: InterfaceId) -> Option<Link> {
        let place = self.search(id).ok()?;
        Some(self.list.remove(place).1)
    }

    /// Returns all links, by interface.
    pub(super) fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Link)> {
        self.list.iter().map(|(id, link)| (*id, link))
    }

    /// Returns all links for change, by interface.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (InterfaceId, &mut Link)> {
        self.list.iter_mut().map(|(id, link)| (*id, link))
    }
}

/// Returns the usual position of a link.
#[inline]
fn guess(id: InterfaceId) -> usize {
    (id.0 as usize).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::super::link::LinkCapacity;
    use super::*;
    use crate::Rate;

    #[test]
    fn links_are_found_whatever_numbers_they_have() {
        let mut links = Links::default();
        let mut enter = |id: u32| {
            let bandwidth = Rate::from_mbps(id.into());
            let capacity = LinkCapacity { bandwidth, reservable: bandwidth, mtu: 1_500 };
            links.get_or_insert(InterfaceId(id), || Link::new(capacity)).bandwidth
        };
        for id in [7, 1, 2, 40, 3, 0, 7] {
            assert_eq!(enter(id), Rate::from_mbps(id.into()));
        }
        let ids: Vec<u32> = links.iter().map(|(id, _)| id.0).collect();
        assert_eq!(ids, [0, 1, 2, 3, 7, 40]);
        for id in 0..50 {
            let expected = ids.contains(&id).then_some(Rate::from_mbps(id.into()));
            assert_eq!(links.get(InterfaceId(id)).map(|link| link.bandwidth), expected);
            assert_eq!(links.get_mut(InterfaceId(id)).is_some(), expected.is_some());
        }
        assert!(links.remove(InterfaceId(2)).is_some() && links.remove(InterfaceId(2)).is_none());
        assert!(links.get(InterfaceId(3)).is_some() && links.get(InterfaceId(2)).is_none());
    }
}

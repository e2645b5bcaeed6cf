//! Shares of a table by port: which of them finds room for another entry.
//!
//! A quarter of each table is reserved, in equal parts for all ports of a node: its interfaces, and the node itself
//! ([`OWN`]). So a port that uses less than its part always finds room, however many others send as much as they can. The
//! rest is for those who come first. Entries are counted as they are made and removed; nothing walks them.

use alloc::vec::Vec;

use crate::InterfaceId;

/// The port of entries that the node makes for itself, such as those of its applications. No interface has this number.
pub const OWN: InterfaceId = InterfaceId(0);

/// Entries of one table, by the port that they came through.
#[derive(Clone, Debug, Default)]
pub struct Shares {
    /// Ports with entries, in the order of their numbers, and the entries of each.
    ports: Vec<(InterfaceId, u32)>,
    /// Number of entries.
    total: u32,
    /// Reserved entries of each port.
    reserve: u32,
    /// Entries of all ports beyond what is reserved for each.
    excess: u32,
}

/// Most entries that a port may have in a table, whatever the others use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Entries of the table.
    pub limit: u32,
    /// Part of them for one port, percent.
    pub percent: u32,
    /// Number of interfaces of the node.
    pub interfaces: usize,
}

impl Shares {
    /// Returns the number of entries.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Returns the number of entries of a port.
    pub fn of(&self, port: InterfaceId) -> u32 {
        self.place(port).map_or(0, |place| self.ports[place].1)
    }

    /// Counts an entry of a port.
    #[inline]
    pub fn add(&mut self, port: InterfaceId) {
        let place = self.place(port).unwrap_or_else(|place| {
            self.ports.insert(place, (port, 0));
            place
        });
        let used = &mut self.ports[place].1;
        *used += 1;
        self.excess += u32::from(*used > self.reserve);
        self.total += 1;
    }

    /// Counts one entry of a port less; one of a port without entries changes nothing.
    pub fn remove(&mut self, port: InterfaceId) {
        let Ok(place) = self.place(port) else { return };
        let used = &mut self.ports[place].1;
        self.excess -= u32::from(*used > self.reserve);
        self.total -= 1;
        *used -= 1;
        if *used == 0 {
            self.ports.remove(place);
        }
    }

    /// Returns whether a port may have another entry.
    pub fn admits(&mut self, port: InterfaceId, bounds: Bounds) -> bool {
        let most = (u64::from(bounds.limit) * u64::from(bounds.percent)).div_ceil(100);
        let used = self.of(port);
        u64::from(used) < most && self.room_beside(used, bounds.limit, bounds.interfaces) > 0
    }

    /// Returns whether a port may have another entry in a table of `limit` entries, on a node with this many interfaces. Its
    /// own entries are looked up only if all others share what is not reserved.
    #[inline]
    pub fn has_room(&mut self, port: InterfaceId, limit: u32, interfaces: usize) -> bool {
        self.total < limit && (self.common(limit, interfaces) > 0 || self.of(port) < self.reserve)
    }

    /// Returns how many more entries a port may have in a table of `limit` entries, on a node with this many interfaces.
    pub fn room(&mut self, port: InterfaceId, limit: u32, interfaces: usize) -> u32 {
        self.room_beside(self.of(port), limit, interfaces)
    }

    /// Returns how many more entries a port with `used` entries may have.
    #[inline]
    fn room_beside(&mut self, used: u32, limit: u32, interfaces: usize) -> u32 {
        let common = self.common(limit, interfaces);
        let own = self.reserve.saturating_sub(used);
        // After a limit was lowered, there may be more entries than it allows.
        (own + common).min(limit.saturating_sub(self.total))
    }

    /// Sets what is reserved for each port. Returns how many more entries those who come first may have.
    #[inline]
    fn common(&mut self, limit: u32, interfaces: usize) -> u32 {
        let ports = u32::try_from(interfaces).unwrap_or(u32::MAX).saturating_add(1);
        let reserve = limit / 4 / ports;
        if reserve != self.reserve {
            self.set_reserve(reserve);
        }
        (limit - reserve * ports).saturating_sub(self.excess)
    }

    #[cold]
    fn set_reserve(&mut self, reserve: u32) {
        self.reserve = reserve;
        self.excess = self.ports.iter().map(|(_, used)| used.saturating_sub(reserve)).sum();
    }

    #[inline]
    fn place(&self, port: InterfaceId) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&port, |(port, _)| *port)
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Entries of ports, counted anew for each question.
    #[derive(Default)]
    struct Model(BTreeMap<InterfaceId, u32>);

    impl Model {
        fn has_room(&self, port: InterfaceId, limit: u32, interfaces: u32) -> bool {
            let reserve = limit / 4 / (interfaces + 1);
            let used = |port| self.0.get(&port).copied().unwrap_or(0);
            let beyond: u32 = self.0.values().map(|used| used.saturating_sub(reserve)).sum();
            let total: u32 = self.0.values().sum();
            let common = limit - reserve * (interfaces + 1);
            total < limit && (used(port) < reserve || beyond < common)
        }
    }

    #[test]
    fn port_with_little_finds_room_beside_greedy_ones() {
        let mut shares = Shares::default();
        let (limit, interfaces) = (100, 4);
        for port in [1, 2, 3].map(InterfaceId) {
            while shares.room(port, limit, interfaces) > 0 {
                shares.add(port);
            }
        }
        assert_eq!([1, 2, 3].map(|port| shares.of(InterfaceId(port))), [80, 5, 5]);
        for port in [InterfaceId(4), OWN] {
            assert_eq!(shares.room(port, limit, interfaces), 5);
            (0..5).for_each(|_| shares.add(port));
            assert_eq!(shares.room(port, limit, interfaces), 0);
        }
        assert_eq!(shares.total(), limit);
    }

    proptest! {
        /// Room is that of the model, whatever limit and number of interfaces become. While they stay, a port below its
        /// reserve has room and the table never exceeds its limit.
        #[test]
        fn shares_equal_the_model(
            steps in prop::collection::vec((0_u32..6, 0_u8..5, 0_u32..40, any::<bool>()), 1..200),
            sizes in prop::collection::vec((0_u32..120, 5_u32..9), 1..4),
        ) {
            let (mut shares, mut model) = (Shares::default(), Model::default());
            for (limit, interfaces) in sizes {
                // Entries beyond a lowered limit stay; the promise holds for tables within their limit.
                let is_within = shares.total() == 0;
                for &(port, count, removed, adds) in &steps {
                    let port = InterfaceId(port);
                    for _ in 0..count {
                        let room = shares.room(port, limit, interfaces as usize);
                        prop_assert_eq!(room > 0, model.has_room(port, limit, interfaces));
                        prop_assert_eq!(
                            shares.has_room(port, limit, interfaces as usize),
                            room > 0
                        );
                        let reserve = limit / 4 / (interfaces + 1);
                        prop_assert!(!is_within || room >= reserve.saturating_sub(shares.of(port)));
                        if room > 0 && adds {
                            shares.add(port);
                            *model.0.entry(port).or_default() += 1;
                        }
                    }
                    for _ in 0..if adds { removed / 8 } else { removed } {
                        shares.remove(port);
                        let used = model.0.entry(port).or_default();
                        *used = used.saturating_sub(1);
                    }
                    prop_assert_eq!(shares.of(port), model.0.get(&port).copied().unwrap_or(0));
                    prop_assert_eq!(shares.total(), model.0.values().sum::<u32>());
                    prop_assert!(!is_within || shares.total() <= limit);
                }
            }
        }
    }
}

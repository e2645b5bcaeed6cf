//! Routing states by destination, in the order of addresses, because a route change names a range.
//!
//! Each address family has a tree: short keys need fewer comparisons and less memory than an `IpAddr`.

use alloc::collections::BTreeMap;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Bound;

use earmark_core::Prefix;
use earmark_core::memory::octets;

use super::state::Index;

/// First of a list of routing states for each destination.
#[derive(Debug, Default)]
pub(crate) struct Destinations {
    v4: BTreeMap<u32, Index>,
    v6: BTreeMap<u128, Index>,
}

impl Destinations {
    /// Returns the octets of the tables on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        octets([&self.v4, &self.v6])
    }

    /// Returns the first routing state with a destination.
    pub(crate) fn get(&self, destination: IpAddr) -> Option<Index> {
        match destination {
            IpAddr::V4(address) => self.v4.get(&address.to_bits()).copied(),
            IpAddr::V6(address) => self.v6.get(&address.to_bits()).copied(),
        }
    }

    /// Makes a routing state the first with its destination; returns the previous first one.
    pub(crate) fn set(&mut self, destination: IpAddr, first: Index) -> Option<Index> {
        match destination {
            IpAddr::V4(address) => self.v4.insert(address.to_bits(), first),
            IpAddr::V6(address) => self.v6.insert(address.to_bits(), first),
        }
    }

    /// Removes a destination that has no routing state any more.
    pub(crate) fn remove(&mut self, destination: IpAddr) {
        match destination {
            IpAddr::V4(address) => self.v4.remove(&address.to_bits()),
            IpAddr::V6(address) => self.v6.remove(&address.to_bits()),
        };
    }

    /// Returns the lowest destination in a range, above `done` if part of the range was checked, and its first routing
    /// state.
    pub(crate) fn next_in(&self, range: Prefix, done: Option<IpAddr>) -> Option<(IpAddr, Index)> {
        let found = match range.address() {
            IpAddr::V4(lowest) => {
                let done = match done {
                    Some(IpAddr::V4(done)) => Some(done.to_bits()),
                    _ => None,
                };
                let found = next(&self.v4, lowest.to_bits(), done);
                found.map(|(bits, first)| (Ipv4Addr::from_bits(bits).into(), first))
            }
            IpAddr::V6(lowest) => {
                let done = match done {
                    Some(IpAddr::V6(done)) => Some(done.to_bits()),
                    _ => None,
                };
                let found = next(&self.v6, lowest.to_bits(), done);
                found.map(|(bits, first)| (Ipv6Addr::from_bits(bits).into(), first))
            }
        };
        found.filter(|(address, _): &(IpAddr, Index)| range.contains(*address))
    }
}

/// Returns the first entry above `done`, or from `lowest` on.
fn next<A: Copy + Ord>(
    tree: &BTreeMap<A, Index>,
    lowest: A,
    done: Option<A>,
) -> Option<(A, Index)> {
    let begin = done.map_or(Bound::Included(lowest), Bound::Excluded);
    tree.range((begin, Bound::Unbounded)).next().map(|(key, first)| (*key, *first))
}

#[cfg(test)]
mod tests {
    use std::borrow::ToOwned;
    use std::string::{String, ToString};
    use std::vec::Vec;

    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn range_returns_its_destinations_in_order() {
        let mut destinations = Destinations::default();
        let there = ["10.0.0.9", "10.0.1.1", "10.0.0.2", "fd00::2", "fd00::1", "fd01::1"];
        for (text, index) in there.into_iter().zip(0..) {
            assert_eq!(destinations.set(address(text), index), None);
        }
        assert_eq!(destinations.set(address("10.0.0.2"), 7), Some(2));
        let listed = |destinations: &Destinations, range: &str| {
            let range = range.parse().expect("a prefix");
            let (mut list, mut done) = (Vec::new(), None);
            while let Some((address, first)) = destinations.next_in(range, done) {
                list.push((address.to_string(), first));
                done = Some(address);
            }
            list
        };
        let named = |list: &[(&str, Index)]| -> Vec<(String, Index)> {
            list.iter().map(|(address, first)| ((*address).to_owned(), *first)).collect()
        };
        let net = listed(&destinations, "10.0.0.0/24");
        assert_eq!(net, named(&[("10.0.0.2", 7), ("10.0.0.9", 0)]));
        assert_eq!(listed(&destinations, "fd00::/16").len(), 2);
        assert_eq!(
            (listed(&destinations, "0.0.0.0/0").len(), listed(&destinations, "::/0").len()),
            (3, 3)
        );
        destinations.remove(address("10.0.0.2"));
        destinations.remove(address("fd00::9"));
        assert_eq!(destinations.get(address("10.0.0.2")), None);
        assert_eq!(destinations.get(address("fd01::1")), Some(5));
        assert_eq!(listed(&destinations, "10.0.0.2/32"), named(&[]));
    }
}

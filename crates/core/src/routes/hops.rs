//! The hop of a route, and the distinct hops of a table with the number of their uses.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use slab::Slab;

use crate::InterfaceId;

/// Result of a route lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hop {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Next router; `None` if the destination is on the link itself.
    pub gateway: Option<IpAddr>,
    /// Source address that the host itself would use, if the route names one.
    pub source: Option<IpAddr>,
}

impl Hop {
    /// Returns whether the next router is this neighbor.
    #[inline]
    pub fn is_neighbor(&self, interface: InterfaceId, address: IpAddr) -> bool {
        self.interface == interface && self.gateway == Some(address)
    }
}

/// Distinct hops of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Hops {
    /// Hops and their use counts.
    list: Slab<(Hop, u32)>,
    /// Index of a hop in the list.
    by_hop: BTreeMap<Hop, u32>,
}

impl Hops {
    /// Counts one use more of `hop`. Returns its index.
    pub(super) fn acquire(&mut self, hop: Hop) -> u32 {
        let list = &mut self.list;
        let number = *self.by_hop.entry(hop).or_insert_with(|| list.insert((hop, 0)) as u32);
        self.list[number as usize].1 += 1;
        number
    }

    /// Counts one use less.
    pub(super) fn release(&mut self, number: u32) {
        let (hop, uses) = &mut self.list[number as usize];
        *uses -= 1;
        if *uses == 0 {
            self.by_hop.remove(hop);
            self.list.remove(number as usize);
        }
    }

    #[inline]
    pub(super) fn hop(&self, number: u32) -> Option<Hop> {
        self.list.get(number as usize).map(|(hop, _)| *hop)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

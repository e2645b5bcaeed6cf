//! Octets that tables hold on the heap, unused places included, for listings of a running node. Every function is O(1).
//!
//! What single entries hold beside their place in a table is not counted.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::mem::size_of;

use hashbrown::HashTable;
use slab::Slab;

/// A table that tells the octets that it holds.
pub trait Table {
    /// Returns the octets on the heap.
    fn octets(&self) -> usize;
}

/// A place of a slab.
enum Place<T> {
    _Free(usize),
    _Used(T),
}

impl<T> Table for Slab<T> {
    fn octets(&self) -> usize {
        self.capacity() * size_of::<Place<T>>()
    }
}

impl<T> Table for Vec<T> {
    fn octets(&self) -> usize {
        self.capacity() * size_of::<T>()
    }
}

impl<T> Table for HashTable<T> {
    fn octets(&self) -> usize {
        self.allocation_size()
    }
}

/// Octets of `entries` entries in nodes that are three quarters full: an estimate, because the tree does not tell.
fn ordered<T>(entries: usize) -> usize {
    entries * size_of::<T>() * 4 / 3
}

impl<K, V> Table for BTreeMap<K, V> {
    fn octets(&self) -> usize {
        ordered::<(K, V)>(self.len())
    }
}

impl<T> Table for BTreeSet<T> {
    fn octets(&self) -> usize {
        ordered::<T>(self.len())
    }
}

/// Returns the octets of several tables.
pub fn octets<const N: usize>(tables: [&dyn Table; N]) -> usize {
    tables.into_iter().map(Table::octets).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_places_count() {
        let mut slab = Slab::<u64>::with_capacity(4);
        slab.insert(1);
        let vector = Vec::<u16>::with_capacity(3);
        let set: BTreeSet<u32> = (0..30).collect();
        assert_eq!(octets([&slab, &vector, &set]), 4 * 16 + 3 * 2 + 160);
        assert_eq!(HashTable::<u64>::new().octets(), 0);
    }
}

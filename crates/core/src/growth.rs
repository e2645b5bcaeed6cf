//! Growth of state tables.

use alloc::vec::Vec;

use slab::Slab;

/// Returns the number of elements to reserve when a table of `len` is full: a sixteenth more.
///
/// A table that doubled would leave up to half of a large memory empty. This one moves each element about sixteen
/// times in all instead of once if the allocator cannot extend its allocation; it can for large tables.
pub fn step(len: usize) -> usize {
    (len / 16).max(64)
}

/// Appends to a table that may become large.
#[inline]
pub fn push<T>(table: &mut Vec<T>, element: T) {
    if table.len() == table.capacity() {
        table.reserve_exact(step(table.len()));
    }
    table.push(element);
}

/// Inserts into a slab that may become large. Returns the index.
#[inline]
pub fn insert<T>(slab: &mut Slab<T>, element: T) -> u32 {
    if slab.len() == slab.capacity() {
        slab.reserve_exact(step(slab.len()));
    }
    slab.insert(element) as u32
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// A full table grows by a sixteenth, and by 64 elements at least.
    #[test]
    fn full_tables_grow_by_a_sixteenth() {
        let (mut table, mut slab) = (Vec::new(), Slab::new());
        for element in 0..5_000_u32 {
            let (was_full, before) = (table.len() == table.capacity(), table.len());
            push(&mut table, element);
            let least = before + (before / 16).max(64);
            assert!(!was_full || table.capacity() >= least, "{element}");
            assert_eq!(insert(&mut slab, element), element);
            let most = table.len() + (table.len() / 16).max(64);
            assert!(table.capacity() <= most && slab.capacity() <= most, "{element}");
        }
        assert_eq!(table.len(), 5_000);
    }
}

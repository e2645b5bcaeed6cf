//! How tables of state grow.

use alloc::vec::Vec;

/// Elements to make room for at once in a table that has `len` and is full: a sixteenth more.
///
/// A table that doubled would leave up to half of a large memory empty. This one moves each element some sixteen times
/// in all instead of once, where the allocator cannot extend what it has given; of large tables it can.
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

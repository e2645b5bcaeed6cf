//! An array of numbers that BPF programs and this process share: mapped memory, read and written without system calls.
//!
//! (Linux: `BPF_F_MMAPABLE`.) Each number has one writer at a time, or is written atomically by all.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::bpf;
use super::ring::Mapping;

/// An array whose values are `N` numbers each.
#[derive(Debug)]
pub(crate) struct SharedArray<const N: usize> {
    map: OwnedFd,
    memory: Mapping,
    entries: usize,
}

// SAFETY: the mapping belongs to this value alone, and the numbers in it are only used atomically.
unsafe impl<const N: usize> Send for SharedArray<N> {}

impl<const N: usize> SharedArray<N> {
    /// Creates an array of this many values, all numbers zero.
    pub(crate) fn new(name: &str, entries: u32) -> io::Result<SharedArray<N>> {
        let octets = N * size_of::<u64>();
        let map = bpf::create_mapped_array(name, octets as u32, entries)?;
        let entries = entries as usize;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let length = (entries * octets).next_multiple_of(rustix::param::page_size());
        let memory = Mapping::new(&map, both, 0, length)?;
        Ok(SharedArray { map, memory, entries })
    }

    /// Returns the descriptor, for the instructions of a program.
    pub(crate) fn descriptor(&self) -> i32 {
        self.map.as_raw_fd()
    }

    /// Returns a number of the value with this index, modulo the number of values.
    pub(crate) fn get(&self, index: u32, number: usize) -> u64 {
        self.number(index, number).load(Ordering::Relaxed)
    }

    /// Adds to a number that no program writes.
    pub(crate) fn add(&mut self, index: u32, number: usize, amount: u64) {
        let sum = self.get(index, number).wrapping_add(amount);
        self.number(index, number).store(sum, Ordering::Relaxed);
    }

    fn number(&self, index: u32, number: usize) -> &AtomicU64 {
        let at = index as usize % self.entries * N + number % N;
        // SAFETY: `at` is less than `entries * N`, which many aligned numbers are mapped as long as `self` lives; they
        // are only used atomically.
        unsafe { self.memory.start().cast::<AtomicU64>().add(at).as_ref() }
    }
}

//! Amounts that the daemon delegates to a program in the kernel, which takes from them without asking.
//!
//! An array has two adjacent totals: the sum of all delegated amounts, which only the daemon writes, and the sum of all
//! taken amounts, which only the program writes, so that neither needs a lock. A hash map gives the index of a key's
//! totals, so that the program looks up a key once. The daemon learns of each taken amount later, and sums up the known
//! ones. The first total minus the known sum is still delegated; the first total minus the second has not been taken
//! yet.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use rustix::io::Errno;

use crate::sys::bpf::Map;

/// Delegated amounts, by keys of `KEY` octets.
#[derive(Debug)]
pub(super) struct Delegation<const KEY: usize> {
    /// Index of the delegated total in `totals`; the taken total follows it.
    indexes: Map<KEY, 4>,
    totals: Map<4, 8>,
    /// Ordered, because peers may choose the keys.
    entries: BTreeMap<[u8; KEY], Entry>,
    /// Indexes without a key. The one that has been free for longest is used next: no program writes there any more on
    /// behalf of its previous key.
    free: VecDeque<u32>,
}

/// Index of one key, and the totals that the daemon knows. Totals wrap after 2^64, and are negative if more is returned
/// than was taken: only their differences are meaningful.
#[derive(Clone, Copy, Debug)]
struct Entry {
    index: u32,
    delegated: u64,
    /// Sum of the taken amounts that the daemon knows of.
    known: u64,
}

impl<const KEY: usize> Delegation<KEY> {
    pub(super) fn create(names: [&str; 2], max_keys: u32) -> io::Result<Delegation<KEY>> {
        let [indexes, totals] = names;
        Ok(Delegation {
            indexes: Map::create(indexes, max_keys)?,
            totals: Map::create_array(totals, 2 * max_keys)?,
            entries: BTreeMap::new(),
            free: (0..max_keys).map(|number| 2 * number).collect(),
        })
    }

    /// Returns the descriptors of the maps, for the instructions of a program: the indexes, and the totals.
    pub(super) fn descriptors(&self) -> [i32; 2] {
        [self.indexes.descriptor(), self.totals.descriptor()]
    }

    /// Returns the number of keys with an entry.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Delegates this much in place of the previous amount; what was taken of that and is not known yet stays accounted
    /// for.
    ///
    /// # Errors
    /// `E2BIG`: the limit of keys is reached.
    pub(super) fn delegate(&mut self, key: [u8; KEY], amount: u64) -> io::Result<()> {
        let Some(entry) = self.entries.get_mut(&key) else { return self.add_key(key, amount) };
        let delegated = entry.known.wrapping_add(amount);
        if delegated != entry.delegated {
            self.totals.set(&entry.index.to_ne_bytes(), &delegated.to_ne_bytes())?;
            entry.delegated = delegated;
        }
        Ok(())
    }

    /// Delegates this much under a key that has no index yet.
    fn add_key(&mut self, key: [u8; KEY], amount: u64) -> io::Result<()> {
        let index = *self.free.front().ok_or(Errno::TOOBIG)?;
        self.totals.set(&index.to_ne_bytes(), &amount.to_ne_bytes())?;
        self.totals.set(&taken_index(index), &[0; 8])?;
        self.indexes.set(&key, &index.to_ne_bytes())?;
        self.free.pop_front();
        self.entries.insert(key, Entry { index, delegated: amount, known: 0 });
        Ok(())
    }

    /// Returns the delegated amount, as far as the daemon knows; `None` if the key has no entry.
    pub(super) fn delegated(&self, key: [u8; KEY]) -> Option<u64> {
        let Entry { delegated, known, .. } = *self.entries.get(&key)?;
        Some(difference(delegated, known))
    }

    /// Returns the delegated amount, or more if more was taken before the amount was reduced.
    pub(super) fn outstanding(&self, key: [u8; KEY]) -> io::Result<u64> {
        let Some(&Entry { index, delegated, known }) = self.entries.get(&key) else { return Ok(0) };
        let taken = self.totals.get(&taken_index(index))?.map_or(known, u64::from_ne_bytes);
        Ok(difference(delegated, known).max(difference(taken, known)))
    }

    /// Accounts for an amount that the program has taken, or (`is_returned`) returned.
    pub(super) fn account(&mut self, key: [u8; KEY], amount: u64, is_returned: bool) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.known = match is_returned {
                true => entry.known.wrapping_sub(amount),
                false => entry.known.wrapping_add(amount),
            };
        }
    }

    /// Removes a key and its totals.
    pub(super) fn remove(&mut self, key: [u8; KEY]) -> io::Result<()> {
        let entry = self.entries.remove(&key);
        self.indexes.remove(&key)?;
        self.free.extend(entry.map(|entry| entry.index));
        Ok(())
    }
}

/// Returns the index of the taken total.
fn taken_index(index: u32) -> [u8; 4] {
    (index + 1).to_ne_bytes()
}

/// Returns `one` minus `other`; 0 if that is negative.
fn difference(one: u64, other: u64) -> u64 {
    (one.wrapping_sub(other) as i64).max(0) as u64
}

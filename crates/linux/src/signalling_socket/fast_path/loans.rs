//! Loans: numbers that the daemon lends to a program in the kernel, which takes from them without asking.
//!
//! Two totals stand in two maps: what was lent in all, which only the daemon writes, and what was taken in all, which
//! only the program writes, so that neither needs a lock. The daemon hears of each taking later, and adds up what it
//! knows of. What is still lent is the first total without the third; what of it the program has not taken yet is the
//! first without the second.

use std::collections::BTreeMap;
use std::io;

use crate::sys::bpf::Map;

/// What is lent, by keys of four octets.
#[derive(Debug)]
pub(super) struct Loans {
    lent: Map<4, 8>,
    taken: Map<4, 8>,
    /// Ordered, for peers may choose the keys.
    entries: BTreeMap<[u8; 4], Entry>,
}

/// The totals of one key that the daemon knows. They begin anew at zero after 2^64, and where more is returned than was taken
/// they are less than that: only their differences mean something.
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    lent: u64,
    /// What of all that was taken the daemon has heard of.
    known: u64,
}

impl Loans {
    pub(super) fn create(names: [&str; 2], most: u32) -> io::Result<Loans> {
        let [lent, taken] = names;
        Ok(Loans {
            lent: Map::create(lent, most)?,
            taken: Map::create(taken, most)?,
            entries: BTreeMap::new(),
        })
    }

    /// The maps, for the instructions of a program: what is lent, and what is taken.
    pub(super) fn descriptors(&self) -> [i32; 2] {
        [self.lent.descriptor(), self.taken.descriptor()]
    }

    /// For how many keys something was ever lent.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Lends this much in place of what was lent, with what is taken of that and not known yet.
    ///
    /// # Errors
    /// `E2BIG`: there are too many keys.
    pub(super) fn lend(&mut self, key: [u8; 4], amount: u64) -> io::Result<()> {
        let mut entry = self.entries.get(&key).copied().unwrap_or_default();
        if !self.entries.contains_key(&key) {
            self.taken.set(&key, &entry.known.to_ne_bytes())?;
        }
        let lent = entry.known.wrapping_add(amount);
        if lent != entry.lent || !self.entries.contains_key(&key) {
            self.lent.set(&key, &lent.to_ne_bytes())?;
        }
        entry.lent = lent;
        self.entries.insert(key, entry);
        Ok(())
    }

    /// What is lent, as far as the daemon knows; `None` where nothing ever was.
    pub(super) fn lent(&self, key: [u8; 4]) -> Option<u64> {
        let Entry { lent, known } = *self.entries.get(&key)?;
        Some(difference(lent, known))
    }

    /// The same, or more where more was taken before it was lent less.
    pub(super) fn outstanding(&self, key: [u8; 4]) -> io::Result<u64> {
        let Some(&Entry { lent, known }) = self.entries.get(&key) else { return Ok(0) };
        let taken = self.taken.get(&key)?.map_or(known, u64::from_ne_bytes);
        Ok(difference(lent, known).max(difference(taken, known)))
    }

    /// The program has taken this, or (`is_returned`) given it back.
    pub(super) fn learn(&mut self, key: [u8; 4], amount: u64, is_returned: bool) {
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.known = match is_returned {
                true => entry.known.wrapping_sub(amount),
                false => entry.known.wrapping_add(amount),
            };
        }
    }

    /// Lends nothing any more, and forgets what was taken.
    pub(super) fn end(&mut self, key: [u8; 4]) -> io::Result<()> {
        self.entries.remove(&key);
        let removed = self.lent.remove(&key).and(self.taken.remove(&key));
        removed.map(drop)
    }
}

/// How much more `one` is; 0 where it is less.
fn difference(one: u64, other: u64) -> u64 {
    (one.wrapping_sub(other) as i64).max(0) as u64
}

//! Loans: numbers that the daemon lends to a program in the kernel, which takes from them without asking.
//!
//! Two totals stand beside each other in an array: what was lent in all, which only the daemon writes, and what was taken in
//! all, which only the program writes, so that neither needs a lock. A hash map tells the place of a key's, so that the
//! program looks for a key once. The daemon hears of each taking later, and adds up what it knows of. What is still lent is
//! the first total without the third; what of it the program has not taken yet is the first without the second.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use rustix::io::Errno;

use crate::sys::bpf::Map;

/// What is lent, by keys of four octets.
#[derive(Debug)]
pub(super) struct Loans {
    /// Where what was lent stands in `totals`; what was taken of it is behind that.
    places: Map<4, 4>,
    totals: Map<4, 8>,
    /// Ordered, for peers may choose the keys.
    entries: BTreeMap<[u8; 4], Entry>,
    /// Places that no key has. The one that has been free for longest is the next: no program writes there any more on
    /// behalf of the key that had it.
    free: VecDeque<u32>,
}

/// The place of one key, and the totals that the daemon knows. They begin anew at zero after 2^64, and where more is returned
/// than was taken they are less than that: only their differences mean something.
#[derive(Clone, Copy, Debug)]
struct Entry {
    place: u32,
    lent: u64,
    /// What of all that was taken the daemon has heard of.
    known: u64,
}

impl Loans {
    pub(super) fn create(names: [&str; 2], most: u32) -> io::Result<Loans> {
        let [places, totals] = names;
        Ok(Loans {
            places: Map::create(places, most)?,
            totals: Map::create_array(totals, 2 * most)?,
            entries: BTreeMap::new(),
            free: (0..most).map(|number| 2 * number).collect(),
        })
    }

    /// The maps, for the instructions of a program: the places, and what stands there.
    pub(super) fn descriptors(&self) -> [i32; 2] {
        [self.places.descriptor(), self.totals.descriptor()]
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
        let Some(entry) = self.entries.get_mut(&key) else { return self.begin(key, amount) };
        let lent = entry.known.wrapping_add(amount);
        if lent != entry.lent {
            self.totals.set(&entry.place.to_ne_bytes(), &lent.to_ne_bytes())?;
            entry.lent = lent;
        }
        Ok(())
    }

    /// Lends this much under a key that has no place yet.
    fn begin(&mut self, key: [u8; 4], amount: u64) -> io::Result<()> {
        let place = *self.free.front().ok_or(Errno::TOOBIG)?;
        self.totals.set(&place.to_ne_bytes(), &amount.to_ne_bytes())?;
        self.totals.set(&behind(place), &[0; 8])?;
        self.places.set(&key, &place.to_ne_bytes())?;
        self.free.pop_front();
        self.entries.insert(key, Entry { place, lent: amount, known: 0 });
        Ok(())
    }

    /// What is lent, as far as the daemon knows; `None` where nothing ever was.
    pub(super) fn lent(&self, key: [u8; 4]) -> Option<u64> {
        let Entry { lent, known, .. } = *self.entries.get(&key)?;
        Some(difference(lent, known))
    }

    /// The same, or more where more was taken before it was lent less.
    pub(super) fn outstanding(&self, key: [u8; 4]) -> io::Result<u64> {
        let Some(&Entry { place, lent, known }) = self.entries.get(&key) else { return Ok(0) };
        let taken = self.totals.get(&behind(place))?.map_or(known, u64::from_ne_bytes);
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
        let entry = self.entries.remove(&key);
        self.places.remove(&key)?;
        self.free.extend(entry.map(|entry| entry.place));
        Ok(())
    }
}

/// Where it stands how much was taken.
fn behind(place: u32) -> [u8; 4] {
    (place + 1).to_ne_bytes()
}

/// How much more `one` is; 0 where it is less.
fn difference(one: u64, other: u64) -> u64 {
    (one.wrapping_sub(other) as i64).max(0) as u64
}

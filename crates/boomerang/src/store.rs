//! The slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `sessions` | (number of the mask, classifier under it) | one a [`Session`] | peers, so a [`KeyedHash`] |
//! | `sources` | address of an initiating node | one a node that has sessions | peers, likewise |
//!
//! That is a tuple space: sessions of one mask are found exactly, whatever their number. The longest match over the five
//! keys is the most specific of the masks under which there is something, so it costs a look-up a mask, of which there is
//! a bounded number. No index is ever walked; what is listed is listed in slab order, so that order never depends on a
//! hash.

mod keys;
mod masks;

use core::net::IpAddr;

use earmark_core::growth;
use earmark_core::hash::KeyedHash;
use earmark_core::timer::TimingWheel;
use earmark_wire::boomerang::Family;
use hashbrown::HashTable;
use slab::Slab;

pub(crate) use self::keys::Key;
pub(crate) use self::masks::Masks;
use crate::state::{Index, Session, Source, Timer};

/// All state of one engine, but for what belongs to this host's own sessions.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Slab<Session>,
    pub(crate) sources: Slab<Source>,
    pub(crate) timers: TimingWheel<Timer>,
    pub(crate) masks: Masks,
    by_key: HashTable<Index>,
    by_address: HashTable<Index>,
    hash: KeyedHash,
}

/// Where a look-up that found nothing has looked, so that what is entered next is not hashed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// Somebody who asks for something: the hash of the address, and the block, if there are sessions of that node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    pub(crate) hash: u64,
    source: Option<Index>,
}

impl Store {
    /// An empty store whose indexes hash with `hash`.
    pub(crate) fn new(hash: KeyedHash) -> Store {
        Store {
            sessions: Slab::new(),
            sources: Slab::new(),
            timers: TimingWheel::new(),
            masks: Masks::new(),
            by_key: HashTable::new(),
            by_address: HashTable::new(),
            hash,
        }
    }

    #[inline]
    pub(crate) fn session(&self, index: Index) -> &Session {
        &self.sessions[index as usize]
    }

    #[inline]
    pub(crate) fn session_mut(&mut self, index: Index) -> &mut Session {
        &mut self.sessions[index as usize]
    }

    /// The initiating node of a session.
    #[inline]
    pub(crate) fn initiator(&self, index: Index) -> IpAddr {
        self.sources[self.session(index).source as usize].address
    }

    /// The session with this key, or the place of a new one.
    #[inline]
    pub(crate) fn look_up(&self, key: &Key) -> Result<Index, Place> {
        if let (Family::V4, [w0, w1, ..]) = (key.family, key.words) {
            return self.look_up_short(key.mask, [w0, w1]);
        }
        let hash = key.hash(&self.hash);
        let same = |&index: &Index| key.is_of(self.session(index));
        self.by_key.find(hash, same).copied().ok_or(Place(hash))
    }

    /// Likewise for IPv4, where a key has two words.
    #[inline]
    pub(crate) fn look_up_short(&self, mask: u16, words: [u64; 2]) -> Result<Index, Place> {
        let hash = keys::hash_short(&self.hash, mask, words);
        let same = |&index: &Index| {
            let session = self.session(index);
            session.words == words && session.mask == mask
        };
        self.by_key.find(hash, same).copied().ok_or(Place(hash))
    }

    /// The most specific session that these packets belong to: `octets` are their keys, as in a classifier.
    pub(crate) fn longest_match(&self, octets: &[u8]) -> Option<Index> {
        self.masks
            .by_specificity(octets.len())
            .find_map(|(number, mask)| self.look_up(&Key::new(number, mask, octets)).ok())
    }

    /// Enters a session that is not there yet. Its timer is armed by the caller.
    pub(crate) fn insert(&mut self, place: Place, session: Session) -> Index {
        self.masks.hold(session.mask);
        grow(&mut self.sessions);
        let index = self.sessions.insert(session) as Index;
        let (sessions, masks, key) = (&self.sessions, &self.masks, &self.hash);
        self.by_key.insert_unique(place.0, index, |&i| {
            let session = &sessions[i as usize];
            Key::of(session, masks.mask(session.mask).family).hash(key)
        });
        index
    }

    /// The key of a session.
    #[inline]
    pub(crate) fn key(&self, index: Index) -> Key {
        let session = self.session(index);
        Key::of(session, self.masks.mask(session.mask).family)
    }

    /// Takes a session out, with its timer, and with its source if that has no other.
    pub(crate) fn remove(&mut self, index: Index) {
        let hash = self.key(index).hash(&self.hash);
        if let Ok(entry) = self.by_key.find_entry(hash, |&i| i == index) {
            entry.remove();
        }
        let Session { timer, mask, source, .. } = self.sessions.remove(index as usize);
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        self.masks.release(mask);
        self.leave(source);
    }

    /// What is known of an initiating node.
    #[inline]
    pub(crate) fn asker(&self, address: IpAddr) -> Asker {
        let hash = hash_address(&self.hash, address);
        let same = |&index: &Index| self.sources[index as usize].address == address;
        Asker { hash, source: self.by_address.find(hash, same).copied() }
    }

    /// Likewise of that of a session.
    #[inline]
    pub(crate) fn asker_of(&self, index: Index) -> Asker {
        let source = self.session(index).source;
        let address = self.sources[source as usize].address;
        Asker { hash: hash_address(&self.hash, address), source: Some(source) }
    }

    /// How many sessions somebody has.
    #[inline]
    pub(crate) fn sessions_of(&self, asker: Asker) -> u32 {
        asker.source.map_or(0, |index| self.sources[index as usize].sessions)
    }

    /// Counts one more session of an initiating node, of which this was found out a moment ago.
    #[inline]
    pub(crate) fn join(&mut self, asker: Asker, address: IpAddr) -> Index {
        if let Some(index) = asker.source {
            debug_assert_eq!(self.sources[index as usize].address, address);
            self.sources[index as usize].sessions += 1;
            return index;
        }
        grow(&mut self.sources);
        let index = self.sources.insert(Source { address, sessions: 1 }) as Index;
        let (sources, hash) = (&self.sources, &self.hash);
        self.by_address
            .insert_unique(asker.hash, index, |&i| hash_address(hash, sources[i as usize].address));
        index
    }

    /// Counts one less.
    fn leave(&mut self, index: Index) {
        let source = &mut self.sources[index as usize];
        source.sessions -= 1;
        if source.sessions == 0 {
            let hash = hash_address(&self.hash, source.address);
            if let Ok(entry) = self.by_address.find_entry(hash, |&i| i == index) {
                entry.remove();
            }
            self.sources.remove(index as usize);
        }
    }
}

/// A number for an address that peers cannot foretell.
#[inline]
fn hash_address(hash: &KeyedHash, address: IpAddr) -> u64 {
    match address {
        IpAddr::V4(address) => hash.of_two([address.to_bits().into(), 0]),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            hash.of_two([(bits >> 64) as u64, bits as u64])
        }
    }
}

/// Makes room for one more block.
fn grow<T>(slab: &mut Slab<T>) {
    if slab.len() == slab.capacity() {
        slab.reserve_exact(growth::step(slab.len()));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    /// A million sessions must fit beside everything else.
    #[test]
    fn blocks_stay_small() {
        for (block, size, limit) in [
            ("session", size_of::<super::Session>(), 96),
            ("source", size_of::<super::Source>(), 24),
            ("timer", size_of::<super::Timer>(), 4),
        ] {
            assert!(size <= limit, "a {block} block has {size} octets, more than {limit}");
        }
    }
}

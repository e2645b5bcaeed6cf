//! Slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `sessions` | (number of the mask, classifier under it) | one per [`Session`] | peers, so a [`KeyedHash`] |
//! | `sources` | address and arrival interface of an initiating node | one per node with sessions | peers, so a [`KeyedHash`] |
//!
//! The index is a tuple space: sessions of one mask are found exactly, whatever their number. The longest match over the
//! five keys is the most specific mask under which there is a session, so it costs a lookup per mask, of which there
//! is a limited number. No index is ever walked; listings are in slab order, so that the order never depends on a
//! hash.

mod keys;
mod masks;

use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::shares::Shares;
use earmark_core::timer::TimingWheel;
use earmark_core::{Flow, InterfaceId, Time, growth};
use earmark_wire::boomerang::{Family, Keys, Shape};
use hashbrown::HashTable;
use slab::Slab;

use crate::selector::{Direction, Selector};
use crate::state::{Index, Session, Source, Timer, TimerKind};

pub(crate) use self::keys::Key;
pub(crate) use self::masks::Masks;

/// All state of one engine, except that of this host's own sessions.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Slab<Session>,
    pub(crate) sources: Slab<Source>,
    pub(crate) timers: TimingWheel<Timer>,
    pub(crate) masks: Masks,
    by_key: HashTable<Index>,
    by_address: HashTable<Index>,
    /// Sessions by arrival interface.
    pub(crate) shares: Shares,
    hash: KeyedHash,
}

/// Hash of a key that a lookup did not find, so that an insertion need not hash it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VacantEntry(u64);

/// An initiating node: the hash of its address and arrival interface, and its block, if it has sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitiatorEntry {
    hash: u64,
    source: Option<Index>,
    /// Arrival interface of the first message.
    pub(crate) port: InterfaceId,
    /// Whether limits count all nodes behind the interface together.
    shares_limits: bool,
    /// Hash of what limits count.
    pub(crate) limited: u64,
}

/// Session whose half is to be granted bandwidth.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grant {
    /// An existing session.
    Known(Index),
    /// A new session, created with its first grant.
    New {
        key: Key,
        place: VacantEntry,
        /// Prime to lock the session with; 0 for none.
        prime: u32,
    },
}

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        octets([&self.sessions, &self.sources, &self.timers, &self.by_key, &self.by_address])
    }

    /// Creates an empty store whose indexes hash with `hash`.
    pub(crate) fn new(hash: KeyedHash) -> Store {
        Store {
            sessions: Slab::new(),
            sources: Slab::new(),
            timers: TimingWheel::new(),
            masks: Masks::new(),
            by_key: HashTable::new(),
            by_address: HashTable::new(),
            shares: Shares::default(),
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

    /// Returns the initiating node of a session.
    #[inline]
    pub(crate) fn initiator(&self, index: Index) -> IpAddr {
        self.sources[self.session(index).source as usize].address
    }

    /// Returns the session with this key, or the entry for a new one.
    #[inline]
    pub(crate) fn look_up(&self, key: &Key) -> Result<Index, VacantEntry> {
        if let (Family::V4, [w0, w1, ..]) = (key.family, key.words) {
            return self.look_up_short(key.mask, [w0, w1]);
        }
        let hash = key.hash(&self.hash);
        let same = |&index: &Index| key.is_of(self.session(index));
        self.by_key.find(hash, same).copied().ok_or(VacantEntry(hash))
    }

    /// Returns the session with this classifier and mask.
    pub(crate) fn find(&self, classifier: &[u8], mask: &[u8]) -> Option<Index> {
        let number = self.masks.find(mask)?;
        self.look_up(&Key::new(number, self.masks.mask(number), classifier)).ok()
    }

    /// Returns the session with this classifier under a mask of this number, or the entry for a new one.
    pub(crate) fn grant(&self, mask: u16, classifier: &[u8]) -> Grant {
        let key = Key::new(mask, self.masks.mask(mask), classifier);
        match self.look_up(&key) {
            Ok(index) => Grant::Known(index),
            Err(place) => Grant::New { key, place, prime: 0 },
        }
    }

    /// Returns the session with an IPv4 key, which has two words, or the entry for a new one.
    #[inline]
    pub(crate) fn look_up_short(&self, mask: u16, words: [u64; 2]) -> Result<Index, VacantEntry> {
        let hash = keys::hash_short(&self.hash, mask, words);
        let same = |&index: &Index| {
            let session = self.session(index);
            session.words == words && session.mask == mask
        };
        self.by_key.find(hash, same).copied().ok_or(VacantEntry(hash))
    }

    /// Returns the most specific session that these packets belong to: `octets` are their keys, as in a classifier.
    pub(crate) fn longest_match(&self, octets: &[u8]) -> Option<Index> {
        self.masks
            .by_specificity(octets.len())
            .find_map(|(number, mask)| self.look_up(&Key::new(number, mask, octets)).ok())
    }

    /// Inserts a new session. The caller arms its timer.
    #[inline(always)]
    pub(crate) fn insert(&mut self, place: VacantEntry, session: Session) -> Index {
        self.masks.acquire(session.mask);
        let index = growth::insert(&mut self.sessions, session);
        let (sessions, masks, key) = (&self.sessions, &self.masks, &self.hash);
        self.by_key.insert_unique(place.0, index, |&i| {
            let session = &sessions[i as usize];
            Key::of(session, masks.mask(session.mask).family).hash(key)
        });
        index
    }

    /// Returns the key of a session.
    #[inline]
    pub(crate) fn key(&self, index: Index) -> Key {
        let session = self.session(index);
        Key::of(session, self.masks.mask(session.mask).family)
    }

    /// Returns the packets of a session.
    pub(crate) fn selector(&self, index: Index) -> Option<Selector> {
        let key = self.key(index);
        let shape = &self.masks.mask(key.mask).shape;
        key.keys().map(|keys| Selector::of_keys(&keys, shape))
    }

    /// Returns classifier and mask of a session.
    pub(crate) fn keys(&self, index: Index) -> Option<(Keys, Shape)> {
        let key = self.key(index);
        Some((key.keys()?, self.masks.mask(key.mask).shape))
    }

    /// Returns the flow of a session in one direction, if traffic control can match it.
    pub(crate) fn flow(&self, index: Index, direction: Direction) -> Option<Flow> {
        let tos = self.masks.mask(self.session(index).mask).shape.tos;
        self.selector(index)?.flow(tos, direction)
    }

    /// Arms the timer of a session for the first expiry of its halves, if it would fire later.
    #[inline(always)]
    pub(crate) fn rearm(&mut self, index: Index) {
        let session = &self.sessions[index as usize];
        let first = session.first_end();
        let soon = |timer| self.timers.deadline(timer).is_some_and(|at| at <= first);
        if !session.timer.is_some_and(soon) {
            self.arm(index, first);
        }
    }

    /// Arms the timer of a session for `at`.
    #[inline]
    pub(crate) fn arm(&mut self, index: Index, at: Time) {
        let Store { sessions, timers, .. } = self;
        let timer = &mut sessions[index as usize].timer;
        if !timer.is_some_and(|timer| timers.rearm(timer, at)) {
            *timer = Some(timers.arm(at, Timer::new(TimerKind::Expiry, index)));
        }
    }

    /// Returns the half session of a claim, if it is ours and still exists.
    pub(crate) fn half_of(&self, claim: ClaimId, owner: Owner) -> Option<(Index, usize)> {
        let session = self.sessions.get(owner.block as usize)?;
        let same = |&slot: &usize| {
            let half = session.half_at(slot);
            half.is_there() && half.claim == claim
        };
        let slot = (0..session.slots()).find(same)?;
        (owner.protocol == crate::ID).then_some((owner.block, slot))
    }

    /// Removes a session with its timer, and with its source if that has no other.
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

    /// Returns the entry of an initiating node whose requests arrive through an interface.
    #[inline(always)]
    pub(crate) fn initiator_entry(
        &self,
        address: IpAddr,
        port: InterfaceId,
        is_access: bool,
    ) -> InitiatorEntry {
        let hash = self.hash_of_source(address, port);
        let same = |&index: &Index| {
            let source = &self.sources[index as usize];
            source.address == address && source.port == port
        };
        self.entry(hash, self.by_address.find(hash, same).copied(), port, is_access)
    }

    /// Returns the entry of the initiating node of a session.
    #[inline]
    pub(crate) fn initiator_entry_of(&self, index: Index, is_access: bool) -> InitiatorEntry {
        let source = self.session(index).source;
        let Source { address, port, .. } = self.sources[source as usize];
        self.entry(self.hash_of_source(address, port), Some(source), port, is_access)
    }

    #[inline]
    fn entry(
        &self,
        hash: u64,
        source: Option<Index>,
        port: InterfaceId,
        is_access: bool,
    ) -> InitiatorEntry {
        let is_known = port != crate::arrival::OWN && port != crate::arrival::NONE;
        let shares_limits = is_known && is_access;
        let limited =
            if shares_limits { self.hash.of_two([u64::MAX, port.0.into()]) } else { hash };
        InitiatorEntry { hash, source, port, shares_limits, limited }
    }

    /// Returns how many sessions count together with those of an initiating node.
    #[inline]
    pub(crate) fn sessions_of(&self, entry: InitiatorEntry) -> u32 {
        if entry.shares_limits {
            return self.shares.of(entry.port);
        }
        entry.source.map_or(0, |index| self.sources[index as usize].sessions)
    }

    /// Counts one more session of an initiating node, looked up a moment ago.
    #[inline]
    pub(crate) fn join(&mut self, entry: &InitiatorEntry, address: IpAddr) -> Index {
        let InitiatorEntry { port, .. } = *entry;
        self.shares.add(port);
        if let Some(index) = entry.source {
            debug_assert_eq!(self.sources[index as usize].address, address);
            self.sources[index as usize].sessions += 1;
            return index;
        }
        let index = growth::insert(&mut self.sources, Source { address, port, sessions: 1 });
        let (sources, hash) = (&self.sources, &self.hash);
        self.by_address.insert_unique(entry.hash, index, |&i| {
            let Source { address, port, .. } = sources[i as usize];
            hash_of_source(hash, address, port)
        });
        index
    }

    /// Counts one session less.
    pub(crate) fn leave(&mut self, index: Index) {
        let source = &mut self.sources[index as usize];
        source.sessions -= 1;
        let Source { address, port, sessions } = *source;
        self.shares.remove(port);
        if sessions == 0 {
            let hash = self.hash_of_source(address, port);
            if let Ok(entry) = self.by_address.find_entry(hash, |&i| i == index) {
                entry.remove();
            }
            self.sources.remove(index as usize);
        }
    }

    #[inline]
    fn hash_of_source(&self, address: IpAddr, port: InterfaceId) -> u64 {
        hash_of_source(&self.hash, address, port)
    }
}

/// Returns the hash of an initiating node whose messages arrive through an interface.
#[inline]
fn hash_of_source(hash: &KeyedHash, address: IpAddr, port: InterfaceId) -> u64 {
    // An odd factor spreads the few numbers of interfaces; the keyed hash hides which addresses would collide.
    hash.of_address(address) ^ u64::from(port.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    extern crate std;

    /// A million sessions must fit beside everything else.
    #[test]
    fn blocks_stay_small() {
        for (block, size, limit) in [
            ("session", size_of::<super::Session>(), 104),
            ("source", size_of::<super::Source>(), 28),
            ("timer", size_of::<super::Timer>(), 4),
        ] {
            assert!(size <= limit, "a {block} block has {size} octets, more than {limit}");
        }
    }
}

//! Slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `streams` | stream | one per [`Session`] | peers, so a [`KeyedHash`] |
//! | `pools_by_session` | (destination, port) | one per [`Pool`] | an ordered map |
//!
//! No index is ever walked; listings are in slab order, so that the order never depends on a hash.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::timer::TimingWheel;
use earmark_core::{InterfaceId, growth};
use hashbrown::HashTable;
use slab::Slab;

use crate::api::Stream;
use crate::state::{Holder, Index, Leg, NONE, Pool, Session, Timer};

/// State of all streams in transit.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Slab<Session>,
    pub(crate) legs: Slab<Leg>,
    pub(crate) pools: Slab<Pool>,
    pub(crate) timers: TimingWheel<Timer>,
    streams: HashTable<Index>,
    pools_by_session: BTreeMap<(IpAddr, u16), Index>,
    hash: KeyedHash,
}

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        octets([
            &self.sessions,
            &self.legs,
            &self.pools,
            &self.timers,
            &self.streams,
            &self.pools_by_session,
        ])
    }

    /// Creates an empty store whose index hashes with `hash`.
    pub(crate) fn new(hash: KeyedHash) -> Store {
        Store {
            sessions: Slab::new(),
            legs: Slab::new(),
            pools: Slab::new(),
            timers: TimingWheel::new(),
            streams: HashTable::new(),
            pools_by_session: BTreeMap::new(),
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

    #[inline]
    pub(crate) fn leg(&self, index: Index) -> &Leg {
        &self.legs[index as usize]
    }

    #[inline]
    pub(crate) fn leg_mut(&mut self, index: Index) -> &mut Leg {
        &mut self.legs[index as usize]
    }

    #[inline]
    pub(crate) fn pool(&self, index: Index) -> &Pool {
        &self.pools[index as usize]
    }

    #[inline]
    pub(crate) fn pool_mut(&mut self, index: Index) -> &mut Pool {
        &mut self.pools[index as usize]
    }

    /// Returns the session of a stream.
    #[inline]
    pub(crate) fn find(&self, stream: &Stream) -> Option<Index> {
        self.look_up(stream).ok()
    }

    /// Returns the session of a stream, or the entry for a new one.
    #[inline(always)]
    pub(crate) fn look_up(&self, stream: &Stream) -> Result<Index, VacantEntry> {
        let place = hash(&self.hash, stream);
        let same = |&index: &Index| self.session(index).stream == *stream;
        self.streams.find(place, same).copied().ok_or(VacantEntry(place))
    }

    /// Returns the index that the next inserted session gets.
    #[inline]
    pub(crate) fn next_session(&self) -> Index {
        self.sessions.vacant_key() as Index
    }

    /// Inserts a session into the entry that a lookup has returned.
    #[inline]
    pub(crate) fn insert(&mut self, session: Session, place: VacantEntry) -> Index {
        let key = &self.hash;
        let index = growth::insert(&mut self.sessions, session);
        let sessions = &self.sessions;
        let hasher = |&other: &Index| hash(key, &sessions[other as usize].stream);
        self.streams.insert_unique(place.0, index, hasher);
        index
    }

    /// Removes a session; its legs must be gone.
    pub(crate) fn remove(&mut self, index: Index) {
        let key = hash(&self.hash, &self.session(index).stream);
        if let Ok(place) = self.streams.find_entry(key, |&other| other == index) {
            place.remove();
        }
        let Session { timer, .. } = self.sessions.remove(index as usize);
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
    }

    /// Returns the pool of an RTP session, by the destination of its data; creates it if it is missing.
    pub(crate) fn find_or_insert_pool(&mut self, destination: IpAddr, port: u16) -> Index {
        let pools = &mut self.pools;
        *self.pools_by_session.entry((destination, port)).or_insert_with(|| {
            let pool = Pool { destination, port, legs: NONE, members: alloc::vec![] };
            pools.insert(pool) as Index
        })
    }

    /// Removes a pool without members and legs.
    pub(crate) fn remove_pool(&mut self, index: Index) {
        let pool = self.pools.remove(index as usize);
        self.pools_by_session.remove(&(pool.destination, pool.port));
    }

    /// Returns the first leg of a holder.
    #[inline]
    pub(crate) fn first_leg(&self, holder: Holder) -> Index {
        match holder {
            Holder::Session(session) => self.session(session).legs,
            Holder::Pool(pool) => self.pool(pool).legs,
        }
    }

    /// Returns the legs of a holder.
    #[inline]
    pub(crate) fn legs_of(&self, holder: Holder) -> impl Iterator<Item = Index> {
        let mut next = self.first_leg(holder);
        core::iter::from_fn(move || {
            let leg = next;
            next = self.legs.get(leg as usize)?.next;
            Some(leg)
        })
    }

    /// Returns the leg of a holder on a link.
    #[inline]
    pub(crate) fn leg_on(&self, holder: Holder, interface: InterfaceId) -> Option<Index> {
        self.leg_among(self.first_leg(holder), interface).ok()
    }

    /// Returns the leg on a link of the holder with this first leg; otherwise the number of its legs.
    #[inline]
    pub(crate) fn leg_among(&self, first: Index, interface: InterfaceId) -> Result<Index, usize> {
        let (mut next, mut others) = (first, 0);
        while let Some(leg) = self.legs.get(next as usize) {
            if leg.interface == interface {
                return Ok(next);
            }
            (next, others) = (leg.next, others + 1);
        }
        Err(others)
    }

    /// Inserts a leg of a holder.
    #[inline]
    pub(crate) fn insert_leg(&mut self, holder: Holder, interface: InterfaceId) -> Index {
        let index = self.legs.vacant_key() as Index;
        let leg = Leg {
            holder,
            next: core::mem::replace(self.head(holder), index),
            interface,
            claim: None,
            full: false,
            waits: 0,
            waiting: false,
            refusal_reported: false,
            failed: false,
        };
        growth::insert(&mut self.legs, leg)
    }

    /// Removes a leg.
    pub(crate) fn remove_leg(&mut self, index: Index) -> Leg {
        let leg = self.legs.remove(index as usize);
        let first = self.first_leg(leg.holder);
        if first == index {
            *self.head(leg.holder) = leg.next;
            return leg;
        }
        let mut before = first;
        while self.leg(before).next != index {
            before = self.leg(before).next;
        }
        self.leg_mut(before).next = leg.next;
        leg
    }

    #[inline]
    fn head(&mut self, holder: Holder) -> &mut Index {
        match holder {
            Holder::Session(session) => &mut self.session_mut(session).legs,
            Holder::Pool(pool) => &mut self.pool_mut(pool).legs,
        }
    }
}

/// Hash of a stream that a lookup did not find, so that an insertion need not hash it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VacantEntry(u64);

/// Returns the hash of a stream; an IPv4 stream takes a short one.
#[inline]
fn hash(hash: &KeyedHash, stream: &Stream) -> u64 {
    let ports = u64::from(stream.source_port) << 16 | u64::from(stream.destination_port);
    let (IpAddr::V4(source), IpAddr::V4(destination)) = (stream.source, stream.destination) else {
        return hash_long(hash, stream, ports);
    };
    let [source, destination] = [source, destination].map(|address| u64::from(address.to_bits()));
    hash.of_two([source << 32 | destination, ports])
}

#[inline(never)]
fn hash_long(hash: &KeyedHash, stream: &Stream, ports: u64) -> u64 {
    let [source, destination] = [stream.source, stream.destination].map(mapped);
    let (upper, lower) = (|bits: u128| (bits >> 64) as u64, |bits: u128| bits as u64);
    let [a, b] = [upper(source), lower(source)];
    let [c, d] = [upper(destination), lower(destination)];
    hash.of_six([a, b, c, d, ports, 0])
}

fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

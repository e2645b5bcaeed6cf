//! The slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `streams` | stream | one a [`Session`] | peers, so SipHash with a random key |
//! | `pools_by_session` | (destination, port) | one a [`Pool`] | an ordered map |
//!
//! No index is ever walked; what is listed is listed in slab order, so that order never depends on a hash.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::timer::TimingWheel;
use earmark_core::{InterfaceId, growth};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use slab::Slab;

use crate::api::Stream;
use crate::state::{Holder, Index, Leg, NONE, Pool, Session, Timer};

/// All state of the streams that pass.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) sessions: Slab<Session>,
    pub(crate) legs: Slab<Leg>,
    pub(crate) pools: Slab<Pool>,
    pub(crate) timers: TimingWheel<Timer>,
    streams: HashTable<Index>,
    pools_by_session: BTreeMap<(IpAddr, u16), Index>,
    hash_key: (u64, u64),
}

impl Store {
    /// An empty store whose index hashes with `hash_key`.
    pub(crate) fn new(hash_key: (u64, u64)) -> Store {
        Store {
            sessions: Slab::new(),
            legs: Slab::new(),
            pools: Slab::new(),
            timers: TimingWheel::new(),
            streams: HashTable::new(),
            pools_by_session: BTreeMap::new(),
            hash_key,
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

    /// The session of a stream.
    #[inline]
    pub(crate) fn find(&self, stream: &Stream) -> Option<Index> {
        self.look_up(stream).ok()
    }

    /// The session of a stream; where there is none, where it belongs.
    #[inline]
    pub(crate) fn look_up(&self, stream: &Stream) -> Result<Index, Place> {
        let place = hash(self.hash_key, stream);
        let same = |&index: &Index| self.session(index).stream == *stream;
        self.streams.find(place, same).copied().ok_or(Place(place))
    }

    /// Enters the session of a stream that has none, where a look-up has found that it belongs.
    pub(crate) fn insert(&mut self, session: Session, place: Place) -> Index {
        let key = self.hash_key;
        let index = insert(&mut self.sessions, session);
        let sessions = &self.sessions;
        let hasher = |&other: &Index| hash(key, &sessions[other as usize].stream);
        self.streams.insert_unique(place.0, index, hasher);
        index
    }

    /// Takes a session out; its legs must be gone.
    pub(crate) fn remove(&mut self, index: Index) -> Session {
        let session = self.sessions.remove(index as usize);
        let key = hash(self.hash_key, &session.stream);
        if let Ok(place) = self.streams.find_entry(key, |&other| other == index) {
            place.remove();
        }
        if let Some(timer) = session.timer {
            self.timers.cancel(timer);
        }
        session
    }

    /// The pool of an RTP session, by where its data goes; a new one where there was none.
    pub(crate) fn obtain_pool(&mut self, destination: IpAddr, port: u16) -> Index {
        let pools = &mut self.pools;
        *self.pools_by_session.entry((destination, port)).or_insert_with(|| {
            let pool = Pool { destination, port, legs: NONE, members: alloc::vec![] };
            pools.insert(pool) as Index
        })
    }

    /// Takes out a pool without members and legs.
    pub(crate) fn remove_pool(&mut self, index: Index) {
        let pool = self.pools.remove(index as usize);
        self.pools_by_session.remove(&(pool.destination, pool.port));
    }

    /// First leg of a holder.
    #[inline]
    pub(crate) fn first_leg(&self, holder: Holder) -> Index {
        match holder {
            Holder::Session(session) => self.session(session).legs,
            Holder::Pool(pool) => self.pool(pool).legs,
        }
    }

    /// The legs of a holder.
    #[inline]
    pub(crate) fn legs_of(&self, holder: Holder) -> impl Iterator<Item = Index> {
        let mut next = self.first_leg(holder);
        core::iter::from_fn(move || {
            let leg = next;
            next = self.legs.get(leg as usize)?.next;
            Some(leg)
        })
    }

    /// The leg of a holder on a link.
    #[inline]
    pub(crate) fn leg_on(&self, holder: Holder, interface: InterfaceId) -> Option<Index> {
        self.legs_of(holder).find(|&leg| self.leg(leg).interface == interface)
    }

    /// A new leg of a holder.
    pub(crate) fn insert_leg(&mut self, holder: Holder, interface: InterfaceId) -> Index {
        let leg = Leg {
            holder,
            next: self.first_leg(holder),
            interface,
            claim: None,
            full: false,
            waits: 0,
            waiting: false,
            told: false,
            failed: false,
        };
        let index = insert(&mut self.legs, leg);
        *self.head(holder) = index;
        index
    }

    /// Takes a leg out.
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

    fn head(&mut self, holder: Holder) -> &mut Index {
        match holder {
            Holder::Session(session) => &mut self.session_mut(session).legs,
            Holder::Pool(pool) => &mut self.pool_mut(pool).legs,
        }
    }
}

/// Where a look-up that found nothing has looked, so that what is entered next is not hashed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

/// Enters a block into its slab.
fn insert<T>(slab: &mut Slab<T>, block: T) -> Index {
    if slab.len() == slab.capacity() {
        slab.reserve_exact(growth::step(slab.len()));
    }
    slab.insert(block) as Index
}

/// Peers choose the key, so the hash is SipHash with a random key. Fixed places, so that different streams are different
/// octets; those of IPv4 are short ones.
#[inline]
fn hash(key: (u64, u64), stream: &Stream) -> u64 {
    let hasher = SipHasher13::new_with_keys(key.0, key.1);
    let [s0, s1] = stream.source_port.to_be_bytes();
    let [d0, d1] = stream.destination_port.to_be_bytes();
    match (stream.source, stream.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let mut octets = [0; 12];
            octets[..4].copy_from_slice(&source.octets());
            octets[4..8].copy_from_slice(&destination.octets());
            octets[8..].copy_from_slice(&[s0, s1, d0, d1]);
            hasher.hash(&octets)
        }
        (source, destination) => {
            let mut octets = [0; 36];
            octets[..16].copy_from_slice(&mapped(source));
            octets[16..32].copy_from_slice(&mapped(destination));
            octets[32..].copy_from_slice(&[s0, s1, d0, d1]);
            hasher.hash(&octets)
        }
    }
}

fn mapped(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

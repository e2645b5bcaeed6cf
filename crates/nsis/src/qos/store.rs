//! The slab of sessions, its indices, and the rings of sessions with the same next node.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `by_id` | SESSION-ID | one for each [`Session`] | peers, so a [`KeyedHash`] |
//! | `peers` | SII-Handle | one for each peer with sessions | GIST, an ordered map |
//! | `bound` | SESSION-ID that others are bound to, session | one for each binding | peers, so an ordered set |
//!
//! No index is ever walked; listings are in slab order, so that order never depends on a hash.

use alloc::collections::{BTreeMap, BTreeSet};

use earmark_core::InterfaceId;
use earmark_core::growth;
use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::shares::{OWN, Shares};
use earmark_core::timer::TimingWheel;
use earmark_wire::gist::SessionId;
use hashbrown::HashTable;
use slab::Slab;

use super::state::{Index, NONE, Ring, Session};
use crate::nslp::PeerHandle;
use crate::session::hash;

/// What has ended while sessions may be bound to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    /// The session of the aggregate with this number, which this node has lost.
    Aggregate(SessionId, usize),
    /// A session, and the interface through which it was asked for; `None` if this node asked.
    Session(SessionId, Option<InterfaceId>),
}

impl Ended {
    /// Returns the identifier of the session that has ended.
    pub(super) fn session(self) -> SessionId {
        let (Ended::Aggregate(session, _) | Ended::Session(session, _)) = self;
        session
    }
}

/// All sessions of the node.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) sessions: Slab<Session>,
    /// One timer for each session; see [`Session::due`].
    pub(super) timers: TimingWheel<Index>,
    by_id: HashTable<Index>,
    peers: BTreeMap<PeerHandle, Peer>,
    /// Sessions by the interface that leads to their previous peer; [`OWN`] if there is none.
    pub(super) shares: Shares,
    bound: BTreeSet<(SessionId, Index)>,
    hash: KeyedHash,
}

/// Sessions of a peer.
#[derive(Clone, Copy, Debug)]
struct Peer {
    /// Number of sessions with this previous peer.
    session_count: u32,
    /// A session in the ring of those with this next peer.
    ring: Index,
}

impl Peer {
    fn is_idle(&self) -> bool {
        self.session_count == 0 && self.ring == NONE
    }
}

/// Hash of a session identifier that a lookup has not found.
#[derive(Clone, Copy, Debug)]
pub(super) struct VacantEntry(u64);

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(super) fn table_octets(&self) -> usize {
        octets([&self.sessions, &self.timers, &self.by_id, &self.peers, &self.bound])
    }

    /// Creates an empty store whose index hashes with `hash`.
    pub(super) fn new(hash: KeyedHash) -> Store {
        Store {
            sessions: Slab::new(),
            timers: TimingWheel::new(),
            by_id: HashTable::new(),
            peers: BTreeMap::new(),
            shares: Shares::default(),
            bound: BTreeSet::new(),
            hash,
        }
    }

    #[inline]
    pub(super) fn session(&self, index: Index) -> &Session {
        &self.sessions[index as usize]
    }

    #[inline]
    pub(super) fn session_mut(&mut self, index: Index) -> &mut Session {
        &mut self.sessions[index as usize]
    }

    /// Returns the session of this identifier, or where to insert one.
    #[inline]
    pub(super) fn look_up(&self, id: SessionId) -> Result<Index, VacantEntry> {
        let place = hash(&self.hash, id);
        let same = |&index: &Index| self.session(index).id == id;
        self.by_id.find(place, same).copied().ok_or(VacantEntry(place))
    }

    /// Returns the session of this identifier.
    pub(super) fn find(&self, id: SessionId) -> Option<Index> {
        self.look_up(id).ok()
    }

    /// Returns the slot of the next inserted session.
    pub(super) fn next_index(&self) -> Index {
        self.sessions.vacant_key() as Index
    }

    /// Inserts a session whose identifier a lookup has not found.
    pub(super) fn insert(&mut self, session: Session, place: VacantEntry) -> Index {
        if self.sessions.len() == self.sessions.capacity() {
            self.sessions.reserve_exact(growth::step(self.sessions.len()));
        }
        let (back, on, arrival) = (session.back, session.on, session.arrival);
        let index = self.sessions.insert(session) as Index;
        let (key, sessions) = (&self.hash, &self.sessions);
        let hasher = |&other: &Index| hash(key, sessions[other as usize].id);
        self.by_id.insert_unique(place.0, index, hasher);
        self.session_mut(index).ring = Ring { previous: index, next: index };
        if let Some(back) = back {
            self.peer(back).session_count += 1;
        }
        self.shares.add(if back.is_some() { arrival } else { OWN });
        if let Some(on) = on {
            self.join(index, on);
        }
        index
    }

    /// Removes a session from the slab and all indices.
    pub(super) fn remove(&mut self, index: Index) -> Session {
        self.leave_ring(index);
        self.unbind(index);
        let session = self.sessions.remove(index as usize);
        let key = hash(&self.hash, session.id);
        if let Ok(place) = self.by_id.find_entry(key, |&other| other == index) {
            place.remove();
        }
        if let Some(back) = session.back {
            self.remove_session_of(back);
        }
        self.shares.remove(if session.back.is_some() { session.arrival } else { OWN });
        if let Some(timer) = session.timer {
            self.timers.cancel(timer);
        }
        session
    }

    /// Returns the number of sessions with a previous peer.
    pub(super) fn sessions_from(&self, peer: PeerHandle) -> u32 {
        self.peers.get(&peer).map_or(0, |peer| peer.session_count)
    }

    /// Returns the number of sessions with a next peer.
    pub(super) fn sessions_to(&self, peer: PeerHandle) -> usize {
        let Some(first) = self.peers.get(&peer).map(|peer| peer.ring) else { return 0 };
        let following = |&index: &Index| {
            let next = self.sessions.get(index as usize)?.ring.next;
            (next != first).then_some(next)
        };
        core::iter::successors((first != NONE).then_some(first), following).count()
    }

    /// Changes the previous peer of a session, and the interface that leads to it.
    pub(super) fn set_back(&mut self, index: Index, peer: PeerHandle, arrival: InterfaceId) {
        let session = self.session_mut(index);
        let old_arrival = core::mem::replace(&mut session.arrival, arrival);
        let old = session.back.replace(peer);
        self.shares.remove(if old.is_some() { old_arrival } else { OWN });
        if let Some(old) = old {
            self.remove_session_of(old);
        }
        self.peer(peer).session_count += 1;
        self.shares.add(arrival);
    }

    /// Changes the next peer of a session.
    pub(super) fn set_on(&mut self, index: Index, peer: Option<PeerHandle>) {
        if self.session(index).on == peer {
            return;
        }
        self.leave_ring(index);
        self.session_mut(index).on = peer;
        if let Some(peer) = peer {
            self.join(index, peer);
        }
    }

    fn peer(&mut self, handle: PeerHandle) -> &mut Peer {
        self.peers.entry(handle).or_insert(Peer { session_count: 0, ring: NONE })
    }

    fn remove_session_of(&mut self, handle: PeerHandle) {
        let Some(peer) = self.peers.get_mut(&handle) else { return };
        peer.session_count -= 1;
        if peer.is_idle() {
            self.peers.remove(&handle);
        }
    }
}

/// Rings: a session is inserted after the one that its peer refers to.
impl Store {
    fn join(&mut self, index: Index, handle: PeerHandle) {
        let peer = self.peer(handle);
        if peer.ring == NONE {
            peer.ring = index;
            return;
        }
        let previous = peer.ring;
        let next = self.session(previous).ring.next;
        self.session_mut(previous).ring.next = index;
        self.session_mut(next).ring.previous = index;
        self.session_mut(index).ring = Ring { previous, next };
    }

    fn leave_ring(&mut self, index: Index) {
        let session = self.session(index);
        let (Ring { previous, next }, on) = (session.ring, session.on);
        self.session_mut(previous).ring.next = next;
        self.session_mut(next).ring.previous = previous;
        self.session_mut(index).ring = Ring { previous: index, next: index };
        let Some(handle) = on else { return };
        let Some(peer) = self.peers.get_mut(&handle) else { return };
        if peer.ring == index {
            peer.ring = if next == index { NONE } else { next };
        }
        if peer.is_idle() {
            self.peers.remove(&handle);
        }
    }
}

/// Index of bindings.
impl Store {
    /// Adds the bindings of a session to the index.
    pub(super) fn bind(&mut self, index: Index) {
        let Some(extra) = &self.sessions[index as usize].extra else { return };
        self.bound.extend(extra.bound.iter().map(|bound| (bound.session, index)));
    }

    /// Removes the bindings of a session from the index.
    pub(super) fn unbind(&mut self, index: Index) {
        let Some(extra) = &self.sessions[index as usize].extra else { return };
        for bound in &extra.bound {
            self.bound.remove(&(bound.session, index));
        }
    }

    /// Returns the first session from this slot on that is bound to an identifier.
    pub(super) fn next_bound(&self, id: SessionId, from: Index) -> Option<Index> {
        let mut bound = self.bound.range((id, from)..=(id, Index::MAX));
        bound.next().map(|(_, index)| *index)
    }
}

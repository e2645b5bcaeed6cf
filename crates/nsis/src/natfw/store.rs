//! The slab of sessions and its indices.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `by_id` | SESSION-ID | one for each [`Session`] | peers, so a [`KeyedHash`] |
//! | `applications` | application | one for each request of this node | the driver |
//! | `peer_counts` | SII-Handle | one for each peer with sessions | GIST |
//! | `by_next` | SII-Handle, session | one for each session | GIST |
//! | `by_back` | slot of an SII-Handle, session | one for each session that a peer asked for | GIST |
//! | `held` | keyed hash of packets, session | one for each rule of a session | peers, so a keyed hash |
//! | `reservations` | protocol and endpoint, session | one or two for each EXTERNAL session | peers, so an ordered set |
//! | `dependents` | SESSION-ID of an EXTERNAL, session | one for each CREATE that it admits | peers, so an ordered set |
//!
//! No index is ever walked from end to end; listings are in slab order.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::shares::{OWN, Shares};
use earmark_core::timer::TimingWheel;
use earmark_core::{Endpoint, FilteredPackets, Time, growth};
use earmark_wire::gist::SessionId;
use hashbrown::HashTable;
use slab::Slab;

use super::api::Application;
use super::state::{Index, Role, Session};
use crate::nslp::PeerHandle;
use crate::session::hash;

/// Protocol and address that an EXTERNAL has reserved.
pub(super) type Reserved = (u8, Endpoint);

/// Purpose of a timer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// A session ends, or its request is due.
    Session(Index),
    /// The first token ends.
    Token,
    /// The sessions that depend on what has ended.
    Dependents,
    /// The sessions of requests that delete several.
    Deletions,
}

/// What has ended, with all sessions that depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ended {
    /// A peer has ended all sessions whose paths lead through it.
    Peer(PeerHandle),
    /// The application of an EXTERNAL session has stopped.
    External(SessionId),
}

/// All sessions of the node.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) sessions: Slab<Session>,
    pub(super) timers: TimingWheel<Wait>,
    by_id: HashTable<Index>,
    pub(super) applications: BTreeMap<Application, Index>,
    peer_counts: BTreeMap<PeerHandle, u32>,
    /// Sessions by the peer towards their responder.
    pub(super) by_next: BTreeSet<(PeerHandle, Index)>,
    /// Sessions by the slot of the peer towards their initiator, which another peer may have had before.
    by_back: BTreeSet<(u32, Index)>,
    /// Sessions by the interface that leads to their initiator; [`OWN`] for those of this node.
    pub(super) shares: Shares,
    /// Sessions that have a rule for these packets, installed or remembered.
    held: BTreeSet<(u64, Index)>,
    hash: KeyedHash,
    pub(super) reservations: BTreeSet<(Reserved, Index)>,
    /// Sessions of CREATE by the EXTERNAL session that they depend on.
    pub(super) dependents: BTreeSet<(SessionId, Index)>,
}

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(super) fn table_octets(&self) -> usize {
        octets([
            &self.sessions,
            &self.timers,
            &self.by_id,
            &self.applications,
            &self.peer_counts,
            &self.by_next,
            &self.by_back,
            &self.held,
            &self.reservations,
            &self.dependents,
        ])
    }

    /// Creates an empty store whose index of packets hashes with `hash`.
    pub(super) fn new(hash: KeyedHash) -> Store {
        Store {
            sessions: Slab::new(),
            timers: TimingWheel::new(),
            by_id: HashTable::new(),
            applications: BTreeMap::new(),
            peer_counts: BTreeMap::new(),
            by_next: BTreeSet::new(),
            by_back: BTreeSet::new(),
            shares: Shares::default(),
            held: BTreeSet::new(),
            hash,
            reservations: BTreeSet::new(),
            dependents: BTreeSet::new(),
        }
    }

    pub(super) fn session(&self, index: Index) -> &Session {
        &self.sessions[index as usize]
    }

    pub(super) fn session_mut(&mut self, index: Index) -> &mut Session {
        &mut self.sessions[index as usize]
    }

    /// Returns the session in a slot that may be free.
    pub(super) fn get(&self, index: Index) -> Option<&Session> {
        self.sessions.get(index as usize)
    }

    /// Returns the session of this identifier.
    pub(super) fn find(&self, id: SessionId) -> Option<Index> {
        let same = |&index: &Index| self.session(index).id == id;
        self.by_id.find(hash(&self.hash, id), same).copied()
    }

    /// Inserts a session whose identifier is new, and arms its timer.
    pub(super) fn insert(&mut self, session: Session) -> Index {
        let (id, role, back, arrival) = (session.id, session.role, session.back, session.arrival);
        let index = growth::insert(&mut self.sessions, session);
        let (key, sessions) = (&self.hash, &self.sessions);
        let hasher = |&other: &Index| hash(key, sessions[other as usize].id);
        self.by_id.insert_unique(hash(key, id), index, hasher);
        if let Role::Initiator(application) = role {
            self.applications.insert(application, index);
        }
        match back {
            Some(back) => {
                self.count_peer(back);
                self.by_back.insert((back.slot, index));
                self.shares.add(arrival);
            }
            None => self.shares.add(OWN),
        }
        self.rearm(index);
        index
    }

    /// Removes a session from the slab and all indices except those of its rules and reservations.
    pub(super) fn remove(&mut self, index: Index) -> Session {
        let session = self.sessions.remove(index as usize);
        let place = hash(&self.hash, session.id);
        if let Ok(entry) = self.by_id.find_entry(place, |&other| other == index) {
            entry.remove();
        }
        if let Role::Initiator(application) = session.role {
            self.applications.remove(&application);
        }
        match session.back {
            Some(back) => {
                self.discount_peer(back);
                self.by_back.remove(&(back.slot, index));
                self.shares.remove(session.arrival);
            }
            None => self.shares.remove(OWN),
        }
        if let Some(on) = session.on {
            self.by_next.remove(&(on, index));
        }
        if let Some(timer) = session.timer {
            self.timers.cancel(timer);
        }
        session
    }

    /// Sets the peer towards the responder.
    pub(super) fn set_on(&mut self, index: Index, on: Option<PeerHandle>) {
        let session = self.session_mut(index);
        if let Some(old) = core::mem::replace(&mut session.on, on) {
            self.by_next.remove(&(old, index));
        }
        if let Some(on) = on {
            self.by_next.insert((on, index));
        }
    }

    /// Sets the peer towards the initiator, and the interface that leads to it.
    pub(super) fn set_back(
        &mut self,
        index: Index,
        back: PeerHandle,
        arrival: earmark_core::InterfaceId,
    ) {
        let session = self.session_mut(index);
        let old = session.back.replace(back);
        let old_arrival = core::mem::replace(&mut session.arrival, arrival);
        if let Some(old) = old {
            self.discount_peer(old);
            self.by_back.remove(&(old.slot, index));
            self.shares.remove(old_arrival);
            self.shares.add(arrival);
        }
        self.count_peer(back);
        self.by_back.insert((back.slot, index));
    }

    /// Returns the number of sessions that came from a peer.
    pub(super) fn sessions_from(&self, peer: PeerHandle) -> u32 {
        self.peer_counts.get(&peer).copied().unwrap_or(0)
    }

    /// Returns the first session from this slot on that came from a peer, or from one that had its slot before.
    pub(super) fn next_from(&self, peer: PeerHandle, from: Index) -> Option<Index> {
        let mut sessions = self.by_back.range((peer.slot, from)..=(peer.slot, Index::MAX));
        sessions.next().map(|(_, index)| *index)
    }

    /// Arms the timer of a session for the earliest of its times.
    pub(super) fn rearm(&mut self, index: Index) {
        let session = &mut self.sessions[index as usize];
        let due = session.due();
        match session.timer {
            Some(timer) if due == Time::MAX => {
                self.timers.cancel(timer);
                session.timer = None;
            }
            // A timer that fires too early is armed again.
            Some(timer) => {
                if self.timers.deadline(timer).is_none_or(|at| due < at) {
                    self.timers.rearm(timer, due);
                }
            }
            None if due == Time::MAX => {}
            None => session.timer = Some(self.timers.arm(due, Wait::Session(index))),
        }
    }

    /// Enters a session as one that has a rule for these packets.
    pub(super) fn hold(&mut self, packets: &FilteredPackets, index: Index) {
        self.held.insert((self.hash_of(packets), index));
    }

    /// Removes a session from those that have a rule for these packets; returns whether it was one.
    pub(super) fn unhold(&mut self, packets: &FilteredPackets, index: Index) -> bool {
        self.held.remove(&(self.hash_of(packets), index))
    }

    /// Returns the sessions that have a rule for these packets, few of them.
    pub(super) fn holders(&self, packets: FilteredPackets) -> impl Iterator<Item = Index> + '_ {
        let hash = self.hash_of(&packets);
        let found = self.held.range((hash, Index::MIN)..=(hash, Index::MAX));
        // Other packets may have the same hash.
        let has_rule =
            move |index: &Index| self.session(*index).rules().any(|rule| rule.packets == packets);
        found.map(|(_, index)| *index).filter(has_rule)
    }

    fn hash_of(&self, packets: &FilteredPackets) -> u64 {
        let flow = &packets.flow;
        let words = |address: IpAddr| match address {
            IpAddr::V4(address) => [u64::from(address.to_bits()), 0],
            IpAddr::V6(address) => [(address.to_bits() >> 64) as u64, address.to_bits() as u64],
        };
        let [d0, d1] = words(flow.destination);
        let [s0, s1] = flow.source.map_or([0, 1], words);
        let ports = u64::from(flow.destination_port) << 16 | u64::from(flow.source_port);
        let kind = packets.icmp_type.map_or(0, |kind| u64::from(kind) + 1);
        let rest = u64::from(flow.protocol) << 40 | u64::from(flow.spi) << 8 | kind;
        self.hash.of_six([d0, d1, s0, s1, ports, rest])
    }

    /// Asserts that no index has an entry.
    #[cfg(test)]
    pub(super) fn assert_empty(&self) {
        assert!(self.sessions.is_empty() && self.applications.is_empty());
        assert!(self.by_id.is_empty());
        assert!(self.held.is_empty(), "{:?}", self.held);
        assert!(self.reservations.is_empty(), "{:?}", self.reservations);
        assert!(self.dependents.is_empty(), "{:?}", self.dependents);
        assert!(self.by_next.is_empty(), "{:?}", self.by_next);
        assert!(self.by_back.is_empty(), "{:?}", self.by_back);
        assert_eq!(self.shares.total(), 0);
        assert!(self.timers.is_empty());
    }

    fn count_peer(&mut self, peer: PeerHandle) {
        *self.peer_counts.entry(peer).or_default() += 1;
    }

    fn discount_peer(&mut self, peer: PeerHandle) {
        let Some(count) = self.peer_counts.get_mut(&peer) else { return };
        *count -= 1;
        if *count == 0 {
            self.peer_counts.remove(&peer);
        }
    }
}

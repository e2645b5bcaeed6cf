//! Messaging associations: connections with peers, which all sessions of both share (RFC 5971 sections 4.4.3, 4.4.5, 5.7
//! and 6.4).
//!
//! An association that this node opens is wanted by routing states that wait for it; once it stands, each sends its Confirm
//! over it. One that a neighbour opens has no name before the first Confirm on it has come, with a cookie of this node's and
//! with the proposal that this node makes: until then it is half open, of which there may be so many and no more, each for
//! so long and no longer.
//!
//! Whoever wants an association to stay says so by MA-Hello when nothing else was sent for long. One that no routing state of
//! this node uses is not kept up from here, and ends when the peer has said nothing for the time that this node has promised
//! to wait, its MA-Hold-Time.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use earmark_core::timer::TimerId;
use earmark_core::{CloseReason, ConnectionId, InterfaceId, Time, Transport};
use earmark_wire::gist::{Profile, Profiles};
use slab::Slab;

use super::machine::State;
use super::state::{Half, Index, NONE, Needs, Place};
use super::store::Store;

/// An association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) connection: ConnectionId,
    pub(crate) transport: Transport,
    pub(crate) stage: Stage,
    /// With whom; `NONE` while it is half open.
    pub(crate) peer: Index,
    /// This node's end and the other one.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The interface that leads to the peer.
    pub(crate) interface: InterfaceId,
    /// This node has opened it.
    pub(crate) is_ours: bool,
    /// This node has said on it how long it is held.
    pub(crate) introduced: bool,
    /// The first of the halves that use it, as a code; see [`code`].
    pub(crate) first_user: u32,
    /// The next of those that wait for it; they are told some at a time.
    pub(crate) next_waiting: u32,
    /// How many use it.
    pub(crate) uses: u32,
    /// How long the peer waits for a word.
    pub(crate) hold_time: Duration,
    pub(crate) heard: Time,
    pub(crate) said: Time,
    /// When this node says something again, if it wants the association to stay.
    pub(crate) hello_at: Time,
    /// What has come of a message that is not whole yet.
    pub(crate) buffer: Vec<u8>,
    pub(crate) timer: Option<TimerId>,
}

/// How far an association is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is being opened.
    Opening {
        /// Until then.
        until: Time,
    },
    /// A neighbour has opened it, and has not said who it is.
    HalfOpen {
        /// Until then.
        until: Time,
    },
    /// It is used.
    Open,
    /// It is no more; those that used it are told some at a time.
    Closed(CloseReason),
}

impl Association {
    /// What it offers.
    pub(crate) fn serves(&self, needs: Needs) -> bool {
        needs < Needs::Secure || self.transport == Transport::Tls
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    pub(crate) slab: Slab<Association>,
    /// By connection; the driver and this node choose the numbers.
    pub(crate) by_connection: BTreeMap<ConnectionId, Index>,
    /// By peer, those that are known, at most a few.
    pub(crate) by_peer: BTreeMap<Index, Vec<Index>>,
    /// How many are half open.
    pub(crate) half_open: u32,
    /// The next number for a connection of this node's.
    pub(crate) next_connection: u64,
}

impl Associations {
    pub(crate) fn get(&self, index: Index) -> Option<&Association> {
        self.slab.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Association> {
        self.slab.get_mut(index as usize)
    }

    pub(crate) fn insert(&mut self, association: Association) -> Index {
        let (connection, peer) = (association.connection, association.peer);
        self.half_open += u32::from(matches!(association.stage, Stage::HalfOpen { .. }));
        let index = self.slab.insert(association) as Index;
        self.by_connection.insert(connection, index);
        if peer != NONE {
            self.by_peer.entry(peer).or_default().push(index);
        }
        index
    }

    /// Says whose an association is that was half open.
    pub(crate) fn name(&mut self, index: Index, peer: Index) {
        let Some(association) = self.slab.get_mut(index as usize) else { return };
        self.half_open -= u32::from(matches!(association.stage, Stage::HalfOpen { .. }));
        association.stage = Stage::Open;
        association.peer = peer;
        self.by_peer.entry(peer).or_default().push(index);
    }

    /// Nobody new finds an association from now on, and nothing comes from it.
    pub(crate) fn hide(&mut self, index: Index) {
        let Some(association) = self.slab.get(index as usize) else { return };
        self.half_open -= u32::from(matches!(association.stage, Stage::HalfOpen { .. }));
        self.by_connection.remove(&association.connection);
        if let Some(others) = self.by_peer.get_mut(&association.peer) {
            others.retain(|&other| other != index);
            if others.is_empty() {
                self.by_peer.remove(&association.peer);
            }
        }
    }

    /// An association with a peer that serves a need, open or being opened; the oldest of them.
    pub(crate) fn find(&self, peer: Index, needs: Needs) -> Option<Index> {
        let all = self.by_peer.get(&peer)?.iter().copied();
        let serving = all.filter(|&index| self.get(index).is_some_and(|one| one.serves(needs)));
        let open = |&index: &Index| self.get(index).is_some_and(|one| one.stage == Stage::Open);
        serving.clone().find(open).or(serving.clone().next())
    }
}

/// What must be kept of a Response until the association stands over which it is confirmed.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) cookie: Box<[u8]>,
    /// The responder's profiles, one after the other, and where each ends.
    pub(crate) profiles: Vec<Box<[u8]>>,
    pub(crate) validity_ms: u32,
    pub(crate) ip_distance: Option<u8>,
    pub(crate) confirm_requested: bool,
}

impl Handshake {
    pub(crate) fn keep_profiles(profiles: Profiles<'_>) -> Vec<Box<[u8]>> {
        profiles.iter().map(|Profile(layers)| layers.into()).collect()
    }
}

/// A half as a number, for lists of those that use an association; `NONE` is none.
#[inline]
pub(crate) fn code(place: Place) -> u32 {
    place.index << 1 | u32::from(place.direction == earmark_wire::gist::Direction::Upstream)
}

/// The half that a number stands for.
#[inline]
pub(crate) fn place(code: u32) -> Option<Place> {
    use earmark_wire::gist::Direction::{Downstream, Upstream};
    let direction = if code & 1 == 0 { Downstream } else { Upstream };
    (code != NONE).then_some(Place { index: code >> 1, direction })
}

/// Enters a half into the list of those that use an association.
pub(crate) fn join(store: &mut Store, associations: &mut Associations, half: Place, index: Index) {
    if store.half(half).association == index {
        return;
    }
    leave(store, associations, half);
    let Some(association) = associations.get_mut(index) else { return };
    let first = core::mem::replace(&mut association.first_user, code(half));
    association.uses += 1;
    let Half { association, next_user, previous_user, .. } = store.half_mut(half);
    (*association, *next_user, *previous_user) = (index, first, NONE);
    if let Some(first) = place(first) {
        store.half_mut(first).previous_user = code(half);
    }
}

/// Takes a half out of the list of those that use its association; gives the association.
pub(crate) fn leave(store: &mut Store, associations: &mut Associations, half: Place) -> Index {
    if store.half(half).association == NONE {
        return NONE;
    }
    let Half { association, next_user, previous_user, .. } = store.half_mut(half);
    let (index, next, previous) = (
        core::mem::replace(association, NONE),
        core::mem::replace(next_user, NONE),
        core::mem::replace(previous_user, NONE),
    );
    let Some(association) = associations.get_mut(index) else { return NONE };
    association.uses -= 1;
    if association.next_waiting == code(half) {
        association.next_waiting = next;
    }
    if let Some(next) = place(next) {
        store.half_mut(next).previous_user = previous;
    }
    match place(previous) {
        Some(previous) => store.half_mut(previous).next_user = next,
        None => association.first_user = next,
    }
    index
}

/// Whether a half waits for its association.
pub(crate) fn waits(half: &Half) -> bool {
    half.state == State::WaitAssociation
}

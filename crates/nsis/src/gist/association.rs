//! Messaging associations: connections between peers, shared by all sessions of both (RFC 5971 sections 4.4.3, 4.4.5,
//! 5.7 and 6.4).
//!
//! An association that this node opens is used by routing states that wait for it; once established, each of them sends
//! its Confirm over it. An association that a neighbor opens has no peer until its first Confirm, which has a cookie of
//! this node and repeats the stack proposal of this node. Until then it is half open. The number of half-open
//! associations and their lifetime are limited.
//!
//! A node that wants to keep an idle association sends MA-Hello. An association that no routing state of this node uses
//! is not kept alive by this node, and is closed when the peer has sent nothing for the MA-Hold-Time that this node has
//! promised.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use earmark_core::shares::Shares;
use earmark_core::timer::TimerId;
use earmark_core::{CloseReason, ConnectionId, InterfaceId, Time, Transport};
use slab::Slab;

use super::state::{Half, HalfId, Index, NONE, Needs};
use super::store::Store;

/// An association.
#[derive(Debug)]
pub(crate) struct Association {
    pub(crate) connection: ConnectionId,
    pub(crate) transport: Transport,
    pub(crate) stage: Stage,
    /// The peer; `NONE` while the association is half open.
    pub(crate) peer: Index,
    /// Address of this node.
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// Interface that leads to the peer.
    pub(crate) interface: InterfaceId,
    /// Whether this node has opened the association.
    pub(crate) is_ours: bool,
    /// Whether this node has sent its MA-Hold-Time on the association.
    pub(crate) hold_time_sent: bool,
    /// First of the halves that use the association, as a code; see [`encode`].
    pub(crate) first_user: u32,
    /// Next of the halves that wait for the association; they are notified a few at a time.
    pub(crate) next_waiting: u32,
    /// Number of halves that use the association.
    pub(crate) uses: u32,
    /// MA-Hold-Time of the peer: how long it waits for a message.
    pub(crate) hold_time: Duration,
    /// When the last message was received.
    pub(crate) last_received: Time,
    /// When the last message was sent.
    pub(crate) last_sent: Time,
    /// When the next MA-Hello is due, if this node keeps the association.
    pub(crate) hello_at: Time,
    /// Octets of an incomplete message.
    pub(crate) buffer: Vec<u8>,
    pub(crate) timer: Option<TimerId>,
}

/// State of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The connection is being opened.
    Opening {
        /// Deadline.
        until: Time,
    },
    /// A neighbor has opened the connection, and has not yet sent a Confirm.
    HalfOpen {
        /// Deadline.
        until: Time,
    },
    /// The association is in use.
    Open,
    /// The connection was closed; the users of the association are notified a few at a time.
    Closed(CloseReason),
}

impl Association {
    /// Returns whether the association is reliable or secure enough.
    pub(crate) fn serves(&self, needs: Needs) -> bool {
        needs < Needs::Secure || self.transport == Transport::Tls
    }
}

/// The associations of the node.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    pub(crate) slab: Slab<Association>,
    /// Associations by connection; the driver and this node choose the numbers.
    pub(crate) by_connection: BTreeMap<ConnectionId, Index>,
    /// Associations by peer, at most a few for each.
    pub(crate) by_peer: BTreeMap<Index, Vec<Index>>,
    /// Associations, and those of them that are half open, by interface.
    pub(crate) shares: Shares,
    pub(crate) half_open: Shares,
    /// The next number for a connection opened by this node.
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
        self.shares.add(association.interface);
        if matches!(association.stage, Stage::HalfOpen { .. }) {
            self.half_open.add(association.interface);
        }
        let index = self.slab.insert(association) as Index;
        self.by_connection.insert(connection, index);
        if peer != NONE {
            self.by_peer.entry(peer).or_default().push(index);
        }
        index
    }

    /// Assigns the peer to an association that was half open.
    pub(crate) fn set_peer(&mut self, index: Index, peer: Index) {
        let Some(association) = self.slab.get_mut(index as usize) else { return };
        if matches!(association.stage, Stage::HalfOpen { .. }) {
            self.half_open.remove(association.interface);
        }
        association.stage = Stage::Open;
        association.peer = peer;
        self.by_peer.entry(peer).or_default().push(index);
    }

    /// Removes an association from the indices: no half can find it, and no input reaches it.
    pub(crate) fn unindex(&mut self, index: Index) {
        let Some(association) = self.slab.get(index as usize) else { return };
        if matches!(association.stage, Stage::HalfOpen { .. }) {
            self.half_open.remove(association.interface);
        }
        self.by_connection.remove(&association.connection);
        if let Some(others) = self.by_peer.get_mut(&association.peer) {
            others.retain(|&other| other != index);
            if others.is_empty() {
                self.by_peer.remove(&association.peer);
            }
        }
    }

    /// Returns an association with a peer that serves `needs`, open or being opened; the oldest one, open ones first.
    pub(crate) fn find(&self, peer: Index, needs: Needs) -> Option<Index> {
        let all = self.by_peer.get(&peer)?.iter().copied();
        let serving = all.filter(|&index| self.get(index).is_some_and(|one| one.serves(needs)));
        let open = |&index: &Index| self.get(index).is_some_and(|one| one.stage == Stage::Open);
        serving.clone().find(open).or(serving.clone().next())
    }
}

/// Encodes a half as a number, for the list of users of an association; `NONE` is none.
#[inline]
pub(crate) fn encode(place: HalfId) -> u32 {
    place.index << 1 | u32::from(place.direction == earmark_wire::gist::Direction::Upstream)
}

/// Returns the half that a number encodes.
#[inline]
pub(crate) fn decode(code: u32) -> Option<HalfId> {
    use earmark_wire::gist::Direction::{Downstream, Upstream};
    let direction = if code & 1 == 0 { Downstream } else { Upstream };
    (code != NONE).then_some(HalfId { index: code >> 1, direction })
}

/// Adds a half to the list of users of an association. A half that uses a secured one stays secured.
pub(crate) fn link_user(
    store: &mut Store,
    associations: &mut Associations,
    half: HalfId,
    index: Index,
) {
    if store.half(half).association == index {
        return;
    }
    unlink_user(store, associations, half);
    let Some(association) = associations.get_mut(index) else { return };
    let code = encode(half);
    let first = core::mem::replace(&mut association.first_user, code);
    association.uses += 1;
    let secures = association.transport == Transport::Tls;
    let half = store.half_mut(half);
    if secures {
        (half.secured, half.needs) = (true, Needs::Secure);
    }
    (half.association, half.next_user, half.previous_user) = (index, first, NONE);
    if let Some(first) = decode(first) {
        store.half_mut(first).previous_user = code;
    }
}

/// Removes a half from the list of users of its association; returns the association.
pub(crate) fn unlink_user(
    store: &mut Store,
    associations: &mut Associations,
    half: HalfId,
) -> Index {
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
    if association.next_waiting == encode(half) {
        association.next_waiting = next;
    }
    if let Some(next) = decode(next) {
        store.half_mut(next).previous_user = previous;
    }
    match decode(previous) {
        Some(previous) => store.half_mut(previous).next_user = next,
        None => association.first_user = next,
    }
    index
}

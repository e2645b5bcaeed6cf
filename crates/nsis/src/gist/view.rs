//! Views of the state of GIST, for listings. Routing states are listed in the order of their slab, a few at a time, so
//! that very many can be listed without blocking the engine for long.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::net::{IpAddr, SocketAddr};

use earmark_core::{ConnectionId, InterfaceId, Time, Transport};
use earmark_wire::gist::{Direction, Mri, SessionId};
use serde::Serialize;

use super::Gist;
use super::association::Stage;
use super::machine::State;
use super::state::{Half, Index};
use crate::Tolerated;
use crate::nslp::{PeerHandle, Validity};

/// One half of a routing state, with its peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingStateView {
    /// NSLPID of the application.
    pub nslpid: u16,
    /// Session of the routing state.
    pub session: SessionId,
    /// Flow of the routing state, and its direction along the flow.
    pub mri: Mri,
    /// State of the state machine.
    pub state: State,
    /// Validity of the routing state.
    pub validity: Validity,
    /// The peer, if it is known.
    pub peer: Option<PeerView>,
    /// IP hops to the peer, if known.
    pub ip_distance: Option<u8>,
    /// Association that carries messages to the peer, if any.
    pub association: Option<ConnectionId>,
    /// Number of messages that wait for the peer.
    pub waiting: usize,
    /// When the next Query is due; `None` on the responding side.
    pub next_at: Option<Time>,
    /// When the state expires without use or refresh.
    pub expires_at: Option<Time>,
}

/// A messaging association.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssociationView {
    /// Connection of the association.
    pub connection: ConnectionId,
    /// Transport of the association.
    pub transport: Transport,
    /// State of the association: `opening`, `half_open`, `open`, `closed`.
    pub stage: &'static str,
    /// Whether this node has opened it.
    pub is_ours: bool,
    /// The peer, if known.
    pub peer: Option<PeerView>,
    /// Address of this node.
    pub local: SocketAddr,
    /// Address of the peer.
    pub remote: SocketAddr,
    /// Halves of routing states that use the association.
    pub uses: u32,
    /// When the last message was received.
    pub heard: Time,
    /// When the last message was sent.
    pub said: Time,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerView {
    /// Peer-Identity, in hexadecimal.
    pub identity: String,
    /// Interface-Address of the peer.
    pub address: IpAddr,
    /// Interface that leads to the peer.
    pub interface: InterfaceId,
    /// Halves of routing states and associations with this peer.
    pub uses: u32,
    /// When its last Query, Response or Confirm was received; a peer in use sends one in each period of its routing states.
    pub heard: Time,
    /// Deviations from the RFCs in its messages that were accepted, each with the number of messages.
    pub tolerated: Vec<(Tolerated, u32)>,
}

impl Gist {
    /// Returns the octets of the tables of routing state on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the number of routing states, each with up to two halves.
    pub fn routing_state_count(&self) -> usize {
        self.store.states.len()
    }

    /// Returns the number of slots of the table of routing states, empty ones included. A routing state stays in its slot.
    pub fn routing_state_slots(&self) -> u32 {
        self.store.states.capacity() as u32
    }

    /// Returns the halves of the routing state in a slot.
    pub fn routing_states_at(&self, slot: u32) -> impl Iterator<Item = RoutingStateView> {
        let state = self.store.states.get(slot as usize);
        let halves =
            [Direction::Downstream, Direction::Upstream].into_iter().filter(move |&direction| {
                state.is_some_and(|it| it.half(direction).state != State::Idle)
            });
        halves.map(move |direction| self.half_view(slot, direction))
    }

    /// Returns the halves of routing states from slot `from` of the slab on, each with its slot.
    pub fn routing_states(&self, from: u32) -> impl Iterator<Item = (u32, RoutingStateView)> {
        let slots = from..self.routing_state_slots();
        slots.flat_map(|slot| self.routing_states_at(slot).map(move |view| (slot, view)))
    }

    fn half_view(&self, place: Index, direction: Direction) -> RoutingStateView {
        let state = self.store.state(place);
        let Half { peer, ip_distance, association, queue, next_at, expires_at, .. } =
            *state.half(direction);
        let some = |at: Time| (at != Time::MAX).then_some(at);
        let waiting = self.store.queues.get(queue as usize);
        RoutingStateView {
            nslpid: state.key.nslpid,
            session: state.key.session,
            mri: state.key.mri(direction),
            state: state.half(direction).state,
            validity: state.half(direction).validity,
            peer: self.peer_view(peer),
            ip_distance: (ip_distance != 0).then_some(ip_distance),
            association: self.associations.get(association).map(|found| found.connection),
            waiting: waiting.map_or(0, |queue| queue.messages.len()),
            next_at: some(next_at),
            expires_at: some(expires_at),
        }
    }

    /// Returns the messaging associations, including half-open ones.
    pub fn associations(&self) -> impl Iterator<Item = AssociationView> {
        self.associations.slab.iter().map(|(_, association)| AssociationView {
            connection: association.connection,
            transport: association.transport,
            stage: match association.stage {
                Stage::Opening { .. } => "opening",
                Stage::HalfOpen { .. } => "half_open",
                Stage::Open => "open",
                Stage::Closed(_) => "closed",
            },
            is_ours: association.is_ours,
            peer: self.peer_view(association.peer),
            local: association.local,
            remote: association.remote,
            uses: association.uses,
            heard: association.last_received,
            said: association.last_sent,
        })
    }

    /// Returns the known peers.
    pub fn peers(&self) -> Vec<PeerView> {
        self.peers.slab.iter().filter_map(|(index, _)| self.peer_view(index as Index)).collect()
    }

    /// Returns the peer of a handle, if it is still known.
    pub fn peer(&self, handle: PeerHandle) -> Option<PeerView> {
        self.peer_view(self.peers.by_handle(handle)?)
    }

    pub(super) fn peer_view(&self, index: Index) -> Option<PeerView> {
        let peer = self.peers.get(index)?;
        let identity = peer.identity.iter().fold(String::new(), |mut text, octet| {
            // Writing into a String cannot fail.
            let _ = write!(text, "{octet:02x}");
            text
        });
        Some(PeerView {
            identity,
            address: peer.address,
            interface: peer.interface,
            uses: peer.uses,
            heard: peer.heard,
            tolerated: peer.tolerated.iter().collect(),
        })
    }

    /// Returns the peers with their handles.
    pub fn peers_by_handle(&self) -> impl Iterator<Item = (PeerHandle, PeerView)> {
        self.peers.slab.iter().filter_map(|(index, _)| {
            let index = index as Index;
            Some((self.peers.handle(index)?, self.peer_view(index)?))
        })
    }

    /// Counts a deviation in a message of a peer.
    pub(super) fn count_tolerated(&mut self, peer: Index, tolerated: Tolerated) {
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.tolerated.count(tolerated);
        }
    }
}

//! What GIST shows of its state, for listings. Routing states are shown in the order of their slab, some at a time, so that
//! even very many can be listed without holding the engine up for long.

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
use crate::nslp::{PeerHandle, Validity};

/// The way to one peer: half of a routing state.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RoutingStateView {
    /// Of which application.
    pub nslpid: u16,
    /// Of which session.
    pub session: SessionId,
    /// For which flow, and the way along it that it leads.
    pub mri: Mri,
    /// Where its state machine stands.
    pub state: State,
    /// How good it is.
    pub validity: Validity,
    /// The peer, if it is known.
    pub peer: Option<PeerView>,
    /// IP hops to the peer, where they are known.
    pub ip_distance: Option<u8>,
    /// The association that messages to the peer take, if they take one.
    pub association: Option<ConnectionId>,
    /// Messages that wait for the peer to be found.
    pub waiting: usize,
    /// When the peer is asked for again; never for those that have asked this node.
    pub next_at: Option<Time>,
    /// When it ends, without use or refresh.
    pub expires_at: Option<Time>,
}

/// A messaging association.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AssociationView {
    /// The connection that it is.
    pub connection: ConnectionId,
    /// Of what it is made.
    pub transport: Transport,
    /// How far it is: `opening`, `half_open`, `open`, `closed`.
    pub stage: &'static str,
    /// Whether this node has opened it.
    pub is_ours: bool,
    /// With whom, if that is known.
    pub peer: Option<PeerView>,
    /// This node's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Halves of routing states that use it.
    pub uses: u32,
    /// When something came last.
    pub heard: Time,
    /// When something was sent last.
    pub said: Time,
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PeerView {
    /// Its Peer-Identity, in hexadecimal.
    pub identity: String,
    /// Its address.
    pub address: IpAddr,
    /// Behind which interface it is.
    pub interface: InterfaceId,
    /// Halves of routing states that name it.
    pub uses: u32,
}

impl Gist {
    /// How many routing states there are, each with up to two halves.
    pub fn routing_state_count(&self) -> usize {
        self.store.states.len()
    }

    /// The halves of routing states from the `from`th place of the slab on, each with its place. Take some, and go on behind
    /// the last.
    pub fn routing_states(&self, from: u32) -> impl Iterator<Item = (u32, RoutingStateView)> {
        let places = from as usize..self.store.states.capacity();
        places
            .filter(|&place| self.store.states.contains(place))
            .flat_map(|place| {
                [Direction::Downstream, Direction::Upstream].map(|way| (place as Index, way))
            })
            .filter(|&(place, way)| self.store.state(place).half(way).state != State::Idle)
            .map(|(place, way)| (place, self.half_view(place, way)))
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

    /// The messaging associations, those that are half open included.
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
            heard: association.heard,
            said: association.said,
        })
    }

    /// The peers that are known.
    pub fn peers(&self) -> Vec<PeerView> {
        self.peers.slab.iter().filter_map(|(index, _)| self.peer_view(index as Index)).collect()
    }

    /// The peer of this handle, if it is still known.
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
        })
    }
}

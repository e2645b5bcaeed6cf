//! Views of sessions, for listings: in slab order, a page at a time, so that a million of them can be listed without
//! blocking the engine for long.

use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Owner};
use earmark_core::{InterfaceId, RowFilter, Time};
use earmark_token::User;
use earmark_wire::gist::{PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::{BoundSessionId, Rsn};
use serde::Serialize;

use super::QosNslp;
use super::api::Application;
use super::rmf::evaluate;
use super::state::{Flags, Index};
use crate::nslp::PeerHandle;

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionView {
    /// Session identifier.
    pub session: SessionId,
    /// Flow, and the direction of RESERVEs.
    pub mri: PathCoupled,
    /// Role of this node: "qni", "qne" or "qnr".
    pub role: &'static str,
    /// Application of the session.
    pub application: Option<Application>,
    /// Peer towards the QNI.
    pub back: Option<PeerHandle>,
    /// Peer towards the QNR.
    pub on: Option<PeerHandle>,
    /// Last received sequence number.
    pub rsn: Rsn,
    /// Last sent sequence number.
    pub own_rsn: u32,
    /// End of the state without a refresh; `None` at the QNI.
    pub expires_at: Option<Time>,
    /// Outgoing interface.
    pub interface: Option<InterfaceId>,
    /// Claim on that interface.
    pub claim: Option<ClaimId>,
    /// QSPEC for the next node.
    pub qspec: Vec<u8>,
    /// Demand of that QSPEC, if it is valid.
    pub asked: Option<Demand>,
    /// Whether the next node is known to have the reservation.
    pub confirmed: bool,
    /// Whether routers on the path do not take part.
    pub breaks: bool,
    /// Whether the session is an aggregate of this node.
    pub is_aggregate: bool,
    /// Whether an aggregate of this node carries the session.
    pub in_aggregate: bool,
    /// Sessions that this one is bound to.
    pub bound: Vec<BoundSessionId>,
    /// User that the request names.
    pub user: Option<User>,
}

impl QosNslp {
    /// Returns the octets of the tables of sessions on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.store.table_octets()
    }

    /// Returns the number of sessions.
    pub fn session_count(&self) -> usize {
        self.store.sessions.len()
    }

    /// Returns all sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionView> {
        (0..self.session_slots()).filter_map(|slot| self.session_at(slot, &RowFilter::ALL))
    }

    /// Returns the number of slots of the table of sessions, empty ones included. A session stays in its slot.
    pub fn session_slots(&self) -> u32 {
        self.store.sessions.capacity() as u32
    }

    /// Returns the session in a slot, if there is one that the filter includes by its addresses. O(1).
    pub fn session_at(&self, slot: u32, filter: &RowFilter) -> Option<SessionView> {
        let flow = self.store.sessions.get(slot as usize)?.mri;
        let is_included = filter.admits_to(flow.destination, flow.destination_port.unwrap_or(0))
            && filter.admits_from(flow.source, flow.source_port.unwrap_or(0));
        is_included.then(|| self.view(slot))
    }

    /// Returns the number of sessions whose previous peer this is, and of those whose next peer it is.
    pub fn sessions_of(&self, peer: PeerHandle) -> (usize, usize) {
        (self.store.sessions_from(peer) as usize, self.store.sessions_to(peer))
    }

    /// Returns the session of this identifier.
    pub fn session(&self, session: SessionId) -> Option<SessionView> {
        self.store.find(session).map(|index| self.view(index))
    }

    /// The session that holds a claim.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<SessionView> {
        self.session_of_claim(claim, owner).map(|index| self.view(index))
    }

    fn view(&self, index: Index) -> SessionView {
        let session = self.store.session(index);
        let role = match (session.is_initiator(), session.is_last()) {
            (true, _) => "qni",
            (false, true) => "qnr",
            (false, false) => "qne",
        };
        SessionView {
            session: session.id,
            mri: session.mri,
            role,
            application: session.application(),
            back: session.back,
            on: session.on,
            rsn: session.rsn,
            own_rsn: session.own_rsn,
            expires_at: Some(session.expires_at).filter(|at| *at != Time::MAX),
            interface: session.interface,
            claim: session.claim,
            qspec: session.qspec.to_vec(),
            asked: evaluate(&session.qspec, MessageType::Reserve).ok().map(|wanted| wanted.demand),
            confirmed: session.flags.has(Flags::CONFIRMED),
            breaks: session.flags.has(Flags::BREAK),
            is_aggregate: session.is_aggregate(),
            in_aggregate: session.flags.has(Flags::IN_AGGREGATE),
            user: session.user(),
            bound: session.extra.as_ref().map_or_else(Vec::new, |extra| extra.bound.clone()),
        }
    }
}

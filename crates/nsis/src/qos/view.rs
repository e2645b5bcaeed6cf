//! What is shown of the sessions, for listings: in the order of their slab, a page at a time, so that even a million of
//! them can be listed without holding the engine up for long.

use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Owner};
use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::{PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::MessageType;
use earmark_wire::qos_nslp::{BoundSessionId, Rsn};
use serde::Serialize;

use super::QosNslp;
use super::api::Application;
use super::rmf::judge;
use super::state::{Flags, Index};
use crate::nslp::PeerHandle;

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionView {
    /// Its name.
    pub session: SessionId,
    /// Its flow, and which way along it RESERVEs go.
    pub mri: PathCoupled,
    /// What this node is to it: "qni", "qne" or "qnr".
    pub role: &'static str,
    /// The application that it belongs to.
    pub application: Option<Application>,
    /// The peer towards the QNI.
    pub back: Option<PeerHandle>,
    /// The peer towards the QNR.
    pub on: Option<PeerHandle>,
    /// The sequence number that came last.
    pub rsn: Rsn,
    /// The one that was sent last.
    pub own_rsn: u32,
    /// When it ends without another message; never at the QNI.
    pub expires_at: Option<Time>,
    /// Through which interface its packets leave.
    pub interface: Option<InterfaceId>,
    /// What it holds there.
    pub claim: Option<ClaimId>,
    /// What is asked of the next node, a QSPEC.
    pub qspec: Vec<u8>,
    /// What that comes to, where it can be read.
    pub asked: Option<Demand>,
    /// Whether the next node is known to have it.
    pub confirmed: bool,
    /// There are routers on the path that do not take part.
    pub breaks: bool,
    /// It is an aggregate of this node.
    pub is_aggregate: bool,
    /// It leaves in an aggregate of this node.
    pub in_aggregate: bool,
    /// Other sessions that it is bound to.
    pub bound: Vec<BoundSessionId>,
}

impl QosNslp {
    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.store.sessions.len()
    }

    /// The sessions from the `from`th place of the slab on, each with its place. Take some, and go on behind the last.
    pub fn sessions(&self, from: u32) -> impl Iterator<Item = (u32, SessionView)> {
        let places = from as usize..self.store.sessions.capacity();
        places
            .filter(|&place| self.store.sessions.contains(place))
            .map(|place| (place as u32, self.view(place as Index)))
    }

    /// The session of this name.
    pub fn session(&self, session: SessionId) -> Option<SessionView> {
        self.store.find(session).map(|index| self.view(index))
    }

    /// The session that holds a claim.
    pub fn reservation_of(&self, claim: ClaimId, owner: Owner) -> Option<SessionView> {
        self.holder(claim, owner).map(|index| self.view(index))
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
            asked: judge(&session.qspec, MessageType::Reserve).ok().map(|wanted| wanted.demand),
            confirmed: session.flags.has(Flags::CONFIRMED),
            breaks: session.flags.has(Flags::BREAK),
            is_aggregate: session.flags.has(Flags::AGGREGATE),
            in_aggregate: session.flags.has(Flags::IN_AGGREGATE),
            bound: session.extra.as_ref().map_or_else(Vec::new, |extra| extra.bound.clone()),
        }
    }
}

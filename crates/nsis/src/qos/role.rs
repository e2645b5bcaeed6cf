//! What an application of this node has: a session, a QUERY, or a listener.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::Time;
use earmark_core::timer::TimerId;
use earmark_wire::gist::{PathCoupled, SessionId};

use super::api::{Listen, Request};

/// Role of an application.
#[derive(Debug)]
pub(super) enum Role {
    /// Has a session of which this node is the QNI.
    Initiator(SessionId),
    /// Waits for the response to a QUERY, or for the RESERVE that it has asked for.
    Querier(Box<OwnQuery>),
    /// Listens for sessions.
    Listener(Listen, Vec<SessionId>),
}

/// A QUERY of this node without a response so far.
#[derive(Debug)]
pub(super) struct OwnQuery {
    pub(super) session: SessionId,
    pub(super) mri: PathCoupled,
    pub(super) request: Request,
    pub(super) qspec: Vec<u8>,
    pub(super) rii: Option<u32>,
    pub(super) until: Time,
    pub(super) wait_ms: u32,
    pub(super) timer: Option<TimerId>,
}

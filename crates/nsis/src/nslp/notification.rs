//! Changes of routing state that GIST reports to applications.

use earmark_wire::gist::{Mri, SessionId};
use serde::{Deserialize, Serialize};

use super::message::PeerHandle;

/// A change of routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkNotification {
    /// Flow, and the direction along the flow.
    pub mri: Mri,
    /// Session of the routing state.
    pub session: SessionId,
    /// Kind of change.
    pub what: Notification,
}

/// Kinds of changes of routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// This node is the last one in this direction.
    LastNode,
    /// Routing state is new, may be wrong, or is right again.
    RoutingStatusChange {
        /// The new status.
        status: Validity,
        /// The peer, if the status is good.
        peer: Option<PeerHandle>,
    },
    /// The flow no longer passes this peer.
    RouteDeletion(PeerHandle),
    /// The peer is unreachable; messages may have been lost.
    CommunicationFailure(PeerHandle),
}

/// Validity of routing state (RFC 5971 section 7.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// The state is right.
    Good,
    /// The state may be wrong, and is used until it was checked.
    Tentative,
    /// The state is wrong.
    Bad,
}

//! What GIST tells whoever watches.

use core::net::{IpAddr, SocketAddr};

use earmark_core::{CloseReason, InterfaceId};
use earmark_wire::gist::{ErrorCode, Mri, SessionId};
use serde::{Deserialize, Serialize};

use super::counters::DropReason;
use crate::nslp::Validity;

/// What GIST tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Routing state has become good or doubtful, or is no more.
    RoutingState {
        /// Of which application.
        nslpid: u16,
        /// Of which session.
        session: SessionId,
        /// For which flow, and the way along it that the state leads.
        mri: Mri,
        /// How good it is.
        status: Validity,
        /// The peer's address; `None` where there is no peer.
        peer: Option<IpAddr>,
    },
    /// A message was not acted on.
    Ignored {
        /// Why.
        reason: DropReason,
        /// Where it came in; `None` for an association.
        interface: Option<InterfaceId>,
        /// Who sent it, as far as that can be known.
        source: IpAddr,
    },
    /// An association is no more.
    AssociationClosed {
        /// The peer's end.
        remote: SocketAddr,
        /// Why.
        reason: CloseReason,
    },
    /// A peer has answered with an Error.
    ErrorReceived {
        /// From where.
        source: IpAddr,
        /// Which.
        code: u16,
        /// More closely.
        subcode: u8,
    },
}

impl Event {
    pub(super) fn error_received(source: IpAddr, code: ErrorCode, subcode: u8) -> Event {
        Event::ErrorReceived { source, code: code.code(), subcode }
    }
}

//! Events of GIST.

use core::net::{IpAddr, SocketAddr};

use earmark_core::{CloseReason, InterfaceId};
use earmark_wire::gist::{ErrorCode, Mri, SessionId};
use serde::{Deserialize, Serialize};

use super::counters::DropReason;
use crate::nslp::Validity;

/// An event of GIST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// Routing state became good or tentative, or was removed.
    RoutingState {
        /// NSLPID of the application.
        nslpid: u16,
        /// Session of the routing state.
        session: SessionId,
        /// Flow of the routing state, and its direction along the flow.
        mri: Mri,
        /// New validity.
        status: Validity,
        /// The peer's address; `None` where there is no peer.
        peer: Option<IpAddr>,
    },
    /// A message was ignored.
    Ignored {
        /// Reason.
        reason: DropReason,
        /// Incoming interface; `None` for an association.
        interface: Option<InterfaceId>,
        /// Sender, as far as it can be known.
        source: IpAddr,
    },
    /// An association was closed.
    AssociationClosed {
        /// Address of the peer.
        remote: SocketAddr,
        /// Reason.
        reason: CloseReason,
    },
    /// A peer sent an Error.
    ErrorReceived {
        /// Source of the Error.
        source: IpAddr,
        /// Error code.
        code: u16,
        /// Error subcode.
        subcode: u8,
    },
}

impl Event {
    pub(super) fn error_received(source: IpAddr, code: ErrorCode, subcode: u8) -> Event {
        Event::ErrorReceived { source, code: code.code(), subcode }
    }
}

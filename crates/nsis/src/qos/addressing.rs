//! Addressing of a message: session, flow, and next node.

use earmark_wire::gist::{Mri, SessionId};

use crate::nslp::{Attributes, PeerHandle, Received};

/// Addressing of a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addressing {
    pub(super) session: SessionId,
    pub(super) mri: Mri,
    pub(super) to: Option<PeerHandle>,
    pub(super) attributes: Attributes,
    /// NSLPID; `None` for that of the current call.
    pub(super) nslpid: Option<u16>,
    /// GIST hop count of a message that is forwarded, so that none goes in a circle forever (RFC 5971 section 4.3.3);
    /// `None` for a message of this node.
    pub(super) hops: Option<u8>,
}

impl Addressing {
    /// Returns the addressing of a message that is forwarded.
    pub(super) fn forwarding(message: &Received<'_>) -> Addressing {
        let Received { session, mri, hops, .. } = *message;
        let attributes = message.attributes();
        Addressing { session, mri, to: None, attributes, nslpid: None, hops: Some(hops) }
    }

    /// Sets the hop count of a received message, which is forwarded.
    pub(super) fn with_hops_of(self, message: &Received<'_>) -> Addressing {
        Addressing { hops: Some(message.hops), ..self }
    }
}

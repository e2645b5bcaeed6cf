//! A RESERVE that waits, with its octets.

use alloc::boxed::Box;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Mri, PathCoupled, SessionId};

use crate::nslp::{Origin, Received};

/// A message that waits.
#[derive(Debug)]
pub(super) struct StoredReserve {
    pub(super) data: Box<[u8]>,
    /// NSLPID of the message.
    pub(super) nslpid: u16,
    pub(super) session: SessionId,
    pub(super) mri: Mri,
    /// The flow as the upstream side knows it, if this node translates its addresses.
    pub(super) upstream: Option<PathCoupled>,
    pub(super) origin: Origin,
    pub(super) explicitly_routed: bool,
    pub(super) ip_distance: Option<u8>,
    pub(super) hops: u8,
    pub(super) interface: InterfaceId,
    /// Whether the message has the MSG-ID.
    pub(super) has_message_id: bool,
}

impl StoredReserve {
    pub(super) fn of(message: &Received<'_>, nslpid: u16, has_message_id: bool) -> StoredReserve {
        StoredReserve {
            nslpid,
            data: message.data.into(),
            session: message.session,
            mri: message.mri,
            upstream: message.upstream.copied(),
            origin: message.origin,
            explicitly_routed: message.explicitly_routed,
            ip_distance: message.ip_distance,
            hops: message.hops,
            interface: message.interface,
            has_message_id,
        }
    }

    pub(super) fn message(&self) -> Received<'_> {
        Received {
            data: &self.data,
            session: self.session,
            mri: self.mri,
            upstream: self.upstream.as_ref(),
            origin: self.origin,
            explicitly_routed: self.explicitly_routed,
            ip_distance: self.ip_distance,
            hops: self.hops,
            interface: self.interface,
        }
    }
}

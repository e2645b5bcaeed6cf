//! Tears that wait for the end of an input.

use earmark_wire::gist::Direction;
use earmark_wire::qos_nslp::GenericFlags;

use super::addressing::Addressing;
use crate::nslp::{Attributes, PeerHandle};

/// A session that has ended here, and whose next node must get a tear.
#[derive(Debug)]
pub(super) struct PendingTear {
    pub(super) on: Addressing,
    pub(super) back: Addressing,
    /// Next node.
    pub(super) peer: PeerHandle,
    pub(super) number: u32,
    pub(super) flags: GenericFlags,
    pub(super) replace: bool,
}

impl PendingTear {
    /// Sort key: tears with the same key can share a message, in the same transport.
    pub(super) fn destination_key(&self) -> (PeerHandle, Option<u16>, bool, Attributes) {
        let is_upstream = self.on.mri.direction() == Direction::Upstream;
        (self.peer, self.on.nslpid, is_upstream, self.on.attributes)
    }
}

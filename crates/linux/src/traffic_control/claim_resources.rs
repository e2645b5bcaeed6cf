//! Kernel resources of a claim besides its flows: a class of its own, a bucket for several flows, both, or nothing.

use earmark_core::admission::ClaimId;

use super::plan::{MAJOR, MAX_POOL, POOL};

/// Maximum number of buckets of one interface, and of flows in all.
pub(super) const MAX_FLOWS: u32 = 1 << 20;

/// Class and bucket of a claim's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ClaimResources {
    /// Minor number of a class of the pool, on links with a class per claim.
    pub(super) class: Option<u16>,
    /// Number of a bucket of the interface, if several flows share the claim.
    pub(super) bucket: Option<u32>,
}

/// Returns the class of the pool that a priority means.
pub(super) fn class_of_priority(priority: u32) -> Option<u16> {
    let minor = priority as u16;
    let is_of_pool = (POOL..POOL + MAX_POOL as u16).contains(&minor);
    (priority >> 16 == u32::from(MAJOR) && is_of_pool).then_some(minor)
}

/// Users of a class or a bucket. Without any, it is free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The claim that holds it.
    pub(super) claim: Option<ClaimId>,
    /// Number of adopted flows that lead into it.
    pub(super) adopted: u32,
}

impl Usage {
    pub(super) fn is_free(&self) -> bool {
        self.claim.is_none() && self.adopted == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic_control::plan::handle;

    #[test]
    fn priority_of_a_pool_class_is_read_back_and_others_are_refused() {
        for minor in [0x10, 0x7f0f] {
            assert_eq!(class_of_priority(handle(minor)), Some(minor));
        }
        for foreign in [0, 1, 6, 0xea4d_0003, 0xea4d_ffff, u32::MAX] {
            assert_eq!(class_of_priority(foreign), None, "{foreign:#x}");
        }
    }
}

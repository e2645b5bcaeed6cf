//! What a claim holds in the kernel beside its flows: a class of its own, a bucket for several flows, both, or nothing.

use earmark_core::admission::ClaimId;

use super::flow_table::FlowTable;
use super::plan::{MARK, POOL, POOL_MOST};
use crate::netlink::Connection;

/// Most buckets of one interface, and most flows of all.
pub(super) const MOST_FLOWS: u32 = 1 << 20;

/// Where the packets of a claim go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// A class of the pool, by its minor number, on links where each claim has one.
    pub(super) class: Option<u16>,
    /// A bucket of the interface, by its number, where several flows share the claim.
    pub(super) bucket: Option<u32>,
}

/// The class of the pool that a priority means.
pub(super) fn class_of_priority(priority: u32) -> Option<u16> {
    let minor = priority as u16;
    let is_of_pool = (POOL..POOL + POOL_MOST as u16).contains(&minor);
    (priority >> 16 == u32::from(MARK) && is_of_pool).then_some(minor)
}

/// Who uses a class or a bucket. It is free when neither is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// The claim that holds it.
    pub(super) claim: Option<ClaimId>,
    /// Adopted flows that lead into it.
    pub(super) adopted: u32,
}

impl Usage {
    pub(super) fn is_free(&self) -> bool {
        self.claim.is_none() && self.adopted == 0
    }
}

/// What places are made with.
pub(super) struct Tools<'a> {
    pub(super) netlink: &'a mut Connection,
    pub(super) table: &'a mut dyn FlowTable,
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
        for nonsense in [0, 1, 6, 0xea4d_0003, 0xea4d_ffff, u32::MAX] {
            assert_eq!(class_of_priority(nonsense), None, "{nonsense:#x}");
        }
    }
}

//! Lanes: parts of a link's traffic whose room was made elsewhere, by one reservation for all of them.
//!
//! An edge router that carries RSVP flows across a core in one aggregate claims the aggregate on its link, once. What the
//! flows hold must not count there again: they claim on a *lane* instead, a link of the ledger that no packet sees, whose
//! reservable rate is what the aggregate was granted. Traffic control goes on knowing the real link only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Ledger, LinkCapacity, Owner, Protocol};
use crate::{Flow, InterfaceId, Prefix, Rate};

/// The lanes of a ledger: by real link, those to longer prefixes first. A few.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    by_link: BTreeMap<InterfaceId, Vec<(Prefix, InterfaceId)>>,
}

impl Ledger {
    /// Flows of RSVP to `range` that leave through `link` claim on `lane` from now on, a link of this ledger that is no
    /// interface. It holds nothing until [`widen_lane`](Ledger::widen_lane). A lane that was open on another link is there no
    /// more.
    pub fn open_lane(&mut self, link: InterfaceId, range: Prefix, lane: InterfaceId, most: Rate) {
        self.lanes.by_link.retain(|_, lanes| {
            lanes.retain(|(_, known)| *known != lane);
            !lanes.is_empty()
        });
        let lanes = self.lanes.by_link.entry(link).or_default();
        lanes.push((range, lane));
        lanes.sort_by_key(|(range, _)| core::cmp::Reverse(range.length()));
        let mtu = self.link(link).map_or(0, |status| status.mtu);
        self.set_link(lane, LinkCapacity { bandwidth: most, reservable: Rate::ZERO, mtu });
    }

    /// What may be claimed on a lane from now on. Of a lane that is not open this is nothing.
    pub fn widen_lane(&mut self, lane: InterfaceId, reservable: Rate) {
        if let Some(status) = self.link(lane) {
            let (bandwidth, mtu) = (status.bandwidth, status.mtu);
            self.set_link(lane, LinkCapacity { bandwidth, reservable, mtu });
        }
    }

    /// The lane of packets to `destination` that leave through a link.
    pub fn lane_to(&self, link: InterfaceId, destination: Prefix) -> Option<InterfaceId> {
        let lanes = self.lanes.by_link.get(&link)?;
        lanes.iter().find(|(range, _)| range.covers(destination)).map(|(_, lane)| *lane)
    }

    /// Where a claim on a link stands.
    #[inline]
    pub(super) fn place_of(&self, link: InterfaceId, owner: Owner, flow: &Flow) -> InterfaceId {
        if self.lanes.by_link.is_empty() || owner.protocol != Protocol::Rsvp {
            return link;
        }
        self.lane_to(link, flow.destinations()).unwrap_or(link)
    }
}

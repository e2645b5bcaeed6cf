//! Lanes: virtual links of the ledger for flows whose bandwidth one aggregate reservation already holds.
//!
//! An edge router that carries RSVP flows across a core in one aggregate claims the aggregate on its link, once. The
//! flows must not count there again: they claim on a *lane* instead, a link of the ledger without an interface, whose
//! reservable rate is the rate granted to the aggregate. Traffic control uses the real link only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Ledger, LinkCapacity, Owner, Protocol};
use crate::{Flow, InterfaceId, Prefix, Rate};

/// Lanes of a ledger by real link, those to longer prefixes first. There are few.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    by_link: BTreeMap<InterfaceId, Vec<(Prefix, InterfaceId)>>,
}

impl Ledger {
    /// Opens a lane: RSVP flows to `range` that leave through `link` claim on `lane` from now on, a link of this
    /// ledger without an interface. Its reservable rate is zero until [`set_lane_rate`](Ledger::set_lane_rate). A
    /// lane of this number on another link is closed.
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

    /// Sets the reservable rate of a lane. No effect if the lane is not open.
    pub fn set_lane_rate(&mut self, lane: InterfaceId, reservable: Rate) {
        if let Some(status) = self.link(lane) {
            let (bandwidth, mtu) = (status.bandwidth, status.mtu);
            self.set_link(lane, LinkCapacity { bandwidth, reservable, mtu });
        }
    }

    /// Returns the lane of packets to `destination` that leave through a link.
    pub fn lane_to(&self, link: InterfaceId, destination: Prefix) -> Option<InterfaceId> {
        let lanes = self.lanes.by_link.get(&link)?;
        lanes.iter().find(|(range, _)| range.covers(destination)).map(|(_, lane)| *lane)
    }

    /// Returns the link or lane that a claim is held on.
    #[inline]
    pub(super) fn claim_link(&self, link: InterfaceId, owner: Owner, flow: &Flow) -> InterfaceId {
        if self.lanes.by_link.is_empty() || owner.protocol != Protocol::Rsvp {
            return link;
        }
        self.lane_to(link, flow.destinations()).unwrap_or(link)
    }
}

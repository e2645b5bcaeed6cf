//! Lanes: virtual links of the ledger for flows whose bandwidth one aggregate reservation already holds.
//!
//! An edge router that carries the flows of one protocol across a core in one aggregate of another claims the aggregate
//! on its link, once. The flows must not count there again: they claim on a *lane* instead, a link of the ledger without
//! an interface, whose reservable rate is the rate granted to the aggregate. Traffic control uses the real link only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::{Ledger, LinkCapacity, Owner, Protocol};
use crate::{Flow, InterfaceId, Prefix, Rate};

/// Lanes of a ledger by real link, those to longer prefixes first. There are few.
#[derive(Clone, Debug, Default)]
pub(super) struct Lanes {
    by_link: BTreeMap<InterfaceId, Vec<Lane>>,
}

/// A lane of a link.
#[derive(Clone, Copy, Debug)]
struct Lane {
    /// Destinations of its flows.
    range: Prefix,
    /// Link of the ledger.
    link: InterfaceId,
    /// Protocol of its flows.
    protocol: Protocol,
}

impl Ledger {
    /// Opens a lane: flows of `protocol` to `range` that leave through `link` claim on `lane` from now on, a link of
    /// this ledger without an interface. Its reservable rate is zero until [`set_lane_rate`](Ledger::set_lane_rate). A
    /// lane of this number on another link is closed.
    pub fn open_lane(
        &mut self,
        link: InterfaceId,
        range: Prefix,
        protocol: Protocol,
        lane: InterfaceId,
        most: Rate,
    ) {
        self.lanes.by_link.retain(|_, lanes| {
            lanes.retain(|known| known.link != lane);
            !lanes.is_empty()
        });
        let lanes = self.lanes.by_link.entry(link).or_default();
        lanes.push(Lane { range, link: lane, protocol });
        lanes.sort_by_key(|lane| core::cmp::Reverse(lane.range.length()));
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
        self.find_lane(link, destination).map(|lane| lane.link)
    }

    /// Returns the link that a lane belongs to; `None` for a link that is no lane.
    pub fn link_of_lane(&self, lane: InterfaceId) -> Option<InterfaceId> {
        let mut links = self.lanes.by_link.iter();
        links.find(|(_, lanes)| lanes.iter().any(|known| known.link == lane)).map(|(link, _)| *link)
    }

    fn find_lane(&self, link: InterfaceId, destination: Prefix) -> Option<&Lane> {
        let lanes = self.lanes.by_link.get(&link)?;
        lanes.iter().find(|lane| lane.range.covers(destination))
    }

    /// Returns the link or lane that a claim is held on.
    #[inline]
    pub(super) fn claim_link(&self, link: InterfaceId, owner: Owner, flow: &Flow) -> InterfaceId {
        if self.lanes.by_link.is_empty() {
            return link;
        }
        let lane = self.find_lane(link, flow.destinations());
        lane.filter(|lane| lane.protocol == owner.protocol).map_or(link, |lane| lane.link)
    }
}

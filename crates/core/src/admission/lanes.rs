//! Lanes: virtual links of the ledger for flows whose bandwidth one aggregate reservation already holds.
//!
//! An edge router that carries the flows of one protocol across a core in one aggregate of another claims the aggregate
//! on its link, once. The flows must not count there again: they claim on a *lane* instead, a link of the ledger without
//! an interface, whose reservable rate is the rate granted to the aggregate. Traffic control uses the real link only.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::Protocol;
use crate::{Flow, InterfaceId, Prefix};

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

impl Lanes {
    /// Opens a lane. A lane of this number elsewhere is closed.
    pub(super) fn open(
        &mut self,
        link: InterfaceId,
        range: Prefix,
        protocol: Protocol,
        lane: InterfaceId,
    ) {
        self.by_link.retain(|_, lanes| {
            lanes.retain(|known| known.link != lane);
            !lanes.is_empty()
        });
        let lanes = self.by_link.entry(link).or_default();
        lanes.push(Lane { range, link: lane, protocol });
        lanes.sort_by_key(|lane| core::cmp::Reverse(lane.range.length()));
    }

    /// Returns the lane of packets to `destination` that leave through a link.
    pub(super) fn to(&self, link: InterfaceId, destination: Prefix) -> Option<InterfaceId> {
        self.find(link, destination).map(|lane| lane.link)
    }

    /// Returns the lanes of a link.
    pub(super) fn of(&self, link: InterfaceId) -> impl Iterator<Item = InterfaceId> {
        self.by_link.get(&link).into_iter().flatten().map(|lane| lane.link)
    }

    /// Returns the link that a lane belongs to.
    pub(super) fn link_of(&self, lane: InterfaceId) -> Option<InterfaceId> {
        let mut links = self.by_link.iter();
        links.find(|(_, lanes)| lanes.iter().any(|known| known.link == lane)).map(|(link, _)| *link)
    }

    fn find(&self, link: InterfaceId, destination: Prefix) -> Option<&Lane> {
        let lanes = self.by_link.get(&link)?;
        lanes.iter().find(|lane| lane.range.covers(destination))
    }

    /// Returns the link or lane that a claim is held on.
    #[inline]
    pub(super) fn claim_link(
        &self,
        link: InterfaceId,
        protocol: Protocol,
        flow: &Flow,
    ) -> InterfaceId {
        if self.by_link.is_empty() { link } else { self.link_or_lane(link, protocol, flow) }
    }

    #[cold]
    #[inline(never)]
    fn link_or_lane(&self, link: InterfaceId, protocol: Protocol, flow: &Flow) -> InterfaceId {
        let lane = self.find(link, flow.destinations());
        lane.filter(|lane| lane.protocol == protocol).map_or(link, |lane| lane.link)
    }
}

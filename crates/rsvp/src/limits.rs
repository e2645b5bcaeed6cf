//! Configured limits: accepted neighbours, and the state and request rate of each neighbour.
//!
//! At a limit new work is refused: a Path by a PathErr, a Resv by a ResvErr, both "RSVP system error" (code 23), or
//! "admission control failure" for bandwidth. Existing state stays and is refreshed as before, because refreshes
//! without changes are not checked.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::{Context, Datagram, InterfaceId, Prefix, Rate, Time};
use earmark_wire::rsvp::Body;
use serde::{Deserialize, Serialize};

use crate::instance::Rsvp;
use crate::state::{Block, Origin};

/// Limits of a node. The default has only those of [`crate::Config`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Limits of interfaces, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Limit of senders, and of reservations, of one neighbour.
    pub per_neighbor: Option<u32>,
    /// Limit of new or changed senders and reservations of one neighbour in one second.
    pub changes_per_second: Option<u32>,
}

/// Limits of one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Accepted neighbours; all if empty.
    pub neighbors: Vec<Prefix>,
    /// Limit of one reservation.
    pub largest: Option<Rate>,
    /// Octets that link layer and tunnels add to each IP packet. They are claimed beside the rate of a flow, as if all
    /// its packets had the minimum size (m of RFC 2210 section 3.1).
    pub overhead: u32,
}

/// Use of [`Settings::changes_per_second`] by neighbours.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    /// Buckets by neighbour. Neighbours may choose their addresses, so the map is ordered and limited to
    /// [`MAX_NEIGHBORS`].
    buckets: BTreeMap<(InterfaceId, IpAddr), Bucket>,
    /// Time when full buckets were last removed, at most once in a second.
    swept: Time,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Remaining credit, billionths of a change.
    left: u64,
    at: Time,
}

/// Limit of neighbours with a bucket; further ones on an interface share one, until others are removed.
const MAX_NEIGHBORS: usize = 1_024;
/// One change, in the unit of [`Bucket::left`].
const ONE: u64 = 1_000_000_000;
const SECOND: Duration = Duration::from_secs(1);

impl Throttle {
    /// Returns whether a neighbour may request one more change. The bucket holds those of one second.
    fn admits(&mut self, now: Time, interface: InterfaceId, neighbor: IpAddr, rate: u32) -> bool {
        let full = u64::from(rate) * ONE;
        let mut who = (interface, neighbor);
        if self.buckets.len() >= MAX_NEIGHBORS && !self.buckets.contains_key(&who) {
            if now >= self.swept + SECOND {
                self.swept = now;
                self.buckets.retain(|_, bucket| now < bucket.at + SECOND);
            }
            if self.buckets.len() >= MAX_NEIGHBORS {
                who.1 = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            }
        }
        let bucket = self.buckets.entry(who).or_insert(Bucket { left: full, at: now });
        let earned = now.since(bucket.at).as_nanos() * u128::from(rate);
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        bucket.left = bucket.left.saturating_add(earned).min(full);
        bucket.at = now;
        match bucket.left.checked_sub(ONE) {
            Some(left) => {
                bucket.left = left;
                true
            }
            None => false,
        }
    }
}

impl Rsvp {
    /// Returns the limits of an interface, if any.
    #[inline]
    pub(crate) fn limits_of(&self, context: &Context<'_>, id: InterfaceId) -> Option<&Interface> {
        if self.config.limits.interfaces.is_empty() {
            return None;
        }
        self.config.limits.interfaces.get(&context.interfaces.by_id(id)?.name)
    }

    /// Returns whether a message is from an accepted neighbour. A ResvConf may come from any node, and changes nothing.
    #[cold]
    pub(crate) fn accepts_neighbor(
        &self,
        context: &Context<'_>,
        datagram: &Datagram<'_>,
        body: &Body<'_>,
    ) -> bool {
        let neighbor = match body {
            Body::Path(path) => path.hop.address,
            Body::PathTear(tear) => tear.hop.address,
            Body::Resv(resv) => resv.hop.address,
            Body::ResvTear(tear) => tear.hop.address,
            Body::ResvErr(error) => error.hop.address,
            Body::ResvConf(_) => return true,
            _ => datagram.source,
        };
        self.limits_of(context, datagram.interface).is_none_or(|limits| {
            limits.neighbors.is_empty()
                || limits.neighbors.iter().any(|range| range.contains(neighbor))
        })
    }

    /// Returns whether a peer may have one more block, or (`new` is `None`) a change of one.
    #[inline]
    pub(crate) fn admits_change(&mut self, now: Time, origin: Origin, new: Option<Block>) -> bool {
        let limits = &self.config.limits;
        let unlimited = limits.per_neighbor.is_none() && limits.changes_per_second.is_none();
        unlimited || self.is_within_limits(now, origin, new)
    }

    fn is_within_limits(&mut self, now: Time, origin: Origin, new: Option<Block>) -> bool {
        let Origin::Neighbor(interface, hop) = origin else { return true };
        if let (Some(most), Some(block)) = (self.config.limits.per_neighbor, new)
            && let Some(index) = self.store.find_neighbor(interface, hop.address)
            && *self.store.neighbors[index as usize].count(block) >= most
        {
            return false;
        }
        let rate = self.config.limits.changes_per_second;
        rate.is_none_or(|rate| self.throttle.admits(now, interface, hop.address, rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH1: InterfaceId = InterfaceId(1);

    fn neighbor(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn changes_are_limited_for_each_neighbor() {
        let mut throttle = Throttle::default();
        let start = Time::from_secs(5);
        let granted = |throttle: &mut Throttle, now, who| {
            (0..100).filter(|_| throttle.admits(now, ETH1, neighbor(who), 10)).count()
        };
        assert_eq!(granted(&mut throttle, start, 1), 10);
        assert_eq!(granted(&mut throttle, start, 2), 10);
        assert_eq!(granted(&mut throttle, start + Duration::from_millis(250), 1), 2);
        assert_eq!(granted(&mut throttle, start + Duration::from_millis(300), 1), 1);
        assert_eq!(granted(&mut throttle, start + Duration::from_secs(9), 1), 10);
        assert!(!throttle.admits(start, ETH1, neighbor(3), 0), "nothing is nothing");
    }

    /// Forged neighbours do not fill the memory: above the limit they share a bucket, and known neighbours are
    /// unaffected.
    #[test]
    fn neighbors_over_limit_share_bucket() {
        let mut throttle = Throttle::default();
        let start = Time::from_secs(5);
        assert!(throttle.admits(start, ETH1, neighbor(0), 10));
        let crowd = 1..10_000;
        let granted = crowd.filter(|&who| throttle.admits(start, ETH1, neighbor(who), 10)).count();
        assert_eq!(granted, MAX_NEIGHBORS - 1 + 10);
        assert!(throttle.buckets.len() <= MAX_NEIGHBORS + 1);
        assert!(throttle.admits(start, ETH1, neighbor(0), 10));
        let later = start + SECOND;
        assert!(throttle.admits(later, ETH1, neighbor(200_000), 10));
        assert!(throttle.buckets.len() < 10);
    }
}

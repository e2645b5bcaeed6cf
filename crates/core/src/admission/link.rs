//! One link of the ledger: its capacity, and how much of it is held.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::queue::RetryQueue;
use super::{Demand, Protocol, Reason, Refusal};
use crate::{Flow, Rate};

/// Capacity of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCapacity {
    /// Total bandwidth.
    pub bandwidth: Rate,
    /// Reservable bandwidth; zero if the link takes no reservations.
    pub reservable: Rate,
    /// MTU: largest IP packet, octets.
    pub mtu: u32,
}

impl LinkCapacity {
    /// Returns whether `demand` would be granted on an empty link.
    pub(super) fn could_ever_grant(&self, demand: &Demand) -> bool {
        demand.rate <= self.reservable && demand.max_packet <= self.mtu
    }
}

/// Status of a link for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Total bandwidth.
    pub bandwidth: Rate,
    /// Reservable bandwidth.
    pub reservable: Rate,
    /// MTU: largest IP packet, octets.
    pub mtu: u32,
    /// Bandwidth held by claims and for adopted flows. Exceeds `reservable` only after that shrank.
    pub held: Rate,
    /// Number of claims.
    pub claims: u32,
    /// Number of adopted flows that wait for their owners.
    pub adopted: u32,
    /// Number of refused requests that wait for bandwidth.
    pub queued: u32,
}

/// Reason why a flow was not adopted; the driver should remove it from traffic control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The link takes no reservations, or is unknown.
    #[error("the link takes no reservations")]
    NoSuchLink,
    /// The link has not enough bandwidth left.
    #[error("the link has not enough bandwidth left")]
    Bandwidth,
    /// The link holds [`Ledger::MAX_ADOPTED`](super::Ledger::MAX_ADOPTED) adopted flows already.
    #[error("the link has too many adopted flows")]
    TooMany,
}

/// Bandwidth held for a flow without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdoptedRate {
    pub(super) rate: Rate,
    /// Protocol that reserved it, if known.
    pub(super) protocol: Option<Protocol>,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) capacity: LinkCapacity,
    /// Bandwidth held by claims and for adopted flows.
    pub(super) held: Rate,
    /// Bandwidth that an offload grants without the ledger; see [`Ledger::set_aside`](super::Ledger::set_aside).
    pub(super) set_aside: Rate,
    pub(super) claims: u32,
    /// Adopted flows. There are few, for the minutes after a restart.
    pub(super) adopted: BTreeMap<Flow, AdoptedRate>,
    pub(super) queue: RetryQueue,
    /// Whether bandwidth was released since the last check of the queue.
    pub(super) released: bool,
}

impl Link {
    pub(super) fn new(capacity: LinkCapacity) -> Link {
        Link {
            capacity,
            held: Rate::ZERO,
            set_aside: Rate::ZERO,
            claims: 0,
            adopted: BTreeMap::new(),
            queue: RetryQueue::default(),
            released: false,
        }
    }

    /// Returns the rate of an adopted flow that a claim on it replaces: all of it, if the claim is of the protocol
    /// that reserved it. If that is unknown, a claim that is no smaller replaces it, and a smaller one only if there
    /// is no room beside it. A claim of another protocol must not take it.
    pub(super) fn replaced(
        &self,
        flow: &Flow,
        protocol: Protocol,
        demand: &Demand,
    ) -> Option<Rate> {
        // There are none except for some minutes after a restart.
        if self.adopted.is_empty() {
            return None;
        }
        let adopted = self.adopted.get(flow)?;
        let yields = match adopted.protocol {
            Some(known) => known == protocol,
            None => demand.rate >= adopted.rate || demand.rate > self.free(),
        };
        yields.then_some(adopted.rate)
    }

    /// Returns the bandwidth neither held nor set aside.
    pub(super) fn free(&self) -> Rate {
        self.capacity.reservable.saturating_sub(self.held).saturating_sub(self.set_aside)
    }

    /// Checks whether `demand` can replace `old`, which is held now (zero for a new claim).
    ///
    /// Bandwidth that is held already is granted again even if the link has shrunk below it.
    pub(super) fn admit(&self, old: Rate, demand: &Demand) -> Result<(), Refusal> {
        let available = self.free() + old;
        let refuse = |reason| Err(Refusal { reason, available });
        if self.capacity.reservable == Rate::ZERO && old == Rate::ZERO {
            return refuse(Reason::NoSuchLink);
        }
        if demand.max_packet > self.capacity.mtu {
            return refuse(Reason::MaxPacket);
        }
        if demand.rate > available {
            return refuse(Reason::Bandwidth);
        }
        Ok(())
    }

    /// Holds `new` instead of `old`; only for admitted demands.
    pub(super) fn replace(&mut self, old: Rate, new: Rate) {
        // Never below zero, since `old` is part of `held`; never too large, since `new` was admitted.
        self.held = self.held - old + new;
    }

    pub(super) fn status(&self) -> LinkStatus {
        LinkStatus {
            bandwidth: self.capacity.bandwidth,
            reservable: self.capacity.reservable,
            mtu: self.capacity.mtu,
            held: self.held,
            claims: self.claims,
            adopted: self.adopted.len() as u32,
            queued: self.queue.len() as u32,
        }
    }
}

//! One link of the ledger: what it has, and what of it is held.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::queue::RetryQueue;
use super::{Demand, Protocol, Reason, Refusal};
use crate::{Flow, Rate};

/// What a link has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkCapacity {
    /// All of it.
    pub bandwidth: Rate,
    /// What may be claimed; zero where the link takes no reservations.
    pub reservable: Rate,
    /// Largest IP packet, octets.
    pub mtu: u32,
}

impl LinkCapacity {
    /// Whether `demand` would be granted if nothing were held.
    pub(super) fn could_ever_grant(&self, demand: &Demand) -> bool {
        demand.rate <= self.reservable && demand.max_packet <= self.mtu
    }
}

/// A link as people want to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// All that the link carries.
    pub bandwidth: Rate,
    /// What may be claimed of it.
    pub reservable: Rate,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// What is held, by claims and for adopted flows. More than `reservable` only after that shrank.
    pub held: Rate,
    /// How many claims there are.
    pub claims: u32,
    /// How many adopted flows wait for their owners.
    pub adopted: u32,
    /// How many refused requests wait for bandwidth.
    pub queued: u32,
}

/// Why a flow was not adopted; the driver should take it out of traffic control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptError {
    /// The link takes no reservations, or is not known.
    #[error("the link takes no reservations")]
    NoSuchLink,
    /// Not enough is left.
    #[error("the link has not enough bandwidth left")]
    Bandwidth,
    /// The link holds [`Ledger::MAX_ADOPTED`](super::Ledger::MAX_ADOPTED) of them already.
    #[error("the link has too many adopted flows")]
    TooMany,
}

/// What is held for a flow without an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AdoptedRate {
    pub(super) rate: Rate,
    /// The protocol that reserved it, if that is known.
    pub(super) protocol: Option<Protocol>,
}

#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) capacity: LinkCapacity,
    /// By claims and for adopted flows.
    pub(super) held: Rate,
    /// To somebody who grants parts of it without the ledger; see [`Ledger::lend`](super::Ledger::lend).
    pub(super) lent: Rate,
    pub(super) claims: u32,
    /// Flows without an owner. A few, for the minutes after a restart.
    pub(super) adopted: BTreeMap<Flow, AdoptedRate>,
    pub(super) queue: RetryQueue,
    /// Whether something was given back since the queue was last looked at.
    pub(super) given_back: bool,
}

impl Link {
    pub(super) fn new(capacity: LinkCapacity) -> Link {
        Link {
            capacity,
            held: Rate::ZERO,
            lent: Rate::ZERO,
            claims: 0,
            adopted: BTreeMap::new(),
            queue: RetryQueue::default(),
            given_back: false,
        }
    }

    /// What of an adopted flow a claim on it takes the place of: all of it, if the claim is of the protocol that reserved it.
    /// If that is not known, a claim that is no smaller is taken for the old one, and a smaller one where there is no room
    /// beside. A claim of another protocol must not take anything away.
    pub(super) fn yielded(&self, flow: &Flow, protocol: Protocol, demand: &Demand) -> Option<Rate> {
        // There are none but for some minutes after a restart.
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

    /// What nobody holds, and nobody has been lent.
    pub(super) fn free(&self) -> Rate {
        self.capacity.reservable.saturating_sub(self.held).saturating_sub(self.lent)
    }

    /// Whether `demand` can take the place of `old`, which is held now (zero for a new claim).
    ///
    /// What is held already is granted again even where the link has shrunk below it.
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

    /// Holds `new` instead of `old`; to be called only with what was admitted.
    pub(super) fn replace(&mut self, old: Rate, new: Rate) {
        // Never below zero, as `old` is part of what is held; never too large, as `new` was admitted.
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

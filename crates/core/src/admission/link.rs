//! One link of the ledger: its capacity, and how much of it is held.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::control::{AdmissionControl, LinkLoad, ParameterBased};
use super::queue::RetryQueue;
use super::{Demand, Protocol, Reason, Refusal, Service};
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
    #[error("not enough bandwidth is available on the link")]
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

impl AdoptedRate {
    /// Returns the demand that the flow counts as.
    pub(super) fn demand(&self) -> Demand {
        Demand {
            service: Service::Guaranteed,
            rate: self.rate,
            burst: 0,
            max_packet: 0,
            // Nobody knows its packets, and a full link must stay full after a restart.
            min_packet: Demand::WITHOUT_OVERHEAD,
        }
    }
}

/// A link.
///
/// The methods with a parameter `CONTROL` are compiled twice: `false` if all links have [`ParameterBased`] and no overhead,
/// which then costs no more than if there was nothing else.
///
/// Demands have the flow's own rate; `load`, and what the admission control sees, the rate on the link
/// ([`Demand::rate_on_link`]).
#[derive(Debug)]
pub(super) struct Link {
    pub(super) bandwidth: Rate,
    /// MTU, octets.
    mtu: u32,
    /// Limit of one claim.
    pub(super) largest: Rate,
    /// Octets that the link adds to each IP packet.
    pub(super) overhead: u16,
    /// Reservable bandwidth, and what is held of it by claims and for adopted flows.
    pub(super) load: LinkLoad,
    /// Admission control other than [`ParameterBased`].
    pub(super) control: Option<Box<dyn AdmissionControl>>,
    pub(super) claims: u32,
    /// Adopted flows. There are few, for the minutes after a restart.
    pub(super) adopted: BTreeMap<Flow, AdoptedRate>,
    pub(super) queue: RetryQueue,
    /// Whether bandwidth was released since the last check of the queue.
    pub(super) released: bool,
}

impl Link {
    pub(super) fn new(capacity: LinkCapacity) -> Link {
        let LinkCapacity { bandwidth, reservable, mtu } = capacity;
        Link {
            bandwidth,
            mtu,
            largest: Rate::MAX,
            overhead: 0,
            load: LinkLoad { reservable, ..LinkLoad::default() },
            control: None,
            claims: 0,
            adopted: BTreeMap::new(),
            queue: RetryQueue::default(),
            released: false,
        }
    }

    pub(super) fn set_capacity(&mut self, capacity: LinkCapacity) {
        (self.bandwidth, self.mtu) = (capacity.bandwidth, capacity.mtu);
        self.load.reservable = capacity.reservable;
    }

    /// Changes the overhead; `claims` are the demands of all claims on the link. No effect if they would exceed the range
    /// of a rate together.
    pub(super) fn set_overhead(&mut self, overhead: u16, claims: impl Iterator<Item = Demand>) {
        let mut load = LinkLoad { held: Rate::ZERO, controlled: Rate::ZERO, ..self.load };
        for demand in claims.chain(self.adopted.values().map(AdoptedRate::demand)) {
            let on_link = Demand { rate: demand.rate_on_link(overhead), ..demand };
            if on_link.rate > Rate::MAX - load.held {
                return;
            }
            load.replace(None, Some(&on_link), self.control.is_some());
        }
        (self.overhead, self.load) = (overhead, load);
    }

    /// Returns a demand with the rate that it counts as on the link.
    #[inline]
    pub(super) fn on_link(&self, demand: &Demand) -> Demand {
        match self.overhead {
            0 => *demand,
            overhead => Demand { rate: demand.rate_on_link(overhead), ..*demand },
        }
    }

    /// Returns the demand of an adopted flow that a claim on it replaces: all of it, if the claim is of the protocol
    /// that reserved it. If that is unknown, a claim that is no smaller replaces it, and a smaller one only if there
    /// is no room beside it. A claim of another protocol must not take it.
    #[cold]
    #[inline(never)]
    pub(super) fn replaced(
        &self,
        flow: &Flow,
        protocol: Protocol,
        demand: &Demand,
    ) -> Option<Demand> {
        let adopted = self.adopted.get(flow)?;
        let yields = match adopted.protocol {
            Some(known) => known == protocol,
            None => {
                demand.rate >= adopted.rate
                    || demand.rate > self.available::<true>(&self.load, None, demand)
            }
        };
        yields.then_some(adopted.demand())
    }

    /// Returns the largest rate that `demand` would be granted in place of `old` under a load of the link.
    #[inline]
    pub(super) fn available<const CONTROL: bool>(
        &self,
        load: &LinkLoad,
        old: Option<&Demand>,
        demand: &Demand,
    ) -> Rate {
        let available = match CONTROL {
            true => demand.rate_within(self.available_on_link(load, old, demand), self.overhead),
            false => ParameterBased.available(load, old, demand),
        };
        available.min(self.largest_in_place_of(old))
    }

    /// Returns how much of the link `demand` would be granted in place of `old` under a load of the link.
    pub(super) fn available_on_link(
        &self,
        load: &LinkLoad,
        old: Option<&Demand>,
        demand: &Demand,
    ) -> Rate {
        let (old, demand) = (old.map(|old| self.on_link(old)), self.on_link(demand));
        match &self.control {
            None => ParameterBased.available(load, old.as_ref(), &demand),
            Some(control) => {
                // The sum of the claims may exceed the link, but not the range of a rate.
                let rest = load.held - old.map_or(Rate::ZERO, |old| old.rate);
                control.available(load, old.as_ref(), &demand).min(Rate::MAX - rest)
            }
        }
    }

    /// Returns the limit of a claim in place of `old`: what is held already stays, also above the limit of one claim.
    #[inline]
    pub(super) fn largest_in_place_of(&self, old: Option<&Demand>) -> Rate {
        old.map_or(self.largest, |old| self.largest.max(old.rate))
    }

    /// Returns the largest rate that would be granted for `service` on the empty link.
    fn limit(&self, service: Service) -> Rate {
        let reservable = self.load.reservable;
        self.control.as_ref().map_or(reservable, |control| control.limit(reservable, service))
    }

    /// Returns whether `demand` would be granted on the empty link.
    pub(super) fn could_ever_grant(&self, demand: &Demand) -> bool {
        self.on_link(demand).rate <= self.limit(demand.service)
            && demand.rate <= self.largest
            && demand.max_packet <= self.mtu
    }

    /// Returns the largest rate that an adopted flow may have in place of `old`. Where claims may exceed the link
    /// together, their flows may do so after a restart.
    pub(super) fn adoptable(&self, old: Rate) -> Rate {
        match self.control {
            None => self.load.free() + old,
            Some(_) => self.limit(Service::ControlledLoad).min(Rate::MAX - self.load.held + old),
        }
    }

    /// Returns whether a change of demand needs admission.
    #[inline]
    pub(super) fn needs_admission<const CONTROL: bool>(&self, old: &Demand, new: &Demand) -> bool {
        new.rate > old.rate
            || new.max_packet > old.max_packet
            || (CONTROL && new.service != old.service && self.control.is_some())
            || (CONTROL && self.on_link(new).rate > self.on_link(old).rate)
    }

    /// Returns whether a change of demand releases bandwidth.
    #[inline]
    pub(super) fn releases<const CONTROL: bool>(&self, old: &Demand, new: &Demand) -> bool {
        match CONTROL {
            true => self.on_link(new).rate < self.on_link(old).rate,
            false => new.rate < old.rate,
        }
    }

    /// Checks whether `demand` can replace `old`, which is held now (`None` for a new claim).
    #[inline]
    pub(super) fn admit<const CONTROL: bool>(
        &self,
        old: Option<&Demand>,
        demand: &Demand,
    ) -> Result<(), Refusal> {
        let available = self.available::<CONTROL>(&self.load, old, demand);
        let refuse = |reason| Err(Refusal { reason, available });
        if self.load.reservable == Rate::ZERO && old.is_none_or(|old| old.rate == Rate::ZERO) {
            return refuse(Reason::NoSuchLink);
        }
        if demand.max_packet > self.mtu {
            return refuse(Reason::MaxPacket);
        }
        if demand.rate > available {
            return refuse(Reason::Bandwidth);
        }
        Ok(())
    }

    /// Holds `new` in place of `old`; only for admitted demands.
    #[inline]
    pub(super) fn grant<const CONTROL: bool>(&mut self, old: Option<&Demand>, new: &Demand) {
        self.replace::<CONTROL>(old, Some(new));
        if !CONTROL {
            return;
        }
        let (old, new) = (old.map(|old| self.on_link(old)), self.on_link(new));
        if let Some(control) = &mut self.control {
            control.granted(old.as_ref(), &new);
        }
    }

    /// Holds `new` in place of `old`, without admission.
    #[inline]
    pub(super) fn replace<const CONTROL: bool>(
        &mut self,
        old: Option<&Demand>,
        new: Option<&Demand>,
    ) {
        if !CONTROL {
            return self.load.replace(old, new, false);
        }
        let [old, new] = [old, new].map(|demand| demand.map(|demand| self.on_link(demand)));
        self.load.replace(old.as_ref(), new.as_ref(), self.control.is_some());
    }

    pub(super) fn status(&self) -> LinkStatus {
        LinkStatus {
            bandwidth: self.bandwidth,
            reservable: self.load.reservable,
            mtu: self.mtu,
            held: self.load.held,
            claims: self.claims,
            adopted: self.adopted.len() as u32,
            queued: self.queue.len() as u32,
        }
    }
}

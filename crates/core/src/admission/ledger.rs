//! The ledger: links and the claims on them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use super::claims::{Claim, Claims};
use super::control::{AdmissionControl, ParameterBased};
use super::journal::Attempt;
use super::lanes::Lanes;
use super::link::{AdoptError, AdoptedRate, Link, LinkCapacity, LinkStatus};
use super::links::Links;
use super::preemption::Preemption;
use super::queue::{Counting, EnqueueError, QueuedRequest, RetryPolicy};
use super::{ClaimId, Demand, Owner, Protocol, Reason, Refusal, Service};
use crate::{Flow, InterfaceId, Rate, Time};

/// Bandwidth of all links of a node and its owners, for all protocols.
///
/// # Invariants
/// - The held bandwidth of a link is the sum of its claims and its adopted flows. By parameters, together with the
///   bandwidth set aside it never exceeds the reservable rate, unless the link shrank below what was held before.
/// - Each claim has an owner and a link. Releasing all claims and dropping all adopted flows leaves nothing held.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Links by outgoing interface; there are few.
    links: Links,
    claims: Claims,
    /// Links whose queue may have a grantable request: something changed since the last check.
    freed: BTreeSet<InterfaceId>,
    policy: RetryPolicy,
    /// State of preemption; `None` if it is off.
    pub(super) preemption: Option<Box<Preemption>>,
    /// Lanes, on which some flows claim instead.
    pub(super) lanes: Lanes,
    /// Journal of attempts; see [`Ledger::keep_journal`].
    pub(super) journal: Option<Vec<Attempt>>,
}

/// Claims and requests on a removed link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RemovedLink {
    /// Removed claims and their owners, to be notified.
    pub claims: Vec<(ClaimId, Owner)>,
    /// Queued requests.
    pub waiting: Vec<QueuedRequest>,
    /// Adopted flows without an owner.
    pub adopted: Vec<Flow>,
}

/// Links.
impl Ledger {
    /// Creates a ledger without links.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Adds a link, or changes its capacity. If it has less than is held, existing grants stay, but nothing new is
    /// granted until enough is released. Queued requests that can never be granted now are dropped.
    pub fn set_link(&mut self, link: InterfaceId, capacity: LinkCapacity) {
        let entry = self.links.get_or_insert(link, || Link::new(capacity));
        entry.set_capacity(capacity);
        drop_hopeless(entry);
        mark_queue(&mut self.freed, link, entry);
    }

    /// Removes a link with all its claims, queued requests and adopted flows. Walks all claims of the ledger.
    pub fn remove_link(&mut self, link: InterfaceId) -> RemovedLink {
        let Some(gone) = self.links.remove(link) else {
            return RemovedLink::default();
        };
        self.freed.remove(&link);
        let claims = self.claims.remove_link(link, gone.claims as usize);
        if let Some(preemption) = &mut self.preemption {
            claims.iter().for_each(|(id, _)| preemption.remove(id.slot));
        }
        RemovedLink {
            claims,
            waiting: gone.queue.iter().copied().collect(),
            adopted: gone.adopted.into_keys().collect(),
        }
    }

    /// Returns the status of a link.
    pub fn link(&self, link: InterfaceId) -> Option<LinkStatus> {
        self.links.get(link).map(Link::status)
    }

    /// Sets aside a rate of a link that an offload may grant by itself, and may have granted already. No claim: when
    /// a grant becomes known, it is claimed, and the driver lowers this rate accordingly. No effect on an unknown
    /// link.
    pub fn set_aside(&mut self, link: InterfaceId, rate: Rate) {
        let Some(entry) = self.links.get_mut(link) else { return };
        entry.load.set_aside = rate;
        mark_queue(&mut self.freed, link, entry);
    }

    /// Returns the rate of a link set aside by [`set_aside`](Ledger::set_aside).
    pub fn rate_set_aside(&self, link: InterfaceId) -> Rate {
        self.links.get(link).map_or(Rate::ZERO, |link| link.load.set_aside)
    }

    /// Returns the largest rate that a new claim for controlled load would be granted; zero for an unknown link.
    #[inline]
    pub fn available(&self, link: InterfaceId) -> Rate {
        const NEW: Demand =
            Demand { service: Service::ControlledLoad, rate: Rate::ZERO, burst: 0, max_packet: 0 };
        self.links.get(link).map_or(Rate::ZERO, |link| link.available(&link.load, None, &NEW))
    }

    /// Returns the status of all links, by index.
    pub fn links(&self) -> impl Iterator<Item = (InterfaceId, LinkStatus)> {
        self.links.iter().map(|(id, link)| (id, link.status()))
    }

    /// Returns a link.
    pub(super) fn entry(&self, link: InterfaceId) -> Option<&Link> {
        self.links.get(link)
    }
}

/// Admission control.
impl Ledger {
    /// Sets the admission control of a link; a new link has [`ParameterBased`]. Claims stay as they are. Queued
    /// requests that can never be granted now are dropped. No effect on an unknown link.
    pub fn set_admission(&mut self, link: InterfaceId, control: Box<dyn AdmissionControl>) {
        let Some(entry) = self.links.get_mut(link) else { return };
        entry.control = Some(control);
        drop_hopeless(entry);
        mark_queue(&mut self.freed, link, entry);
    }

    /// Returns the admission control of a link; `None` for an unknown link.
    pub fn admission(&self, link: InterfaceId) -> Option<&dyn AdmissionControl> {
        let link = self.links.get(link)?;
        Some(link.control.as_deref().unwrap_or(&ParameterBased))
    }

    /// Reports a sample of the traffic of a link's reservations, as often as
    /// [`sample_interval`](AdmissionControl::sample_interval) says: `octets` is the count of IP octets sent until
    /// `now`. No effect on an unknown link.
    pub fn measured(&mut self, link: InterfaceId, octets: u64, now: Time) {
        let Some(entry) = self.links.get_mut(link) else { return };
        if let Some(control) = &mut entry.control {
            control.measured(octets, now);
            mark_queue(&mut self.freed, link, entry); // the load may have fallen
        }
    }
}

/// Claims.
impl Ledger {
    /// Claims `demand` of `link` for `owner`: all of it or nothing. Each claim on a flow holds its own bandwidth,
    /// whatever others hold for the same flow: any of them may end, and the others must not need a new admission. If
    /// `flow` was adopted on this link for the owner's protocol, its bandwidth counts as available, and the claim
    /// replaces it.
    pub fn claim(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        let place = self.claim_link(link, owner, flow);
        if place != link {
            return self.claim_in_lane((link, place), owner, flow, demand);
        }
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        let adopted = entry.replaced(flow, owner.protocol, &demand);
        let admitted = entry.admit(adopted.as_ref(), &demand);
        if let Some(journal) = &mut self.journal {
            let (flow, rate, granted) = (Some(*flow), demand.rate, admitted.is_ok());
            journal.push(Attempt { link, owner, flow, rate, granted });
        }
        admitted?;
        if adopted.is_some() {
            entry.adopted.remove(flow);
        }
        entry.grant(adopted.as_ref(), &demand);
        entry.claims += 1;
        mark_queue(&mut self.freed, link, entry); // the flow may want less than before
        let claim = self.claims.insert(Claim { link, owner, demand });
        self.rank(link, claim);
        Ok(claim)
    }

    /// Claims on a lane. A lane without capacity yet refuses like a full one.
    #[cold]
    fn claim_in_lane(
        &mut self,
        (link, lane): (InterfaceId, InterfaceId),
        owner: Owner,
        flow: &Flow,
        demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        let yields = self.replaced_demand(link, flow, owner, &demand).is_some();
        let claim =
            self.claim(lane, owner, flow, demand).map_err(|refusal| match refusal.reason {
                Reason::NoSuchLink => Refusal { reason: Reason::Bandwidth, ..refusal },
                _ => refusal,
            })?;
        if yields {
            self.drop_adopted(link, flow);
        }
        Ok(claim)
    }

    /// Changes the demand of a claim; if it is refused, the claim keeps the old one. A decrease, in rate and packet
    /// size, is always granted. A removed claim is refused as [`Reason::NoSuchLink`].
    pub fn change(&mut self, claim: ClaimId, demand: Demand) -> Result<(), Refusal> {
        let Claim { link, demand: old, .. } = self.claims.get(claim).ok_or(UNKNOWN)?;
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        if entry.needs_admission(&old, &demand) {
            entry.admit(Some(&old), &demand)?;
            entry.grant(Some(&old), &demand);
        } else {
            entry.load.replace(Some(&old), Some(&demand));
        }
        self.claims.set_demand(claim, demand);
        if demand.rate < old.rate {
            note_release(&mut self.freed, link, entry);
        }
        Ok(())
    }

    /// Releases a claim and returns its demand. A removed claim is no error.
    pub fn release(&mut self, claim: ClaimId) -> Option<Demand> {
        let Claim { link, demand: held, .. } = self.claims.remove(claim)?;
        if let Some(entry) = self.links.get_mut(link) {
            entry.load.replace(Some(&held), None);
            entry.claims -= 1;
            note_release(&mut self.freed, link, entry);
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.remove(claim.slot);
        }
        Some(held)
    }

    /// Returns the owner of a claim.
    pub fn owner(&self, claim: ClaimId) -> Option<Owner> {
        self.claims.get(claim).map(|claim| claim.owner)
    }

    /// Returns the demand of a claim.
    pub fn demand(&self, claim: ClaimId) -> Option<Demand> {
        self.claims.get(claim).map(|claim| claim.demand)
    }

    /// Returns the link of a claim.
    pub fn link_of(&self, claim: ClaimId) -> Option<InterfaceId> {
        self.claims.get(claim).map(|claim| claim.link)
    }

    /// Returns all claims and their links, in slot order.
    pub(super) fn all_claims(&self) -> impl Iterator<Item = (ClaimId, InterfaceId)> {
        self.claims.iter().map(|(id, claim)| (id, claim.link))
    }
}

/// Adopted flows.
impl Ledger {
    /// Maximum number of adopted flows on one link.
    pub const MAX_ADOPTED: usize = 65_536;

    /// Holds `rate` of `link` for a flow that traffic control already serves, until a claim for the flow replaces it
    /// or it is dropped. Adopting a flow again changes its rate. If `protocol` is given, only a claim of this
    /// protocol replaces it.
    pub fn adopt(
        &mut self,
        link: InterfaceId,
        flow: Flow,
        rate: Rate,
        protocol: Option<Protocol>,
    ) -> Result<(), AdoptError> {
        let entry = self.links.get_mut(link).ok_or(AdoptError::NoSuchLink)?;
        if entry.load.reservable == Rate::ZERO {
            return Err(AdoptError::NoSuchLink);
        }
        let known = entry.adopted.get(&flow).map(AdoptedRate::demand);
        if known.is_none() && entry.adopted.len() >= Self::MAX_ADOPTED {
            return Err(AdoptError::TooMany);
        }
        if rate > entry.adoptable(known.map_or(Rate::ZERO, |known| known.rate)) {
            return Err(AdoptError::Bandwidth);
        }
        let adopted = AdoptedRate { rate, protocol };
        entry.load.replace(known.as_ref(), Some(&adopted.demand()));
        entry.adopted.insert(flow, adopted);
        mark_queue(&mut self.freed, link, entry);
        Ok(())
    }

    /// Returns the demand of an adopted flow that a claim replaces.
    pub(super) fn replaced_demand(
        &self,
        link: InterfaceId,
        flow: &Flow,
        owner: Owner,
        demand: &Demand,
    ) -> Option<Demand> {
        self.links.get(link)?.replaced(flow, owner.protocol, demand)
    }

    /// Drops an adopted flow and returns its rate. `None` if it was not adopted, or has an owner by now.
    pub fn drop_adopted(&mut self, link: InterfaceId, flow: &Flow) -> Option<Rate> {
        let entry = self.links.get_mut(link)?;
        let adopted = entry.adopted.remove(flow)?;
        entry.load.replace(Some(&adopted.demand()), None);
        note_release(&mut self.freed, link, entry);
        Some(adopted.rate)
    }

    /// Drops all adopted flows. Returns them by link and flow, for the driver to remove them from traffic control.
    pub fn drop_all_adopted(&mut self) -> Vec<(InterfaceId, Flow)> {
        let mut dropped = Vec::new();
        for (id, link) in self.links.iter_mut() {
            while let Some((flow, adopted)) = link.adopted.pop_first() {
                link.load.replace(Some(&adopted.demand()), None);
                dropped.push((id, flow));
            }
            mark_queue(&mut self.freed, id, link);
        }
        dropped
    }
}

/// The retry queues.
impl Ledger {
    /// Sets the retry policy. A lower threshold drops the requests over it; a smaller capacity leaves queued
    /// requests.
    pub fn set_retry_policy(&mut self, policy: RetryPolicy) {
        self.policy = policy;
        for (id, link) in self.links.iter_mut() {
            if policy.counting == Counting::Entries {
                link.queue.retain(|waiting| waiting.refusals <= policy.threshold);
            }
            mark_queue(&mut self.freed, id, link); // another may be the head now
        }
    }

    /// Returns the retry policy.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Queues a refused request for bandwidth of `link`. A queued request keeps its position, with the new demand and
    /// count; if it may not wait any more, it is removed.
    pub fn enqueue(
        &mut self,
        link: InterfaceId,
        waiting: QueuedRequest,
    ) -> Result<(), EnqueueError> {
        let entry = self.links.get_mut(link).ok_or(EnqueueError::NoSuchLink)?;
        let result = if !entry.could_ever_grant(&waiting.demand) {
            Err(EnqueueError::NeverFits)
        } else if self.policy.excludes(waiting.refusals) {
            Err(EnqueueError::Threshold)
        } else {
            entry.queue.enqueue(waiting, &self.policy)
        };
        if result.is_err() {
            entry.queue.withdraw(waiting.owner);
        }
        mark_queue(&mut self.freed, link, entry); // the head may want less now, or have left
        result
    }

    /// Removes a queued request; `false` if there is none.
    pub fn withdraw(&mut self, link: InterfaceId, owner: Owner) -> bool {
        let Some(entry) = self.links.get_mut(link) else {
            return false;
        };
        let withdrawn = entry.queue.withdraw(owner);
        mark_queue(&mut self.freed, link, entry); // the next one may fit
        withdrawn
    }

    /// Removes and returns the owner of the next request of a link's queue ([`Discipline`](super::Discipline)), if
    /// the link can grant it now; the owner should claim at once. Call until it returns `None`.
    pub fn grantable(&mut self, link: InterfaceId) -> Option<Owner> {
        let entry = self.links.get_mut(link)?;
        let fits = |waiting: &QueuedRequest| entry.admit(None, &waiting.demand).is_ok();
        match entry.queue.next(self.policy.discipline, fits) {
            Some(next) => {
                entry.queue.withdraw(next.owner);
                Some(next.owner)
            }
            None => {
                self.freed.remove(&link);
                if mem::take(&mut entry.released) && self.policy.counting == Counting::Tries {
                    let tried = entry.queue.count_failed_tries(self.policy.threshold);
                    if let Some(journal) = &mut self.journal {
                        journal.extend(
                            tried.iter().map(|waiting| Attempt::failed_retry(link, waiting)),
                        );
                    }
                }
                None
            }
        }
    }

    /// Calls [`grantable`](Ledger::grantable) for all links where something changed; O(1) if nothing did.
    pub fn next_grantable(&mut self) -> Option<(InterfaceId, Owner)> {
        while let Some(&link) = self.freed.first() {
            if let Some(owner) = self.grantable(link) {
                return Some((link, owner));
            }
        }
        None
    }
}

/// Refusal on an unknown link.
const UNKNOWN: Refusal = Refusal { reason: Reason::NoSuchLink, available: Rate::ZERO };

/// Drops the queued requests that can never be granted.
fn drop_hopeless(link: &mut Link) {
    let mut queue = mem::take(&mut link.queue);
    queue.retain(|waiting| link.could_ever_grant(&waiting.demand));
    link.queue = queue;
}

/// Marks the queue of a link for a check. Does nothing for an empty queue, so that retries cost nothing if unused.
fn mark_queue(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &Link) {
    if !link.queue.is_idle() {
        freed.insert(id);
    }
}

/// Marks the queue of a link for a check after a release.
fn note_release(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &mut Link) {
    link.released |= !link.queue.is_idle();
    mark_queue(freed, id, link);
}

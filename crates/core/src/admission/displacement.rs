//! Preemption: more important claims displace less important ones if a link has no room for both (RFC 3181).
//!
//! A claim is requested with a preemption priority, and kept with a defending priority that is no lower. On a full
//! link, a claim may displace others whose defending priority is *below* its preemption priority: first the least
//! defended, and among equals the newest. If all of them together are not enough, none is displaced. No more are
//! displaced than necessary: of those chosen, the most defended are spared as far as the rest suffice, and with
//! [`PreemptionPolicy::partial`] the last one keeps the remainder (RFC 4495).
//!
//! Displaced claims are removed from the ledger, or reduced, when the call returns; the driver takes them from
//! [`Ledger::next_displaced`] and notifies their owners.
//!
//! If preemption is off, priorities have no effect and no cost.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::control::LinkLoad;
use super::ledger::Ledger;
use super::preemption::{Displaced, Preemption, PreemptionPolicy, Priority};
use super::{ClaimId, Demand, Owner, Reason, Refusal};
use crate::{Flow, InterfaceId, Rate};

/// Preemption.
impl Ledger {
    /// Maximum number of claims that one claim may displace, which bounds the work.
    pub const MAX_DISPLACED: usize = 1_024;

    /// Turns preemption on or (`None`) off. Existing claims have the lowest priority when it is turned on.
    pub fn set_preemption(&mut self, policy: Option<PreemptionPolicy>) {
        let Some(policy) = policy else {
            self.preemption = None;
            return;
        };
        if let Some(preemption) = &mut self.preemption {
            preemption.policy = policy;
            return;
        }
        let mut preemption = Preemption::new(policy);
        for (id, claim) in self.claims.iter() {
            preemption.insert(claim.link, id, 0);
        }
        self.preemption = Some(Box::new(preemption));
    }

    /// Claims with a priority, like [`claim`](Ledger::claim): on a full link, less important claims are displaced.
    ///
    /// # Errors
    /// [`Refusal`], as from [`claim`](Ledger::claim); the available rate includes what would be displaced.
    pub fn claim_with_priority(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: Demand,
        priority: Priority,
    ) -> Result<ClaimId, Refusal> {
        let link = self.lanes.claim_link(link, owner.protocol, flow);
        let claim = match self.claim(link, owner, flow, demand) {
            Err(refusal) => {
                let adopted = self
                    .links
                    .get(link)
                    .and_then(|link| link.replaced(flow, owner.protocol, &demand));
                self.make_room(link, None, adopted, demand, priority, refusal)?;
                self.claim(link, owner, flow, demand)?
            }
            Ok(claim) => claim,
        };
        if let Some(preemption) = &mut self.preemption {
            preemption.insert(link, claim, priority.defending.max(priority.preemption));
        }
        Ok(claim)
    }

    /// Changes a claim and its priority, like [`change`](Ledger::change).
    ///
    /// # Errors
    /// [`Refusal`], as from [`change`](Ledger::change); the claim also keeps its old priority.
    pub fn change_with_priority(
        &mut self,
        claim: ClaimId,
        demand: Demand,
        priority: Priority,
    ) -> Result<(), Refusal> {
        let before = self.link_of(claim).zip(self.demand(claim));
        if let Err(refusal) = self.change(claim, demand) {
            let Some((link, old)) = before else { return Err(refusal) };
            self.make_room(link, Some(claim), Some(old), demand, priority, refusal)?;
            self.change(claim, demand)?;
        }
        self.set_priority(claim, priority);
        Ok(())
    }

    /// Sets the priority of a claim. A removed claim is no error.
    pub fn set_priority(&mut self, claim: ClaimId, priority: Priority) {
        if let (Some(link), Some(preemption)) = (self.link_of(claim), &mut self.preemption) {
            preemption.insert(link, claim, priority.defending.max(priority.preemption));
        }
    }

    /// Takes a displaced claim whose owner is not notified yet. Call until it returns `None`.
    #[inline]
    pub fn next_displaced(&mut self) -> Option<Displaced> {
        self.preemption.as_mut()?.displaced.pop_front()
    }

    /// Displaces claims to make room for `demand` in the place of `old`, which `keeper` holds, or no claim.
    #[cold]
    fn make_room(
        &mut self,
        link: InterfaceId,
        keeper: Option<ClaimId>,
        old: Option<Demand>,
        demand: Demand,
        priority: Priority,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        if refusal.reason != Reason::Bandwidth {
            return Err(refusal);
        }
        let (Some(preemption), Some(entry)) = (&self.preemption, self.links.get(link)) else {
            return Err(refusal);
        };
        let partial = preemption.policy.partial;
        // Admission control judges the link as it would be without the chosen claims.
        let mut load = entry.load;
        let available = |load: &LinkLoad| entry.available::<true>(load, old.as_ref(), &demand);
        let by_service = entry.control.is_some();
        let mut chosen = Vec::new();
        let below = (link, 0, Reverse(u64::MAX))..(link, priority.preemption, Reverse(u64::MAX));
        for &claim in
            preemption.order.range(below).map(|(_, claim)| claim).take(Self::MAX_DISPLACED)
        {
            let weaker = self.demand(claim).filter(|weaker| weaker.rate > Rate::ZERO);
            if let Some(weaker) = weaker.filter(|_| Some(claim) != keeper) {
                load.replace(Some(&entry.on_link(&weaker)), None, by_service);
                chosen.push((claim, weaker));
            }
            if demand.rate <= available(&load) {
                break;
            }
        }
        if demand.rate > available(&load) {
            return Err(Refusal { available: available(&load), ..refusal });
        }
        // Spare the most defended as far as the others suffice.
        for place in (0..chosen.len()).rev() {
            let mut with = load;
            with.replace(None, Some(&entry.on_link(&chosen[place].1)), by_service);
            if demand.rate <= available(&with) {
                load = with;
                chosen.remove(place);
            }
        }
        let kept = match chosen.last() {
            Some((_, last)) if partial => {
                let spare = entry.available_on_link(&load, old.as_ref(), &demand);
                let spare = spare.saturating_sub(entry.on_link(&demand).rate);
                last.rate_within(spare, entry.overhead)
            }
            _ => Rate::ZERO,
        };
        let count = chosen.len();
        for (place, (claim, _)) in chosen.into_iter().enumerate() {
            self.displace(claim, if place + 1 == count { kept } else { Rate::ZERO }, priority);
        }
        Ok(())
    }

    fn displace(&mut self, claim: ClaimId, kept: Rate, by: Priority) {
        let (Some(owner), Some(demand)) = (self.owner(claim), self.demand(claim)) else { return };
        if kept > Rate::ZERO {
            // A decrease is always granted.
            let _ = self.change(claim, Demand { rate: kept, ..demand });
        } else {
            self.release(claim);
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.displaced.push_back(Displaced { claim, owner, kept, by });
        }
    }
}

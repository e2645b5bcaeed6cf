//! Preemption: what is more important takes the place of what is less, where a link has not room for both (RFC 3181).
//!
//! A claim is asked for with a preemption priority, and kept with a defending priority that is no lower. Where a link is
//! full, a claim may displace others whose defending priority is *below* its preemption priority: first the least
//! defended, and of equals the newest. It is all or nothing: if they are not enough together, none is touched. And
//! never more than needed: of those that were picked, the most defended are spared again as far as the rest suffice,
//! and with [`PreemptionPolicy::partial`] the last one keeps what is left over (RFC 4495).
//!
//! Those displaced are gone from the ledger, or smaller, when the call returns; whoever drives the ledger takes them out
//! of [`Ledger::next_displaced`] and tells their owners.
//!
//! Unless it is switched on, priorities mean nothing, and nothing is kept or paid for them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::ledger::Ledger;
use super::{ClaimId, Demand, Owner, Reason, Refusal};
use crate::{Flow, InterfaceId, Rate};

/// How important a claim is; higher is more (RFC 3181 section 4). By default the least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Priority {
    /// Compared with the defending priority of others when this claim asks for bandwidth.
    pub preemption: u16,
    /// Compared with the preemption priority of others when they ask.
    pub defending: u16,
}

impl Priority {
    /// A priority that obeys RFC 3181: it defends no less than it attacks, or two flows would displace each other for
    /// ever.
    pub fn new(preemption: u16, defending: u16) -> Priority {
        Priority { preemption, defending: defending.max(preemption) }
    }
}

/// How claims displace each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionPolicy {
    /// Whether one of the displaced keeps what the new claim does not need, instead of losing all (RFC 4495).
    pub partial: bool,
}

/// A claim that had to give way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    /// Which. Gone from the ledger if it keeps nothing.
    pub claim: ClaimId,
    /// Whose it is, or was.
    pub owner: Owner,
    /// What it keeps.
    pub kept: Rate,
    /// How important the one is that it gave way to.
    pub by: Priority,
}

/// The place of a claim in the order of giving way: by link, the least defended first, the newest of equals.
type Rank = (InterfaceId, u16, Reverse<u64>);

/// What the ledger keeps while preemption is on.
#[derive(Clone, Debug, Default)]
pub(super) struct Preemption {
    policy: PreemptionPolicy,
    /// The claims in the order of giving way. Ordered, so that the choice does not depend on a hash.
    order: BTreeMap<Rank, ClaimId>,
    /// By slot of the ledger.
    ranks: Vec<Option<Rank>>,
    /// Tells older claims from newer ones.
    next_ticket: u64,
    /// Those whose owners do not know yet.
    displaced: VecDeque<Displaced>,
}

impl Preemption {
    /// A claim is there, or has another defending priority; it keeps its age.
    fn enter(&mut self, link: InterfaceId, claim: ClaimId, defending: u16) {
        let slot = claim.slot as usize;
        if self.ranks.len() <= slot {
            self.ranks.resize(slot + 1, None);
        }
        let ticket = match self.ranks[slot].take() {
            Some(rank) => {
                self.order.remove(&rank);
                rank.2
            }
            None => {
                self.next_ticket += 1;
                Reverse(self.next_ticket)
            }
        };
        self.order.insert((link, defending, ticket), claim);
        self.ranks[slot] = Some((link, defending, ticket));
    }

    /// A claim is gone.
    pub(super) fn leave(&mut self, slot: u32) {
        if let Some(rank) = self.ranks.get_mut(slot as usize).and_then(Option::take) {
            self.order.remove(&rank);
        }
    }
}

/// Preemption.
impl Ledger {
    /// Most claims that one claim may displace, so that the work for it has a bound.
    pub const MAX_DISPLACED: usize = 1_024;

    /// Lets claims displace each other from now on, or (`None`) not any more. Claims that are there have the lowest
    /// priority when it begins.
    pub fn set_preemption(&mut self, policy: Option<PreemptionPolicy>) {
        let Some(policy) = policy else {
            self.preemption = None;
            return;
        };
        if let Some(preemption) = &mut self.preemption {
            preemption.policy = policy;
            return;
        }
        let mut preemption = Preemption { policy, ..Preemption::default() };
        for (claim, link) in self.all_claims() {
            preemption.enter(link, claim, 0);
        }
        self.preemption = Some(Box::new(preemption));
    }

    /// [`claim`](Ledger::claim) with a priority: where the link is full, less important claims give way.
    ///
    /// # Errors
    /// As there; what could have been granted counts what would have given way.
    pub fn claim_with_priority(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: Demand,
        priority: Priority,
    ) -> Result<ClaimId, Refusal> {
        let link = self.place_of(link, owner, flow);
        let claim = match self.claim(link, owner, flow, demand) {
            Err(refusal) => {
                let adopted = self.yielded_rate(link, flow, owner, &demand).unwrap_or(Rate::ZERO);
                self.make_room(link, None, adopted, demand, priority, refusal)?;
                self.claim(link, owner, flow, demand)?
            }
            Ok(claim) => claim,
        };
        if let Some(preemption) = &mut self.preemption {
            preemption.enter(link, claim, priority.defending.max(priority.preemption));
        }
        Ok(claim)
    }

    /// [`change`](Ledger::change) with a priority, which it has from now on.
    ///
    /// # Errors
    /// As there; the claim keeps its old priority, too.
    pub fn change_with_priority(
        &mut self,
        claim: ClaimId,
        demand: Demand,
        priority: Priority,
    ) -> Result<(), Refusal> {
        let before = self.link_of(claim).zip(self.demand(claim));
        if let Err(refusal) = self.change(claim, demand) {
            let Some((link, old)) = before else { return Err(refusal) };
            self.make_room(link, Some(claim), old.rate, demand, priority, refusal)?;
            self.change(claim, demand)?;
        }
        self.set_priority(claim, priority);
        Ok(())
    }

    /// Gives a claim another priority. One that is gone is no error.
    pub fn set_priority(&mut self, claim: ClaimId, priority: Priority) {
        if let (Some(link), Some(preemption)) = (self.link_of(claim), &mut self.preemption) {
            preemption.enter(link, claim, priority.defending.max(priority.preemption));
        }
    }

    /// Takes out a claim that had to give way and whose owner has not been told. Call it until there is none.
    #[inline]
    pub fn next_displaced(&mut self) -> Option<Displaced> {
        self.preemption.as_mut()?.displaced.pop_front()
    }

    /// A claim was entered by its default priority.
    pub(super) fn rank(&mut self, link: InterfaceId, claim: ClaimId) {
        if let Some(preemption) = &mut self.preemption {
            preemption.enter(link, claim, 0);
        }
    }

    /// Displaces what must give way for `demand` in the place of `old`, which `keeper` or nobody holds.
    #[cold]
    fn make_room(
        &mut self,
        link: InterfaceId,
        keeper: Option<ClaimId>,
        old: Rate,
        demand: Demand,
        priority: Priority,
        refusal: Refusal,
    ) -> Result<(), Refusal> {
        if refusal.reason != Reason::Bandwidth {
            return Err(refusal);
        }
        let (Some(preemption), Some(status)) = (&self.preemption, self.link(link)) else {
            return Err(refusal);
        };
        let partial = preemption.policy.partial;
        // More than the link lacks, where it has shrunk below what is held.
        let missing = u128::from(status.held.saturating_sub(old).as_bps())
            + u128::from(demand.rate.as_bps())
            - u128::from(status.reservable.as_bps());
        let mut chosen = Vec::new();
        let mut sum = 0_u128;
        let below = (link, 0, Reverse(u64::MAX))..(link, priority.preemption, Reverse(u64::MAX));
        for &claim in
            preemption.order.range(below).map(|(_, claim)| claim).take(Self::MAX_DISPLACED)
        {
            let rate = self.demand(claim).map_or(Rate::ZERO, |demand| demand.rate);
            if Some(claim) != keeper && rate > Rate::ZERO {
                chosen.push((claim, rate));
                sum += u128::from(rate.as_bps());
            }
            if sum >= missing {
                break;
            }
        }
        if sum < missing {
            let more = Rate::from_bps(u64::try_from(sum).unwrap_or(u64::MAX));
            return Err(Refusal { available: refusal.available + more, ..refusal });
        }
        // Spare the most defended as far as the others suffice.
        for place in (0..chosen.len()).rev() {
            let rate = u128::from(chosen[place].1.as_bps());
            if sum - rate >= missing {
                chosen.remove(place);
                sum -= rate;
            }
        }
        let spare = Rate::from_bps(u64::try_from(sum - missing).unwrap_or(u64::MAX));
        let last = chosen.len() - 1;
        for (place, (claim, _)) in chosen.into_iter().enumerate() {
            let kept = if partial && place == last { spare } else { Rate::ZERO };
            self.displace(claim, kept, priority);
        }
        Ok(())
    }

    fn displace(&mut self, claim: ClaimId, kept: Rate, by: Priority) {
        let (Some(owner), Some(demand)) = (self.owner(claim), self.demand(claim)) else { return };
        if kept > Rate::ZERO {
            // Less is always granted.
            let _ = self.change(claim, Demand { rate: kept, ..demand });
        } else {
            self.release(claim);
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.displaced.push_back(Displaced { claim, owner, kept, by });
        }
    }
}

//! The ledger: links, and the claims on them in a slab.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use super::claims::{Claim, Claims};
use super::journal::Attempt;
use super::lanes::Lanes;
use super::link::{AdoptError, AdoptedRate, Link, LinkCapacity, LinkStatus};
use super::links::Links;
use super::preemption::Preemption;
use super::queue::{Counting, EnqueueError, RetryPolicy, Waiting};
use super::{ClaimId, Demand, Owner, Protocol, Reason, Refusal};
use crate::{Flow, InterfaceId, Rate};

/// Who holds how much of which link, for all protocols of a node.
///
/// # Invariants
/// - What is held of a link is the sum of its claims and its adopted flows, and together with what is lent never more
///   than is reservable, unless the link shrank below what was held before.
/// - Each claim has an owner and a link. Releasing all claims and dropping all adopted flows leaves nothing held.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// By outgoing interface; a few.
    links: Links,
    claims: Claims,
    /// Links whose queue may have a head that fits: something changed since it was last looked at.
    freed: BTreeSet<InterfaceId>,
    policy: RetryPolicy,
    /// Only where claims may displace each other.
    pub(super) preemption: Option<Box<Preemption>>,
    /// Where some flows claim instead.
    pub(super) lanes: Lanes,
    /// Where attempts are written down; see [`Ledger::keep_journal`].
    pub(super) journal: Option<Vec<Attempt>>,
}

/// All that stood on a link that went away.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostLink {
    /// Claims that are gone, and their owners, who must be told.
    pub claims: Vec<(ClaimId, Owner)>,
    /// Requests that waited for it.
    pub waiting: Vec<Waiting>,
    /// Flows that had no owner yet.
    pub adopted: Vec<Flow>,
}

/// Links.
impl Ledger {
    /// A ledger without links.
    pub fn new() -> Ledger {
        Ledger::default()
    }

    /// Enters a link, or changes what it has to give. Where it has less than is held, the old grants stay, but nothing
    /// new is granted before enough was given back. Requests that wait but can never be granted now are dropped.
    pub fn set_link(&mut self, link: InterfaceId, capacity: LinkCapacity) {
        let entry = self.links.obtain(link, || Link::new(capacity));
        entry.capacity = capacity;
        entry.queue.retain(|waiting| entry.capacity.could_ever_grant(&waiting.demand));
        wake(&mut self.freed, link, entry);
    }

    /// Takes a link out, with all that stands on it. Walks all claims of the ledger.
    pub fn remove_link(&mut self, link: InterfaceId) -> LostLink {
        let Some(gone) = self.links.remove(link) else {
            return LostLink::default();
        };
        self.freed.remove(&link);
        let claims = self.claims.leave_link(link, gone.claims as usize);
        if let Some(preemption) = &mut self.preemption {
            claims.iter().for_each(|(id, _)| preemption.leave(id.slot));
        }
        LostLink {
            claims,
            waiting: gone.queue.iter().copied().collect(),
            adopted: gone.adopted.into_keys().collect(),
        }
    }

    /// How a link stands.
    pub fn link(&self, link: InterfaceId) -> Option<LinkStatus> {
        self.links.get(link).map(Link::status)
    }

    /// Sets aside what somebody has been lent of a link and may have granted to others already; none of it is claimed. It is
    /// no claim itself and nothing is held for it: when the grants become known, each is claimed, and the rest is less by
    /// as much. A link that is not known lends nothing.
    pub fn lend(&mut self, link: InterfaceId, rate: Rate) {
        let Some(entry) = self.links.get_mut(link) else { return };
        entry.lent = rate;
        wake(&mut self.freed, link, entry);
    }

    /// What is set aside of a link by [`lend`](Ledger::lend).
    pub fn lent(&self, link: InterfaceId) -> Rate {
        self.links.get(link).map_or(Rate::ZERO, |link| link.lent)
    }

    /// What nobody holds of a link, nor has been lent; nothing, where it is not known.
    #[inline]
    pub fn left(&self, link: InterfaceId) -> Rate {
        self.links.get(link).map_or(Rate::ZERO, Link::free)
    }

    /// How all links stand, by index.
    pub fn links(&self) -> impl Iterator<Item = (InterfaceId, LinkStatus)> {
        self.links.iter().map(|(id, link)| (id, link.status()))
    }
}

/// Claims.
impl Ledger {
    /// Claims `demand` of `link` for `owner`: all of it or nothing. Every claim on a flow holds its own, whatever others hold
    /// for the same flow: any of them may end, and the others must not have to be admitted again. Where `flow` was adopted
    /// on this link for the owner's protocol, what is held
    /// for it counts as available, and the claim takes its place.
    pub fn claim(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        let place = self.place_of(link, owner, flow);
        if place != link {
            return self.claim_in_lane((link, place), owner, flow, demand);
        }
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        let adopted = entry.yielded(flow, owner.protocol, &demand);
        let old = adopted.unwrap_or(Rate::ZERO);
        let admitted = entry.admit(old, &demand);
        if let Some(journal) = &mut self.journal {
            let (flow, rate, granted) = (Some(*flow), demand.rate, admitted.is_ok());
            journal.push(Attempt { link, owner, flow, rate, granted });
        }
        admitted?;
        if adopted.is_some() {
            entry.adopted.remove(flow);
        }
        entry.replace(old, demand.rate);
        entry.claims += 1;
        wake(&mut self.freed, link, entry); // the flow may want less than before
        let claim = self.claims.enter(Claim { link, owner, demand });
        self.rank(link, claim);
        Ok(claim)
    }

    /// A lane that has nothing yet refuses like one that has not enough.
    #[cold]
    fn claim_in_lane(
        &mut self,
        (link, lane): (InterfaceId, InterfaceId),
        owner: Owner,
        flow: &Flow,
        demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        let yields = self.yielded_rate(link, flow, owner, &demand).is_some();
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

    /// Changes what a claim holds; refused, it keeps what it had. Asking for no more, neither in rate nor in packet
    /// size, always works. A claim that is gone is refused as without a link.
    pub fn change(&mut self, claim: ClaimId, demand: Demand) -> Result<(), Refusal> {
        let Claim { link, demand: old, .. } = self.claims.get(claim).ok_or(UNKNOWN)?;
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        if demand.rate > old.rate || demand.max_packet > old.max_packet {
            entry.admit(old.rate, &demand)?;
        }
        entry.replace(old.rate, demand.rate);
        self.claims.set_demand(claim, demand);
        if demand.rate < old.rate {
            gave_back(&mut self.freed, link, entry);
        }
        Ok(())
    }

    /// Gives a claim back: what it held. A claim that is gone already is no error.
    pub fn release(&mut self, claim: ClaimId) -> Option<Demand> {
        let Claim { link, demand: held, .. } = self.claims.leave(claim)?;
        if let Some(entry) = self.links.get_mut(link) {
            entry.replace(held.rate, Rate::ZERO);
            entry.claims -= 1;
            gave_back(&mut self.freed, link, entry);
        }
        if let Some(preemption) = &mut self.preemption {
            preemption.leave(claim.slot);
        }
        Some(held)
    }

    /// Who holds a claim.
    pub fn owner(&self, claim: ClaimId) -> Option<Owner> {
        self.claims.get(claim).map(|claim| claim.owner)
    }

    /// What a claim holds.
    pub fn demand(&self, claim: ClaimId) -> Option<Demand> {
        self.claims.get(claim).map(|claim| claim.demand)
    }

    /// Of which link.
    pub fn link_of(&self, claim: ClaimId) -> Option<InterfaceId> {
        self.claims.get(claim).map(|claim| claim.link)
    }

    /// All claims and their links, by slot.
    pub(super) fn all_claims(&self) -> impl Iterator<Item = (ClaimId, InterfaceId)> {
        self.claims.iter().map(|(id, claim)| (id, claim.link))
    }
}

/// Adopted flows.
impl Ledger {
    /// Flows that may be adopted on one link.
    pub const MAX_ADOPTED: usize = 65_536;

    /// Holds `rate` of `link` for a flow that traffic control already serves, until a claim for the flow takes its
    /// place or it is dropped. A flow that is adopted already changes its rate. If the protocol is given that reserved it,
    /// only a claim of this protocol takes its place.
    pub fn adopt(
        &mut self,
        link: InterfaceId,
        flow: Flow,
        rate: Rate,
        protocol: Option<Protocol>,
    ) -> Result<(), AdoptError> {
        let entry = self.links.get_mut(link).ok_or(AdoptError::NoSuchLink)?;
        if entry.capacity.reservable == Rate::ZERO {
            return Err(AdoptError::NoSuchLink);
        }
        let known = entry.adopted.get(&flow).map(|adopted| adopted.rate);
        if known.is_none() && entry.adopted.len() >= Self::MAX_ADOPTED {
            return Err(AdoptError::TooMany);
        }
        let old = known.unwrap_or(Rate::ZERO);
        if rate > entry.free() + old {
            return Err(AdoptError::Bandwidth);
        }
        entry.replace(old, rate);
        entry.adopted.insert(flow, AdoptedRate { rate, protocol });
        wake(&mut self.freed, link, entry);
        Ok(())
    }

    /// What of an adopted flow a claim takes the place of.
    pub(super) fn yielded_rate(
        &self,
        link: InterfaceId,
        flow: &Flow,
        owner: Owner,
        demand: &Demand,
    ) -> Option<Rate> {
        self.links.get(link)?.yielded(flow, owner.protocol, demand)
    }

    /// Gives up what is held for an adopted flow: its rate. `None` where it was not adopted, or has an owner by now.
    pub fn drop_adopted(&mut self, link: InterfaceId, flow: &Flow) -> Option<Rate> {
        let entry = self.links.get_mut(link)?;
        let rate = entry.adopted.remove(flow)?.rate;
        entry.replace(rate, Rate::ZERO);
        gave_back(&mut self.freed, link, entry);
        Some(rate)
    }

    /// Gives up all adopted flows: which, by link and flow, for the driver to take them out of traffic control.
    pub fn drop_all_adopted(&mut self) -> Vec<(InterfaceId, Flow)> {
        let mut dropped = Vec::new();
        for (id, link) in self.links.iter_mut() {
            while let Some((flow, adopted)) = link.adopted.pop_first() {
                link.replace(adopted.rate, Rate::ZERO);
                dropped.push((id, flow));
            }
            wake(&mut self.freed, id, link);
        }
        dropped
    }
}

/// The retry queues.
impl Ledger {
    /// Sets how eagerly refused requests are retried. A lower threshold drops those that it shuts out; a smaller
    /// capacity lets those wait that wait already.
    pub fn set_retry_policy(&mut self, policy: RetryPolicy) {
        self.policy = policy;
        for (id, link) in self.links.iter_mut() {
            if policy.counting == Counting::Entries {
                link.queue.retain(|waiting| waiting.refusals <= policy.threshold);
            }
            wake(&mut self.freed, id, link); // another may be the head now
        }
    }

    /// How eagerly refused requests are retried.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Lets a request that was just refused wait for `link` to have more. Who waits already keeps the place, with the
    /// new demand and count; where it may not wait any more, it is taken out.
    pub fn enqueue(&mut self, link: InterfaceId, waiting: Waiting) -> Result<(), EnqueueError> {
        let entry = self.links.get_mut(link).ok_or(EnqueueError::NoSuchLink)?;
        let result = if !entry.capacity.could_ever_grant(&waiting.demand) {
            Err(EnqueueError::NeverFits)
        } else if self.policy.shuts_out(waiting.refusals) {
            Err(EnqueueError::Threshold)
        } else {
            entry.queue.enqueue(waiting, &self.policy)
        };
        if result.is_err() {
            entry.queue.withdraw(waiting.owner);
        }
        wake(&mut self.freed, link, entry); // the head may want less now, or have left
        result
    }

    /// Takes a waiting request out; `false` where none waits.
    pub fn withdraw(&mut self, link: InterfaceId, owner: Owner) -> bool {
        let Some(entry) = self.links.get_mut(link) else {
            return false;
        };
        let withdrawn = entry.queue.withdraw(owner);
        wake(&mut self.freed, link, entry); // the next one may fit
        withdrawn
    }

    /// Takes the request out of a link's queue whose turn it is ([`Discipline`](super::Discipline)), if the link can
    /// grant it now; its owner should claim at once. Call it until it gives `None`.
    pub fn grantable(&mut self, link: InterfaceId) -> Option<Owner> {
        let entry = self.links.get_mut(link)?;
        let fits = |waiting: &Waiting| entry.admit(Rate::ZERO, &waiting.demand).is_ok();
        match entry.queue.next(self.policy.discipline, fits) {
            Some(next) => {
                entry.queue.withdraw(next.owner);
                Some(next.owner)
            }
            None => {
                self.freed.remove(&link);
                if mem::take(&mut entry.given_back) && self.policy.counting == Counting::Tries {
                    let tried = entry.queue.tried_in_vain(self.policy.threshold);
                    if let Some(journal) = &mut self.journal {
                        journal.extend(tried.iter().map(|waiting| Attempt::in_vain(link, waiting)));
                    }
                }
                None
            }
        }
    }

    /// [`grantable`](Ledger::grantable) for all links, but looks only at those where something changed; O(1) where
    /// nothing did.
    pub fn next_grantable(&mut self) -> Option<(InterfaceId, Owner)> {
        while let Some(&link) = self.freed.first() {
            if let Some(owner) = self.grantable(link) {
                return Some((link, owner));
            }
        }
        None
    }
}

/// Refused because there is no such link.
const UNKNOWN: Refusal = Refusal { reason: Reason::NoSuchLink, available: Rate::ZERO };

/// Has the queue of a link looked at. Where nobody waits this is nothing, so that without retries it costs nothing.
fn wake(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &Link) {
    if !link.queue.is_idle() {
        freed.insert(id);
    }
}

/// The same, where something was given back.
fn gave_back(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &mut Link) {
    link.given_back |= !link.queue.is_idle();
    wake(freed, id, link);
}

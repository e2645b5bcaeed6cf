//! The ledger: links and the claims on them.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::mem;

use super::claims::{Claim, Claims};
use super::control::{AdmissionControl, ParameterBased};
use super::journal::Attempt;
use super::lanes::Lanes;
use super::link::{Link, LinkCapacity, LinkStatus};
use super::links::Links;
use super::preemption::Preemption;
use super::queue::{QueuedRequest, RetryPolicy};
use super::{ClaimId, Demand, Owner, Protocol, Reason, Refusal, Service};
use crate::throttle::Throttle;
use crate::{Flow, InterfaceId, Prefix, Rate, Time};

/// Bandwidth of all links of a node and its owners, for all protocols.
///
/// # Invariants
/// - The held bandwidth of a link is the sum of its claims, with the overhead of the link, and its adopted flows. By
///   parameters, together with the bandwidth set aside it never exceeds the reservable rate, unless the link shrank below
///   what was held before, or its overhead grew.
/// - Each claim has an owner and a link. Releasing all claims and dropping all adopted flows leaves nothing held.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Links by outgoing interface; there are few.
    pub(super) links: Links,
    pub(super) claims: Claims,
    /// Whether a link has, or had, an admission control other than [`ParameterBased`], or an overhead.
    has_controls: bool,
    /// Links whose queue may have a grantable request: something changed since the last check.
    pub(super) freed: BTreeSet<InterfaceId>,
    pub(super) policy: RetryPolicy,
    /// State of preemption; `None` if it is off.
    pub(super) preemption: Option<Box<Preemption>>,
    /// Lanes, on which some flows claim instead.
    pub(super) lanes: Lanes,
    /// Journal of attempts; see [`Ledger::keep_journal`].
    pub(super) journal: Option<Vec<Attempt>>,
    /// New and changed requests that were forwarded, by port and link.
    pub(super) requests: Throttle,
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

    /// Limits one claim of a link, and of each of its lanes; `None`: no limit but that of all. Claims stay as they are.
    /// Queued requests that can never be granted now are dropped. No effect on an unknown link.
    pub fn set_largest(&mut self, link: InterfaceId, largest: Option<Rate>) {
        let Ledger { links, lanes, freed, .. } = self;
        for link in lanes.of(link).chain([link]) {
            let Some(entry) = links.get_mut(link) else { continue };
            entry.largest = largest.unwrap_or(Rate::MAX);
            drop_hopeless(entry);
            mark_queue(freed, link, entry);
        }
    }

    /// Returns the limit of one claim of a link, if it has one.
    pub fn largest(&self, link: InterfaceId) -> Option<Rate> {
        self.links.get(link).map(|link| link.largest).filter(|largest| *largest < Rate::MAX)
    }

    /// Sets the number of octets that a link adds to each IP packet: link-layer headers and tunnels. Its claims then count
    /// with [`Demand::rate_on_link`], while demands, refusals and available rates remain those of the flows. A lane
    /// has its own. If more than the reservable rate is held now, existing grants stay. Queued requests that can never be
    /// granted now are dropped. No effect on an unknown link. A change walks all claims of the ledger.
    pub fn set_overhead(&mut self, link: InterfaceId, octets: u16) {
        let Some(entry) = self.links.get_mut(link) else { return };
        if entry.overhead == octets {
            return;
        }
        self.has_controls = true;
        let claims = self.claims.iter().map(|(_, claim)| claim);
        entry.set_overhead(
            octets,
            claims.filter(|claim| claim.link == link).map(|claim| claim.demand),
        );
        drop_hopeless(entry);
        mark_queue(&mut self.freed, link, entry);
    }

    /// Returns the number of octets that a link adds to each IP packet; 0 for an unknown link.
    pub fn overhead(&self, link: InterfaceId) -> u16 {
        self.links.get(link).map_or(0, |link| link.overhead)
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

    /// Returns the largest rate that a new claim for controlled load would be granted, with packets of unknown size; zero
    /// for an unknown link.
    #[inline]
    pub fn available(&self, link: InterfaceId) -> Rate {
        const NEW: Demand = Demand {
            service: Service::ControlledLoad,
            rate: Rate::ZERO,
            burst: 0,
            max_packet: 0,
            min_packet: 0,
        };
        let Some(link) = self.links.get(link) else { return Rate::ZERO };
        match self.has_controls {
            false => link.available::<false>(&link.load, None, &NEW),
            true => link.available::<true>(&link.load, None, &NEW),
        }
    }

    /// Returns the octets of the table of claims on the heap, unused places included. O(1).
    pub fn table_octets(&self) -> usize {
        self.claims.table_octets()
    }

    /// Returns the status of all links, by index.
    pub fn links(&self) -> impl Iterator<Item = (InterfaceId, LinkStatus)> {
        self.links.iter().map(|(id, link)| (id, link.status()))
    }
}

/// Admission control.
impl Ledger {
    /// Sets the admission control of a link; a new link has [`ParameterBased`]. Claims stay as they are. Queued
    /// requests that can never be granted now are dropped. No effect on an unknown link. The first control of a link walks
    /// all claims of the ledger.
    pub fn set_admission(&mut self, link: InterfaceId, control: Box<dyn AdmissionControl>) {
        let Some(entry) = self.links.get_mut(link) else { return };
        self.has_controls = true;
        if entry.control.replace(control).is_none() {
            let claims = self.claims.iter().filter(|(_, claim)| claim.link == link);
            for (_, claim) in claims {
                let demand = entry.on_link(&claim.demand);
                entry.load.replace_controlled(None, Some(&demand));
            }
        }
        drop_hopeless(entry);
        mark_queue(&mut self.freed, link, entry);
    }

    /// Returns the admission control of a link; `None` for an unknown link.
    pub fn admission(&self, link: InterfaceId) -> Option<&dyn AdmissionControl> {
        let link = self.links.get(link)?;
        Some(link.control.as_deref().unwrap_or(&ParameterBased))
    }

    /// Reports a sample of the traffic of a link's reservations, as often as
    /// [`sample_interval`](AdmissionControl::sample_interval) says: `octets` is the count of octets sent until `now`, with
    /// the overhead of the link. No effect on an unknown link.
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
    #[inline]
    pub fn claim(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: Demand,
    ) -> Result<ClaimId, Refusal> {
        match self.has_controls {
            false => self.claim_by::<false>(link, owner, flow, &demand),
            true => self.claim_by_control(link, owner, flow, &demand),
        }
    }

    #[cold]
    #[inline(never)]
    fn claim_by_control(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: &Demand,
    ) -> Result<ClaimId, Refusal> {
        self.claim_by::<true>(link, owner, flow, demand)
    }

    #[inline]
    fn claim_by<const CONTROL: bool>(
        &mut self,
        link: InterfaceId,
        owner: Owner,
        flow: &Flow,
        demand: &Demand,
    ) -> Result<ClaimId, Refusal> {
        let place = self.lanes.claim_link(link, owner.protocol, flow);
        if place != link {
            return self.claim_in_lane((link, place), owner, flow, *demand);
        }
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        // There are none except for some minutes after a restart.
        let adopted = match entry.adopted.is_empty() {
            true => None,
            false => entry.replaced(flow, owner.protocol, demand),
        };
        let admitted = entry.admit::<CONTROL>(adopted.as_ref(), demand);
        if let Some(journal) = &mut self.journal {
            let (flow, rate, granted) = (Some(*flow), demand.rate, admitted.is_ok());
            let available = admitted.err().map(|refusal| refusal.available);
            journal.push(Attempt { link, owner, flow, rate, granted, available });
        }
        admitted?;
        if adopted.is_some() {
            entry.adopted.remove(flow);
        }
        entry.grant::<CONTROL>(adopted.as_ref(), demand);
        entry.claims += 1;
        mark_queue(&mut self.freed, link, entry); // the flow may want less than before
        let claim = self.claims.insert(Claim { link, owner, demand: *demand });
        if let Some(preemption) = &mut self.preemption {
            preemption.insert(link, claim, 0);
        }
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
        let entry = self.links.get(link);
        let yields =
            entry.is_some_and(|entry| entry.replaced(flow, owner.protocol, &demand).is_some());
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

    /// Changes the demand of a claim; if it is refused, the claim keeps the old one. A decrease, in the rate of the flow and
    /// on the link, and in packet size, is always granted. A removed claim is refused as [`Reason::NoSuchLink`].
    pub fn change(&mut self, claim: ClaimId, demand: Demand) -> Result<(), Refusal> {
        match self.has_controls {
            false => self.change_by::<false>(claim, &demand),
            true => self.change_by_control(claim, &demand),
        }
    }

    #[cold]
    #[inline(never)]
    fn change_by_control(&mut self, claim: ClaimId, demand: &Demand) -> Result<(), Refusal> {
        self.change_by::<true>(claim, demand)
    }

    #[inline]
    fn change_by<const CONTROL: bool>(
        &mut self,
        claim: ClaimId,
        demand: &Demand,
    ) -> Result<(), Refusal> {
        let (Claim { link, demand: old, .. }, slot) = self.claims.get_mut(claim).ok_or(UNKNOWN)?;
        let entry = self.links.get_mut(link).ok_or(UNKNOWN)?;
        let admission = entry.needs_admission::<CONTROL>(&old, demand);
        if admission {
            entry.admit::<CONTROL>(Some(&old), demand)?;
        }
        slot.set_demand(*demand);
        match admission {
            true => entry.grant::<CONTROL>(Some(&old), demand),
            false => entry.replace::<CONTROL>(Some(&old), Some(demand)),
        }
        if entry.releases::<CONTROL>(&old, demand) {
            note_release(&mut self.freed, link, entry);
        }
        Ok(())
    }

    /// Releases a claim and returns its demand. A removed claim is no error.
    pub fn release(&mut self, claim: ClaimId) -> Option<Demand> {
        match self.has_controls {
            false => self.release_by::<false>(claim),
            true => self.release_by_control(claim),
        }
    }

    #[cold]
    #[inline(never)]
    fn release_by_control(&mut self, claim: ClaimId) -> Option<Demand> {
        self.release_by::<true>(claim)
    }

    #[inline]
    fn release_by<const CONTROL: bool>(&mut self, claim: ClaimId) -> Option<Demand> {
        let Claim { link, demand: held, .. } = self.claims.remove(claim)?;
        if let Some(entry) = self.links.get_mut(link) {
            entry.replace::<CONTROL>(Some(&held), None);
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
}

/// Lanes.
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
        self.lanes.open(link, range, protocol, lane);
        let mtu = self.link(link).map_or(0, |status| status.mtu);
        self.set_link(lane, LinkCapacity { bandwidth: most, reservable: Rate::ZERO, mtu });
        let largest = self.largest(link).unwrap_or(Rate::MAX);
        if let Some(entry) = self.links.get_mut(lane) {
            entry.largest = largest;
        }
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
        self.lanes.to(link, destination)
    }

    /// Returns the link that a lane belongs to; `None` for a link that is no lane.
    pub fn link_of_lane(&self, lane: InterfaceId) -> Option<InterfaceId> {
        self.lanes.link_of(lane)
    }
}

/// The journal.
impl Ledger {
    /// Starts or stops the journal. A running journal grows with each attempt until
    /// [`take_attempts`](Ledger::take_attempts) is called.
    pub fn keep_journal(&mut self, keep: bool) {
        self.journal = keep.then(Vec::new);
    }

    /// Takes the attempts since the last call, in order; empty without a journal. An attempt granted by preemption is
    /// listed twice: refused, then granted.
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.journal.as_mut().map(core::mem::take).unwrap_or_default()
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
pub(super) fn mark_queue(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &Link) {
    if !link.queue.is_idle() {
        freed.insert(id);
    }
}

/// Marks the queue of a link for a check after a release.
pub(super) fn note_release(freed: &mut BTreeSet<InterfaceId>, id: InterfaceId, link: &mut Link) {
    link.released |= !link.queue.is_idle();
    mark_queue(freed, id, link);
}

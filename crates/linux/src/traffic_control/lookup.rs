//! What the packets of one flow get on a link: the claims that they match, and what the kernel has of them now.
//!
//! One look-up for each kind of flow and each mask of ranges that the link has ([`Kinds`](super::kinds::Kinds)), as the
//! classifier does: the cost does not depend on how many flows there are.

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, InterfaceId, Rate};

use super::adoption::AdoptedFlow;
use super::claims::{FlowClaims, Holder, Standing};
use super::entry::{Entry, Guarantee};
use super::place::class_of_priority;
use super::plan::{BEST_EFFORT, handle};
use super::{ClassifierChoice, Queues, TcError, TrafficControl, kernel};

/// Which of the claims that packets match they get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// This one first of all.
    Governs,
    /// This one if the claims before it have no room for a packet.
    Next,
    /// This one when a better claim on the same flow ends, and not before.
    Standby,
}

/// A claim that the packets of a flow match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClaim {
    /// Which; `None`: an earlier daemon has left it, and nobody has claimed it yet.
    pub claim: Option<ClaimId>,
    /// Whose, if that is known.
    pub protocol: Option<Protocol>,
    /// The flow, or range of flows, that it is for.
    pub flow: Flow,
    /// How much.
    pub rate: Rate,
    /// Whether other flows use it up, too.
    pub is_shared: bool,
    /// Whether packets get it before the others.
    pub precedence: Precedence,
}

/// The place where the kernel puts packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPlace {
    /// A class of HTB.
    Class {
        /// The handle: major number in the upper half.
        handle: u32,
        /// Whether the kernel has it.
        is_there: bool,
    },
    /// A priority, of which the device's own queues make a band.
    Priority(u32),
}

/// What the classifier in the kernel has for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// The flow, or range, of the entry.
    pub flow: Flow,
    /// Where packets go.
    pub place: KernelPlace,
    /// The rate of the token bucket that lets them in there; `None` where there is none.
    pub bucket: Option<Rate>,
}

/// How a flow stands on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOnLink {
    /// Which classifier is at work.
    pub classifier: ClassifierChoice,
    /// How reservations are kept apart on the link.
    pub queues: Queues,
    /// The claims that its packets match, the governing one first; as many as were wanted.
    pub claims: Vec<FlowClaim>,
    /// How many there are.
    pub count: usize,
    /// What the kernel has for its packets; `None`: nothing, so that they go with best effort.
    pub kernel: Option<KernelEntry>,
    /// Where best effort goes.
    pub best_effort: KernelPlace,
    /// Why its packets do not get what is reserved for them.
    pub fault: Option<String>,
}

/// A flow in the kernel's table, and what packets get by it first.
type Found = (Flow, Guarantee);

impl TrafficControl {
    /// How the packets of a flow stand on a link, with so many of the claims that they match.
    ///
    /// # Errors
    /// [`TcError::UnknownLink`], or the kernel cannot be asked.
    pub fn flow_on_link(
        &mut self,
        interface: InterfaceId,
        packets: &Flow,
        limit: usize,
    ) -> Result<FlowOnLink, TcError> {
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let (queues, is_htb) = (link.plan.queues, link.plan.queues.is_htb());
        let best_effort = link.plan.settings(link.nature).best_effort;
        let best_effort = if is_htb { handle(BEST_EFFORT) } else { best_effort };
        let around = self.kinds.around(interface, packets);
        let claims = self.claims_on(interface, &around, limit);
        let count = around.iter().filter_map(|flow| self.flows.get(&(interface, *flow)));
        let count = count.map(FlowClaims::len).sum();
        let (kernel, fault) = self.kernel_entry(interface, &around)?;
        let mut on_link = FlowOnLink {
            classifier: self.table.choice(),
            queues,
            claims,
            count,
            kernel: None,
            best_effort: self.place_of(interface, is_htb, best_effort)?,
            fault,
        };
        if let Some((flow, guarantee)) = kernel {
            let place = self.place_of(interface, is_htb, guarantee.class)?;
            if let KernelPlace::Class { is_there: false, .. } = place {
                on_link.fault = on_link.fault.or(Some("the class is missing".to_owned()));
            }
            let bucket = (!guarantee.bucket.is_none()).then(|| guarantee.bucket.as_rate());
            on_link.kernel = Some(KernelEntry { flow, place, bucket });
        }
        let of_link = self.faults.of_link(interface).map(str::to_owned);
        on_link.fault = of_link.or(on_link.fault);
        Ok(on_link)
    }

    /// Claims of links but this one that packets of a flow would match there, each with its link; as many as are wanted.
    /// Ranges are left out: these are for the flows of any link.
    pub fn claims_elsewhere(
        &self,
        interface: Option<InterfaceId>,
        packets: &Flow,
        limit: usize,
    ) -> Vec<(InterfaceId, FlowClaim)> {
        let others = self.links.keys().copied().filter(|id| Some(*id) != interface);
        let claims = others.flat_map(|on| {
            let mut around = self.kinds.around(on, packets);
            around.retain(|flow| !flow.is_range());
            self.claims_on(on, &around, limit).into_iter().map(move |claim| (on, claim))
        });
        claims.take(limit).collect()
    }

    /// The claims on these flows of a link, which come in the classifier's order; the governing one first.
    fn claims_on(&self, interface: InterfaceId, around: &[Flow], limit: usize) -> Vec<FlowClaim> {
        let on =
            around.iter().filter_map(|flow| Some((*flow, self.flows.get(&(interface, *flow))?)));
        let on: Vec<(Flow, &FlowClaims)> = on.collect();
        let of = |flow, standing: &Standing, precedence| {
            self.flow_claim(interface, flow, standing, precedence)
        };
        let mut found: Vec<FlowClaim> = match self.table.choice() {
            ClassifierChoice::U32 => {
                // A filter leads to the largest of the claims on its flow and on those that contain it.
                let first = on.first().map(|(flow, _)| *flow);
                let counts = |flow: &Flow| first.is_some_and(|first| flow.covers(&first));
                let best = on.iter().filter(|(flow, _)| counts(flow));
                let best = best.filter_map(|(flow, claims)| Some((*flow, *claims.own()?)));
                let best = best.min_by_key(|(_, standing)| *standing);
                let governs = best.iter().map(|(flow, best)| of(*flow, best, Precedence::Governs));
                let others = on.iter().flat_map(|(flow, claims)| {
                    let others = claims.iter().filter(|claim| best != Some((*flow, **claim)));
                    others.map(|claim| of(*flow, claim, Precedence::Standby))
                });
                governs.chain(others).take(limit).collect()
            }
            _ => {
                let offered = on.iter().flat_map(|(flow, claims)| {
                    let best = [claims.own(), claims.shared()].into_iter().flatten();
                    best.map(|claim| of(*flow, claim, Precedence::Next))
                });
                let others = on.iter().flat_map(|(flow, claims)| {
                    let best = [claims.own(), claims.shared()];
                    let others = claims.iter().filter(move |claim| !best.contains(&Some(*claim)));
                    others.map(|claim| of(*flow, claim, Precedence::Standby))
                });
                offered.chain(others).take(limit).collect()
            }
        };
        if let Some(first) = found.first_mut() {
            first.precedence = Precedence::Governs;
        }
        found
    }

    fn flow_claim(
        &self,
        interface: InterfaceId,
        flow: Flow,
        standing: &Standing,
        precedence: Precedence,
    ) -> FlowClaim {
        let (claim, rate) = match standing.holder {
            Holder::Claim(claim) => (Some(claim), None),
            Holder::Adopted => (None, self.adopted.get(&(interface, flow)).map(AdoptedFlow::rate)),
        };
        FlowClaim {
            claim,
            protocol: standing.protocol,
            flow,
            rate: rate.unwrap_or_else(|| standing.guarantee.bucket.as_rate()),
            is_shared: standing.shared.is_some(),
            precedence,
        }
    }

    /// The first of these flows that the kernel's table has, with what it leads to; and what is not as it should be.
    fn kernel_entry(
        &mut self,
        interface: InterfaceId,
        around: &[Flow],
    ) -> Result<(Option<Found>, Option<String>), TcError> {
        if !self.table.is_attached(interface)? {
            return Ok((None, Some("the classifier is not attached".to_owned())));
        }
        let (mut first, mut fault) = (None, None);
        for flow in around {
            let wanted = self.flows.get(&(interface, *flow)).and_then(FlowClaims::entry);
            let found = self.table.entry(interface, flow)?;
            let is_right = match (&wanted, &found) {
                (Some(wanted), Some(found)) => self.table.is_right(interface, flow, wanted, found),
                (None, None) => true,
                _ => false,
            };
            if !is_right {
                let text = "the classifier does not have the flow as it should";
                fault = fault.or(Some(text.to_owned()));
            }
            if let (None, Some(entry)) = (first, found) {
                first = self.guarantee_of(interface, &entry)?.map(|guarantee| (*flow, guarantee));
            }
        }
        Ok((first, fault))
    }

    /// What an entry of the kernel's gives packets first.
    fn guarantee_of(
        &mut self,
        interface: InterfaceId,
        entry: &Entry,
    ) -> Result<Option<Guarantee>, TcError> {
        match (entry.own, entry.shared) {
            (Some(own), _) => Ok(Some(own)),
            (None, Some(number)) => {
                Ok(self.table.bucket(interface, number)?.map(|bucket| bucket.guarantee))
            }
            (None, None) => Ok(None),
        }
    }

    fn place_of(
        &mut self,
        interface: InterfaceId,
        is_htb: bool,
        priority: u32,
    ) -> Result<KernelPlace, TcError> {
        if !is_htb {
            return Ok(KernelPlace::Priority(priority));
        }
        // The classes that all share are looked after by comparisons of the queues.
        let is_there = match class_of_priority(priority) {
            Some(minor) => match kernel::class(&mut self.netlink, interface, minor) {
                Ok(class) => class.is_some(),
                // The class, or the qdisc that it was in.
                Err(error) if error.is(libc::ENOENT) || error.is(libc::EINVAL) => false,
                Err(error) => return Err(error.into()),
            },
            None => true,
        };
        Ok(KernelPlace::Class { handle: priority, is_there })
    }
}

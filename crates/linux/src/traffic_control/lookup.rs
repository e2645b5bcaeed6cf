//! Treatment of one flow's packets on a link: the claims that they match, and the kernel's entry for them.
//!
//! Needs one lookup for each kind of flow and each mask of ranges on the link ([`Kinds`](super::kinds::Kinds)), as in
//! the classifier: the cost does not depend on the number of flows.

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, InterfaceId, Rate};

use super::adoption::AdoptedFlow;
use super::claim_resources::class_of_priority;
use super::claims::{FlowClaims, Holder, RegisteredClaim};
use super::entry::Entry;
use super::guarantee::Guarantee;
use super::plan::{BEST_EFFORT, handle};
use super::{ClassifierChoice, Queues, TcError, TrafficControl, kernel};

/// Order of the claims that packets match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// The claim applies first.
    Governs,
    /// The claim applies if the claims before it have no room for a packet.
    Next,
    /// The claim applies only after a larger claim on the same flow ends.
    Standby,
}

/// A claim that the packets of a flow match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowClaim {
    /// ID of the claim; `None`: left by an earlier daemon and not claimed yet.
    pub claim: Option<ClaimId>,
    /// Protocol of the claim, if it is known.
    pub protocol: Option<Protocol>,
    /// The flow, or range of flows, of the claim.
    pub flow: Flow,
    /// Reserved rate.
    pub rate: Rate,
    /// Whether other flows share it.
    pub is_shared: bool,
    /// Order among the claims.
    pub precedence: Precedence,
}

/// A class or priority in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassOrPriority {
    /// An HTB class.
    Class {
        /// Handle: major number in the upper half.
        handle: u32,
        /// Whether the kernel has it.
        is_there: bool,
    },
    /// A priority, from which the device's own queues derive a band.
    Priority(u32),
}

/// The classifier's entry for a flow in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEntry {
    /// The flow, or range, of the entry.
    pub flow: Flow,
    /// Class or priority of the packets.
    pub class: ClassOrPriority,
    /// Rate of the token bucket that admits them; `None` if there is none.
    pub bucket: Option<Rate>,
}

/// Treatment of a flow on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowOnLink {
    /// The classifier in use.
    pub classifier: ClassifierChoice,
    /// Separation of reservations on the link.
    pub queues: Queues,
    /// The claims that the packets match, the governing one first; at most the requested number.
    pub claims: Vec<FlowClaim>,
    /// Total number of those claims.
    pub count: usize,
    /// The kernel's entry for the packets; `None`: there is none, so they are sent with best effort.
    pub kernel: Option<KernelEntry>,
    /// Class or priority of best effort.
    pub best_effort: ClassOrPriority,
    /// Reason why the packets are not served as reserved.
    pub fault: Option<String>,
}

/// A flow in the kernel's table, and the guarantee that applies first to its packets.
type Found = (Flow, Guarantee);

impl TrafficControl {
    /// Returns the treatment of a flow's packets on a link, with at most `limit` of the claims that they match.
    ///
    /// # Errors
    /// [`TcError::UnknownLink`], or the kernel query failed.
    pub fn flow_on_link(
        &mut self,
        interface: InterfaceId,
        packets: &Flow,
        limit: usize,
    ) -> Result<FlowOnLink, TcError> {
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let (queues, is_htb) = (link.plan.queues, link.plan.queues.is_htb());
        let best_effort = link.plan.settings(link.properties).best_effort;
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
            best_effort: self.class_or_priority(interface, is_htb, best_effort)?,
            fault,
        };
        if let Some((flow, guarantee)) = kernel {
            let class = self.class_or_priority(interface, is_htb, guarantee.class)?;
            if let ClassOrPriority::Class { is_there: false, .. } = class {
                on_link.fault = on_link.fault.or(Some("the class is missing".to_owned()));
            }
            let bucket = (!guarantee.bucket.is_none()).then(|| guarantee.bucket.as_rate());
            on_link.kernel = Some(KernelEntry { flow, class, bucket });
        }
        let of_link = self.faults.of_link(interface).map(str::to_owned);
        on_link.fault = of_link.or(on_link.fault);
        Ok(on_link)
    }

    /// Returns claims on other links that packets of a flow would match there, each with its link; at most the
    /// requested number. Ranges are left out: these are for the flows of any link.
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

    /// Returns the claims on these flows of a link, which are in the classifier's order; the governing one first.
    fn claims_on(&self, interface: InterfaceId, around: &[Flow], limit: usize) -> Vec<FlowClaim> {
        let on =
            around.iter().filter_map(|flow| Some((*flow, self.flows.get(&(interface, *flow))?)));
        let on: Vec<(Flow, &FlowClaims)> = on.collect();
        let of = |flow, registered: &RegisteredClaim, precedence| {
            self.flow_claim(interface, flow, registered, precedence)
        };
        let mut found: Vec<FlowClaim> = match self.table.choice() {
            ClassifierChoice::U32 => {
                // A filter selects the class of the largest of the claims on its flow and on those that contain it.
                let first = on.first().map(|(flow, _)| *flow);
                let counts = |flow: &Flow| first.is_some_and(|first| flow.covers(&first));
                let best = on.iter().filter(|(flow, _)| counts(flow));
                let best = best.filter_map(|(flow, claims)| Some((*flow, *claims.own()?)));
                let best = best.min_by_key(|(_, registered)| *registered);
                let is_best_claim =
                    best.iter().map(|(flow, best)| of(*flow, best, Precedence::Governs));
                let others = on.iter().flat_map(|(flow, claims)| {
                    let others = claims.iter().filter(|claim| best != Some((*flow, **claim)));
                    others.map(|claim| of(*flow, claim, Precedence::Standby))
                });
                is_best_claim.chain(others).take(limit).collect()
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
        registered: &RegisteredClaim,
        precedence: Precedence,
    ) -> FlowClaim {
        let (claim, rate) = match registered.holder {
            Holder::Claim(claim) => (Some(claim), None),
            Holder::Adopted => (None, self.adopted.get(&(interface, flow)).map(AdoptedFlow::rate)),
        };
        FlowClaim {
            claim,
            protocol: registered.protocol,
            flow,
            rate: rate.unwrap_or_else(|| registered.guarantee.bucket.as_rate()),
            is_shared: registered.shared.is_some(),
            precedence,
        }
    }

    /// Returns the first of these flows in the kernel's table, with its entry; and a deviation from the desired entry.
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
                let text = "the classifier has another entry for the flow";
                fault = fault.or(Some(text.to_owned()));
            }
            if let (None, Some(entry)) = (first, found) {
                first = self.guarantee_of(interface, &entry)?.map(|guarantee| (*flow, guarantee));
            }
        }
        Ok((first, fault))
    }

    /// Returns the guarantee of a kernel entry that applies first.
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

    fn class_or_priority(
        &mut self,
        interface: InterfaceId,
        is_htb: bool,
        priority: u32,
    ) -> Result<ClassOrPriority, TcError> {
        if !is_htb {
            return Ok(ClassOrPriority::Priority(priority));
        }
        // Comparisons of the queues check the classes that all reservations share.
        let is_there = match class_of_priority(priority) {
            Some(minor) => match kernel::class(&mut self.netlink, interface, minor) {
                Ok(class) => class.is_some(),
                // The class is missing, or its qdisc.
                Err(error) if error.is(libc::ENOENT) || error.is(libc::EINVAL) => false,
                Err(error) => return Err(error.into()),
            },
            None => true,
        };
        Ok(ClassOrPriority::Class { handle: priority, is_there })
    }
}

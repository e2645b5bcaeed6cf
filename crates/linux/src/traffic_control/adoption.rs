//! State of an earlier daemon: flows with existing resources that belong to no claim until a claim continues them.

use std::collections::BTreeMap;

use earmark_core::admission::Protocol;
use earmark_core::{Flow, InterfaceId, Rate};

use super::claim_resources::{ClaimResources, class_of_priority};
use super::claims::{Holder, RegisteredClaim};
use super::entry::Entry;
use super::guarantee::BucketParameters;
use super::guarantee::Guarantee;
use super::kernel::{self, Class, Qdisc};
use super::link::{PreviousState, has_our_root};
use super::plan::{ClassParameters, LinkPlan, Queues, handle};
use super::{ClassifierChoice, Statistics, TcError, Tools, TrafficControl};

/// A flow that an earlier daemon left reserved in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Flow of the packets.
    pub flow: Flow,
    /// Reserved rate. Flows that share one class share its rate: the first of them has all of it, the others have zero.
    pub rate: Rate,
    /// The protocol that reserved it, if the kernel has stored that.
    pub protocol: Option<Protocol>,
}

/// A flow of an earlier daemon.
#[derive(Clone, Copy, Debug)]
pub(super) struct AdoptedFlow {
    pub(super) resources: ClaimResources,
    guarantee: Guarantee,
    protocol: Option<Protocol>,
    /// Rate, for display.
    rate: Rate,
}

impl AdoptedFlow {
    pub(super) fn rate(&self) -> Rate {
        self.rate
    }

    pub(super) fn registered(&self) -> RegisteredClaim {
        RegisteredClaim {
            holder: Holder::Adopted,
            guarantee: self.guarantee,
            shared: self.resources.bucket,
            protocol: self.protocol,
        }
    }

    /// Whether a claim continues the flow, as the ledger counts it: a claim of the same protocol is the continuation
    /// of the old one. If the protocol is unknown, a claim of at least the same size is. Any other is an additional
    /// claim.
    pub(super) fn yields_to(&self, protocol: Option<Protocol>, wanted: &Guarantee) -> bool {
        match self.protocol {
            Some(known) => Some(known) == protocol,
            None => wanted.bucket.cost() <= self.guarantee.bucket.cost(),
        }
    }
}

/// Resources of a link that its entries may name.
struct LinkResources<'a> {
    plan: &'a LinkPlan,
    classes: BTreeMap<u32, Class>,
}

impl LinkResources<'_> {
    /// Returns the resources that a priority means on this link, and the class; `None` if no claim can have that
    /// priority.
    fn of(&self, priority: u32) -> Option<(ClaimResources, Option<ClassParameters>)> {
        if self.plan.queues != Queues::PerFlow {
            let is_reserved = priority == self.plan.reserved_priority(None);
            return is_reserved.then_some((ClaimResources::default(), None));
        }
        let minor = class_of_priority(priority)?;
        let class = self.classes.get(&handle(minor)).filter(|class| class.level == 0)?;
        Some((ClaimResources { class: Some(minor), bucket: None }, Some(class.parameters)))
    }

    fn adopt(
        &self,
        guarantee: Guarantee,
        bucket: Option<u32>,
        protocol: Option<Protocol>,
    ) -> Option<(AdoptedFlow, Option<ClassParameters>)> {
        let (resources, class) = self.of(guarantee.class)?;
        let resources = ClaimResources { bucket, ..resources };
        let rate = class.map_or(guarantee.bucket.as_rate(), |class| class.as_rate());
        // u32 filters store no bucket: the rate of the class is used instead.
        let guarantee = match (guarantee.bucket.is_none(), class) {
            (true, Some(class)) => {
                let bucket = BucketParameters::of_rate(class.rate, super::plan::ADOPTED_BURST);
                Guarantee { bucket, ..guarantee }
            }
            _ => guarantee,
        };
        Some((AdoptedFlow { resources, guarantee, protocol, rate }, class))
    }
}

impl TrafficControl {
    /// Returns the flows of an interface with existing resources of the planned kind, and these resources.
    /// Entries that lead nowhere are removed.
    pub(super) fn previous_state(
        &mut self,
        plan: &LinkPlan,
        qdiscs: &[Qdisc],
    ) -> Result<(Vec<(Flow, AdoptedFlow)>, PreviousState), TcError> {
        let interface = plan.interface;
        let (mut flows, mut left) = (Vec::new(), PreviousState::default());
        let mut classes = BTreeMap::new();
        if has_our_root(qdiscs, interface)? {
            classes = kernel::classes(&mut self.netlink, interface)?;
        }
        let all = LinkResources { plan, classes };
        for (on, flow, entry) in self.table.entries(&[interface])? {
            if on != interface {
                continue;
            }
            let Entry { own, shared, protocol } = entry;
            let mut found = own.and_then(|own| all.adopt(own, None, protocol));
            if let (None, Some(number)) = (&found, shared) {
                let bucket = self.table.bucket(interface, number)?;
                found = bucket.and_then(|b| all.adopt(b.guarantee, Some(number), protocol));
            }
            let Some((adopted, class)) = found else {
                self.table.remove(interface, &flow)?;
                continue;
            };
            if let (Some(minor), Some(parameters)) = (adopted.resources.class, class) {
                left.classes.entry(minor).or_insert((parameters, 0)).1 += 1;
            }
            if let Some(number) = adopted.resources.bucket {
                left.buckets.entry(number).or_insert((adopted.guarantee, 0)).1 += 1;
            }
            flows.push((flow, adopted));
        }
        Ok((flows, left))
    }

    /// Registers the flows of the earlier daemon as claims without an owner.
    pub(super) fn adopt(
        &mut self,
        interface: InterfaceId,
        flows: Vec<(Flow, AdoptedFlow)>,
    ) -> Result<Vec<Adopted>, TcError> {
        let mut counted = std::collections::BTreeSet::new();
        let mut adopted = Vec::with_capacity(flows.len());
        for (flow, found) in flows {
            let key = (interface, flow);
            let claims = self.flows.entry(key).or_default();
            claims.insert(found.registered());
            self.kinds.enter(interface, &flow);
            // Filters do not store the guarantee.
            if let (ClassifierChoice::U32, Some(entry)) = (self.table.choice(), claims.entry()) {
                self.table.set(interface, &flow, &entry)?;
            }
            self.adopted.insert(key, found);
            // Flows without a class and a bucket share nothing.
            let is_first =
                found.resources == ClaimResources::default() || counted.insert(found.resources);
            let rate = if is_first { found.rate } else { Rate::ZERO };
            adopted.push(Adopted { interface, flow, rate, protocol: found.protocol });
        }
        Ok(adopted)
    }

    /// Returns what the queue of an adopted flow has counted since the kernel created it; `None` if there is no such flow, or a claim has
    /// continued it.
    ///
    /// # Errors
    /// The kernel cannot be asked.
    pub fn adopted_counted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
    ) -> Result<Option<Statistics>, TcError> {
        let Some(adopted) = self.adopted.get(&(interface, flow)) else { return Ok(None) };
        let resources = adopted.resources;
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        match link.statistics(tools, resources)? {
            Some(counted) => Ok(Some(counted)),
            None => self.table.counters(interface, &flow).map(Some),
        }
    }

    /// Drops one adopted flow that no claim will continue; with a protocol, only a flow of this protocol or of an
    /// unknown one. No error if there is none.
    ///
    /// # Errors
    /// The kernel refused; the flow is dropped nevertheless.
    pub fn drop_adopted(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        protocol: Option<Protocol>,
    ) -> Result<(), TcError> {
        let adopted = self.adopted.get(&(interface, flow)).copied();
        let is_meant = |adopted: &AdoptedFlow| {
            protocol.is_none() || adopted.protocol.is_none_or(|known| Some(known) == protocol)
        };
        let Some(adopted) = adopted.filter(is_meant) else { return Ok(()) };
        self.adopted.remove(&(interface, flow));
        let removed = self.regroup((interface, flow), Some(adopted.registered()), None);
        removed.and(self.leave_adopted(interface, adopted.resources))
    }

    /// Drops every adopted flow that no installation has claimed; returns their number.
    ///
    /// # Errors
    /// The first refusal of the kernel; all are dropped nevertheless, and [`TrafficControl::reconcile`] removes what
    /// the kernel kept of them.
    pub fn reap_adopted(&mut self) -> Result<u32, TcError> {
        let adopted: Vec<_> = self.adopted.keys().copied().collect();
        let count = adopted.len() as u32; // the classifiers hold fewer
        let mut outcome = Ok(());
        for (interface, flow) in adopted {
            let dropped = self.drop_adopted(interface, flow, None);
            outcome = outcome.and(dropped);
        }
        outcome.map(|()| count)
    }

    /// Decrements the number of adopted flows with these resources.
    pub(super) fn leave_adopted(
        &mut self,
        interface: InterfaceId,
        resources: ClaimResources,
    ) -> Result<(), TcError> {
        let Some(link) = self.links.get_mut(&interface) else {
            return Ok(());
        };
        link.use_resources(resources, |usage| usage.adopted = usage.adopted.saturating_sub(1));
        self.park(interface, resources, false)
    }
}

//! Taking over links, comparing the kernel's state with the desired state, and teardown.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::{Flow, InterfaceId};

use super::entry::Entry;
use super::error::defer_to_reconciliation;
use super::flow_table::Tools;
use super::kernel::Qdisc;
use super::link::{Link, Repair};
use super::plan::{LinkPlan, LinkProperties};
use super::{
    Adopted, Fault, Reconciliation, TcError, TrafficControl, bpf_table, flow_table, kernel,
};
use crate::interface::InterfaceName;
use crate::netlink::Connection;

impl TrafficControl {
    /// Takes over one more link, or changes the plan of one (its bandwidth, for example); installations stay.
    ///
    /// # Errors
    /// [`TcError::NoSuchInterface`], [`TcError::ForeignQdisc`], [`TcError::NewerLayout`], or a refusal of the kernel.
    pub fn add_link(&mut self, plan: &LinkPlan) -> Result<Vec<Adopted>, TcError> {
        let interface = plan.interface;
        flow_table::supports(self.table.as_ref(), plan)?;
        let properties = properties(&mut self.netlink, interface)?;
        if let Some(link) = self.links.get_mut(&interface) {
            (link.plan, link.properties) = (plan.clone(), properties);
            let qdiscs = kernel::qdiscs(&mut self.netlink)?;
            link.repair(&mut self.netlink, &qdiscs)?;
            self.attach(interface)?;
            return Ok(Vec::new());
        }
        bpf_table::check_layout(interface)?;
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        let (flows, left) = self.previous_state(plan, &qdiscs)?;
        let mut link = Link::new(plan, properties, &left);
        link.repair(&mut self.netlink, &qdiscs)?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        link.repair_buckets(tools, &mut Repair::default())?;
        self.links.insert(interface, link);
        let adopted = self.adopt(interface, flows)?;
        self.attach(interface)?;
        Ok(adopted)
    }

    /// Attaches the classifier to a link; returns whether it was missing.
    pub(super) fn attach(&mut self, interface: InterfaceId) -> Result<bool, TcError> {
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let settings = link.plan.settings(link.properties);
        self.table.attach(interface, &settings, self.kinds.of(interface))
    }

    /// Removes a link whose interface was deleted, with its installations.
    pub fn forget_link(&mut self, interface: InterfaceId) {
        self.links.remove(&interface);
        self.claims.retain(|_, installed| installed.interface != interface);
        self.flows.retain(|(on, _), _| *on != interface);
        self.adopted.retain(|(on, _), _| *on != interface);
        self.kinds.forget(interface);
        self.faults.forget_link(interface);
        // If the interface was deleted there is nothing to detach from, which the kernel may report as an error.
        if let Err(error) = self.table.detach(interface) {
            tracing::debug!(%error, interface = %InterfaceName(interface), "forgetting a link");
        }
    }

    /// Removes all our objects from a link that takes part no more, and its installations.
    ///
    /// # Errors
    /// A refusal of the kernel; the link is removed from the state nevertheless.
    pub fn remove_link(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        self.links.remove(&interface);
        self.claims.retain(|_, installed| installed.interface != interface);
        self.flows.retain(|(on, _), _| *on != interface);
        self.kinds.forget(interface);
        self.clear(interface)
    }

    /// Compares the kernel's state with the desired one and repairs it: the qdiscs, the classes, their queues, the
    /// classifier, its entries.
    ///
    /// # Errors
    /// The first refusal of the kernel; the other links, and all flows, are repaired nevertheless. A deleted interface,
    /// or has a qdisc of another program, is no error, but part of the result.
    pub fn reconcile(&mut self) -> Result<Reconciliation, TcError> {
        let links = self.links.keys().copied().collect();
        self.reconcile_links(links)
    }

    /// Compares some links only, as [`reconcile`](TrafficControl::reconcile) does all: qdiscs, classes and the
    /// classifier, but not its flows.
    ///
    /// # Errors
    /// As for [`reconcile`](TrafficControl::reconcile).
    pub fn reconcile_queues(
        &mut self,
        links: &BTreeSet<InterfaceId>,
    ) -> Result<Reconciliation, TcError> {
        let known = links.iter().filter(|interface| self.links.contains_key(interface));
        let known: Vec<InterfaceId> = known.copied().collect();
        let mut result = Reconciliation::default();
        if !known.is_empty() {
            self.restore_links(known, &mut result)?;
        }
        Ok(result)
    }

    fn reconcile_links(&mut self, links: Vec<InterfaceId>) -> Result<Reconciliation, TcError> {
        defer_to_reconciliation(self.park_released());
        let mut result = Reconciliation::default();
        let outcome = self.restore_links(links, &mut result);
        let on: Vec<InterfaceId> = self.links.keys().copied().collect();
        let on: Vec<InterfaceId> = on
            .into_iter()
            .filter(|id| result.foreign.iter().all(|(other, _)| other != id))
            .collect();
        let mut missing: BTreeMap<(InterfaceId, Flow), Entry> = self
            .flows
            .iter()
            .filter(|((interface, _), _)| on.contains(interface))
            .filter_map(|(&key, claims)| Some((key, claims.entry()?)))
            .collect();
        for (interface, flow, found) in self.table.entries(&on)? {
            match self.flows.get(&(interface, flow)).and_then(super::FlowClaims::entry) {
                Some(wanted) => {
                    if self.table.is_right(interface, &flow, &wanted, &found) {
                        missing.remove(&(interface, flow));
                    }
                }
                None => {
                    self.table.remove(interface, &flow)?;
                    result.removed += 1;
                }
            }
        }
        for ((interface, flow), entry) in missing {
            let restored = self.table.set(interface, &flow, &entry);
            self.note_flow(interface, flow, &restored, &mut result.deviations);
            restored?;
            result.restored += 1;
        }
        outcome.map(|()| result)
    }

    /// Repairs links one by one, and reports what was found.
    fn restore_links(
        &mut self,
        links: Vec<InterfaceId>,
        result: &mut Reconciliation,
    ) -> Result<(), TcError> {
        // Once for all links: the kernel lists the qdiscs of all of them or none.
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        let mut outcome = Ok(());
        for interface in links {
            let restored = self.restore_link(interface, &qdiscs);
            self.faults.note_link(interface, &restored);
            match restored {
                Ok(repair) => {
                    result.removed += repair.removed;
                    result.restored += repair.restored;
                    self.note_resources(interface, &repair.faults, &mut result.deviations);
                }
                Err(TcError::NoSuchInterface { .. }) => {
                    self.forget_link(interface);
                    result.gone.push(interface);
                }
                Err(TcError::ForeignQdisc { kind, .. }) => result.foreign.push((interface, kind)),
                Err(error) => outcome = outcome.and(Err(error.on(interface))),
            }
        }
        outcome
    }

    /// Builds one link again that another program has taken down.
    pub(super) fn rebuild_link(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        self.restore_link(interface, &qdiscs).map(drop)
    }

    /// Repairs the qdisc, the classes and the classifier of one link; not the classifier's entries.
    fn restore_link(
        &mut self,
        interface: InterfaceId,
        qdiscs: &[Qdisc],
    ) -> Result<Repair, TcError> {
        let properties = properties(&mut self.netlink, interface)?;
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        link.properties = properties;
        let mut repair = link.repair(&mut self.netlink, qdiscs)?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        link.repair_buckets(tools, &mut repair)?;
        if self.attach(interface)? {
            repair.restored += 1;
            repair.faults.push((None, Fault::Classifier));
        }
        Ok(repair)
    }

    /// Removes all our objects from the kernel.
    ///
    /// # Errors
    /// The first refusal of the kernel; everything else is removed nevertheless.
    pub fn teardown(mut self) -> Result<(), TcError> {
        let mut outcome = Ok(());
        for interface in self.links.keys().copied().collect::<Vec<_>>() {
            let cleared = self.clear(interface);
            outcome = outcome.and(cleared);
        }
        outcome
    }

    /// Removes our objects from one interface. A qdisc or an interface that was deleted already is no error.
    pub(super) fn clear(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        let detached = self.table.detach(interface);
        let request = kernel::delete_root(interface);
        let deleted = match self.netlink.request("delete the root qdisc", request) {
            Err(error)
                if [libc::ENOENT, libc::EINVAL, libc::ENODEV].iter().any(|e| error.is(*e)) =>
            {
                Ok(())
            }
            outcome => Ok(outcome?),
        };
        let interface_is_gone =
            |e: &TcError| [libc::ENODEV, libc::ENOENT].contains(&i32::from(e.errno()));
        match detached {
            Err(error) if interface_is_gone(&error) => deleted,
            outcome => outcome.and(deleted),
        }
    }
}

/// Returns the properties of an interface.
pub(super) fn properties(
    netlink: &mut Connection,
    interface: InterfaceId,
) -> Result<LinkProperties, TcError> {
    kernel::link_properties(netlink, interface).map_err(|error| match error.is(libc::ENODEV) {
        true => TcError::NoSuchInterface { interface },
        false => error.into(),
    })
}

//! Taking links over, comparing the kernel's state with ours, and leaving.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::{Flow, InterfaceId, Rate};

use super::error::left_for_later;
use super::kernel::Qdisc;
use super::link::{Link, Repair, has_our_root};
use super::place::{Parameters, Place, Tools};
use super::plan::{LinkNature, LinkPlan, Queues, handle};
use super::{Adopted, Entry, Reconciliation, TcError, TrafficControl, flow_table, kernel};
use crate::interface::InterfaceName;
use crate::netlink::Connection;

impl TrafficControl {
    /// Takes one more link over, or changes the plan of one (its bandwidth, say); installations stay.
    ///
    /// # Errors
    /// [`TcError::NoSuchInterface`], [`TcError::ForeignQdisc`], or what the kernel refused.
    pub fn add_link(&mut self, plan: &LinkPlan) -> Result<Vec<Adopted>, TcError> {
        let interface = plan.interface;
        flow_table::can_keep_apart(self.table.as_ref(), plan)?;
        let nature = nature(&mut self.netlink, interface)?;
        if let Some(link) = self.links.get_mut(&interface) {
            (link.plan, link.nature) = (plan.clone(), nature);
            let qdiscs = kernel::qdiscs(&mut self.netlink)?;
            link.repair(&mut self.netlink, &qdiscs)?;
            return Ok(Vec::new());
        }
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        let flows = self.left_behind(plan, &qdiscs)?;
        let mut places = BTreeMap::new();
        for (_, place, parameters) in &flows {
            places.entry(*place).or_insert((*parameters, 0_u32)).1 += 1;
        }
        let mut link = Link::new(plan, nature, &places);
        link.repair(&mut self.netlink, &qdiscs)?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        link.repair_buckets(tools)?;
        self.links.insert(interface, link);
        self.table.attach(interface)?;
        let mut counted = BTreeSet::new();
        let adopt = |(flow, place, parameters): (Flow, Place, Parameters)| {
            self.flows.insert((interface, flow), Entry { place, claim: None });
            let is_first = counted.insert(place);
            let rate = if is_first { parameters.as_rate() } else { Rate::ZERO };
            Adopted { interface, flow, rate }
        };
        Ok(flows.into_iter().map(adopt).collect())
    }

    /// The flows of an interface that lead into a place which is there and of the kind that is planned, with what it is
    /// like. Entries that lead nowhere are removed.
    fn left_behind(
        &mut self,
        plan: &LinkPlan,
        qdiscs: &[Qdisc],
    ) -> Result<Vec<(Flow, Place, Parameters)>, TcError> {
        let interface = plan.interface;
        let mut classes = BTreeMap::new();
        if has_our_root(qdiscs, interface)? {
            classes = kernel::classes(&mut self.netlink, interface)?;
            self.table.attach(interface)?;
        }
        let mut flows = Vec::new();
        for (on, flow, value) in self.table.entries()? {
            if on != interface {
                continue;
            }
            let place = Place::of(value);
            let parameters = match (plan.queues, place) {
                (Queues::PerFlow, Some(Place::Class(minor))) => classes
                    .get(&handle(minor))
                    .filter(|class| class.level == 0)
                    .map(|class| Parameters::Class(class.parameters)),
                (Queues::Aggregate, Some(Place::Bucket(number))) => self
                    .table
                    .bucket(interface, number)?
                    .map(|bucket| Parameters::Bucket(bucket.parameters)),
                _ => None,
            };
            match place.zip(parameters) {
                Some((place, parameters)) => flows.push((flow, place, parameters)),
                None => self.table.remove(interface, &flow)?,
            }
        }
        Ok(flows)
    }

    /// Forgets a link that has gone from the kernel, with its installations.
    pub fn forget_link(&mut self, interface: InterfaceId) {
        self.links.remove(&interface);
        self.claims.retain(|_, installed| installed.interface != interface);
        self.flows.retain(|(on, _), _| *on != interface);
        // Where the interface is gone there is nothing to detach from, which the kernel may call an error.
        if let Err(error) = self.table.detach(interface) {
            tracing::debug!(%error, interface = %InterfaceName(interface), "forgetting a link");
        }
    }

    /// Takes everything of ours out of a link that takes part no more, and forgets its installations.
    ///
    /// # Errors
    /// What the kernel refused; the link is forgotten nevertheless.
    pub fn remove_link(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        self.links.remove(&interface);
        self.claims.retain(|_, installed| installed.interface != interface);
        self.flows.retain(|(on, _), _| *on != interface);
        self.clear(interface)
    }

    /// Compares the kernel's state with what it should be, and puts it right: the qdiscs, the classes, their queues, the
    /// classifier, its entries.
    ///
    /// # Errors
    /// What the kernel refused first; the other links, and all flows, are put right nevertheless. A link that is gone or
    /// somebody else's is no error, but part of the result.
    pub fn reconcile(&mut self) -> Result<Reconciliation, TcError> {
        left_for_later(self.tidy());
        let mut result = Reconciliation::default();
        let mut attached = BTreeSet::new();
        let mut outcome = Ok(());
        // Once for all links: the kernel lists those of all of them or none.
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        for interface in self.links.keys().copied().collect::<Vec<_>>() {
            match self.restore_link(interface, &qdiscs) {
                Ok(repair) => {
                    result.removed += repair.removed;
                    result.restored += repair.restored;
                    attached.insert(interface);
                }
                Err(TcError::NoSuchInterface { .. }) => {
                    self.forget_link(interface);
                    result.gone.push(interface);
                }
                Err(TcError::ForeignQdisc { kind, .. }) => result.foreign.push((interface, kind)),
                Err(error) => outcome = outcome.and(Err(error.on(interface))),
            }
        }
        let mut missing: BTreeMap<(InterfaceId, Flow), Place> = self
            .flows
            .iter()
            .filter(|((on, _), _)| attached.contains(on))
            .map(|(&key, entry)| (key, entry.place))
            .collect();
        for (on, flow, value) in self.table.entries()? {
            match self.flows.get(&(on, flow)) {
                Some(entry) if entry.place.value() == value => {
                    missing.remove(&(on, flow));
                }
                // Leads elsewhere: it is set again below.
                Some(_) => {}
                None => {
                    self.table.remove(on, &flow)?;
                    result.removed += 1;
                }
            }
        }
        for ((on, flow), place) in missing {
            self.table.set(on, &flow, place.value())?;
            result.restored += 1;
        }
        outcome.map(|()| result)
    }

    /// Builds one link again that somebody has taken down.
    pub(super) fn rebuild_link(&mut self, interface: InterfaceId) -> Result<(), TcError> {
        let qdiscs = kernel::qdiscs(&mut self.netlink)?;
        self.restore_link(interface, &qdiscs).map(drop)
    }

    /// Puts the qdisc, the classes and the classifier of one link right; not the classifier's entries.
    fn restore_link(
        &mut self,
        interface: InterfaceId,
        qdiscs: &[Qdisc],
    ) -> Result<Repair, TcError> {
        let nature = nature(&mut self.netlink, interface)?;
        let link = self.links.get_mut(&interface).ok_or(TcError::UnknownLink { interface })?;
        link.nature = nature;
        let mut repair = link.repair(&mut self.netlink, qdiscs)?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        let (removed, restored) = link.repair_buckets(tools)?;
        repair.removed += removed;
        repair.restored += restored;
        repair.restored += u32::from(self.table.attach(interface)?);
        Ok(repair)
    }

    /// Removes everything that is ours from the kernel.
    ///
    /// # Errors
    /// What the kernel refused first; everything else is removed nevertheless.
    pub fn teardown(mut self) -> Result<(), TcError> {
        let mut outcome = Ok(());
        for interface in self.links.keys().copied().collect::<Vec<_>>() {
            let cleared = self.clear(interface);
            outcome = outcome.and(cleared);
        }
        outcome
    }

    /// Removes what is ours from one interface. A qdisc or an interface that is gone already is no error.
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

/// What an interface is like.
pub(super) fn nature(
    netlink: &mut Connection,
    interface: InterfaceId,
) -> Result<LinkNature, TcError> {
    kernel::link_nature(netlink, interface).map_err(|error| match error.is(libc::ENODEV) {
        true => TcError::NoSuchInterface { interface },
        false => error.into(),
    })
}

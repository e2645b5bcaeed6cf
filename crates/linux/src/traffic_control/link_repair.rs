//! Comparison of the qdiscs, classes and queues of a link with its plan, and their repair.

use std::collections::{BTreeMap, BTreeSet};

use super::claim_resources::Usage;
use super::kernel::{self, Class, Qdisc, ROOT};
use super::link::{Link, Repair, has_our_root};
use super::plan::{
    BEST_EFFORT, CONTROL, ClassParameters, FIRST_SERVICE, LINK, MAJOR, POOL, Queues, RESERVED,
    SHARED_QUEUE, SIGNALLING, SIGNALLING_QUEUE, handle,
};
use super::{Fault, TcError};
use crate::interface::InterfaceName;
use crate::netlink::{Connection, Message};

impl Link {
    /// Compares the kernel's qdiscs (those of all links, as listed) and classes with the plan, and repairs them; if
    /// there are none, builds all of them.
    ///
    /// # Errors
    /// [`TcError::ForeignQdisc`] if another program shapes this link; nothing is changed then.
    pub(super) fn repair(
        &mut self,
        netlink: &mut Connection,
        qdiscs: &[Qdisc],
    ) -> Result<Repair, TcError> {
        let interface = self.plan.interface;
        let mut repair = Repair::default();
        let mut qdiscs: Vec<&Qdisc> = qdiscs.iter().filter(|q| q.interface == interface).collect();
        let kind = kernel::root_kind(self.plan.queues, self.properties);
        let mut is_there = has_our_root(qdiscs.iter().copied(), interface)?;
        if is_there && qdiscs.iter().any(|q| q.parent == ROOT && q.kind != kind) {
            let message = kernel::delete_root(interface);
            netlink.request("delete a root qdisc of another kind", message)?;
            is_there = false;
        }
        if !is_there {
            let message = kernel::new_root(interface, kind, self.properties);
            netlink.request("make the root qdisc", message)?;
            repair.restored += 1;
            repair.faults.push((None, Fault::Qdisc));
            qdiscs.clear();
        }
        if !self.plan.queues.is_htb() {
            self.repair_transmit_queues(netlink, kind, &mut repair)?;
            return Ok(repair);
        }
        let classes = kernel::classes(netlink, interface)?;
        let messages = self.missing_classes(&classes, is_there, &mut repair);
        netlink.request_all("make the classes", messages)?;
        let messages = self.missing_queues(&qdiscs, is_there, &mut repair);
        netlink.request_all("make the queues", messages)?;
        for class in self.ownerless(&classes) {
            match netlink.request("delete a class", kernel::delete_class(interface, class)) {
                Ok(()) => repair.removed += 1,
                Err(error) if error.is(libc::ENOENT) => {}
                // A filter of another program selects it.
                Err(error) if error.is(libc::EBUSY) => {
                    tracing::warn!(interface = %InterfaceName(interface), class, "cannot delete a class in use");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(repair)
    }

    /// Creates the bands of each transmit queue of a device with several.
    fn repair_transmit_queues(
        &self,
        netlink: &mut Connection,
        kind: &str,
        repair: &mut Repair,
    ) -> Result<(), TcError> {
        if kind != kernel::MQ {
            return Ok(());
        }
        let interface = self.plan.interface;
        let qdiscs = kernel::qdiscs(netlink)?;
        let queues = 1..=u16::try_from(self.properties.queues).unwrap_or(u16::MAX);
        let is_right = |number: u16| {
            qdiscs.iter().any(|q| {
                q.interface == interface
                    && q.parent == handle(number)
                    && q.kind == kernel::PFIFO_FAST
            })
        };
        let wrong: Vec<u16> = queues.filter(|&number| !is_right(number)).collect();
        if !wrong.is_empty() {
            repair.restored += wrong.len() as u32;
            repair.faults.push((None, Fault::Qdisc));
        }
        let messages = wrong.into_iter().map(|n| kernel::set_transmit_queue(interface, n));
        Ok(netlink.request_all("make the transmit queues", messages)?)
    }

    /// Returns the user of a class of the pool; `None` for a class of the whole link.
    fn user_of(&self, minor: u16) -> Option<Usage> {
        let index = minor.checked_sub(POOL).map(usize::from);
        Some(self.pool.get(index?)?.usage)
    }

    /// Returns the classes of services by DSCP, with their minor numbers.
    fn services(&self) -> impl Iterator<Item = (u16, ClassParameters)> {
        let (plan, properties) = (&self.plan, self.properties);
        let services = plan.services.iter().take(super::MAX_SERVICES).zip(0..);
        services.map(move |(service, n)| {
            let parameters = ClassParameters::service(plan, service, n, properties);
            (FIRST_SERVICE + n as u16, parameters) // at most MAX_SERVICES
        })
    }

    /// Returns all desired classes: minor number, parent, parameters. Parents come first.
    fn desired(&self) -> impl Iterator<Item = (u16, u32, ClassParameters)> {
        let (plan, properties) = (&self.plan, self.properties);
        let pool = self.pool.iter().zip(POOL..).map(|(c, minor)| (minor, c.parameters));
        let fixed = [
            (BEST_EFFORT, ClassParameters::best_effort(plan, properties)),
            (SIGNALLING, ClassParameters::signalling(plan, properties)),
            (CONTROL, ClassParameters::control(plan, properties)),
        ];
        let shared = (plan.queues == Queues::Aggregate)
            .then(|| (RESERVED, ClassParameters::all_reserved(plan, properties)));
        let root = (LINK, u32::from(MAJOR) << 16, ClassParameters::link(plan, properties));
        let below = fixed.into_iter().chain(shared).chain(self.services()).chain(pool);
        let below = below.map(|(minor, p)| (minor, handle(LINK), p));
        std::iter::once(root).chain(below)
    }

    fn missing_classes(
        &self,
        there: &BTreeMap<u32, Class>,
        was_there: bool,
        repair: &mut Repair,
    ) -> Vec<Message> {
        let interface = self.plan.interface;
        let mut messages = Vec::new();
        for (minor, parent, parameters) in self.desired() {
            let fault = match there.get(&handle(minor)) {
                Some(class) if class.is_like(&parameters) => continue,
                Some(_) => Fault::ClassAltered,
                None => Fault::ClassMissing,
            };
            // If the root was missing, all classes were; that is reported already.
            if was_there {
                repair.faults.push((self.user_of(minor), fault));
            }
            messages.push(kernel::set_class(interface, minor, parent, &parameters));
        }
        repair.restored += messages.len() as u32;
        messages
    }

    fn missing_queues(
        &self,
        there: &[&Qdisc],
        was_there: bool,
        repair: &mut Repair,
    ) -> Vec<Message> {
        let plan = &self.plan;
        let pool = (POOL..).take(self.pool.len());
        let fixed = [
            (BEST_EFFORT, plan.best_effort_queue),
            (SIGNALLING, SIGNALLING_QUEUE),
            (CONTROL, SIGNALLING_QUEUE),
        ];
        let shared = (plan.queues == Queues::Aggregate).then_some((RESERVED, SHARED_QUEUE));
        let services = self.services().map(|(minor, _)| (minor, plan.best_effort_queue));
        let desired = fixed
            .into_iter()
            .chain(shared)
            .chain(services)
            .chain(pool.map(|minor| (minor, plan.reserved_queue)));
        let right: BTreeMap<u32, u32> =
            there.iter().filter_map(|q| Some((q.parent, q.limit?))).collect();
        let mut messages = Vec::new();
        for (minor, limit) in desired.filter(|(minor, l)| right.get(&handle(*minor)) != Some(l)) {
            if was_there {
                repair.faults.push((self.user_of(minor), Fault::Queue));
            }
            messages.push(kernel::set_queue(plan.interface, minor, limit));
        }
        repair.restored += messages.len() as u32;
        messages
    }

    /// Returns the classes below our root that are not ours, children before parents.
    fn ownerless(&self, there: &BTreeMap<u32, Class>) -> Vec<u32> {
        let desired: BTreeSet<u32> = self.desired().map(|(minor, ..)| handle(minor)).collect();
        let mut extra: Vec<&Class> = there
            .values()
            .filter(|c| c.handle >> 16 == u32::from(MAJOR) && !desired.contains(&c.handle))
            .collect();
        extra.sort_by_key(|class| (class.level, class.handle));
        extra.into_iter().map(|class| class.handle).collect()
    }
}

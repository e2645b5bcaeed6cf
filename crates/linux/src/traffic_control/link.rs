//! One planned link: its pool of classes, and repairs of the kernel's qdiscs and classes.
//!
//! The time to create an HTB class is proportional to the number of classes; the time to change one is constant. So
//! classes are created in advance, with their queues; a reservation changes one of them, by one message to the kernel
//! and one answer; released ones are parked, some at a time, after the release was answered ([`Link::park_released`]).
//! The class that was parked first is used first: by then its queue has drained and its bucket is full again.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use earmark_core::admission::Protocol;
use earmark_core::{Installation, InterfaceId};

use super::bucket_pool::BucketPool;
use super::claim_resources::{ClaimResources, Usage};
use super::error::defer_to_reconciliation;
use super::flow_table::Tools;
use super::guarantee::BucketParameters;
use super::guarantee::Guarantee;
use super::kernel::{self, Qdisc, ROOT};
use super::plan::{
    ClassParameters, LINK, LinkPlan, LinkProperties, MAX_POOL, POOL, Queues, handle,
};
use super::{ClassifierChoice, Fault, Statistics, TcError};
use crate::netlink::{Connection, Message};

/// Number of classes created at a time when the pool is exhausted.
const GROWTH: u32 = 64;
/// Time for packets to leave a class at its rate after their flow has moved to another claim.
const DRAIN: Duration = Duration::from_secs(2);
/// Interval of checks whether they have left.
const DRAIN_CHECK: Duration = Duration::from_millis(20);

/// A class of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolClass {
    /// Desired parameters.
    pub(super) parameters: ClassParameters,
    pub(super) usage: Usage,
}

/// Result of [`Link::repair`].
#[derive(Clone, Debug, Default)]
pub(super) struct Repair {
    pub(super) removed: u32,
    pub(super) restored: u32,
    /// Faults with the user of the class or bucket; `None` for those of the whole link.
    pub(super) faults: Vec<(Option<Usage>, Fault)>,
}

/// State of resources, to restore it if a step fails.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResourcesState {
    class: Option<ClassParameters>,
    bucket: Option<Guarantee>,
}

/// A planned link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) plan: LinkPlan,
    pub(super) properties: LinkProperties,
    /// By minor number, from [`POOL`] on.
    pub(super) pool: Vec<PoolClass>,
    /// Minor numbers of unused classes, the longest unused first.
    free: VecDeque<u16>,
    /// Minor numbers of classes to park, and whether each was too slow to be reused unchanged.
    leaving: Vec<(u16, bool)>,
    /// Classes to park when their queues are empty, and the end of that wait.
    draining: Vec<(u16, Instant)>,
    next_drain_look: Option<Instant>,
    /// Buckets of claims with several flows.
    buckets: BucketPool,
    /// Octets of all reservations as last counted.
    pub(super) reserved_octets: u64,
}

/// State of an earlier daemon on a link: classes and buckets, each with the number of flows that lead there.
#[derive(Clone, Debug, Default)]
pub(super) struct PreviousState {
    pub(super) classes: BTreeMap<u16, (ClassParameters, u32)>,
    pub(super) buckets: BTreeMap<u32, (Guarantee, u32)>,
}

impl Link {
    /// Creates a link as planned, with the resources of an earlier daemon in use.
    pub(super) fn new(plan: &LinkPlan, properties: LinkProperties, left: &PreviousState) -> Link {
        let buckets = left.buckets.iter();
        let buckets = buckets.map(|(&number, &(guarantee, flows))| (number, guarantee, flows));
        let buckets = BucketPool::new(plan.interface, buckets);
        let highest = left.classes.keys().last().map_or(0, |minor| u32::from(minor - POOL) + 1);
        let size = match plan.queues {
            Queues::PerFlow => plan.pool.min(plan.pool_limit).min(MAX_POOL).max(highest),
            Queues::Aggregate | Queues::Priority => 0,
        };
        let (pool, free, leaving, draining) = Default::default();
        let mut link = Link {
            plan: plan.clone(),
            properties,
            pool,
            free,
            leaving,
            draining,
            next_drain_look: None,
            buckets,
            reserved_octets: 0,
        };
        for n in 0..size {
            let minor = POOL + n as u16; // at most POOL_MOST
            let unused = link.unused_class();
            link.pool.push(match left.classes.get(&minor) {
                Some(&(parameters, flows)) => {
                    PoolClass { parameters, usage: Usage { claim: None, adopted: flows } }
                }
                None => unused,
            });
            if !left.classes.contains_key(&minor) {
                link.free.push_back(minor);
            }
        }
        link
    }

    fn unused_class(&self) -> PoolClass {
        PoolClass { parameters: ClassParameters::parked(self.properties), usage: Usage::default() }
    }

    /// Returns a class of the pool; the minor number is one that this link assigned.
    fn class(&mut self, minor: u16) -> &mut PoolClass {
        &mut self.pool[usize::from(minor - POOL)]
    }

    /// Changes the usage of resources that this link assigned.
    pub(super) fn use_resources(
        &mut self,
        resources: ClaimResources,
        mut change: impl FnMut(&mut Usage),
    ) {
        if let Some(minor) = resources.class {
            change(&mut self.class(minor).usage);
        }
        if let Some(number) = resources.bucket {
            change(self.buckets.usage(number));
        }
    }

    /// Whether a claim holds resources.
    pub(super) fn is_claimed(&mut self, resources: ClaimResources) -> bool {
        let mut claimed = false;
        self.use_resources(resources, |usage| claimed |= usage.claim.is_some());
        claimed
    }

    /// Returns the state of resources that this link assigned.
    pub(super) fn state(&mut self, resources: ClaimResources) -> ResourcesState {
        ResourcesState {
            class: resources.class.map(|minor| self.class(minor).parameters),
            bucket: resources.bucket.and_then(|number| self.buckets.guarantee(number)),
        }
    }

    /// Returns the guarantee for the packets of an installation with these resources.
    pub(super) fn guarantee(
        &self,
        resources: ClaimResources,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Guarantee {
        Guarantee {
            bucket: BucketParameters::reserved(&installation.demand),
            class: self.plan.reserved_priority(resources.class),
            mark: self.plan.markings.of_claim(protocol, &installation.flow),
        }
    }

    /// Takes unused resources; creates more classes if there are none.
    pub(super) fn take(&mut self, tools: &mut Tools<'_>) -> Result<ClaimResources, TcError> {
        if self.plan.queues != Queues::PerFlow {
            return Ok(ClaimResources::default());
        }
        if self.free.is_empty() {
            defer_to_reconciliation(self.park_released(tools.netlink));
        }
        if self.free.is_empty() {
            self.grow(tools.netlink)?;
        }
        let (interface, limit) = (self.plan.interface, self.pool_limit());
        let minor = self.free.pop_front().ok_or(TcError::PoolFull { interface, limit })?;
        Ok(ClaimResources { class: Some(minor), bucket: None })
    }

    /// Configures resources for an installation. Returns the guarantee of its packets, and the counters of its class if the
    /// kernel's answer has them.
    ///
    /// # Errors
    /// A refusal of the kernel; the resources are unchanged.
    pub(super) fn change(
        &mut self,
        tools: &mut Tools<'_>,
        resources: ClaimResources,
        protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(Guarantee, Option<Statistics>), TcError> {
        let before = self.state(resources);
        let guarantee = self.guarantee(resources, protocol, installation);
        let counters = match resources.class {
            Some(minor) => {
                let parameters = ClassParameters::reserved(&installation.demand, self.properties);
                self.change_class(tools.netlink, minor, parameters)?
            }
            None => None,
        };
        if let Some(number) = resources.bucket {
            let nothing = Statistics::default();
            let changed = self.buckets.change(tools.table, number, guarantee, &nothing);
            if let Err(error) = changed {
                self.restore(tools, resources, before);
                return Err(error);
            }
        }
        Ok((guarantee, counters))
    }

    /// Restores the previous state of resources.
    pub(super) fn restore(
        &mut self,
        tools: &mut Tools<'_>,
        resources: ClaimResources,
        before: ResourcesState,
    ) {
        if let (Some(minor), Some(parameters)) = (resources.class, before.class) {
            defer_to_reconciliation(self.change_class(tools.netlink, minor, parameters).map(drop));
        }
        if let (Some(number), Some(guarantee)) = (resources.bucket, before.bucket) {
            let nothing = Statistics::default();
            defer_to_reconciliation(self.buckets.change(tools.table, number, guarantee, &nothing));
        }
    }

    /// Takes a bucket for a claim that gets a second flow; returns its number.
    pub(super) fn share(
        &mut self,
        tools: &mut Tools<'_>,
        guarantee: Guarantee,
    ) -> Result<u32, TcError> {
        let number = self.buckets.take()?;
        let entered = self.buckets.change(tools.table, number, guarantee, &Statistics::default());
        entered.map(|()| number).inspect_err(|_| {
            defer_to_reconciliation(self.buckets.park(tools.table, number));
        })
    }

    /// Makes the unused resources available: a bucket at once, a class for [`park_released`](Link::park_released), and
    /// if it `drains`, when its packets have left. Takes effect even if the kernel refuses.
    pub(super) fn park(
        &mut self,
        tools: &mut Tools<'_>,
        resources: ClaimResources,
        drains: bool,
    ) -> Result<(), TcError> {
        if let Some(minor) = resources.class
            && self.class(minor).usage.is_free()
        {
            if drains {
                self.draining.push((minor, Instant::now() + DRAIN));
            } else {
                self.leave(minor);
            }
        }
        match resources.bucket {
            Some(number) if self.buckets.usage(number).is_free() => {
                self.buckets.park(tools.table, number)
            }
            _ => Ok(()),
        }
    }

    fn leave(&mut self, minor: u16) {
        let unused = self.unused_class();
        let a_second = u64::from(self.properties.mtu);
        let class = std::mem::replace(self.class(minor), unused);
        self.leaving.push((minor, class.parameters.rate < a_second));
    }

    /// Whether there is no class to park.
    pub(super) fn has_parked_all(&self) -> bool {
        self.leaving.is_empty() && self.draining.is_empty()
    }

    /// Returns the counters of the class, or of the bucket if there is no class; `None` if there is neither.
    pub(super) fn statistics(
        &self,
        tools: &mut Tools<'_>,
        resources: ClaimResources,
    ) -> Result<Option<Statistics>, TcError> {
        let interface = self.plan.interface;
        Ok(match resources {
            ClaimResources { class: Some(minor), .. } => {
                let class = kernel::class(tools.netlink, interface, minor)?;
                // Zero if the kernel has lost the class.
                Some(class.map(|class| class.counters).unwrap_or_default())
            }
            ClaimResources { bucket: Some(number), .. } => {
                let bucket = tools.table.bucket(interface, number)?;
                Some(bucket.map(|bucket| bucket.statistics()).unwrap_or_default())
            }
            _ => None,
        })
    }

    /// Compares the kernel's buckets with the plan.
    pub(super) fn repair_buckets(
        &self,
        tools: &mut Tools<'_>,
        repair: &mut Repair,
    ) -> Result<(), TcError> {
        // A u32 classifier has no buckets; with BPF, a daemon with other settings may have left some.
        if tools.table.choice() == ClassifierChoice::U32 {
            return Ok(());
        }
        let before = repair.faults.len();
        repair.removed += self.buckets.repair(tools.table, &mut repair.faults)?;
        repair.restored += (repair.faults.len() - before) as u32;
        Ok(())
    }

    /// Sets the parameters of a class, if they differ. Returns its counters if it was changed.
    fn change_class(
        &mut self,
        netlink: &mut Connection,
        minor: u16,
        parameters: ClassParameters,
    ) -> Result<Option<Statistics>, TcError> {
        let name = (self.plan.interface, minor, handle(LINK));
        let class = self.class(minor);
        if class.parameters == parameters {
            return Ok(None);
        }
        let now = kernel::change_class(netlink, "change a class", name, &parameters)?;
        class.parameters = parameters;
        Ok(now.map(|class| class.counters))
    }

    /// Parks the classes that have become unused since the last call. They are free even if the kernel refuses;
    /// [`Link::repair`] tries again.
    ///
    /// Remains of the previous owner must not burden others: neither waiting packets, which would still be served as
    /// reserved, nor a debt of more than a second (a packet that took so long at its rate), which the next owner would
    /// inherit. Both are rare, and then the class is created again.
    ///
    /// # Errors
    /// The first refusal of the kernel.
    pub(super) fn park_released(&mut self, netlink: &mut Connection) -> Result<(), TcError> {
        self.check_draining(netlink)?;
        if self.leaving.is_empty() {
            return Ok(());
        }
        let leaving = std::mem::take(&mut self.leaving);
        let minors = || leaving.iter().map(|&(minor, _)| minor);
        self.free.extend(minors());
        let name = (self.plan.interface, handle(LINK));
        let parked = ClassParameters::parked(self.properties);
        let classes =
            kernel::change_classes(netlink, "deactivate a class", name, minors(), &parked)?;
        let mut outcome = Ok(());
        for (&(minor, is_slow), class) in leaving.iter().zip(classes) {
            let done = match class {
                Ok(class) if is_slow || class.is_some_and(|c| c.counters.backlog_packets > 0) => {
                    self.empty_class(netlink, minor)
                }
                class => class.map(drop).map_err(TcError::from),
            };
            outcome = outcome.and(done);
        }
        outcome
    }

    /// Parks the draining classes whose queues are empty, or whose time is over.
    fn check_draining(&mut self, netlink: &mut Connection) -> Result<(), TcError> {
        let now = Instant::now();
        if self.draining.is_empty() || self.next_drain_look.is_some_and(|at| now < at) {
            return Ok(());
        }
        self.next_drain_look = Some(now + DRAIN_CHECK);
        for (minor, until) in std::mem::take(&mut self.draining) {
            let class = kernel::class(netlink, self.plan.interface, minor)?;
            match class {
                Some(class) if class.counters.backlog_packets > 0 && now < until => {
                    self.draining.push((minor, until));
                }
                _ => self.leave(minor),
            }
        }
        Ok(())
    }

    /// Creates a class of the pool again.
    fn empty_class(&self, netlink: &mut Connection, minor: u16) -> Result<(), TcError> {
        let delete = kernel::delete_class(self.plan.interface, handle(minor));
        match netlink.request("drain a class", delete) {
            Err(error) if !error.is(libc::ENOENT) => return Err(error.into()),
            _ => {}
        }
        let again = self.class_and_queue(minor, &self.unused_class());
        Ok(netlink.request_all("make a class again", again)?)
    }

    /// Returns the requests that create a class of the pool, with its queue.
    fn class_and_queue(&self, minor: u16, class: &PoolClass) -> [Message; 2] {
        let (interface, limit) = (self.plan.interface, self.plan.reserved_queue);
        [
            kernel::set_class(interface, minor, handle(LINK), &class.parameters),
            kernel::set_queue(interface, minor, limit),
        ]
    }

    fn pool_limit(&self) -> u32 {
        self.plan.pool_limit.min(MAX_POOL)
    }

    fn grow(&mut self, netlink: &mut Connection) -> Result<(), TcError> {
        let start = self.pool.len() as u32;
        let end = (start + GROWTH).min(self.pool_limit());
        let minors = (start..end).map(|n| POOL + n as u16);
        let class = self.unused_class();
        let messages = minors.clone().flat_map(|minor| self.class_and_queue(minor, &class));
        netlink.request_all("make more classes", messages)?;
        for minor in minors {
            self.pool.push(class);
            self.free.push_back(minor);
        }
        Ok(())
    }
}

/// Whether our root qdisc is present.
///
/// # Errors
/// [`TcError::ForeignQdisc`] if there is one that neither we nor the kernel created.
pub(super) fn has_our_root<'a>(
    qdiscs: impl IntoIterator<Item = &'a Qdisc>,
    interface: InterfaceId,
) -> Result<bool, TcError> {
    let root = qdiscs.into_iter().find(|q| q.interface == interface && q.parent == ROOT);
    match root {
        Some(root) if root.is_ours() => Ok(true),
        Some(root) if !root.is_default() => {
            Err(TcError::ForeignQdisc { interface, kind: root.kind.clone() })
        }
        _ => Ok(false),
    }
}

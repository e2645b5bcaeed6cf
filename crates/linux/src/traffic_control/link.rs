//! One planned link: its pool of classes, and putting the kernel's qdiscs and classes right.
//!
//! Making an HTB class takes time in proportion to the number of classes; changing one does not. So classes are made in
//! advance, with their queues, a reservation changes one of them, by one message to the kernel and one that comes back, and
//! those that were released are parked, some at a time, when whoever released them has been answered ([`Link::tidy`]). The class that was parked first is used first: by
//! then its queue has drained and its bucket is full again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use earmark_core::InterfaceId;

use earmark_core::admission::Demand;

use super::bucket::BucketParameters;
use super::bucket_pool::BucketPool;
use super::error::left_for_later;
use super::kernel::{self, Class, Qdisc, ROOT};
use super::place::{Parameters, Place, Tools, Usage};
use super::plan::{
    BEST_EFFORT, ClassParameters, LINK, LinkNature, LinkPlan, MARK, POOL, POOL_MOST, Queues,
    RESERVED, SHARED_QUEUE, SIGNALLING, SIGNALLING_QUEUE, handle,
};
use super::{ClassifierChoice, Statistics, TcError};
use crate::interface::InterfaceName;
use crate::netlink::{Connection, Message};

/// Classes made at a time when the pool runs out.
const GROWTH: u32 = 64;

/// A class of the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolClass {
    /// What it is like, or should be.
    parameters: ClassParameters,
    usage: Usage,
}

/// What [`Link::repair`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Repair {
    pub(super) removed: u32,
    pub(super) restored: u32,
}

/// A planned link.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) plan: LinkPlan,
    pub(super) nature: LinkNature,
    /// By minor number, from [`POOL`] on.
    pool: Vec<PoolClass>,
    /// Minor numbers of classes that nobody uses, the longest unused first.
    free: VecDeque<u16>,
    /// Minor numbers of classes that are to be parked, and whether each was too slow to be used again as it is.
    leaving: Vec<(u16, bool)>,
    /// Used instead of classes where reservations share one.
    buckets: BucketPool,
}

impl Link {
    /// As planned, with the places that `adopted` lists (what each is like, number of flows) in use.
    pub(super) fn new(
        plan: &LinkPlan,
        nature: LinkNature,
        adopted: &BTreeMap<Place, (Parameters, u32)>,
    ) -> Link {
        let class = |(place, (parameters, flows)): (&Place, &(Parameters, u32))| match (
            place, parameters,
        ) {
            (Place::Class(minor), Parameters::Class(class)) => Some((*minor, (*class, *flows))),
            _ => None,
        };
        let bucket = |(place, (parameters, flows)): (&Place, &(Parameters, u32))| match (
            place, parameters,
        ) {
            (Place::Bucket(number), Parameters::Bucket(bucket)) => Some((*number, *bucket, *flows)),
            _ => None,
        };
        let buckets = BucketPool::new(plan.interface, adopted.iter().filter_map(bucket));
        let adopted: BTreeMap<u16, (ClassParameters, u32)> =
            adopted.iter().filter_map(class).collect();
        let highest = adopted.keys().last().map_or(0, |minor| u32::from(minor - POOL) + 1);
        let size = match plan.queues {
            Queues::PerFlow => plan.pool.min(plan.pool_limit).min(POOL_MOST).max(highest),
            Queues::Aggregate => 0,
        };
        let (pool, free, leaving) = Default::default();
        let mut link = Link { plan: plan.clone(), nature, pool, free, leaving, buckets };
        for n in 0..size {
            let minor = POOL + n as u16; // at most POOL_MOST
            let parked = link.unused_class();
            link.pool.push(match adopted.get(&minor) {
                Some(&(parameters, flows)) => {
                    PoolClass { parameters, usage: Usage { claimed: false, flows } }
                }
                None => parked,
            });
            if !adopted.contains_key(&minor) {
                link.free.push_back(minor);
            }
        }
        link
    }

    fn unused_class(&self) -> PoolClass {
        PoolClass { parameters: ClassParameters::parked(self.nature), usage: Usage::default() }
    }

    /// A class of the pool; the minor number is one that this link gave out.
    fn class(&mut self, minor: u16) -> &mut PoolClass {
        &mut self.pool[usize::from(minor - POOL)]
    }

    /// Who uses a place that this link gave out.
    pub(super) fn usage(&mut self, place: Place) -> &mut Usage {
        match place {
            Place::Class(minor) => &mut self.class(minor).usage,
            Place::Bucket(number) => self.buckets.usage(number),
        }
    }

    /// What a place is like that this link gave out; `None` where it has just been taken.
    pub(super) fn parameters(&mut self, place: Place) -> Option<Parameters> {
        match place {
            Place::Class(minor) => Some(Parameters::Class(self.class(minor).parameters)),
            Place::Bucket(number) => self.buckets.parameters(number).map(Parameters::Bucket),
        }
    }

    /// What a place for this demand has to be like.
    pub(super) fn parameters_for(&self, demand: &Demand) -> Parameters {
        match self.plan.queues {
            Queues::PerFlow => Parameters::Class(ClassParameters::reserved(demand, self.nature)),
            Queues::Aggregate => {
                Parameters::Bucket(BucketParameters::reserved(demand, self.nature))
            }
        }
    }

    /// Takes an unused place, making more where there is none.
    pub(super) fn take(&mut self, tools: &mut Tools<'_>) -> Result<Place, TcError> {
        if self.plan.queues == Queues::Aggregate {
            return self.buckets.take().map(Place::Bucket);
        }
        if self.free.is_empty() {
            left_for_later(self.tidy(tools.netlink));
        }
        if self.free.is_empty() {
            self.grow(tools.netlink)?;
        }
        let (interface, limit) = (self.plan.interface, self.pool_limit());
        let minor = self.free.pop_front().ok_or(TcError::PoolFull { interface, limit })?;
        Ok(Place::Class(minor))
    }

    /// Gives a place these parameters. A place keeps its kind: parameters of the other do not apply to it. Gives its
    /// counters where the kernel tells them along.
    pub(super) fn change(
        &mut self,
        tools: &mut Tools<'_>,
        place: Place,
        parameters: Parameters,
    ) -> Result<Option<Statistics>, TcError> {
        match (place, parameters) {
            (Place::Class(minor), Parameters::Class(parameters)) => {
                self.change_class(tools.netlink, minor, parameters)
            }
            (Place::Bucket(number), Parameters::Bucket(parameters)) => {
                self.buckets.change(tools.table, number, parameters)?;
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Makes a place unused: a bucket at once, a class for [`tidy`](Link::tidy). It is so even where the kernel refuses.
    pub(super) fn park(&mut self, tools: &mut Tools<'_>, place: Place) -> Result<(), TcError> {
        match place {
            Place::Class(minor) => {
                let unused = self.unused_class();
                let a_second = u64::from(self.nature.mtu);
                let class = std::mem::replace(self.class(minor), unused);
                self.leaving.push((minor, class.parameters.rate < a_second));
                Ok(())
            }
            Place::Bucket(number) => self.buckets.park(tools.table, number),
        }
    }

    /// What has gone through a place; nothing where the kernel has lost it.
    pub(super) fn statistics(
        &self,
        tools: &mut Tools<'_>,
        place: Place,
    ) -> Result<Statistics, TcError> {
        let interface = self.plan.interface;
        Ok(match place {
            Place::Class(minor) => {
                kernel::class(tools.netlink, interface, minor)?.map(|class| class.counters)
            }
            Place::Bucket(number) => {
                tools.table.bucket(interface, number)?.map(|bucket| bucket.statistics())
            }
        }
        .unwrap_or_default())
    }

    /// Compares the kernel's buckets with the plan; how many were removed, and restored.
    pub(super) fn repair_buckets(&self, tools: &mut Tools<'_>) -> Result<(u32, u32), TcError> {
        // Without BPF there are none; with it, a daemon that was set otherwise may have left some.
        match (self.plan.queues, tools.table.choice()) {
            (Queues::PerFlow, ClassifierChoice::U32) => Ok((0, 0)),
            _ => self.buckets.repair(tools.table),
        }
    }

    /// Gives a class these parameters, if it has not got them. Gives its counters if it had to be changed.
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

    /// Parks the classes that have been made unused since the last time. They are free even where the kernel refuses;
    /// [`Link::repair`] tries again.
    ///
    /// What its last owner left must not burden the others: neither packets that still wait, which would go on being
    /// served as if reserved, nor a debt of more than a second (a packet that took so long at its rate), which the next
    /// owner would inherit. Both are rare, and then the class is made anew.
    ///
    /// # Errors
    /// What the kernel refused first.
    pub(super) fn tidy(&mut self, netlink: &mut Connection) -> Result<(), TcError> {
        let leaving = std::mem::take(&mut self.leaving);
        let minors = || leaving.iter().map(|&(minor, _)| minor);
        self.free.extend(minors());
        let name = (self.plan.interface, handle(LINK));
        let parked = ClassParameters::parked(self.nature);
        let classes = kernel::change_classes(netlink, "park a class", name, minors(), &parked)?;
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

    /// Makes a class of the pool anew.
    fn empty_class(&self, netlink: &mut Connection, minor: u16) -> Result<(), TcError> {
        let delete = kernel::delete_class(self.plan.interface, handle(minor));
        match netlink.request("empty a class", delete) {
            Err(error) if !error.is(libc::ENOENT) => return Err(error.into()),
            _ => {}
        }
        let again = self.class_and_queue(minor, &self.unused_class());
        Ok(netlink.request_all("make a class anew", again)?)
    }

    /// What makes a class of the pool, with its queue.
    fn class_and_queue(&self, minor: u16, class: &PoolClass) -> [Message; 2] {
        let (interface, limit) = (self.plan.interface, self.plan.reserved_queue);
        [
            kernel::set_class(interface, minor, handle(LINK), &class.parameters),
            kernel::set_queue(interface, minor, limit),
        ]
    }

    fn pool_limit(&self) -> u32 {
        self.plan.pool_limit.min(POOL_MOST)
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

    /// Compares the kernel's qdiscs (those of all links, as they were listed) and classes with the plan, and puts them
    /// right; with nothing there, builds it all.
    ///
    /// # Errors
    /// [`TcError::ForeignQdisc`] where somebody else shapes this link; nothing is changed then.
    pub(super) fn repair(
        &mut self,
        netlink: &mut Connection,
        qdiscs: &[Qdisc],
    ) -> Result<Repair, TcError> {
        let interface = self.plan.interface;
        let mut repair = Repair::default();
        let mut qdiscs: Vec<&Qdisc> = qdiscs.iter().filter(|q| q.interface == interface).collect();
        if !has_our_root(qdiscs.iter().copied(), interface)? {
            netlink.request("make the root qdisc", kernel::new_root(interface, self.nature))?;
            repair.restored += 1;
            qdiscs.clear();
        }
        let classes = kernel::classes(netlink, interface)?;
        let messages = self.missing_classes(&classes);
        repair.restored += messages.len() as u32;
        netlink.request_all("make the classes", messages)?;
        let messages = self.missing_queues(&qdiscs);
        repair.restored += messages.len() as u32;
        netlink.request_all("make the queues", messages)?;
        for class in self.ownerless(&classes) {
            match netlink.request("delete a class", kernel::delete_class(interface, class)) {
                Ok(()) => repair.removed += 1,
                Err(error) if error.is(libc::ENOENT) => {}
                // A filter of somebody's leads there.
                Err(error) if error.is(libc::EBUSY) => {
                    tracing::warn!(interface = %InterfaceName(interface), class, "cannot delete a class in use");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(repair)
    }

    /// All classes that should be: minor number, parent, parameters. Parents come first.
    fn desired(&self) -> impl Iterator<Item = (u16, u32, ClassParameters)> {
        let (plan, nature) = (&self.plan, self.nature);
        let pool = self.pool.iter().zip(POOL..).map(|(c, minor)| (minor, c.parameters));
        let fixed = [
            (BEST_EFFORT, ClassParameters::best_effort(plan, nature)),
            (SIGNALLING, ClassParameters::signalling(plan, nature)),
        ];
        let shared = (plan.queues == Queues::Aggregate)
            .then(|| (RESERVED, ClassParameters::all_reserved(plan, nature)));
        let root = (LINK, u32::from(MARK) << 16, ClassParameters::link(plan, nature));
        let below =
            fixed.into_iter().chain(shared).chain(pool).map(|(minor, p)| (minor, handle(LINK), p));
        std::iter::once(root).chain(below)
    }

    fn missing_classes(&self, there: &BTreeMap<u32, Class>) -> Vec<Message> {
        let is_right = |minor, parameters| {
            there.get(&handle(minor)).is_some_and(|class| class.is_like(&parameters))
        };
        let wrong = self.desired().filter(|(minor, _, p)| !is_right(*minor, *p));
        let interface = self.plan.interface;
        wrong.map(|(minor, parent, p)| kernel::set_class(interface, minor, parent, &p)).collect()
    }

    fn missing_queues(&self, there: &[&Qdisc]) -> Vec<Message> {
        let plan = &self.plan;
        let pool = (POOL..).take(self.pool.len());
        let fixed = [(BEST_EFFORT, plan.best_effort_queue), (SIGNALLING, SIGNALLING_QUEUE)];
        let shared = (plan.queues == Queues::Aggregate).then_some((RESERVED, SHARED_QUEUE));
        let desired =
            fixed.into_iter().chain(shared).chain(pool.map(|minor| (minor, plan.reserved_queue)));
        let right: BTreeMap<u32, u32> =
            there.iter().filter_map(|q| Some((q.parent, q.limit?))).collect();
        desired
            .filter(|(minor, limit)| right.get(&handle(*minor)) != Some(limit))
            .map(|(minor, limit)| kernel::set_queue(plan.interface, minor, limit))
            .collect()
    }

    /// Classes below our root that are not ours, children before parents.
    fn ownerless(&self, there: &BTreeMap<u32, Class>) -> Vec<u32> {
        let desired: BTreeSet<u32> = self.desired().map(|(minor, ..)| handle(minor)).collect();
        let mut extra: Vec<&Class> = there
            .values()
            .filter(|c| c.handle >> 16 == u32::from(MARK) && !desired.contains(&c.handle))
            .collect();
        extra.sort_by_key(|class| (class.level, class.handle));
        extra.into_iter().map(|class| class.handle).collect()
    }
}

/// Whether our root qdisc is in place.
///
/// # Errors
/// [`TcError::ForeignQdisc`] where one is that neither we nor the kernel put there.
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

//! Which flow goes into which class: what a classifier must do, and the choice between the two that can.

use earmark_core::{Flow, InterfaceId};

use super::bpf_table::{self, BpfTable};
use super::bucket::Bucket;
use super::entry::Entry;
use super::plan::{LinkPlan, LinkSettings, Queues};
use super::u32_table::U32Table;
use super::{ClassifierChoice, Statistics, TcError};

/// A table in the kernel, from flows to what they lead to. It stays when this process ends.
///
/// One that has no buckets answers to all that is asked about them with [`TcError::NoBuckets`].
pub(super) trait FlowTable: std::fmt::Debug + Send {
    /// Which one this is.
    fn choice(&self) -> ClassifierChoice;

    /// The port of the netlink socket that makes its changes, if one does.
    ///
    /// # Errors
    /// The socket cannot say.
    fn port(&self) -> Result<Option<u32>, TcError> {
        Ok(None)
    }

    /// Makes packets that leave through an interface be looked up among flows of these `kinds` ([`Kinds::of`]), and treats
    /// what nobody reserved for as the settings say. Returns whether the classifier was missing.
    ///
    /// [`Kinds::of`]: super::kinds::Kinds::of
    fn attach(
        &mut self,
        interface: InterfaceId,
        settings: &LinkSettings,
        kinds: [u32; 2],
    ) -> Result<bool, TcError>;

    /// Has flows of these kinds looked up. What looks them all up anyhow does nothing.
    fn look_for(&mut self, interface: InterfaceId, kinds: [u32; 2]) -> Result<(), TcError> {
        let _ = (interface, kinds);
        Ok(())
    }

    /// Whether packets that leave through an interface are looked up; cheap.
    fn is_attached(&mut self, interface: InterfaceId) -> Result<bool, TcError>;

    /// Undoes [`attach`](FlowTable::attach), and forgets the flows of the interface. No error if nothing is there.
    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError>;

    /// Enters a flow, or changes where it leads without a moment in which it leads nowhere.
    fn set(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry) -> Result<(), TcError>;

    /// Changes what the claim gets that a flow leads to, and keeps its debt and its counters.
    fn change(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry)
    -> Result<(), TcError>;

    /// Takes a flow out. No error if it is not there.
    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError>;

    /// What the kernel holds, of these interfaces at least; in order.
    fn entries(
        &mut self,
        interfaces: &[InterfaceId],
    ) -> Result<Vec<(InterfaceId, Flow, Entry)>, TcError>;

    /// Whether what [`entries`](FlowTable::entries) found of a flow is what `wanted` makes of it.
    fn is_right(&self, interface: InterfaceId, flow: &Flow, wanted: &Entry, found: &Entry) -> bool;

    /// Whether the kernel has a flow as it should; asks for this flow alone, if the kernel can be asked for one.
    fn is_in_place(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        wanted: &Entry,
    ) -> Result<bool, TcError> {
        let found = self.entry(interface, flow)?;
        Ok(found.is_some_and(|found| self.is_right(interface, flow, wanted, &found)))
    }

    /// What the kernel has of a flow; what it had at the last comparison, if it cannot be asked for one.
    fn entry(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Option<Entry>, TcError>;

    /// What went to the claim that a flow leads to.
    fn counters(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Statistics, TcError> {
        let _ = (interface, flow);
        Ok(Statistics::default())
    }

    /// Puts a bucket in the place of one that is there or not.
    fn set_bucket(
        &mut self,
        interface: InterfaceId,
        number: u32,
        bucket: &Bucket,
    ) -> Result<(), TcError> {
        let _ = (number, bucket);
        Err(TcError::NoBuckets { interface })
    }

    /// A bucket as it is now.
    fn bucket(&mut self, interface: InterfaceId, number: u32) -> Result<Option<Bucket>, TcError> {
        let _ = number;
        Err(TcError::NoBuckets { interface })
    }

    /// Takes a bucket out. No error if it is not there.
    fn remove_bucket(&mut self, interface: InterfaceId, number: u32) -> Result<(), TcError> {
        let _ = number;
        Err(TcError::NoBuckets { interface })
    }

    /// The buckets of an interface that the kernel holds; in order.
    fn bucket_numbers(&mut self, interface: InterfaceId) -> Result<Vec<u32>, TcError> {
        Err(TcError::NoBuckets { interface })
    }
}

/// Whether a table has what a plan needs to keep reservations apart.
pub(super) fn can_keep_apart(table: &dyn FlowTable, plan: &LinkPlan) -> Result<(), TcError> {
    match (plan.queues, table.choice()) {
        (Queues::Aggregate | Queues::Priority, ClassifierChoice::U32) => {
            Err(TcError::NoBuckets { interface: plan.interface })
        }
        _ => Ok(()),
    }
}

/// Opens the table that `choice` asks for, or the best one there is. An earlier daemon's is taken out of the interfaces
/// that it has `abandoned`.
pub(super) fn open(
    choice: ClassifierChoice,
    interfaces: &[InterfaceId],
    abandoned: &[InterfaceId],
) -> Result<Box<dyn FlowTable>, TcError> {
    let bpf = match choice {
        ClassifierChoice::U32 => None,
        ClassifierChoice::Bpf => Some(BpfTable::open(interfaces)?),
        ClassifierChoice::Auto => BpfTable::open(interfaces)
            .inspect_err(
                |error| tracing::info!(%error, "no BPF classifier here: using u32 filters"),
            )
            .ok(),
    };
    // An earlier daemon may have chosen otherwise. Its classifier would go on classifying: the flows in it are given up.
    match bpf {
        Some(table) => {
            let mut other = U32Table::open()?;
            for &interface in interfaces {
                other.detach(interface)?;
            }
            Ok(Box::new(table))
        }
        None => {
            for &interface in interfaces.iter().chain(abandoned) {
                bpf_table::retire(interface);
            }
            Ok(Box::new(U32Table::open()?))
        }
    }
}

/// Whether a classifier can tell these packets apart.
pub(super) fn check(flow: &Flow) -> Result<(), TcError> {
    flow.check().map_err(|reason| TcError::Unclassifiable { flow: *flow, reason })
}

//! Which flow goes into which class: what a classifier must do, and the choice between the two that can.

use earmark_core::{Flow, InterfaceId};

use super::bpf_table::{self, BpfTable};
use super::bucket::Bucket;
use super::plan::{LinkPlan, Queues};
use super::u32_table::U32Table;
use super::{ClassifierChoice, TcError};

/// A table in the kernel, from flows to what they lead to: classes, or buckets. It stays when this process ends.
///
/// One that has no buckets answers to all that is asked about them with [`TcError::NoBuckets`].
pub(super) trait FlowTable: std::fmt::Debug + Send {
    /// Which one this is.
    fn choice(&self) -> ClassifierChoice;

    /// Makes packets that leave through an interface be looked up. Returns whether they were not before.
    fn attach(&mut self, interface: InterfaceId) -> Result<bool, TcError>;

    /// Undoes [`attach`](FlowTable::attach), and forgets the flows of the interface. No error where nothing is.
    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError>;

    /// Enters a flow, or changes where it leads without a moment in which it leads nowhere.
    fn set(&mut self, interface: InterfaceId, flow: &Flow, value: u32) -> Result<(), TcError>;

    /// Takes a flow out. No error where it is not there.
    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError>;

    /// What the kernel holds, for all interfaces; in order.
    fn entries(&mut self) -> Result<Vec<(InterfaceId, Flow, u32)>, TcError>;

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

    /// Takes a bucket out. No error where it is not there.
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
        (Queues::Aggregate, ClassifierChoice::U32) => {
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

//! Assignment of flows to classes: the interface of a classifier.

use earmark_core::{Flow, InterfaceId};

use super::bucket::Bucket;
use super::entry::Entry;
use super::plan::{LinkPlan, LinkSettings, Queues};
use super::{ClassifierChoice, Statistics, TcError};
use crate::netlink::Connection;

/// A table in the kernel, from flows to their entries. The table remains when this process ends.
///
/// A table without buckets returns [`TcError::NoBuckets`] from all functions about them.
pub(super) trait FlowTable: std::fmt::Debug + Send {
    /// Returns the kind of this classifier.
    fn choice(&self) -> ClassifierChoice;

    /// Returns the port of the netlink socket that makes its changes, if there is one.
    ///
    /// # Errors
    /// The socket does not report its port.
    fn port(&self) -> Result<Option<u32>, TcError> {
        Ok(None)
    }

    /// Attaches the classifier: packets that leave through an interface are looked up among flows of these `kinds`
    /// ([`Kinds::of`]), and unreserved packets are treated according to the settings. Returns whether the classifier
    /// was missing.
    ///
    /// [`Kinds::of`]: super::kinds::Kinds::of
    fn attach(
        &mut self,
        interface: InterfaceId,
        settings: &LinkSettings,
        kinds: [u32; 2],
    ) -> Result<bool, TcError>;

    /// Sets the kinds of flows to look up. A classifier that always looks up all kinds does nothing.
    fn set_kinds(&mut self, interface: InterfaceId, kinds: [u32; 2]) -> Result<(), TcError> {
        let _ = (interface, kinds);
        Ok(())
    }

    /// Whether packets that leave through an interface are looked up; cheap.
    fn is_attached(&mut self, interface: InterfaceId) -> Result<bool, TcError>;

    /// Reverts [`attach`](FlowTable::attach), and removes the flows of the interface. No error if there is nothing.
    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError>;

    /// Enters a flow, or changes its entry atomically.
    fn set(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry) -> Result<(), TcError>;

    /// Changes the guarantee of the claim in a flow's entry, and keeps its debt and its counters.
    fn change(&mut self, interface: InterfaceId, flow: &Flow, entry: &Entry)
    -> Result<(), TcError>;

    /// Removes a flow. No error if it is not present.
    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError>;

    /// Returns the kernel's entries, at least those of these interfaces; in order.
    fn entries(
        &mut self,
        interfaces: &[InterfaceId],
    ) -> Result<Vec<(InterfaceId, Flow, Entry)>, TcError>;

    /// Whether the entry that [`entries`](FlowTable::entries) found for a flow matches `wanted`.
    fn is_right(&self, interface: InterfaceId, flow: &Flow, wanted: &Entry, found: &Entry) -> bool;

    /// Whether the kernel has the correct entry of a flow; queries this flow alone, if the kernel supports that.
    fn is_in_place(
        &mut self,
        interface: InterfaceId,
        flow: &Flow,
        wanted: &Entry,
    ) -> Result<bool, TcError> {
        let found = self.entry(interface, flow)?;
        Ok(found.is_some_and(|found| self.is_right(interface, flow, wanted, &found)))
    }

    /// Returns the kernel's entry of a flow; that of the last comparison, if the kernel cannot be queried for one flow.
    fn entry(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Option<Entry>, TcError>;

    /// Returns the counters of the claim on a flow.
    fn counters(&mut self, interface: InterfaceId, flow: &Flow) -> Result<Statistics, TcError> {
        let _ = (interface, flow);
        Ok(Statistics::default())
    }

    /// Sets a bucket, whether or not it exists already.
    fn set_bucket(
        &mut self,
        interface: InterfaceId,
        number: u32,
        bucket: &Bucket,
    ) -> Result<(), TcError> {
        let _ = (number, bucket);
        Err(TcError::NoBuckets { interface })
    }

    /// Returns the current state of a bucket.
    fn bucket(&mut self, interface: InterfaceId, number: u32) -> Result<Option<Bucket>, TcError> {
        let _ = number;
        Err(TcError::NoBuckets { interface })
    }

    /// Removes a bucket. No error if it is not present.
    fn remove_bucket(&mut self, interface: InterfaceId, number: u32) -> Result<(), TcError> {
        let _ = number;
        Err(TcError::NoBuckets { interface })
    }

    /// Returns the numbers of an interface's buckets in the kernel; in order.
    fn bucket_numbers(&mut self, interface: InterfaceId) -> Result<Vec<u32>, TcError> {
        Err(TcError::NoBuckets { interface })
    }
}

/// Kernel interfaces for changes of resources.
pub(super) struct Tools<'a> {
    pub(super) netlink: &'a mut Connection,
    pub(super) table: &'a mut dyn FlowTable,
}

/// Checks that a table supports the separation of reservations, and the DSCPs of packets, that a plan needs.
pub(super) fn supports(table: &dyn FlowTable, plan: &LinkPlan) -> Result<(), TcError> {
    match (plan.queues, table.choice()) {
        (Queues::Aggregate | Queues::Priority, ClassifierChoice::U32) => {
            Err(TcError::NoBuckets { interface: plan.interface })
        }
        (_, ClassifierChoice::U32) if plan.markings.taken() != 0 => {
            Err(TcError::NoMarks { interface: plan.interface })
        }
        _ => Ok(()),
    }
}

/// Checks that a classifier can distinguish these packets.
pub(super) fn check(flow: &Flow) -> Result<(), TcError> {
    flow.check().map_err(|reason| TcError::Unclassifiable { flow: *flow, reason })
}

//! Which flow goes into which class: what a classifier must do, and the choice between the two that can.

use earmark_core::{Flow, InterfaceId};

use super::bpf_table::{self, BpfTable};
use super::u32_table::U32Table;
use super::{ClassifierChoice, TcError};

/// A table in the kernel, from flows to the handles of classes. It stays when this process ends.
pub(super) trait FlowTable: std::fmt::Debug + Send {
    /// Which one this is.
    fn choice(&self) -> ClassifierChoice;

    /// Makes packets that leave through an interface be looked up. Returns whether they were not before.
    fn attach(&mut self, interface: InterfaceId) -> Result<bool, TcError>;

    /// Undoes [`attach`](FlowTable::attach), and forgets the flows of the interface. No error where nothing is.
    fn detach(&mut self, interface: InterfaceId) -> Result<(), TcError>;

    /// Enters a flow, or changes its class without a moment in which it has none.
    fn set(&mut self, interface: InterfaceId, flow: &Flow, class: u32) -> Result<(), TcError>;

    /// Takes a flow out. No error where it is not there.
    fn remove(&mut self, interface: InterfaceId, flow: &Flow) -> Result<(), TcError>;

    /// What the kernel holds, for all interfaces; in order.
    fn entries(&mut self) -> Result<Vec<(InterfaceId, Flow, u32)>, TcError>;
}

/// Opens the table that `choice` asks for, or the best one there is.
pub(super) fn open(
    choice: ClassifierChoice,
    interfaces: &[InterfaceId],
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
            for &interface in interfaces {
                bpf_table::retire(interface);
            }
            Ok(Box::new(U32Table::open()?))
        }
    }
}

/// Whether a classifier can tell these packets apart. A source port alone is no key of the look-up, and addresses of
/// two families are no flow.
pub(super) fn check(flow: &Flow) -> Result<(), TcError> {
    let families_differ = flow.source.is_some_and(|s| s.is_ipv4() != flow.destination.is_ipv4());
    let reason = if families_differ {
        "its addresses are of different families"
    } else if flow.destination_port == 0 && flow.source_port != 0 {
        "it names a source port but no destination port"
    } else {
        return Ok(());
    };
    Err(TcError::Unclassifiable { flow: *flow, reason })
}

//! Choice between the two classifiers.

use earmark_core::InterfaceId;

use super::bpf_table::{self, BpfTable};
use super::flow_table::FlowTable;
use super::u32_table::U32Table;
use super::{ClassifierChoice, TcError};

/// Opens the table that `choice` selects, or the best available one. An earlier daemon's is removed from the
/// `abandoned` interfaces.
pub(super) fn open(
    choice: ClassifierChoice,
    interfaces: &[InterfaceId],
    abandoned: &[InterfaceId],
) -> Result<Box<dyn FlowTable>, TcError> {
    let bpf = match choice {
        ClassifierChoice::U32 => None,
        ClassifierChoice::Bpf => Some(BpfTable::open(interfaces)?),
        ClassifierChoice::Auto => BpfTable::open(interfaces)
            .inspect_err(|error| tracing::info!(%error, "BPF is unavailable: using u32 filters"))
            .ok(),
    };
    // An earlier daemon may have used the other kind. Its classifier would remain active: its flows are dropped.
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

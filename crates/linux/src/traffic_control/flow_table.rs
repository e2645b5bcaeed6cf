//! Which flow goes into which class: what a classifier must do, and the choice between the two that can.

use std::net::IpAddr;

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

/// Protocols whose first four octets are the ports: TCP, UDP, DCCP, SCTP, UDP-Lite. The BPF classifier looks at the
/// ports of no others.
const WITH_PORTS: [u8; 5] = [6, 17, 33, 132, 136];

/// A flow label has 20 bits (RFC 8200 section 3).
const LARGEST_LABEL: u32 = 0xf_ffff;

/// Whether a classifier can tell these packets apart. Addresses of two families are no flow, and an IPv6 address must not
/// look like the key of an IPv4 one or of any sender.
pub(super) fn check(flow: &Flow) -> Result<(), TcError> {
    let (destination, source) = (flow.destination, flow.source);
    let is_mapped = |a: IpAddr| matches!(a, IpAddr::V6(a) if a.to_ipv4_mapped().is_some());
    let reason = if source.is_some_and(|s| s.is_ipv4() != destination.is_ipv4()) {
        "its addresses are of different families"
    } else if source.is_some_and(|s| s.is_unspecified()) {
        "its source is the unspecified address"
    } else if source.into_iter().chain([destination]).any(is_mapped) {
        "it names an IPv4 address in the form of an IPv6 one"
    } else if (flow.destination_port != 0 || flow.source_port != 0)
        && !WITH_PORTS.contains(&flow.protocol)
    {
        "its protocol has no ports"
    } else if flow.flow_label > LARGEST_LABEL {
        "its flow label has more than 20 bits"
    } else if flow.flow_label != 0 && destination.is_ipv4() {
        "it names a flow label, which IPv4 packets have not"
    } else if flow.flow_label != 0 && flow.source_port != 0 {
        "it names a source port and a flow label"
    } else {
        return Ok(());
    };
    Err(TcError::Unclassifiable { flow: *flow, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is let in is found again by the classifier, and read back from it as the same flow.
    #[test]
    fn only_flows_that_can_be_told_apart_are_let_in() {
        let flow = |destination: &str, source: Option<&str>, protocol, ports: (u16, u16)| Flow {
            destination: destination.parse().expect("an address"),
            source: source.map(|s| s.parse().expect("an address")),
            protocol,
            destination_port: ports.0,
            source_port: ports.1,
            flow_label: 0,
        };
        for (flow, is_fine) in [
            (flow("10.0.0.9", Some("10.0.0.1"), 17, (5_000, 6_000)), true),
            (flow("10.0.0.9", None, 6, (80, 0)), true),
            (flow("10.0.0.9", None, 50, (0, 0)), true),
            (flow("2001:db8::9", Some("2001:db8::1"), 132, (1, 2)), true),
            (flow("10.0.0.9", Some("2001:db8::1"), 17, (1, 2)), false),
            (flow("2001:db8::9", Some("::"), 17, (1, 2)), false),
            (flow("10.0.0.9", Some("0.0.0.0"), 17, (1, 2)), false),
            (flow("::ffff:10.0.0.9", None, 17, (1, 2)), false),
            (flow("2001:db8::9", Some("::ffff:10.0.0.9"), 17, (1, 2)), false),
            (flow("10.0.0.9", Some("10.0.0.1"), 17, (0, 6_000)), true),
            (flow("10.0.0.9", Some("10.0.0.1"), 50, (0, 6_000)), false),
            (flow("10.0.0.9", Some("10.0.0.1"), 50, (5_000, 0)), false),
        ] {
            assert_eq!(check(&flow).is_ok(), is_fine, "{flow:?}");
        }
        let six = flow("2001:db8::9", Some("2001:db8::1"), 17, (5_000, 0));
        let four = flow("10.0.0.9", Some("10.0.0.1"), 17, (5_000, 0));
        let label = 0x1_2345;
        for (flow, is_fine) in [
            (Flow { flow_label: label, ..six }, true),
            (Flow { flow_label: label, destination_port: 0, ..six }, true),
            (Flow { flow_label: label, source_port: 6_000, ..six }, false),
            (Flow { flow_label: 1 << 20, ..six }, false),
            (Flow { flow_label: label, ..four }, false),
        ] {
            assert_eq!(check(&flow).is_ok(), is_fine, "{flow:?}");
        }
    }
}

//! Errors of traffic control.

use std::io;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, FlowError, InterfaceId};

use crate::interface::InterfaceName;
use crate::netlink::NetlinkError;

/// Why a request to traffic control failed. [`TcError::errno`] gives the number for a protocol's error message.
#[derive(Debug, thiserror::Error)]
pub enum TcError {
    /// There is no such interface in this network namespace.
    #[error("no interface with index {}", interface.0)]
    NoSuchInterface {
        /// Index of the interface.
        interface: InterfaceId,
    },
    /// The interface has no plan, so nothing can be reserved on it.
    #[error("{} is not configured for reservations", InterfaceName(*interface))]
    UnknownLink {
        /// The interface.
        interface: InterfaceId,
    },
    /// No installation has this ID.
    #[error("claim {}.{} is not installed", claim.slot, claim.generation)]
    UnknownClaim {
        /// ID of the claim.
        claim: ClaimId,
    },
    /// Another program has installed a qdisc there, which is never replaced.
    #[error(
        "{} has a {kind:?} qdisc of another program; remove it first",
        InterfaceName(*interface)
    )]
    ForeignQdisc {
        /// The interface.
        interface: InterfaceId,
        /// Kind of the qdisc: `tbf`, `htb`, ...
        kind: String,
    },
    /// A newer version of this program has left reservations that this one cannot read.
    #[error(
        "{} has reservations of a newer version of Earmark (layout {layout}, this version knows \
         {known})",
        InterfaceName(*interface)
    )]
    NewerLayout {
        /// The interface.
        interface: InterfaceId,
        /// Layout of its flows.
        layout: u32,
        /// Newest layout that this version knows.
        known: u32,
    },
    /// All classes that the plan allows are in use.
    #[error("all {limit} classes of {} are in use", InterfaceName(*interface))]
    PoolFull {
        /// The interface.
        interface: InterfaceId,
        /// Limit of the plan.
        limit: u32,
    },
    /// Reservations should share a class, but the classifier has no buckets to separate them.
    #[error(
        "reservations on {} cannot share a class without the BPF classifier",
        InterfaceName(*interface)
    )]
    NoBuckets {
        /// The interface.
        interface: InterfaceId,
    },
    /// Packets should get a DSCP, but the classifier cannot change them.
    #[error(
        "packets of aggregates that leave through {} cannot get a DSCP without the BPF classifier",
        InterfaceName(*interface)
    )]
    NoMarks {
        /// The interface.
        interface: InterfaceId,
    },
    /// The classifier cannot distinguish the packets of this flow.
    #[error("flow {flow:?} cannot be classified: {reason}")]
    Unclassifiable {
        /// The flow.
        flow: Flow,
        /// The reason.
        reason: FlowError,
    },
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel refused a request about one interface.
    #[error("{}: {error}", InterfaceName(*interface))]
    On {
        /// The interface.
        interface: InterfaceId,
        /// The kernel's answer.
        error: NetlinkError,
    },
    /// The kernel refused a request about the BPF classifier.
    #[error("cannot {doing}: {source}")]
    Bpf {
        /// The operation.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TcError {
    /// Returns this error with the interface that it is about, if the kernel's answer names none.
    #[must_use]
    pub fn on(self, interface: InterfaceId) -> TcError {
        match self {
            TcError::Netlink(error) => TcError::On { interface, error },
            other => other,
        }
    }

    /// Returns the error number: Linux's own if the kernel refused, else the nearest one.
    pub fn errno(&self) -> u16 {
        let number = match self {
            TcError::NoSuchInterface { .. } | TcError::UnknownLink { .. } => libc::ENODEV,
            TcError::UnknownClaim { .. } => libc::ENOENT,
            TcError::ForeignQdisc { .. } | TcError::NewerLayout { .. } => libc::EBUSY,
            TcError::PoolFull { .. } => libc::ENOSPC,
            TcError::NoBuckets { .. } | TcError::NoMarks { .. } => libc::EOPNOTSUPP,
            TcError::Unclassifiable { .. } => libc::EINVAL,
            TcError::Netlink(error) | TcError::On { error, .. } => {
                error.errno().unwrap_or(libc::EBADMSG)
            }
            TcError::Bpf { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        };
        u16::try_from(number).unwrap_or(libc::EIO as u16)
    }
}

/// Logs a refusal during a secondary step; the next reconciliation finds and repairs it.
pub(super) fn defer_to_reconciliation(outcome: Result<(), TcError>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "deferred to the next reconciliation");
    }
}

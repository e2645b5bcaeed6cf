//! Why traffic control could not do what it was asked to.

use std::io;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, FlowError, InterfaceId};

use crate::interface::InterfaceName;
use crate::netlink::NetlinkError;

/// Why traffic control could not do it. [`TcError::errno`] gives the number for a protocol's error message.
#[derive(Debug, thiserror::Error)]
pub enum TcError {
    /// There is no such interface in this network namespace.
    #[error("there is no interface with index {}", interface.0)]
    NoSuchInterface {
        /// Which.
        interface: InterfaceId,
    },
    /// The interface is not planned, so that nothing can be reserved on it.
    #[error("{} takes no reservations", InterfaceName(*interface))]
    UnknownLink {
        /// Which.
        interface: InterfaceId,
    },
    /// No installation has this name.
    #[error("claim {}.{} is not installed", claim.slot, claim.generation)]
    UnknownClaim {
        /// Which.
        claim: ClaimId,
    },
    /// Somebody else has put a qdisc there, which we will not replace.
    #[error(
        "{} is shaped by somebody else's {kind:?} qdisc; remove it first",
        InterfaceName(*interface)
    )]
    ForeignQdisc {
        /// Where.
        interface: InterfaceId,
        /// Its kind: `tbf`, `htb`, ...
        kind: String,
    },
    /// All classes that the plan allows are in use.
    #[error("all {limit} classes of {} are in use", InterfaceName(*interface))]
    PoolFull {
        /// Where.
        interface: InterfaceId,
        /// How many the plan allows.
        limit: u32,
    },
    /// Reservations are to share a class, and the classifier has no buckets to keep them apart.
    #[error(
        "reservations on {} cannot share a class: that takes the BPF classifier",
        InterfaceName(*interface)
    )]
    NoBuckets {
        /// Where.
        interface: InterfaceId,
    },
    /// The classifier cannot tell the packets of this flow apart.
    #[error("flow {flow:?} cannot be classified: {reason}")]
    Unclassifiable {
        /// Which.
        flow: Flow,
        /// Why.
        reason: FlowError,
    },
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The kernel refused something about one interface.
    #[error("{}: {error}", InterfaceName(*interface))]
    On {
        /// Which.
        interface: InterfaceId,
        /// The kernel's answer.
        error: NetlinkError,
    },
    /// The kernel refused something about the BPF classifier.
    #[error("cannot {doing}: {source}")]
    Bpf {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl TcError {
    /// This error, with the interface that it is about where the kernel's answer names none.
    #[must_use]
    pub fn on(self, interface: InterfaceId) -> TcError {
        match self {
            TcError::Netlink(error) => TcError::On { interface, error },
            other => other,
        }
    }

    /// The error number: Linux's own where the kernel refused, the nearest one where we did.
    pub fn errno(&self) -> u16 {
        let number = match self {
            TcError::NoSuchInterface { .. } | TcError::UnknownLink { .. } => libc::ENODEV,
            TcError::UnknownClaim { .. } => libc::ENOENT,
            TcError::ForeignQdisc { .. } => libc::EBUSY,
            TcError::PoolFull { .. } => libc::ENOSPC,
            TcError::NoBuckets { .. } => libc::EOPNOTSUPP,
            TcError::Unclassifiable { .. } => libc::EINVAL,
            TcError::Netlink(error) | TcError::On { error, .. } => {
                error.errno().unwrap_or(libc::EBADMSG)
            }
            TcError::Bpf { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
        };
        u16::try_from(number).unwrap_or(libc::EIO as u16)
    }
}

/// What the kernel refused while the main thing was done: a matter for the next reconciliation, which finds it.
pub(super) fn left_for_later(outcome: Result<(), TcError>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "left for the next reconciliation");
    }
}

//! Errors of signalling sockets.

use std::io;

use super::protocols::INSIDE_UDP;

/// Why the sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another daemon serves this network namespace already.
    #[error("another daemon is running in this network namespace")]
    AlreadyRunning,
    /// The node signals inside UDP only, which this IP protocol does not support.
    #[error("IP protocol {protocol} needs raw sockets")]
    NeedsRaw {
        /// IP protocol number.
        protocol: u8,
    },
    /// The messages of this IP protocol are received already, or it is a transport protocol of the kernel.
    #[error("IP protocol {protocol} is in use")]
    ProtocolInUse {
        /// IP protocol number.
        protocol: u8,
    },
    /// The kernel refused.
    #[error("cannot {doing}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl OpenError {
    /// Whether the kernel does not support this address family.
    pub(super) fn is_missing_family(&self) -> bool {
        matches!(self, OpenError::System { source, .. }
            if source.raw_os_error() == Some(libc::EAFNOSUPPORT))
    }
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Source and destination are not of the same family.
    #[error("source and destination are of different address families")]
    MixedFamilies,
    /// The message is longer than an IP packet can be.
    #[error("message length {length} exceeds that of an IP packet")]
    TooLong {
        /// Octets of the message.
        length: usize,
    },
    /// The message must leave inside UDP, but no interface uses UDP.
    #[error("UDP encapsulation is off")]
    NoEncapsulation,
    /// The node signals inside UDP only, which this IP protocol does not support.
    #[error("messages of protocol {protocol} need raw sockets")]
    NeedsRaw {
        /// IP protocol number.
        protocol: u8,
    },
    /// The kernel's queues are full (`ENOBUFS` or `EAGAIN`): the message is lost, as on a congested link.
    #[error("the kernel's send queue is full")]
    QueueFull,
    /// The kernel refused: no route, interface down, ...
    #[error("cannot send: {0}")]
    System(#[source] io::Error),
}

/// Why the settings of an interface cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// Messages without router alert cannot be intercepted.
    #[error("cannot intercept messages without router alert")]
    Intercept(#[source] io::Error),
    /// The required sockets cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node signals inside UDP only, which supports only one protocol.
    #[error("only {} is supported inside UDP", INSIDE_UDP)]
    NeedsRaw,
    /// The groups of UDP encapsulation cannot be joined.
    #[error("cannot join the group of UDP encapsulation{}", help_with_memberships(.0))]
    Join(#[source] io::Error),
}

/// Returns advice if a socket has reached the system's limit of group memberships, which count once per interface.
fn help_with_memberships(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOBUFS) => {
            " on so many interfaces (raise the sysctl net.ipv4.igmp_max_memberships)"
        }
        _ => "",
    }
}

//! The claim on a network namespace: one daemon serves it at a time.
//!
//! The claim is an abstract Unix socket name. Such names are per network namespace, and the kernel frees them when the
//! process ends for any reason.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::signalling_socket::OpenError;
use crate::signalling_socket::protocols::CLAIM_NAME;

/// Holds the network namespace in which it was taken: no other daemon can start there while the value exists.
#[derive(Debug)]
pub struct NamespaceClaim {
    _name: UnixDatagram,
}

impl NamespaceClaim {
    /// Claims the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`OpenError::AlreadyRunning`] if another process, or another value of this type, has claimed it.
    pub fn take() -> Result<NamespaceClaim, OpenError> {
        let bound = name().and_then(|name| UnixDatagram::bind_addr(&name));
        bound.map(|name| NamespaceClaim { _name: name }).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => OpenError::AlreadyRunning,
            _ => OpenError::System { doing: "claim the network namespace", source },
        })
    }

    /// Whether the network namespace of the calling thread is claimed; does not claim it.
    ///
    /// # Errors
    /// The kernel refuses a socket.
    pub fn is_taken() -> io::Result<bool> {
        match UnixDatagram::unbound()?.connect_addr(&name()?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn name() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(CLAIM_NAME)
}

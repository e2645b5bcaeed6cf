//! The claim on a network namespace: one daemon serves it at a time.
//!
//! The claim is an abstract Unix socket name. These are per network namespace, and free themselves when the process dies in
//! any way.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::signalling_socket::OpenError;

/// Holds the network namespace in which it was taken, for as long as it lives: no daemon can start there meanwhile.
#[derive(Debug)]
pub struct NamespaceClaim {
    _name: UnixDatagram,
}

impl NamespaceClaim {
    /// Claims the network namespace of the calling thread.
    ///
    /// # Errors
    /// [`OpenError::AlreadyRunning`] where another process, or another value of this type, has claimed it.
    pub fn take() -> Result<NamespaceClaim, OpenError> {
        let bound = name().and_then(|name| UnixDatagram::bind_addr(&name));
        bound.map(|name| NamespaceClaim { _name: name }).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => OpenError::AlreadyRunning,
            _ => OpenError::System { doing: "claim the network namespace", source },
        })
    }

    /// Whether the network namespace of the calling thread is claimed, without claiming it.
    ///
    /// # Errors
    /// The kernel lends no socket.
    pub fn is_taken() -> io::Result<bool> {
        match UnixDatagram::unbound()?.connect_addr(&name()?) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn name() -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(b"earmark-rsvp")
}

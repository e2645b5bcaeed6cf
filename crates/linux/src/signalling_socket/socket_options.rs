//! Opening raw sockets, setting options, and joining groups.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::InterfaceId;

use super::OpenError;
use crate::sys::socket::{self, set_option};
use crate::traffic_control::SIGNALLING_CLASS;

/// Packets received from each socket in one call, and sent in one call.
pub(super) const BATCH: usize = 32;
/// Receive buffer, octets; only waiting packets use memory: some 80 000 messages of 200 octets, each charged about 800
/// by the kernel. That many setups may arrive at once without a loss; only the next refresh repairs a loss.
const RECEIVE_BUFFER: i32 = 64 << 20;

/// Send buffer, octets; only waiting packets use memory. The packets of all links share it, and those to an address that
/// nobody answers for wait some three seconds, up to 280 for each address: in the usual buffer, some hundreds of them would
/// block everything else.
const SEND_BUFFER: i32 = 64 << 20;

/// Opens a raw socket for an IP protocol.
pub(super) fn raw_socket(family: socket2::Domain, protocol: i32) -> Result<OwnedFd, OpenError> {
    let kind = socket2::Type::RAW.nonblocking().cloexec();
    let socket = socket2::Socket::new(family, kind, Some(protocol.into()));
    socket
        .map(OwnedFd::from)
        .map_err(|source| OpenError::System { doing: "open a raw socket", source })
}

/// Sets an option; `doing` completes "cannot ..." in the error.
pub(super) fn set(
    socket: &OwnedFd,
    doing: &'static str,
    level: i32,
    option: i32,
    value: i32,
) -> Result<(), OpenError> {
    set_option(socket.as_fd(), level, option, value)
        .map_err(|source| OpenError::System { doing, source })
}

/// Sets the size of the receive buffer, above the system's limit if permitted, else at the limit.
pub(super) fn set_receive_buffer(socket: &OwnedFd) -> Result<(), OpenError> {
    let doing = "set the size of the receive buffer";
    socket::set_receive_buffer(socket.as_fd(), RECEIVE_BUFFER)
        .map_err(|source| OpenError::System { doing, source })
}

/// Sets the size of the send buffer, above the system's limit if permitted, else at the limit.
pub(super) fn set_send_buffer(socket: &OwnedFd) -> Result<(), OpenError> {
    let doing = "set the size of the send buffer";
    socket::set_send_buffer(socket.as_fd(), SEND_BUFFER)
        .map_err(|source| OpenError::System { doing, source })
}

/// Sets the signalling class for everything that a socket sends.
pub(super) fn set_signalling_class(socket: &OwnedFd) -> Result<(), OpenError> {
    let class = SIGNALLING_CLASS as i32; // the kernel interprets it as unsigned
    set(socket, "set the traffic class", libc::SOL_SOCKET, libc::SO_PRIORITY, class)
}

/// Joins a group on an interface, or leaves it; once for all sockets of the namespace.
pub(super) fn membership(
    socket: BorrowedFd<'_>,
    group: IpAddr,
    interface: InterfaceId,
    joined: bool,
) -> io::Result<()> {
    let socket = socket2::SockRef::from(&socket);
    let index = socket2::InterfaceIndexOrAddress::Index(interface.0);
    match (group, joined) {
        (IpAddr::V4(group), true) => socket.join_multicast_v4_n(&group, &index),
        (IpAddr::V4(group), false) => socket.leave_multicast_v4_n(&group, &index),
        (IpAddr::V6(group), true) => socket.join_multicast_v6(&group, interface.0),
        (IpAddr::V6(group), false) => socket.leave_multicast_v6(&group, interface.0),
    }
}

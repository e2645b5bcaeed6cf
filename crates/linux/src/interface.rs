//! What the kernel tells of one interface besides its state: its name, the speed of its link, segmentation offload.
//!
//! All of it is asked for in the network namespace of the calling thread, by a socket of its own.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use earmark_core::{InterfaceId, Rate};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::sys::ethtool::{self, Feature};

/// Displays an interface by the name that it has at this moment, for messages to people.
///
/// One that is gone has no name any more; then its index is displayed, and that it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceName(pub InterfaceId);

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.0.0;
        let name = any_socket().ok().and_then(|fd| netdevice::index_to_name(fd, index).ok());
        match name {
            Some(name) => f.write_str(&name),
            None => write!(f, "interface {index}, which is gone,"),
        }
    }
}

/// The main name of the interface that has this name, be that the main one or an alternative (`ip link property`); `None` if
/// there is none.
///
/// # Errors
/// The kernel lends no socket.
pub fn main_name(name: &str) -> io::Result<Option<String>> {
    let socket = any_socket()?;
    let index = netdevice::name_to_index(&socket, name);
    Ok(index.and_then(|index| netdevice::index_to_name(&socket, index)).ok())
}

/// The speed of an interface's link as its driver tells it; `None` where it tells none: without a carrier as a rule, and
/// from drivers of links that have no speed of their own (dummy, WireGuard, PPP, loopback).
///
/// # Errors
/// There is no such interface, or the kernel lends no socket.
pub fn speed(name: &str) -> io::Result<Option<Rate>> {
    match ethtool::link_speed(any_socket()?.as_fd(), name) {
        // SPEED_UNKNOWN, and what drivers say that do not know.
        Ok(0 | u32::MAX) => Ok(None),
        Ok(speed) => Ok(Some(Rate::from_mbps(speed.into()))),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether packets of more than the MTU, up to 64 KiB, may reach an interface's queues, which it or the kernel cuts into
/// segments after them.
///
/// # Errors
/// There is no such interface, or the kernel lends no socket.
pub fn has_segmentation_offload(name: &str) -> io::Result<bool> {
    let socket = any_socket()?;
    for feature in [Feature::TcpSegmentation, Feature::GenericSegmentation] {
        match ethtool::feature(socket.as_fd(), name, feature) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

//! Properties of an interface besides its state: name, link speed, segmentation offload.
//!
//! All queries apply to the network namespace of the calling thread and open their own socket.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use earmark_core::{InterfaceId, Rate};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::sys::ethtool::{self, Feature};

/// Displays an interface by its current name, for messages to operators.
///
/// A deleted interface has no name any more; its index is displayed, with a note that it was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceName(pub InterfaceId);

impl fmt::Display for InterfaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.0.0;
        let name = any_socket().ok().and_then(|fd| netdevice::index_to_name(fd, index).ok());
        match name {
            Some(name) => f.write_str(&name),
            None => write!(f, "interface {index} (removed)"),
        }
    }
}

/// Returns the main name of the interface with this main or alternative name (`ip link property`); `None` if there is
/// none.
///
/// # Errors
/// The kernel refuses a socket.
pub fn main_name(name: &str) -> io::Result<Option<String>> {
    let socket = any_socket()?;
    let index = netdevice::name_to_index(&socket, name);
    Ok(index.and_then(|index| netdevice::index_to_name(&socket, index)).ok())
}

/// Returns the speed of an interface's link as its driver reports it; `None` if it reports none: usually without a
/// carrier, and from drivers of links that have no speed of their own (dummy, WireGuard, PPP, loopback).
///
/// # Errors
/// There is no such interface, or the kernel refuses a socket.
pub fn speed(name: &str) -> io::Result<Option<Rate>> {
    match ethtool::link_speed(any_socket()?.as_fd(), name) {
        // SPEED_UNKNOWN, and the value of drivers that do not know the speed.
        Ok(0 | u32::MAX) => Ok(None),
        Ok(speed) => Ok(Some(Rate::from_mbps(speed.into()))),
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether packets longer than the MTU, up to 64 KiB, may reach an interface's queues, to be cut into segments after
/// them by the interface or the kernel.
///
/// # Errors
/// There is no such interface, or the kernel refuses a socket.
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

/// Whether the kernel forwards only those IPv4 packets that arrive through an interface whose sources it would reach through the
/// interface (strict `rp_filter`, RFC 3704), or forwards none from there.
///
/// # Errors
/// There is no such interface.
pub fn checks_sources(name: &str) -> io::Result<bool> {
    let setting = |of: &str, what: &str| -> io::Result<u8> {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/conf/{of}/{what}"))?;
        text.trim().parse().map_err(io::Error::other)
    };
    // The larger value is in force (Linux: `ip-sysctl.rst`); 2 accepts any source to which there is a route.
    let strictness = setting("all", "rp_filter")?.max(setting(name, "rp_filter")?);
    Ok(strictness == 1 || setting(name, "forwarding")? == 0)
}

fn any_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?)
}

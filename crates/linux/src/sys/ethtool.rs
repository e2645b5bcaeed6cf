//! What a driver does by itself, switched on and off by the ioctl of ethtool(8).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `SIOCETHTOOL`.
const REQUEST: u64 = 0x8946;
/// `ETHTOOL_STSO`: segmentation of TCP by the driver.
pub(crate) const SEGMENTATION: u32 = 0x1f;
/// `ETHTOOL_SGRO`: joining of packets that come in.
pub(crate) const RECEIVE_JOINING: u32 = 0x2c;

/// Sets a feature of an interface of the network namespace of a socket, any socket.
pub(crate) fn set(
    socket: BorrowedFd<'_>,
    interface: &str,
    feature: u32,
    value: bool,
) -> io::Result<()> {
    /// `struct ifreq` with a pointer in its union.
    #[repr(C)]
    struct Request {
        name: [u8; libc::IFNAMSIZ],
        data: u64,
        rest: [u64; 2],
    }
    let mut name = [0; libc::IFNAMSIZ];
    match name.get_mut(..interface.len()) {
        Some(room) if interface.len() < libc::IFNAMSIZ => {
            room.copy_from_slice(interface.as_bytes());
        }
        _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name of an interface")),
    }
    let mut value: [u32; 2] = [feature, value.into()]; // `struct ethtool_value`
    let mut request = Request { name, data: value.as_mut_ptr() as u64, rest: [0; 2] };
    // SAFETY: the request is of the size that the kernel reads and writes, and points to a value of the size that these
    // features have; both outlive the call.
    let outcome = unsafe { libc::ioctl(socket.as_raw_fd(), REQUEST, &raw mut request) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

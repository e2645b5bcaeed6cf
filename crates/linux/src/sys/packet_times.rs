//! Times at which packets pass the interfaces of a namespace, by the kernel's time stamps: packet sockets (packet(7))
//! with time stamps (`SO_TIMESTAMPNS`, socket(7)).
//!
//! An incoming packet is stamped when its driver hands it to the kernel, an outgoing one when the kernel hands it to
//! the driver.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::socket::{each_control, receive_drops, set_option, set_receive_buffer};

/// Octets for the control message that holds a time stamp: header (16), `timespec` (16), and as much in reserve.
const CONTROL: usize = 64;

/// One packet at one interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTime {
    /// Time since 1970.
    pub at: Duration,
    /// Index of the interface.
    pub interface: u32,
    /// Whether the packet is outgoing.
    pub is_outgoing: bool,
    /// Octets of the packet, link header included, as far as the buffer had room.
    pub length: usize,
}

/// Buffer for control messages. The kernel writes `cmsghdr` here, hence the alignment.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Enables time stamps on a packet socket, and sets its receive buffer to this many octets, above the system's limit if
/// permitted.
///
/// # Errors
/// The descriptor is no socket.
pub fn prepare(socket: impl AsFd, room: i32) -> io::Result<()> {
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set_receive_buffer(socket.as_fd(), room)
}

/// Returns the number of packets dropped because the receive buffer was full.
///
/// # Errors
/// The descriptor is no socket.
pub fn missed(socket: impl AsFd) -> io::Result<u64> {
    receive_drops(socket.as_fd())
}

/// Returns the next packet of a packet socket, its octets in `frame`; `None` if none is waiting. Never blocks.
///
/// # Errors
/// The receive call fails; or the descriptor is no packet socket, or has no time stamps enabled ([`prepare`]).
pub fn next(socket: impl AsFd, frame: &mut [u8]) -> io::Result<Option<PacketTime>> {
    let mut part = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all octets zero is a valid `sockaddr_ll`, and a valid `msghdr`: null pointers and zero lengths.
    let (mut name, mut header): (libc::sockaddr_ll, libc::msghdr) = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw mut name).cast();
    header.msg_namelen = size_of_val(&name) as libc::socklen_t;
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.0.as_mut_ptr().cast();
    header.msg_controllen = CONTROL as _;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the header points to locals and to `frame`, all borrowed until the call returns; lengths are theirs.
    let length = unsafe { libc::recvmsg(descriptor, &raw mut header, libc::MSG_DONTWAIT) };
    let Ok(length) = usize::try_from(length) else {
        let error = io::Error::last_os_error();
        let nothing =
            matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
        return if nothing { Ok(None) } else { Err(error) };
    };
    let mut at = None;
    each_control(&header, |level, kind, data| {
        if (level, kind) == (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
            at = time_of(data);
        }
    });
    if i32::from(name.sll_family) != libc::AF_PACKET {
        return Err(io::Error::other("no packet socket"));
    }
    let at = at.ok_or_else(|| io::Error::other("a packet without its time"))?;
    let interface = u32::try_from(name.sll_ifindex).unwrap_or_default();
    let is_outgoing = name.sll_pkttype == libc::PACKET_OUTGOING;
    Ok(Some(PacketTime { at, interface, is_outgoing, length: length.min(frame.len()) }))
}

/// Decodes a `timespec` of two words.
fn time_of(data: &[u8]) -> Option<Duration> {
    let word = |at: usize| Some(i64::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let (seconds, nanoseconds) = (word(0)?, word(8)?);
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

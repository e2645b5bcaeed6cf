//! When packets pass the interfaces of a namespace, by the kernel's own time stamps: packet sockets (packet(7)) that were asked
//! for them (`SO_TIMESTAMPNS`, socket(7)).
//!
//! A packet that comes in is stamped where its driver hands it to the kernel, one that leaves where the kernel hands it to the
//! driver.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use super::socket::{each_control, receive_drops, set_option};

/// Octets for the control message that holds a time stamp: its header (16) and a `timespec` (16), and as much again.
const CONTROL: usize = 64;

/// A packet was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// When, since 1970.
    pub at: Duration,
    /// At which interface.
    pub interface: u32,
    /// Whether it left.
    pub leaves: bool,
    /// Its octets, link header included, as far as there was room for them.
    pub length: usize,
}

/// Room for control messages. The kernel writes `cmsghdr` here, hence the alignment.
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Has the kernel tell of a packet socket's packets when they passed, and keep so many octets of those that wait, whatever others
/// may have.
///
/// # Errors
/// It is no socket, or this process may not have as much.
pub fn prepare(socket: impl AsFd, room: i32) -> io::Result<()> {
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, room)
}

/// How many packets there was no room for.
///
/// # Errors
/// It is no socket.
pub fn missed(socket: impl AsFd) -> io::Result<u64> {
    receive_drops(socket.as_fd())
}

/// The next packet that a packet socket has seen, its octets in `frame`; `None` where none is waiting. Never blocks.
///
/// # Errors
/// That of the socket; or it is none of packets, or was not asked for stamps ([`prepare`]).
pub fn next(socket: impl AsFd, frame: &mut [u8]) -> io::Result<Option<Sighting>> {
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
    let leaves = name.sll_pkttype == libc::PACKET_OUTGOING;
    Ok(Some(Sighting { at, interface, leaves, length: length.min(frame.len()) }))
}

/// What a `timespec` of two words says.
fn time_of(data: &[u8]) -> Option<Duration> {
    let word = |at: usize| Some(i64::from_ne_bytes(*data.get(at..)?.first_chunk()?));
    let (seconds, nanoseconds) = (word(0)?, word(8)?);
    Some(Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanoseconds).ok()?))
}

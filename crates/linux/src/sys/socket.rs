//! Socket calls that carry packet information, in batches, and options by number.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Sets an integer option.
pub(crate) fn set_option(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    value: i32,
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which outlives the call; the kernel only reads it.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sets an option whose value is a structure, given as its octets.
pub(crate) fn set_structure(
    socket: BorrowedFd<'_>,
    level: i32,
    option: i32,
    octets: &[u8],
) -> io::Result<()> {
    // SAFETY: the pointer and length describe `octets`, which outlive the call; the kernel only reads them.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            octets.as_ptr().cast(),
            octets.len() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many packets a socket dropped because its receive buffer was full (`SO_MEMINFO`).
pub(crate) fn receive_drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    const SO_MEMINFO: i32 = 55;
    const DROPS: usize = 8; // SK_MEMINFO_DROPS
    let mut numbers = [0_u32; 16];
    let mut length = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the pointer and length describe `numbers`, which outlives the call; any octets make a valid `u32`.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if outcome == 0 { Ok(numbers[DROPS].into()) } else { Err(io::Error::last_os_error()) }
}

/// Octets for one control message with an `in_pktinfo` (12 octets), aligned as the kernel writes it.
const CONTROL: usize = 32;

/// Room for control messages. The kernel reads and writes `cmsghdr` here, hence the alignment.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// Room for a batch of `N` packets, each with the interface it came through.
#[derive(Debug)]
pub(crate) struct Batch<const N: usize> {
    packets: Box<[u8]>,
    room: usize,
    controls: [Control; N],
    received: Vec<Received>,
}

/// One packet of a batch.
#[derive(Clone, Copy, Debug)]
struct Received {
    length: usize,
    interface: Option<u32>,
}

impl<const N: usize> Batch<N> {
    /// For packets of at most `room` octets.
    pub(crate) fn new(room: usize) -> Self {
        Batch {
            packets: vec![0; N * room].into(),
            room,
            controls: [Control([0; CONTROL]); N],
            received: Vec::with_capacity(N),
        }
    }

    /// Takes what is waiting, up to a batch, in place of what was here. Returns how many; never blocks.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received.clear();
        let mut rooms = self.packets.chunks_exact_mut(self.room);
        let mut parts: [libc::iovec; N] = std::array::from_fn(|_| {
            let room = rooms.next().unwrap_or_default(); // there are N
            libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }
        });
        // SAFETY: all octets zero is a valid `mmsghdr`: null pointers and zero lengths.
        let mut headers: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
        for ((header, part), control) in headers.iter_mut().zip(&mut parts).zip(&mut self.controls)
        {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
        }
        // SAFETY: every header points to one part and one control buffer of this batch, which are borrowed mutably
        // until the call returns; lengths are theirs. No timeout is given.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                N as u32,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            let nothing =
                matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted);
            return if nothing { Ok(0) } else { Err(error) };
        }
        for header in &headers[..count as usize] {
            let length = (header.msg_len as usize).min(self.room);
            let interface = packet_interface(&header.msg_hdr);
            self.received.push(Received { length, interface });
        }
        Ok(self.received.len())
    }

    /// The packets of the last batch, each with the index of its interface where the kernel told it.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (&[u8], Option<u32>)> {
        let rooms = self.packets.chunks_exact(self.room);
        self.received.iter().zip(rooms).map(|(r, room)| (&room[..r.length], r.interface))
    }
}

/// The interface index in the `IP_PKTINFO` control message of a received header.
fn packet_interface(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the header was filled by the kernel, its control buffer is alive and aligned, and `msg_controllen` says
    // how much of it holds control messages; CMSG_FIRSTHDR and CMSG_NXTHDR stay inside that.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = control.as_ref() {
            if message.cmsg_level == libc::IPPROTO_IP
                && message.cmsg_type == libc::IP_PKTINFO
                && message.cmsg_len >= libc::CMSG_LEN(size_of::<libc::in_pktinfo>() as u32) as usize
            {
                let data = libc::CMSG_DATA(control).cast::<libc::in_pktinfo>();
                return u32::try_from(data.read_unaligned().ipi_ifindex).ok();
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
    None
}

/// Sends a packet, in pieces that follow each other, through an interface or wherever the routes lead.
pub(crate) fn send_packet(
    socket: BorrowedFd<'_>,
    pieces: [&[u8]; 2],
    destination: Ipv4Addr,
    interface: Option<u32>,
) -> io::Result<()> {
    let parts = pieces.map(|p| libc::iovec {
        // The kernel only reads what is sent; the type has no way to say so.
        iov_base: p.as_ptr().cast_mut().cast(),
        iov_len: p.len(),
    });
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(destination).to_be() },
        sin_zero: [0; 8],
    };
    let mut control = Control([0; CONTROL]);
    // SAFETY: all octets zero is a valid `msghdr`.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_name = (&raw const address).cast_mut().cast();
    header.msg_namelen = size_of_val(&address) as libc::socklen_t;
    header.msg_iov = parts.as_ptr().cast_mut();
    header.msg_iovlen = parts.len() as _;
    if let Some(index) = interface {
        let information = libc::in_pktinfo {
            ipi_ifindex: i32::try_from(index).map_err(|_| io::ErrorKind::InvalidInput)?,
            ipi_spec_dst: libc::in_addr { s_addr: 0 },
            ipi_addr: libc::in_addr { s_addr: 0 },
        };
        let length = size_of_val(&information) as u32;
        header.msg_control = control.0.as_mut_ptr().cast();
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute. CONTROL octets hold one message of this size (CMSG_SPACE is 32
        // at most on 64-bit machines), so CMSG_FIRSTHDR is not null and its data lies in `control`.
        unsafe {
            header.msg_controllen = libc::CMSG_SPACE(length) as _;
            let message = libc::CMSG_FIRSTHDR(&raw const header);
            (*message).cmsg_level = libc::IPPROTO_IP;
            (*message).cmsg_type = libc::IP_PKTINFO;
            (*message).cmsg_len = libc::CMSG_LEN(length) as _;
            libc::CMSG_DATA(message).cast::<libc::in_pktinfo>().write_unaligned(information);
        }
    }
    // SAFETY: all pointers in the header are to locals or to `pieces`, alive until the call returns; it only reads them.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

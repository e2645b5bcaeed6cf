//! Socket calls in batches, with packet information, and options by number.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use earmark_wire::ipv6;
use socket2::SockAddr;

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

/// Sets the receive buffer to this many octets: above the system's limit if this process may exceed it, else at most at
/// the limit.
pub(crate) fn set_receive_buffer(socket: BorrowedFd<'_>, octets: i32) -> io::Result<()> {
    let set = |option| set_option(socket, libc::SOL_SOCKET, option, octets);
    set(libc::SO_RCVBUFFORCE).or_else(|_| set(libc::SO_RCVBUF))
}

/// Sets the send buffer, as [`set_receive_buffer`].
pub(crate) fn set_send_buffer(socket: BorrowedFd<'_>, octets: i32) -> io::Result<()> {
    let set = |option| set_option(socket, libc::SOL_SOCKET, option, octets);
    set(libc::SO_SNDBUFFORCE).or_else(|_| set(libc::SO_SNDBUF))
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

/// Attaches a classic BPF filter: the socket receives only the packets that it accepts.
pub(crate) fn attach_filter(
    socket: BorrowedFd<'_>,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let value = libc::sock_fprog {
        len: program.len() as u16,
        // The kernel only reads it; the type has no way to say so.
        filter: program.as_ptr().cast_mut(),
    };
    // SAFETY: the pointer and length describe `value`, which points to `len` instructions; both outlive the call, and
    // the kernel only reads them.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of packets that a socket dropped because its receive buffer was full (`SO_MEMINFO`).
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

/// Octets for received control messages: packet information (40 octets for IPv6, with its header), a hop limit (24),
/// and hop-by-hop options that are as short as router alert.
const CONTROL: usize = 160;
/// Octets for sent control messages: packet information and a hop limit.
const SENT_CONTROL: usize = 64;

/// Buffer for control messages. The kernel reads and writes `cmsghdr` here, hence the alignment.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
struct Control<const LENGTH: usize>([u8; LENGTH]);

/// Buffer for a batch of `N` packets, each with the kernel's information about it.
#[derive(Debug)]
pub(crate) struct Batch<const N: usize> {
    packets: Box<[u8]>,
    room: usize,
    controls: [Control<CONTROL>; N],
    received: Vec<Received>,
}

/// The kernel's information about a packet, as far as the socket has it enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Received {
    length: usize,
    /// Source address.
    pub(crate) source: Option<IpAddr>,
    /// Incoming interface (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub(crate) interface: Option<u32>,
    /// Destination address in the packet (`IP_PKTINFO`, `IPV6_PKTINFO`).
    pub(crate) destination: Option<IpAddr>,
    /// Own address from which the kernel would answer (`IP_PKTINFO`): the destination, if it is ours.
    pub(crate) own: Option<IpAddr>,
    /// Hop limit (`IPV6_HOPLIMIT`).
    pub(crate) hop_limit: Option<u8>,
    /// Value of router alert among the hop-by-hop options (`IPV6_HOPOPTS`).
    pub(crate) router_alert: Option<u16>,
    /// Receive time, since the epoch of the system's clock (`SO_TIMESTAMPNS`).
    pub(crate) at: Option<Duration>,
}

impl<const N: usize> Batch<N> {
    /// Creates a batch for packets of at most `room` octets.
    pub(crate) fn new(room: usize) -> Self {
        Batch {
            packets: vec![0; N * room].into(),
            room,
            controls: [Control([0; CONTROL]); N],
            received: Vec::with_capacity(N),
        }
    }

    /// Receives the waiting packets, up to a batch, and replaces the previous ones. Returns their number; never blocks.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        self.received.clear();
        let mut rooms = self.packets.chunks_exact_mut(self.room);
        let mut parts: [libc::iovec; N] = std::array::from_fn(|_| {
            let room = rooms.next().unwrap_or_default(); // there are N
            libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() }
        });
        // SAFETY: all octets zero is a valid `sockaddr_in6`, and a valid `mmsghdr`: null pointers and zero lengths.
        let (mut names, mut headers): ([libc::sockaddr_in6; N], [libc::mmsghdr; N]) =
            unsafe { std::mem::zeroed() };
        let rooms = parts.iter_mut().zip(&mut self.controls).zip(&mut names);
        for (header, ((part, control), name)) in headers.iter_mut().zip(rooms) {
            header.msg_hdr.msg_iov = part;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.0.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
            header.msg_hdr.msg_namelen = size_of_val(name) as libc::socklen_t;
            header.msg_hdr.msg_name = std::ptr::from_mut(name).cast();
        }
        // SAFETY: every header points to one part, one name and one control buffer, which are borrowed mutably until
        // the call returns; lengths are theirs. No timeout is given.
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
        for (header, name) in headers[..count as usize].iter().zip(&names) {
            let length = (header.msg_len as usize).min(self.room);
            let source = sender(name, header.msg_hdr.msg_namelen);
            let mut received = Received { length, source, ..Received::default() };
            each_control(&header.msg_hdr, |level, kind, data| {
                received.read_control_message(level, kind, data);
            });
            self.received.push(received);
        }
        Ok(self.received.len())
    }

    /// Returns the packets of the last batch, each with the kernel's information about it.
    pub(crate) fn packets(&self) -> impl Iterator<Item = (&[u8], &Received)> {
        let rooms = self.packets.chunks_exact(self.room);
        self.received.iter().zip(rooms).map(|(r, room)| (&room[..r.length], r))
    }
}

impl Received {
    /// Evaluates one control message.
    fn read_control_message(&mut self, level: i32, kind: i32, data: &[u8]) {
        let word = |at: usize| data.get(at..).and_then(<[u8]>::first_chunk::<4>).copied();
        match (level, kind) {
            // `struct in_pktinfo`: index, our address, the address in the packet.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                self.interface = word(0).map(u32::from_ne_bytes);
                self.own = word(4).map(IpAddr::from);
                self.destination = word(8).map(IpAddr::from);
            }
            // `struct in6_pktinfo`: the address in the packet, index.
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                self.destination = data.first_chunk::<16>().copied().map(IpAddr::from);
                self.interface = word(16).map(u32::from_ne_bytes);
            }
            (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hop_limit = word(0).and_then(|n| u8::try_from(u32::from_ne_bytes(n)).ok());
            }
            (libc::IPPROTO_IPV6, libc::IPV6_HOPOPTS) => {
                self.router_alert = ipv6::router_alert(data);
            }
            // `struct timespec`: seconds, nanoseconds.
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                let long = |at: usize| data.get(at..).and_then(<[u8]>::first_chunk::<8>).copied();
                let number = |at| long(at).and_then(|n| u64::try_from(i64::from_ne_bytes(n)).ok());
                let nanos = number(8).and_then(|n| u32::try_from(n).ok());
                self.at = number(0).zip(nanos).map(|(s, n)| Duration::new(s, n));
            }
            _ => {}
        }
    }
}

/// Returns the source address that the kernel wrote.
fn sender(name: &libc::sockaddr_in6, length: libc::socklen_t) -> Option<IpAddr> {
    match i32::from(name.sin6_family) {
        // A `sockaddr_in` has its address at the offset of the flow label in a `sockaddr_in6`.
        libc::AF_INET if length as usize >= size_of::<libc::sockaddr_in>() => {
            Some(IpAddr::V4(Ipv4Addr::from(name.sin6_flowinfo.to_ne_bytes())))
        }
        libc::AF_INET6 if length as usize >= size_of_val(name) => {
            Some(IpAddr::V6(Ipv6Addr::from(name.sin6_addr.s6_addr)))
        }
        _ => None,
    }
}

/// Passes the control messages of a header that the kernel has filled to `each`: level, type, data.
pub(crate) fn each_control(header: &libc::msghdr, mut each: impl FnMut(i32, i32, &[u8])) {
    // SAFETY: the header was filled by the kernel, its control buffer is alive and aligned, and `msg_controllen` says
    // how much of it holds control messages; CMSG_FIRSTHDR and CMSG_NXTHDR stay inside that, and so does the data of a
    // message, whose length counts from the message's start.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(message) = control.as_ref() {
            let data = libc::CMSG_DATA(control);
            let length = message.cmsg_len;
            let length = length.saturating_sub(libc::CMSG_LEN(0) as usize);
            let data = std::slice::from_raw_parts(data, length);
            each(message.cmsg_level, message.cmsg_type, data);
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
}

/// Destination of a packet and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Destination; port 0 on raw sockets.
    pub(crate) to: SocketAddr,
    /// Outgoing interface; `None`: by the routes.
    pub(crate) interface: Option<u32>,
    /// Source address, if the kernel writes the header; `None`: the kernel selects one.
    pub(crate) source: Option<IpAddr>,
    /// Hop limit, if the kernel writes the header.
    pub(crate) hop_limit: Option<u8>,
}

/// A packet to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet<'a> {
    /// Octets, in consecutive pieces.
    pub(crate) pieces: [&'a [u8]; 2],
    /// Destination and parameters.
    pub(crate) target: Target,
}

/// Sends a packet. Never blocks.
pub(crate) fn send_packet(
    socket: BorrowedFd<'_>,
    pieces: [&[u8]; 2],
    target: &Target,
) -> io::Result<()> {
    send_packets::<1>(socket, &[Packet { pieces, target: *target }]).map(drop)
}

/// Sends packets in order, at most `N`; returns how many the kernel accepted. The error is that of the first packet;
/// the error of a later one is returned when it is sent as the first. Never blocks.
pub(crate) fn send_packets<const N: usize>(
    socket: BorrowedFd<'_>,
    packets: &[Packet<'_>],
) -> io::Result<usize> {
    let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut parts, mut controls) = ([[nothing; 2]; N], [Control([0; SENT_CONTROL]); N]);
    let mut addresses: [Option<SockAddr>; N] = [const { None }; N];
    // SAFETY: all octets zero is a valid `mmsghdr`: null pointers and zero lengths.
    let mut headers: [libc::mmsghdr; N] = unsafe { std::mem::zeroed() };
    let rooms = parts.iter_mut().zip(&mut controls).zip(&mut addresses);
    for ((packet, header), ((parts, control), address)) in
        packets.iter().zip(&mut headers).zip(rooms)
    {
        *parts = packet.pieces.map(|piece| libc::iovec {
            // The kernel only reads the data; the type cannot express that.
            iov_base: piece.as_ptr().cast_mut().cast(),
            iov_len: piece.len(),
        });
        let address = address.insert(SockAddr::from(packet.target.to));
        let header = &mut header.msg_hdr;
        header.msg_name = address.as_ptr().cast_mut().cast();
        header.msg_namelen = address.len();
        header.msg_iov = parts.as_mut_ptr();
        header.msg_iovlen = parts.len() as _;
        let length = write_controls(control, &packet.target);
        if length > 0 {
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = length as _;
        }
    }
    let count = packets.len().min(N);
    // SAFETY: the first `count` headers point to locals and to `packets`, alive until the call returns; it only reads
    // them.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), count as u32, libc::MSG_DONTWAIT)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Writes the control messages that a target needs; returns their octets.
fn write_controls(control: &mut Control<SENT_CONTROL>, target: &Target) -> usize {
    let index = target.interface.unwrap_or(0).to_ne_bytes();
    let is_ipv4 = target.to.is_ipv4();
    let (level, hops) = match is_ipv4 {
        true => (libc::IPPROTO_IP, libc::IP_TTL),
        false => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
    };
    let mut at = 0;
    if target.interface.is_some() || target.source.is_some() {
        match (is_ipv4, target.source) {
            // `struct in_pktinfo`: index, own address, unused.
            (true, source) => {
                let mut data = [0; 12];
                data[..4].copy_from_slice(&index);
                if let Some(IpAddr::V4(source)) = source {
                    data[4..8].copy_from_slice(&source.octets());
                }
                at += write_control(control, at, (level, libc::IP_PKTINFO), &data);
            }
            // `struct in6_pktinfo`: own address, index.
            (false, source) => {
                let mut data = [0; 20];
                if let Some(IpAddr::V6(source)) = source {
                    data[..16].copy_from_slice(&source.octets());
                }
                data[16..].copy_from_slice(&index);
                at += write_control(control, at, (level, libc::IPV6_PKTINFO), &data);
            }
        }
    }
    if let Some(limit) = target.hop_limit {
        at += write_control(control, at, (level, hops), &u32::from(limit).to_ne_bytes());
    }
    at
}

/// Writes one control message at an offset that is a multiple of eight (`struct cmsghdr` of 64-bit and 32-bit machines:
/// length, level, type; then the data); returns its octets with padding.
fn write_control(
    control: &mut Control<SENT_CONTROL>,
    at: usize,
    (level, kind): (i32, i32),
    data: &[u8],
) -> usize {
    // SAFETY: both only compute.
    let (length, space) = unsafe {
        (libc::CMSG_LEN(data.len() as u32) as usize, libc::CMSG_SPACE(data.len() as u32) as usize)
    };
    let start = length - data.len();
    let octets = &mut control.0[at..at + space];
    octets[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
    let after = size_of::<usize>();
    octets[after..after + 4].copy_from_slice(&level.to_ne_bytes());
    octets[after + 4..after + 8].copy_from_slice(&kind.to_ne_bytes());
    octets[start..length].copy_from_slice(data);
    space
}

/// Returns process, user and group of the peer of a connected Unix socket.
pub(crate) fn peer_credentials(socket: BorrowedFd<'_>) -> io::Result<(i32, u32, u32)> {
    let mut found = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: pointer and length describe `found`, which outlives the call; every value of its integers is valid.
    let outcome = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut found).cast(),
            &raw mut length,
        )
    };
    match outcome {
        0 => Ok((found.pid, found.uid, found.gid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns the supplementary groups of the peer of a connected Unix socket.
pub(crate) fn peer_groups(socket: BorrowedFd<'_>) -> io::Result<Vec<u32>> {
    // Linux allows 65 536 groups (NGROUPS_MAX); most users have a few.
    let mut groups = vec![0_u32; 64];
    loop {
        let mut length = size_of_val(groups.as_slice()) as libc::socklen_t;
        // SAFETY: pointer and length describe `groups`, which outlives the call; every value of its integers is valid.
        let outcome = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERGROUPS,
                groups.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        let count = length as usize / size_of::<u32>();
        if outcome == 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        match io::Error::last_os_error() {
            // The kernel has written the required length.
            error if error.raw_os_error() == Some(libc::ERANGE) && count > groups.len() => {
                groups.resize(count, 0);
            }
            error => return Err(error),
        }
    }
}

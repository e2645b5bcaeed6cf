//! Netlink sockets: [`Connection`] for requests, [`Subscription`] for announcements.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, sockopt,
};

use super::message::{Attributes, HEADER, Message, Messages, Received};
use super::{NetlinkError, Refusal};
use crate::sys::socket::{attach_filter, set_option};

/// Receive buffer: larger than any datagram of the kernel (32 KiB, if the reader offers as much).
const BUFFER: usize = 64 * 1024;
/// Receive timeout. The kernel answers while it handles the request; this only bounds the wait for a missing answer.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests in one batch. The socket has room for as many answers, and some more.
const ECHO_BATCH: usize = 32;
/// Attempts at a dump that is inconsistent because the table changed meanwhile.
const DUMP_ATTEMPTS: u32 = 10;

/// The routing subsystem: protocol 0.
const ROUTE: Option<Protocol> = None;
/// The netfilter subsystem.
const NETFILTER: Option<Protocol> = Some(netlink::NETFILTER);

/// The message that ends the answers to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// An acknowledgement, or the end of a dump.
    End,
    /// The notification of the change; a refusal in its place.
    Echo,
}

/// A netlink connection for requests: every request is answered before the call returns.
#[derive(Debug)]
pub struct Connection {
    pub(super) socket: OwnedFd,
    pub(super) sequence: u32,
    pub(super) buffer: Box<[u8]>,
}

impl Connection {
    /// Connects to the routing subsystem, in the network namespace of the calling thread.
    pub fn open() -> Result<Connection, NetlinkError> {
        Connection::to(ROUTE)
    }

    /// Connects to netfilter (nf_tables, connection tracking), in the network namespace of the calling thread.
    pub fn open_netfilter() -> Result<Connection, NetlinkError> {
        Connection::to(NETFILTER)
    }

    fn to(protocol: Option<Protocol>) -> Result<Connection, NetlinkError> {
        let socket = netlink_socket(SocketFlags::CLOEXEC, protocol)?;
        let timeout = Some(RECEIVE_TIMEOUT);
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, timeout)
            .map_err(|e| failed("set a receive timeout", e))?;
        // Errors carry only the request's header and a text; dumps refuse selectors that they would ignore.
        for option in [libc::NETLINK_CAP_ACK, libc::NETLINK_EXT_ACK, libc::NETLINK_GET_STRICT_CHK] {
            set_option(socket.as_fd(), libc::SOL_NETLINK, option, 1)
                .map_err(|source| NetlinkError::Socket { doing: "set an option", source })?;
        }
        Ok(Connection { socket, sequence: 0, buffer: vec![0; BUFFER].into() })
    }

    /// Returns the port by which the kernel knows this connection.
    ///
    /// # Errors
    /// The socket does not report its address.
    pub fn port(&self) -> Result<u32, NetlinkError> {
        let address =
            rustix::net::getsockname(&self.socket).map_err(|e| failed("read a port", e))?;
        let address = SocketAddrNetlink::try_from(address).map_err(|e| failed("read a port", e))?;
        Ok(address.pid())
    }

    /// Sends a request and waits for its acknowledgement.
    ///
    /// # Errors
    /// [`NetlinkError::Refused`] with the kernel's error number and, if it gives one, its explanation.
    pub fn request(&mut self, doing: &'static str, message: Message) -> Result<(), NetlinkError> {
        self.ask(doing, message).map(drop)
    }

    /// Sends a request; returns the messages that came before the acknowledgement.
    pub fn ask(&mut self, doing: &'static str, message: Message) -> Result<Answers, NetlinkError> {
        let sequence = self.send(message.with_flags(libc::NLM_F_ACK as u16))?;
        self.collect(doing, sequence, Until::End).map(|(answers, _)| answers)
    }

    /// Requests a change and its notification (`NLM_F_ECHO`). Returns the content of the notification, which replaces
    /// the acknowledgement, so that the call waits for one answer instead of two.
    ///
    /// # Errors
    /// As for [`Connection::request`].
    pub fn change(
        &mut self,
        doing: &'static str,
        message: Message,
    ) -> Result<Answers, NetlinkError> {
        let sequence = self.send(message.with_flags(libc::NLM_F_ECHO as u16))?;
        self.collect(doing, sequence, Until::Echo).map(|(answers, _)| answers)
    }

    /// Requests many changes in batches, as [`Connection::change`] does; returns the outcome of each, in order.
    ///
    /// # Errors
    /// The socket failed; some of the changes may have been made.
    pub fn change_all(
        &mut self,
        doing: &'static str,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<Vec<Result<Answers, NetlinkError>>, NetlinkError> {
        let mut messages = messages.into_iter();
        let mut outcomes = Vec::new();
        loop {
            let sent = self.send_some(messages.by_ref().take(ECHO_BATCH), libc::NLM_F_ECHO)?;
            if sent.is_empty() {
                return Ok(outcomes);
            }
            for sequence in sent {
                match self.collect(doing, sequence, Until::Echo) {
                    Err(error @ NetlinkError::Socket { .. }) => return Err(error),
                    outcome => outcomes.push(outcome.map(|(answers, _)| answers)),
                }
            }
        }
    }

    /// Sends many requests in batches of 64; stops after the first batch with a refusal, and returns the first refusal.
    /// Other requests of that batch may have succeeded.
    pub fn request_all(
        &mut self,
        doing: &'static str,
        messages: impl IntoIterator<Item = Message>,
    ) -> Result<(), NetlinkError> {
        let mut messages = messages.into_iter();
        loop {
            let sent = self.send_some(messages.by_ref().take(64), libc::NLM_F_ACK)?;
            if sent.is_empty() {
                return Ok(());
            }
            let mut outcome = Ok(());
            for sequence in sent {
                match self.collect(doing, sequence, Until::End).map(drop) {
                    // The other requests of the batch are answered too.
                    refused @ Err(NetlinkError::Refused { .. }) => outcome = outcome.and(refused),
                    answer => answer?,
                }
            }
            outcome?;
        }
    }

    /// Dumps a whole table. Starts again if the table changed meanwhile, so that the answer is consistent.
    pub fn dump(&mut self, doing: &'static str, message: Message) -> Result<Answers, NetlinkError> {
        let message = message.with_flags(libc::NLM_F_DUMP as u16);
        let mut attempt = 1;
        loop {
            let sequence = self.send(message.clone())?;
            let (answers, interrupted) = self.collect(doing, sequence, Until::End)?;
            if !interrupted || attempt == DUMP_ATTEMPTS {
                return Ok(answers);
            }
            attempt += 1;
        }
    }

    fn send(&mut self, message: Message) -> Result<u32, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let octets = message.with_flags(libc::NLM_F_REQUEST as u16).finish(self.sequence);
        self.transmit(&octets)?;
        Ok(self.sequence)
    }

    /// Sends some requests in one call, with these flags each; returns their sequence numbers.
    fn send_some(
        &mut self,
        messages: impl Iterator<Item = Message>,
        flags: i32,
    ) -> Result<Vec<u32>, NetlinkError> {
        let (mut octets, mut sent) = (Vec::new(), Vec::new());
        for message in messages {
            self.sequence = self.sequence.wrapping_add(1);
            let flags = (libc::NLM_F_REQUEST | flags) as u16;
            octets.extend(message.with_flags(flags).finish(self.sequence));
            sent.push(self.sequence);
        }
        if !sent.is_empty() {
            self.transmit(&octets)?;
        }
        Ok(sent)
    }

    pub(super) fn transmit(&self, octets: &[u8]) -> Result<(), NetlinkError> {
        let kernel = SocketAddrNetlink::new(0, 0);
        rustix::net::sendto(&self.socket, octets, SendFlags::empty(), &kernel)
            .map_err(|e| failed("send a request", e))?;
        Ok(())
    }

    /// Collects the answers to `sequence`, up to its acknowledgement, the end of its dump, or its echo. Returns also
    /// whether the table changed during the dump.
    fn collect(
        &mut self,
        doing: &'static str,
        sequence: u32,
        until: Until,
    ) -> Result<(Answers, bool), NetlinkError> {
        let mut answers = Answers::default();
        let mut interrupted = false;
        loop {
            let length = receive(&self.socket, &mut self.buffer)
                .map_err(|e| failed("receive an answer", e))?;
            for message in Messages::new(&self.buffer[..length]) {
                let message = message?;
                // An answer to an earlier call that failed before it arrived.
                if message.sequence != sequence {
                    continue;
                }
                interrupted |= message.flags & libc::NLM_F_DUMP_INTR as u16 != 0;
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        return match refusal(&message)? {
                            Some(refusal) => Err(refusal.of(doing)),
                            None => Ok((answers, interrupted)),
                        };
                    }
                    libc::NLMSG_NOOP => {}
                    _ => answers.push(&message),
                }
            }
            if until == Until::Echo && !answers.octets.is_empty() {
                return Ok((answers, interrupted));
            }
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The messages that answered a request, unparsed.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    octets: Vec<u8>,
}

impl Answers {
    /// Iterates over the messages.
    pub fn iter(&self) -> Messages<'_> {
        Messages::new(&self.octets)
    }

    fn push(&mut self, message: &Received<'_>) {
        let length = (HEADER + message.payload.len()) as u32;
        self.octets.extend_from_slice(&length.to_ne_bytes());
        self.octets.extend_from_slice(&message.kind.to_ne_bytes());
        self.octets.extend_from_slice(&message.flags.to_ne_bytes());
        self.octets.extend_from_slice(&message.sequence.to_ne_bytes());
        self.octets.extend_from_slice(&0_u32.to_ne_bytes());
        self.octets.extend_from_slice(message.payload);
        self.octets.resize(self.octets.len().next_multiple_of(4), 0);
    }
}

impl<'a> IntoIterator for &'a Answers {
    type Item = Result<Received<'a>, NetlinkError>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.iter()
    }
}

/// A netlink socket that receives announcements of the kernel and sends no requests.
#[derive(Debug)]
pub struct Subscription {
    socket: OwnedFd,
    buffer: Box<[u8]>,
}

/// Outcome of one receive call.
#[derive(Debug)]
pub enum Announcements<'a> {
    /// Some announcements.
    Messages(Messages<'a>),
    /// Announcements were lost because the socket's buffer was full.
    Lost,
    /// Nothing is waiting.
    None,
}

impl Subscription {
    /// Subscribes to announcement groups (`RTNLGRP_LINK`, ...) of the routing subsystem, with a receive buffer of
    /// `buffer_size` octets.
    pub fn open(groups: &[u32], buffer_size: i32) -> Result<Subscription, NetlinkError> {
        let socket = netlink_socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, ROUTE)?;
        // Above the system's limit if permitted, else at the limit.
        if set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer_size).is_err()
        {
            set_option(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, buffer_size).map_err(
                |source| NetlinkError::Socket { doing: "set the size of the buffer", source },
            )?;
        }
        for &group in groups {
            let membership = libc::NETLINK_ADD_MEMBERSHIP;
            set_option(socket.as_fd(), libc::SOL_NETLINK, membership, group as i32)
                .map_err(|source| NetlinkError::Socket { doing: "subscribe", source })?;
        }
        Ok(Subscription { socket, buffer: vec![0; BUFFER].into() })
    }

    /// Filters out announcements of changes made by the connections with these ports.
    ///
    /// # Errors
    /// The kernel refused the filter.
    pub fn ignore(&self, ports: &[u32]) -> Result<(), NetlinkError> {
        let instruction = |code, k, jt, jf| libc::sock_filter { code, jt, jf, k };
        const LOAD_WORD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
        const JUMP_IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
        const RETURN: u16 = 0x06; // BPF_RET | BPF_K
        const PORT: u32 = 12; // of `struct nlmsghdr`
        let mut program = vec![instruction(LOAD_WORD, PORT, 0, 0)];
        for (&port, left) in ports.iter().zip((1..=ports.len()).rev()) {
            // The filter loads words in network order. There are few ports, so the jump offset fits.
            let port = u32::from_be_bytes(port.to_ne_bytes());
            program.push(instruction(JUMP_IF_EQUAL, port, left as u8, 0));
        }
        program.push(instruction(RETURN, u32::MAX, 0, 0));
        program.push(instruction(RETURN, 0, 0, 0));
        attach_filter(self.socket.as_fd(), &program)
            .map_err(|source| NetlinkError::Socket { doing: "filter announcements", source })
    }

    /// Receives the next datagram of announcements. Never blocks.
    pub fn receive(&mut self) -> Result<Announcements<'_>, NetlinkError> {
        match receive(&self.socket, &mut self.buffer) {
            Ok(length) => Ok(Announcements::Messages(Messages::new(&self.buffer[..length]))),
            Err(rustix::io::Errno::NOBUFS) => Ok(Announcements::Lost),
            Err(rustix::io::Errno::AGAIN) => Ok(Announcements::None),
            Err(e) => Err(failed("receive announcements", e)),
        }
    }
}

impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn netlink_socket(flags: SocketFlags, protocol: Option<Protocol>) -> Result<OwnedFd, NetlinkError> {
    let family = AddressFamily::NETLINK;
    let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)
        .map_err(|e| failed("open a netlink socket", e))?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))
        .map_err(|e| failed("bind a netlink socket", e))?;
    Ok(socket)
}

fn receive(socket: &OwnedFd, buffer: &mut [u8]) -> Result<usize, rustix::io::Errno> {
    receive_with(socket, buffer, RecvFlags::empty())
}

/// Receives one datagram; repeats the call if a signal interrupts it.
pub(super) fn receive_with(
    socket: &OwnedFd,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> Result<usize, rustix::io::Errno> {
    loop {
        match rustix::net::recv(socket, &mut *buffer, flags) {
            Ok((length, _)) => return Ok(length),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
}

/// Returns the content of an acknowledgement or the end of a dump: `None` for success.
pub(super) fn refusal(message: &Received<'_>) -> Result<Option<Refusal>, NetlinkError> {
    let code = message.fixed(4, "error code")?;
    let code = i32::from_ne_bytes([code[0], code[1], code[2], code[3]]);
    if code == 0 {
        return Ok(None);
    }
    // The code, then (in an error) the header of the request, then attributes; capped, as requested.
    const ACK_TLVS: u16 = 0x200;
    const ATTRIBUTE_MESSAGE: u16 = 1;
    let before = if i32::from(message.kind) == libc::NLMSG_ERROR { 4 + HEADER } else { 4 };
    let mut explanation = None;
    if message.flags & ACK_TLVS != 0 {
        let attributes = Attributes::new(message.payload.get(before..).unwrap_or_default());
        let text = attributes.flatten().find(|a| a.kind == ATTRIBUTE_MESSAGE);
        explanation = text.map(|a| a.text());
    }
    Ok(Some(Refusal { errno: code.saturating_neg(), explanation }))
}

pub(super) fn failed(doing: &'static str, errno: rustix::io::Errno) -> NetlinkError {
    NetlinkError::Socket { doing, source: io::Error::from(errno) }
}

//! The signalling socket: RSVP messages of both families, however they come and leave.
//!
//! Messages come through raw sockets (addressed to this host, or caught in transit by router alert), through a ring
//! buffer that a BPF program fills (to groups; and without router alert where an interface is set so), and inside UDP
//! packets (from hosts without raw sockets). What was in transit is consumed: whoever reads it must send it on (RFC 2205
//! section 3.11.3). The TTL of a packet in transit has not been decremented yet. All of it fails open: when the process
//! dies, messages flow on as through a router without RSVP.
//!
//! A second raw socket with router alert means one of the two daemons is deaf, without an error. So the namespace is
//! claimed first, by binding an abstract Unix socket name: these are per network namespace, and free themselves when
//! the process dies in any way.
//!
//! How interfaces are to be used is told after opening ([`RsvpSocket::set_interface`]), also of new ones at any time.

mod error;
mod frame;
mod intercept;
mod raw;
mod ready;
mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use earmark_core::{Datagram, InterfaceId, Outgoing};

use crate::sys::socket::{Batch, receive_drops, set_option};
pub use error::{InterfaceError, OpenError, SendError};
use frame::LONGEST_PACKET;
pub use intercept::Intercept;
use intercept::Interceptor;
use raw::RawSockets;
use ready::{ReadySet, Source};
use udp::UdpSockets;

/// IP protocol number of RSVP (RFC 2205 section 3.11.1).
const RSVP: i32 = 46;
/// Packets taken out of the kernel at once, of each socket; and handed to it.
const BATCH: usize = 32;
/// Receive buffer, octets, of which only what waits is used: some 80 000 messages of 200 octets, each charged about 800 by
/// the kernel. So many set-ups may come at once without a loss; a loss is made up for only by the next refresh.
const RECEIVE_BUFFER: i32 = 64 << 20;

/// By which means a node signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// By raw sockets, and inside UDP where an interface is set so.
    #[default]
    Raw,
    /// Inside UDP only: for hosts, which then need no CAP_NET_RAW.
    UdpOnly,
}

/// How messages pass through one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceSignalling {
    /// Which messages are taken out of what arrives.
    pub intercept: Intercept,
    /// Whether there are hosts behind it that signal inside UDP (RFC 2205 appendix C): messages in UDP are heard, and
    /// those that follow the data leave both ways.
    pub udp: bool,
}

/// What an [`RsvpSocket`] counted since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Messages handed out.
    pub received: u64,
    /// Packets not handed out because their IP header was broken, or because they came inside UDP where nobody wants
    /// that.
    pub malformed: u64,
    /// Messages the kernel dropped because the receive buffer, or the interceptor's ring, was full.
    pub overflowed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost because the kernel had no room ([`SendError::NoRoom`]).
    pub no_room: u64,
    /// Packets in transit that carried RSVP's router alert but were no whole messages, and were sent on.
    pub passed_on: u64,
}

/// The signalling socket of one network namespace.
///
/// Interfaces are set by threads of that namespace.
#[derive(Debug)]
pub struct RsvpSocket {
    ready: ReadySet,
    /// `None` where signalling is by UDP only.
    raw: Option<RawSockets>,
    /// Opened when the first interface needs it.
    udp: Option<UdpSockets>,
    /// `None` where BPF is not to be had; then why.
    interceptor: Result<Interceptor, io::ErrorKind>,
    batch: Batch<BATCH>,
    counters: SocketCounters,
    /// Groups, with the interfaces on which they are joined and how often that was asked for.
    groups: BTreeMap<(IpAddr, InterfaceId), u32>,
    /// Holds the claim on the namespace.
    _claim: UnixDatagram,
}

impl RsvpSocket {
    /// Opens the sockets in the network namespace of the calling thread, and claims that namespace for this process.
    ///
    /// Needs CAP_NET_RAW; and CAP_BPF for interception, which is done without where there is none.
    ///
    /// # Errors
    /// [`OpenError::AlreadyRunning`] where another process (or another value of this type) has claimed it.
    pub fn open() -> Result<RsvpSocket, OpenError> {
        RsvpSocket::open_with(Access::Raw)
    }

    /// The same, by raw sockets or without.
    pub fn open_with(access: Access) -> Result<RsvpSocket, OpenError> {
        let claim = claim_namespace()?;
        let ready = ReadySet::new()?;
        let mut socket = RsvpSocket {
            ready,
            raw: None,
            udp: None,
            interceptor: Err(io::ErrorKind::Unsupported),
            batch: Batch::new(LONGEST_PACKET),
            counters: SocketCounters::default(),
            groups: BTreeMap::new(),
            _claim: claim,
        };
        match access {
            Access::Raw => {
                let raw = RawSockets::open()?;
                socket.ready.add(Source::Raw4, raw.receiver4.as_fd())?;
                if let Some(six) = &raw.six {
                    socket.ready.add(Source::Raw6, six.receiver.as_fd())?;
                    socket.ready.add(Source::Transit6, six.transit.as_fd())?;
                }
                socket.raw = Some(raw);
                socket.interceptor = Interceptor::open().map_err(|error| {
                    tracing::info!(%error, "no interception by BPF here");
                    error.kind()
                });
                if let Ok(interceptor) = &socket.interceptor {
                    socket.ready.add(Source::Intercepted, interceptor.as_fd())?;
                }
            }
            Access::UdpOnly => socket.open_udp(true)?,
        }
        Ok(socket)
    }

    /// Says how an interface is to be used, for the first time or anew.
    ///
    /// # Errors
    /// It cannot be used so: interception without router alert needs BPF with TCX; the UDP ports may be taken.
    pub fn set_interface(
        &mut self,
        interface: InterfaceId,
        how: InterfaceSignalling,
    ) -> Result<(), InterfaceError> {
        if self.raw.is_some() {
            let attached = match &mut self.interceptor {
                Ok(interceptor) => interceptor.attach(interface, how.intercept),
                Err(kind) => Err((*kind).into()),
            };
            match (attached, how.intercept) {
                (Err(error), Intercept::Protocol) => return Err(InterfaceError::Intercept(error)),
                // What goes to groups is then seen as far as raw sockets see it.
                (Err(error), Intercept::RouterAlert) => {
                    tracing::debug!(%error, interface = interface.0, "not intercepted");
                }
                (Ok(()), _) => {}
            }
        }
        let udp = how.udp || self.raw.is_none();
        if udp && self.udp.is_none() {
            self.open_udp(false)?;
        }
        match &mut self.udp {
            Some(sockets) => sockets.serve(interface, udp).map_err(InterfaceError::Join),
            None => Ok(()),
        }
    }

    /// Forgets an interface that has gone, or takes no part any more.
    pub fn forget_interface(&mut self, interface: InterfaceId) {
        if let Ok(interceptor) = &mut self.interceptor {
            interceptor.detach(interface);
        }
        if let Some(Err(error)) = self.udp.as_mut().map(|udp| udp.serve(interface, false)) {
            tracing::debug!(%error, interface = interface.0, "leaving a group");
        }
        // The kernel ends memberships with their interface.
        self.groups.retain(|(_, on), _| *on != interface);
    }

    /// Hears what is sent to a group through an interface, as a receiver's host must; as often as it is asked for, until
    /// it was left as often.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn join(&mut self, group: IpAddr, interface: InterfaceId) -> io::Result<()> {
        let count = self.groups.get(&(group, interface)).copied().unwrap_or(0);
        if count == 0 {
            raw::membership(self.group_socket(group)?, group, interface, true)?;
        }
        self.groups.insert((group, interface), count + 1);
        Ok(())
    }

    /// Undoes one [`RsvpSocket::join`]. No error where there was none.
    pub fn leave(&mut self, group: IpAddr, interface: InterfaceId) -> io::Result<()> {
        match self.groups.get_mut(&(group, interface)) {
            None => Ok(()),
            Some(count) if *count > 1 => {
                *count -= 1;
                Ok(())
            }
            Some(_) => {
                self.groups.remove(&(group, interface));
                raw::membership(self.group_socket(group)?, group, interface, false)
            }
        }
    }

    /// Takes one batch of messages out of each socket where some wait, and hands each well-formed one to `each`. Returns
    /// how many packets were taken, 0 when nothing is waiting; call again until then.
    pub fn receive(&mut self, mut each: impl FnMut(Datagram<'_>)) -> io::Result<usize> {
        let mut count = 0;
        for source in self.ready.now()? {
            count += self.receive_from(source, &mut each)?;
        }
        Ok(count)
    }

    /// Sends `payload` as `out` says, with the precedence of network control (RFC 791) and in the signalling class of
    /// [`crate::TrafficControl`]. Never blocks.
    ///
    /// A message that follows the data (one with router alert) leaves raw, and inside UDP as well where the interface is
    /// set so. The others leave by the way that [`Outgoing::encapsulated`] names.
    pub fn send(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let outcome = self.send_either_way(out, payload);
        match outcome {
            Ok(()) => {
                self.counters.sent += 1;
                Ok(())
            }
            Err(SendError::System(e))
                if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) =>
            {
                self.counters.no_room += 1;
                Err(SendError::NoRoom)
            }
            Err(error) => Err(error),
        }
    }

    /// Sends messages in their order, each as [`RsvpSocket::send`] does, but with fewer calls of the kernel. `failed` hears
    /// of those that were not sent.
    pub fn send_all<'a>(
        &mut self,
        messages: impl IntoIterator<Item = (&'a Outgoing, &'a [u8])>,
        mut failed: impl FnMut(&Outgoing, SendError),
    ) {
        let mut messages = messages.into_iter();
        while let Some(first) = messages.next() {
            let mut batch = [first; BATCH];
            let mut count = 1;
            for (place, message) in batch[1..].iter_mut().zip(&mut messages) {
                *place = message;
                count += 1;
            }
            let mut batch = &batch[..count];
            while let Some((&(out, payload), others)) = batch.split_first() {
                let sent = if others.is_empty() { 0 } else { self.send_together(batch) };
                if sent > 0 {
                    self.counters.sent += sent as u64;
                    batch = &batch[sent..];
                    continue;
                }
                if let Err(error) = self.send(out, payload) {
                    failed(out, error);
                }
                batch = others;
            }
        }
    }

    /// Whether messages for destinations of this family can be sent.
    pub fn can_signal(&self, destination: IpAddr) -> bool {
        match &self.raw {
            Some(raw) => destination.is_ipv4() || raw.six.is_some(),
            None => self.udp.as_ref().is_some_and(|udp| udp.can_signal(destination)),
        }
    }

    /// What was counted so far.
    pub fn counters(&self) -> SocketCounters {
        let drops = |socket: &OwnedFd| receive_drops(socket.as_fd()).unwrap_or_default();
        let mut overflowed = 0;
        if let Some(raw) = &self.raw {
            overflowed += drops(&raw.receiver4);
            overflowed +=
                raw.six.as_ref().map_or(0, |six| drops(&six.receiver) + drops(&six.transit));
        }
        let ports = self.udp.iter().flat_map(|udp| &udp.ports);
        overflowed += ports.map(|port| drops(&port.socket)).sum::<u64>();
        overflowed += self.interceptor.as_ref().map_or(0, Interceptor::lost);
        SocketCounters { overflowed, ..self.counters }
    }

    fn open_udp(&mut self, udp_only: bool) -> Result<(), OpenError> {
        let udp = UdpSockets::open(udp_only)?;
        for (port, number) in udp.ports.iter().zip(0..) {
            self.ready.add(Source::Udp(number), port.socket.as_fd())?;
        }
        self.udp = Some(udp);
        Ok(())
    }

    /// The socket that is a member of groups.
    fn group_socket(&self, group: IpAddr) -> io::Result<BorrowedFd<'_>> {
        let socket = match (&self.raw, group) {
            (Some(raw), IpAddr::V4(_)) => Some(&raw.receiver4),
            (Some(raw), IpAddr::V6(_)) => raw.six.as_ref().map(|six| &six.receiver),
            (None, _) => self.udp.as_ref().and_then(|udp| udp.group_socket(group)),
        };
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        Ok(socket.as_fd())
    }

    fn receive_from(
        &mut self,
        source: Source,
        each: &mut impl FnMut(Datagram<'_>),
    ) -> io::Result<usize> {
        let counters = &mut self.counters;
        let mut take = |datagram: Option<Datagram<'_>>| match datagram {
            Some(datagram) => {
                counters.received += 1;
                each(datagram);
            }
            None => counters.malformed += 1,
        };
        let socket = match (source, &mut self.interceptor) {
            (Source::Intercepted, Ok(interceptor)) => {
                return Ok(interceptor.read(BATCH, |octets, interface| {
                    let is_ipv4 = octets.first().is_some_and(|first| first >> 4 == 4);
                    let datagram = if is_ipv4 { raw::datagram4 } else { raw::datagram6 };
                    take(datagram(octets, interface));
                }));
            }
            (source, _) => source.socket(self.raw.as_ref(), self.udp.as_ref()),
        };
        let Some(socket) = socket else { return Ok(0) };
        let count = self.batch.receive(socket.as_fd())?;
        let mut passed_on = 0;
        for (octets, about) in self.batch.packets() {
            match source {
                Source::Raw4 => take(about.interface.and_then(|on| raw::datagram4(octets, on))),
                Source::Raw6 => take(raw::bare_datagram6(octets, about)),
                Source::Transit6 => {
                    match about.interface.and_then(|on| raw::datagram6(octets, on)) {
                        Some(datagram) => take(Some(datagram)),
                        None => {
                            let six = self.raw.as_ref().and_then(|raw| raw.six.as_ref());
                            if six.is_some_and(|six| six.pass_on(octets)) {
                                passed_on += 1;
                            }
                        }
                    }
                }
                Source::Udp(_) => {
                    take(self.udp.as_ref().and_then(|udp| udp.datagram(octets, about)));
                }
                Source::Intercepted => {}
            }
        }
        self.counters.passed_on += passed_on;
        Ok(count)
    }

    /// Sends the first of these messages in one call, as far as they leave raw and not inside UDP; gives how many.
    fn send_together(&self, messages: &[(&Outgoing, &[u8])]) -> usize {
        let Some(raw) = &self.raw else { return 0 };
        let bare =
            |(out, _): &&(&Outgoing, &[u8])| !out.encapsulated && !self.leaves_both_ways(out);
        raw.send_together(&messages[..messages.iter().take_while(bare).count()])
    }

    /// Whether a message that can leave raw has to leave inside UDP as well.
    fn leaves_both_ways(&self, out: &Outgoing) -> bool {
        let serves = |udp: &UdpSockets| out.interface.is_some_and(|on| udp.serves(on));
        out.router_alert && self.udp.as_ref().is_some_and(serves)
    }

    fn send_either_way(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let also = self.leaves_both_ways(out);
        let raw = self.raw.as_mut().filter(|_| !out.encapsulated);
        let inside_udp = raw.is_none() || also;
        let sent = raw.map_or(Ok(()), |raw| raw.send(out, payload));
        if !inside_udp {
            return sent;
        }
        let udp = self.udp.as_mut().ok_or(SendError::NoEncapsulation)?;
        sent.and(udp.send(out, payload).map_err(SendError::System))
    }
}

impl AsFd for RsvpSocket {
    /// The descriptor that becomes readable when messages wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

fn claim_namespace() -> Result<UnixDatagram, OpenError> {
    let name = SocketAddr::from_abstract_name(b"earmark-rsvp");
    name.and_then(|name| UnixDatagram::bind_addr(&name)).map_err(|source| match source.kind() {
        io::ErrorKind::AddrInUse => OpenError::AlreadyRunning,
        _ => OpenError::System { doing: "claim the network namespace", source },
    })
}

fn raw_socket(family: socket2::Domain, protocol: i32) -> Result<OwnedFd, OpenError> {
    let kind = socket2::Type::RAW.nonblocking().cloexec();
    let socket = socket2::Socket::new(family, kind, Some(protocol.into()));
    socket
        .map(OwnedFd::from)
        .map_err(|source| OpenError::System { doing: "open a raw socket", source })
}

fn set(
    socket: &OwnedFd,
    doing: &'static str,
    level: i32,
    option: i32,
    value: i32,
) -> Result<(), OpenError> {
    set_option(socket.as_fd(), level, option, value)
        .map_err(|source| OpenError::System { doing, source })
}

/// Past the system's limit where we may; else as much as it allows.
fn size_receive_buffer(socket: &OwnedFd) -> Result<(), OpenError> {
    let (level, doing) = (libc::SOL_SOCKET, "size the receive buffer");
    set(socket, doing, level, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)
        .or_else(|_| set(socket, doing, level, libc::SO_RCVBUF, RECEIVE_BUFFER))
}

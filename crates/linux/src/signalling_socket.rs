//! The signalling socket: messages of all protocols and both address families, on every way in and out.
//!
//! RSVP messages arrive through raw sockets (addressed to this host, or intercepted in transit by router alert),
//! through a ring buffer that BPF programs fill (to groups; and without router alert on interfaces with that setting),
//! and inside UDP packets (from hosts without raw sockets). Those of Boomerang are pings and those of YESSIR are RTCP
//! packets: they arrive through the ring buffer, from the interfaces with that setting; if BPF is unavailable, through
//! raw sockets as far as these receive them. Those of GIST are UDP packets to port 270: they arrive in the same ways,
//! whether in transit or for this host.
//!
//! A message in transit is consumed, unless it is marked as a copy: the reader must forward it (RFC 2205 section
//! 3.11.3). The TTL of a packet in transit has not been decremented yet. Interception fails open: when the process
//! ends, messages are forwarded as by a router that does not know these protocols.
//!
//! With a second raw socket with router alert, one of the two daemons would receive nothing, without an error. So the
//! namespace is claimed first ([`NamespaceClaim`]).
//!
//! The use of each interface is set after opening ([`SignallingSocket::set_interface`]), also of new ones at any time.

mod alerted;
mod checksum;
mod error;
mod fast_path;
mod frame;
mod intercept;
mod raw;
mod ready;
mod receive;
mod settings;
mod sink;
mod udp;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::{InterfaceId, Outgoing};

use crate::interface::InterfaceName;
use crate::namespace_claim::NamespaceClaim;
use crate::sys::socket::{Batch, receive_drops, set_option};
use alerted::AlertedSockets;
pub use error::{InterfaceError, OpenError, SendError};
pub use fast_path::{FastKey, FastPath, FastSession, PassedMessages, Seen, SeenSession};
use frame::LONGEST_PACKET;
use intercept::Interceptor;
use raw::RawSockets;
use ready::{MOST, ReadySet, Source};
pub use settings::{
    Access, Gist, Incoming, Intercept, InterfaceSignalling, Settled, Share, SocketCounters, Yessir,
};
use sink::Sink;
use udp::UdpSockets;

/// IP protocol number of RSVP (RFC 2205 section 3.11.1).
const RSVP: i32 = 46;
/// Packets received from each socket in one call, and sent in one call.
const BATCH: usize = 32;
/// Receive buffer, octets; only waiting packets use memory: some 80 000 messages of 200 octets, each charged about 800
/// by the kernel. That many setups may arrive at once without a loss; only the next refresh repairs a loss.
const RECEIVE_BUFFER: i32 = 64 << 20;

/// The signalling socket of one network namespace.
///
/// Interfaces are set by threads of that namespace.
#[derive(Debug)]
pub struct SignallingSocket {
    ready: ReadySet,
    /// `None` if signalling is by UDP only.
    raw: Option<RawSockets>,
    /// Opened when the first interface needs it.
    udp: Option<UdpSockets>,
    /// The reason if BPF is unavailable.
    interceptor: Result<Interceptor, io::ErrorKind>,
    /// Raw sockets that replace the interceptor if BPF is unavailable.
    alerted: AlertedSockets,
    batch: Batch<BATCH>,
    counters: SocketCounters,
    /// Opened when the first interface needs it.
    sink: Option<Sink>,
    /// Groups, with the interfaces on which they are joined and the number of joins.
    groups: BTreeMap<(IpAddr, InterfaceId), u32>,
    /// Claim on the namespace.
    _claim: NamespaceClaim,
}

impl SignallingSocket {
    /// Maximum number of message sources.
    pub const SOURCES: u64 = MOST;

    /// Opens the sockets in the network namespace of the calling thread, and claims that namespace for this process.
    ///
    /// Needs CAP_NET_RAW; and CAP_BPF for interception, which is off without it.
    ///
    /// # Errors
    /// [`OpenError::AlreadyRunning`] if another process (or another value of this type) has claimed it.
    pub fn open() -> Result<SignallingSocket, OpenError> {
        SignallingSocket::open_with(Access::Raw)
    }

    /// Opens the sockets as [`SignallingSocket::open`] does, with or without raw sockets.
    pub fn open_with(access: Access) -> Result<SignallingSocket, OpenError> {
        let claim = NamespaceClaim::take()?;
        let ready = ReadySet::new()?;
        let mut socket = SignallingSocket {
            ready,
            raw: None,
            udp: None,
            interceptor: Err(io::ErrorKind::Unsupported),
            alerted: AlertedSockets::default(),
            batch: Batch::new(LONGEST_PACKET),
            counters: SocketCounters::default(),
            sink: None,
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

    /// Sets the use of an interface, for the first time or again.
    ///
    /// # Errors
    /// The interface does not support it: interception without router alert needs BPF with TCX; the UDP ports may be
    /// taken.
    pub fn set_interface(
        &mut self,
        interface: InterfaceId,
        how: InterfaceSignalling,
    ) -> Result<(), InterfaceError> {
        if self.raw.is_some() {
            self.intercept(interface, &how)?;
        } else if how.boomerang
            || how.yessir != Yessir::Off
            || how.sender_reports
            || how.gist != Gist::Off
        {
            return Err(InterfaceError::NeedsRaw);
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

    /// Adds the sockets, those that are open and all that will be, to an epoll set of the caller, who has to poll them
    /// there. From then on [`SignallingSocket::receive`] reads only those that [`SignallingSocket::note`] named, and
    /// the ring. In the set, which is level-triggered, they have numbers from `first` on, at most
    /// [`SignallingSocket::SOURCES`].
    ///
    /// # Errors
    /// The set refuses them.
    pub fn wait_in(&mut self, set: OwnedFd, first: u64) -> io::Result<()> {
        let ready = ReadySet::inside(set, first);
        for source in (0..MOST).map(Source::from_number) {
            if let Some(descriptor) = self.descriptor(source) {
                ready.add(source, descriptor).map_err(io::Error::other)?;
            }
        }
        self.ready = ready;
        Ok(())
    }

    /// Records that the source with this number is readable.
    pub fn note(&mut self, number: u64) {
        self.ready.note(number);
    }

    /// Removes an interface that is gone or takes no part any more.
    pub fn forget_interface(&mut self, interface: InterfaceId) {
        if let Ok(interceptor) = &mut self.interceptor {
            interceptor.detach(interface);
        }
        self.alerted.forget(interface);
        if let Some(Err(error)) = self.udp.as_mut().map(|udp| udp.serve(interface, false)) {
            tracing::debug!(%error, interface = %InterfaceName(interface), "leaving a group");
        }
        // The kernel ends memberships together with their interface.
        self.groups.retain(|(_, on), _| *on != interface);
    }

    /// Receives what is sent to a group through an interface, as a receiver's host must. Joins are counted: the group
    /// is left after as many calls of [`SignallingSocket::leave`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn join(&mut self, group: IpAddr, interface: InterfaceId) -> io::Result<()> {
        let count = self.groups.get(&(group, interface)).copied().unwrap_or(0);
        if count == 0 {
            raw::membership(self.group_socket(group)?, group, interface, true)?;
        }
        self.groups.insert((group, interface), count + 1);
        Ok(())
    }

    /// Reverts one [`SignallingSocket::join`]. No error if there was none.
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

    /// Sends `payload` as `out` specifies, with the precedence of network control (RFC 791) and in the signalling class
    /// of [`crate::TrafficControl`]. Never blocks.
    ///
    /// A message that follows the data (one with router alert) leaves raw, and inside UDP as well on interfaces with
    /// that setting. The others leave as [`Outgoing::encapsulated`] specifies.
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

    /// Sends messages in order, each as [`SignallingSocket::send`] does, but with fewer system calls. `failed` is
    /// called for those that were not sent.
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

    /// Returns the Boomerang sessions that the kernel refreshes by itself, at the interfaces that are set to receive
    /// its messages; `None` if BPF is unavailable.
    pub fn fast_path(&self) -> Option<&FastPath> {
        let fast_path = self.interceptor.as_ref().ok().map(|interceptor| &interceptor.fast_path);
        fast_path.filter(|fast_path| fast_path.is_loaded())
    }

    /// Mutable access to those sessions, to start the kernel's refreshes.
    pub fn fast_path_mut(&mut self) -> Option<&mut FastPath> {
        let fast_path =
            self.interceptor.as_mut().ok().map(|interceptor| &mut interceptor.fast_path);
        fast_path.filter(|fast_path| fast_path.is_loaded())
    }

    /// Whether messages to a destination of this address family can be sent.
    pub fn can_signal(&self, destination: IpAddr) -> bool {
        match &self.raw {
            Some(raw) => destination.is_ipv4() || raw.six.is_some(),
            None => self.udp.as_ref().is_some_and(|udp| udp.can_signal(destination)),
        }
    }

    /// Returns the counters so far.
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
        overflowed += self.alerted.sockets.iter().map(|(_, socket)| drops(socket)).sum::<u64>();
        overflowed += self.interceptor.as_ref().map_or(0, Interceptor::lost);
        SocketCounters { overflowed, ..self.counters }
    }

    /// Arranges that the signalling messages of an interface are received, by BPF if it is available.
    fn intercept(
        &mut self,
        interface: InterfaceId,
        how: &InterfaceSignalling,
    ) -> Result<(), InterfaceError> {
        if how.gist != Gist::Off && self.sink.is_none() {
            self.open_sink()?;
        }
        let attached = match &mut self.interceptor {
            Ok(interceptor) => interceptor.attach(interface, how),
            Err(kind) => Err((*kind).into()),
        };
        let mut by_sockets = InterfaceSignalling::default();
        if let Err(error) = attached {
            if how.intercept == Intercept::Protocol
                || how.yessir == Yessir::Always
                || how.sender_reports
                || how.gist == Gist::Port
            {
                return Err(InterfaceError::Intercept(error));
            }
            // Messages to groups and answers to pings are then received only as far as raw sockets see them.
            tracing::debug!(%error, interface = %InterfaceName(interface), "not intercepted");
            by_sockets = match &self.interceptor {
                Ok(interceptor) => interceptor.missing(interface, how),
                Err(_) => *how,
            };
        }
        let before = self.alerted.sockets.len();
        self.alerted.serve(interface, &by_sockets)?;
        for ((_, socket), number) in self.alerted.sockets.iter().zip(0..).skip(before) {
            self.ready.add(Source::Alerted(number), socket.as_fd())?;
        }
        Ok(())
    }

    /// Opens a socket on the GIST port. A process without the privilege continues without it if BPF receives the
    /// messages.
    fn open_sink(&mut self) -> Result<(), OpenError> {
        match Sink::open() {
            Ok(sink) => self.sink = Some(sink),
            Err(OpenError::System { doing, source })
                if source.kind() == io::ErrorKind::PermissionDenied && self.interceptor.is_ok() =>
            {
                tracing::warn!(%source, "cannot {doing}: what is not for it is answered with ICMP");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn open_udp(&mut self, udp_only: bool) -> Result<(), OpenError> {
        let udp = UdpSockets::open(udp_only)?;
        for (port, number) in udp.ports.iter().zip(0..) {
            self.ready.add(Source::Udp(number), port.socket.as_fd())?;
        }
        self.udp = Some(udp);
        Ok(())
    }

    /// Returns the socket that is a member of groups.
    fn group_socket(&self, group: IpAddr) -> io::Result<BorrowedFd<'_>> {
        let socket = match (&self.raw, group) {
            (Some(raw), IpAddr::V4(_)) => Some(&raw.receiver4),
            (Some(raw), IpAddr::V6(_)) => raw.six.as_ref().map(|six| &six.receiver),
            (None, _) => self.udp.as_ref().and_then(|udp| udp.group_socket(group)),
        };
        let socket = socket.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
        Ok(socket.as_fd())
    }

    /// Sends the first of these messages in one call, as long as they leave raw and not inside UDP; returns their
    /// number.
    fn send_together(&self, messages: &[(&Outgoing, &[u8])]) -> usize {
        let Some(raw) = &self.raw else { return 0 };
        let bare =
            |(out, _): &&(&Outgoing, &[u8])| !out.encapsulated && !self.leaves_both_ways(out);
        raw.send_together(&messages[..messages.iter().take_while(bare).count()])
    }

    /// Whether a message that can leave raw must leave inside UDP as well.
    fn leaves_both_ways(&self, out: &Outgoing) -> bool {
        let serves = |udp: &UdpSockets| out.interface.is_some_and(|on| udp.serves(on));
        is_rsvp(out) && out.router_alert && self.udp.as_ref().is_some_and(serves)
    }

    fn send_either_way(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let also = self.leaves_both_ways(out);
        let raw = self.raw.as_mut().filter(|_| !out.encapsulated);
        if raw.is_none() && !is_rsvp(out) {
            return Err(SendError::NeedsRaw { protocol: out.protocol });
        }
        let inside_udp = raw.is_none() || also;
        let sent = raw.map_or(Ok(()), |raw| raw.send(out, payload));
        if !inside_udp {
            return sent;
        }
        let udp = self.udp.as_mut().ok_or(SendError::NoEncapsulation)?;
        sent.and(udp.send(out, payload).map_err(SendError::System))
    }
}

impl AsFd for SignallingSocket {
    /// Returns the descriptor that becomes readable when messages wait: the set of [`SignallingSocket::wait_in`], if it
    /// is used.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

fn is_rsvp(out: &Outgoing) -> bool {
    i32::from(out.protocol) == RSVP
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

/// Sets the size of the receive buffer, above the system's limit if permitted, else at the limit.
fn size_receive_buffer(socket: &OwnedFd) -> Result<(), OpenError> {
    let (level, doing) = (libc::SOL_SOCKET, "size the receive buffer");
    set(socket, doing, level, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER)
        .or_else(|_| set(socket, doing, level, libc::SO_RCVBUF, RECEIVE_BUFFER))
}

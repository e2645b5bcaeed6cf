//! The signalling socket: sends and receives the messages of all protocols, over both address families.
//!
//! What is specific to a protocol is in a module of that protocol (`protocols`). Messages arrive
//!
//! - through a ring buffer that BPF programs fill (`interceptor`), in which each port has a share,
//! - through raw sockets (`raw_receivers`), if BPF is unavailable: messages with router alert, and messages for this host;
//!   fragments in any case,
//! - inside UDP packets, from hosts without raw sockets.
//!
//! A message in transit is consumed, unless it is marked as a copy: the reader must forward it (RFC 2205 section
//! 3.11.3). The TTL of a packet in transit has not been decremented yet. Interception fails open: when the process
//! ends, messages are forwarded as by a router that does not know these protocols.
//!
//! With a second raw socket with router alert, one of the two daemons would receive nothing, without an error. So the
//! namespace is claimed first ([`NamespaceClaim`]).
//!
//! The use of each interface is set after opening ([`SignallingSocket::set_interface`]), also of new ones at any time.

mod checksum;
mod error;
mod fair_queue;
mod frame;
mod incoming;
mod interceptor;
mod packet;
mod packet_filter;
mod protocol;
pub(crate) mod protocols;
mod raw_receivers;
mod raw_sender;
mod ready_set;
mod receive;
mod sink;
mod socket_options;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use earmark_core::{InterfaceId, Outgoing};

use crate::interface::InterfaceName;
use crate::namespace_claim::NamespaceClaim;
use crate::sys::socket::{Batch, receive_drops};
pub use error::{InterfaceError, OpenError, SendError};
use frame::MAX_PACKET;
pub use incoming::Incoming;
use interceptor::Interceptor;
use packet_filter::PacketFilter;
pub use protocols::*;
use raw_receivers::RawReceivers;
use raw_sender::RawSender;
use ready_set::{MAX_SOURCES, ReadySet, Source};
use sink::Sink;
use socket_options::{BATCH, membership};

/// Sockets by which a node signals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Raw sockets, and UDP on interfaces with that setting.
    #[default]
    Raw,
    /// UDP only: for hosts, which then need no CAP_NET_RAW.
    UdpOnly,
}

/// Counters of a socket since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketCounters {
    /// Messages received.
    pub received: u64,
    /// Packets dropped because their IP header was malformed, or because they arrived inside UDP at an interface that
    /// does not use it.
    pub malformed: u64,
    /// Messages the kernel dropped because the receive buffer, or the interceptor's ring, was full, or because too many of
    /// one port waited ([`SignallingSocket::shed`]).
    pub overflowed: u64,
    /// Messages sent.
    pub sent: u64,
    /// Messages lost because the kernel's queues were full ([`SendError::QueueFull`]).
    pub queue_full: u64,
    /// Packets in transit with router alert that were not messages and were forwarded from here.
    pub forwarded: u64,
}

/// The signalling socket of one network namespace.
///
/// Interfaces are set by threads of that namespace.
#[derive(Debug)]
pub struct SignallingSocket {
    ready: ReadySet,
    /// `None` if signalling is by UDP only.
    raw: Option<RawSender>,
    /// Opened when the first interface needs it.
    udp: Option<UdpSockets>,
    /// The reason if BPF is unavailable.
    interceptor: Result<Interceptor, io::ErrorKind>,
    receivers: RawReceivers,
    batch: Batch<BATCH>,
    counters: SocketCounters,
    /// UDP ports that are kept open, from the time when the first interface needs it.
    sinks: BTreeMap<u16, Sink>,
    /// Groups, with the interfaces on which they are joined and the number of joins.
    groups: BTreeMap<(IpAddr, InterfaceId), u32>,
    /// Claim on the namespace.
    _claim: NamespaceClaim,
}

impl SignallingSocket {
    /// Maximum number of message sources.
    pub const SOURCES: u64 = MAX_SOURCES;

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
            receivers: RawReceivers::none(),
            batch: Batch::new(MAX_PACKET),
            counters: SocketCounters::default(),
            sinks: BTreeMap::new(),
            groups: BTreeMap::new(),
            _claim: claim,
        };
        match access {
            Access::Raw => {
                socket.raw = Some(RawSender::open()?);
                socket.receivers = RawReceivers::open()?;
                socket.wait_for_receivers(0)?;
                socket.interceptor = Interceptor::open().map_err(|error| {
                    tracing::info!(%error, "interception by BPF is unavailable");
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
        } else if PROTOCOLS
            .iter()
            .any(|known| !known.protocol.is_always_received && known.needed(&how).next().is_some())
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

    /// Receives the messages of one more protocol, which this crate need not know: packets of this IP protocol with
    /// router alert (in IPv6 with value 0), and those for this host, from all interfaces. They arrive with that number
    /// in [`Incoming::protocol`] and are consumed. [`SignallingSocket::send`] sends them.
    ///
    /// # Errors
    /// [`OpenError::ProtocolInUse`] for a number of which packets are received already, or that the kernel's transport
    /// protocols and the sending of raw packets need.
    pub fn add_protocol(&mut self, protocol: u8) -> Result<(), OpenError> {
        let reserved = [0, libc::IPPROTO_TCP, libc::IPPROTO_IPV6, libc::IPPROTO_RAW];
        if self.raw.is_none() {
            return Err(OpenError::NeedsRaw { protocol });
        }
        if reserved.contains(&protocol.into()) {
            return Err(OpenError::ProtocolInUse { protocol });
        }
        let before = self.receivers.sockets().count();
        self.receivers.add(PacketFilter::of_ip_protocol(protocol))?;
        self.wait_for_receivers(before)
    }

    /// Adds the sockets, those that are open and all that will be, to an epoll set of the caller, who has to poll them
    /// there. From then on [`SignallingSocket::receive`] reads only those that [`SignallingSocket::mark_ready`] named,
    /// and the ring. In the set, which is level-triggered, they have numbers from `first` on, at most
    /// [`SignallingSocket::SOURCES`].
    ///
    /// # Errors
    /// The set refuses them.
    pub fn register_in(&mut self, set: OwnedFd, first: u64) -> io::Result<()> {
        let ready = ReadySet::of_caller(set, first);
        for source in (0..MAX_SOURCES).map(Source::from_number) {
            if let Some(descriptor) = self.descriptor(source) {
                ready.add(source, descriptor).map_err(io::Error::other)?;
            }
        }
        self.ready = ready;
        Ok(())
    }

    /// Records that the source with this number is readable.
    pub fn mark_ready(&mut self, number: u64) {
        self.ready.mark_ready(number);
    }

    /// Removes an interface that was deleted or is not used any more.
    pub fn remove_interface(&mut self, interface: InterfaceId) {
        if let Ok(interceptor) = &mut self.interceptor {
            interceptor.detach(interface);
        }
        self.receivers.remove(interface);
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
            membership(self.group_socket(group)?, group, interface, true)?;
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
                membership(self.group_socket(group)?, group, interface, false)
            }
        }
    }

    /// Sends `payload` as `out` specifies, with the precedence of network control (RFC 791) and in the signalling class
    /// of [`crate::TrafficControl`]. Never blocks.
    ///
    /// A message that follows the data (one with router alert) leaves raw, and inside UDP as well on interfaces with
    /// that setting. The others leave as [`Outgoing::encapsulated`] specifies.
    pub fn send(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let outcome = self.send_raw_or_inside_udp(out, payload);
        match outcome {
            Ok(()) => {
                self.counters.sent += 1;
                Ok(())
            }
            Err(SendError::System(e))
                if matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::EAGAIN)) =>
            {
                self.counters.queue_full += 1;
                Err(SendError::QueueFull)
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
            for (slot, message) in batch[1..].iter_mut().zip(&mut messages) {
                *slot = message;
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

    /// Returns the sessions that the kernel serves by itself, at the interfaces that receive their messages; `None` if
    /// BPF is unavailable.
    pub fn offload(&self) -> Option<&Offload> {
        let offload = self.interceptor.as_ref().ok().map(|interceptor| &interceptor.offload);
        offload.filter(|offload| offload.is_loaded())
    }

    /// Mutable access to those sessions.
    pub fn offload_mut(&mut self) -> Option<&mut Offload> {
        let offload = self.interceptor.as_mut().ok().map(|interceptor| &mut interceptor.offload);
        offload.filter(|offload| offload.is_loaded())
    }

    /// Whether messages to a destination of this address family can be sent.
    pub fn can_signal(&self, destination: IpAddr) -> bool {
        match &self.raw {
            Some(raw) => raw.supports(destination),
            None => self.udp.as_ref().is_some_and(|udp| udp.can_signal(destination)),
        }
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> SocketCounters {
        let drops = |socket: &OwnedFd| receive_drops(socket.as_fd()).unwrap_or_default();
        let ports = self.udp.iter().flat_map(|udp| &udp.ports).map(|port| &port.socket);
        let mut overflowed = ports.chain(self.receivers.sockets()).map(drops).sum::<u64>();
        overflowed += self.interceptor.as_ref().map_or(0, Interceptor::lost);
        SocketCounters { overflowed, ..self.counters }
    }

    /// Returns the interfaces from which messages are intercepted, and the number of messages that were dropped at each
    /// because too many of it waited; empty without BPF.
    pub fn shed(&self) -> BTreeMap<InterfaceId, u64> {
        self.interceptor.as_ref().map(Interceptor::shed).unwrap_or_default()
    }

    /// Arranges that the signalling messages of an interface are received, by BPF if it is available.
    fn intercept(
        &mut self,
        interface: InterfaceId,
        how: &InterfaceSignalling,
    ) -> Result<(), InterfaceError> {
        for known in &PROTOCOLS {
            if let Some(port) = known.protocol.port.filter(|port| !self.sinks.contains_key(port))
                && known.needed(how).next().is_some()
            {
                self.open_sink(port)?;
            }
        }
        let attached = match &mut self.interceptor {
            Ok(interceptor) => interceptor.attach(interface, how),
            Err(kind) => Err((*kind).into()),
        };
        let mut by_sockets = Vec::new();
        if let Err(error) = attached {
            if PROTOCOLS.iter().flat_map(|known| known.needed(how)).any(|p| !p.is_replaceable) {
                return Err(InterfaceError::Intercept(error));
            }
            // Messages to groups and answers to pings are then received only as far as raw sockets see them.
            tracing::debug!(%error, interface = %InterfaceName(interface), "not intercepted");
            by_sockets = self.not_attached(interface, how);
        }
        let before = self.receivers.sockets().count();
        self.receivers.receive_from(interface, &by_sockets)?;
        Ok(self.wait_for_receivers(before)?)
    }

    /// Returns the protocols, by their numbers in [`PROTOCOLS`], of which an interface needs a program that is not
    /// attached.
    fn not_attached(&self, interface: InterfaceId, how: &InterfaceSignalling) -> Vec<usize> {
        let has = |program| self.interceptor.as_ref().is_ok_and(|i| i.has(interface, program));
        let is_missing = |number: &usize| PROTOCOLS[*number].needed(how).any(|p| !has(p));
        (0..PROTOCOLS.len()).filter(is_missing).collect()
    }

    /// Adds the raw receivers from this number on to the set of ready sockets.
    fn wait_for_receivers(&self, first: usize) -> Result<(), OpenError> {
        for (number, socket) in self.receivers.sockets().enumerate().skip(first) {
            self.ready.add(Source::Raw(number), socket.as_fd())?;
        }
        Ok(())
    }

    /// Opens sockets on the port of a protocol. A process without the privilege continues without them if BPF receives
    /// the messages.
    fn open_sink(&mut self, port: u16) -> Result<(), OpenError> {
        match Sink::open(port) {
            Ok(sink) => _ = self.sinks.insert(port, sink),
            Err(OpenError::System { doing, source })
                if source.kind() == io::ErrorKind::PermissionDenied && self.interceptor.is_ok() =>
            {
                tracing::warn!(%source, "cannot {doing}: other packets to it are answered with \
                    ICMP errors");
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
            (Some(_), group) => self.receivers.local(group.is_ipv4()),
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
            |(out, _): &&(&Outgoing, &[u8])| !out.encapsulated && !self.leaves_inside_udp_too(out);
        raw.send_together(&messages[..messages.iter().take_while(bare).count()])
    }

    /// Whether a message that can leave raw must leave inside UDP as well.
    fn leaves_inside_udp_too(&self, out: &Outgoing) -> bool {
        let serves = |udp: &UdpSockets| out.interface.is_some_and(|on| udp.serves(on));
        UdpSockets::supports(out.protocol)
            && out.router_alert
            && self.udp.as_ref().is_some_and(serves)
    }

    fn send_raw_or_inside_udp(&mut self, out: &Outgoing, payload: &[u8]) -> Result<(), SendError> {
        let also = self.leaves_inside_udp_too(out);
        let raw = self.raw.as_mut().filter(|_| !out.encapsulated);
        if raw.is_none() && !UdpSockets::supports(out.protocol) {
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
    /// Returns the descriptor that becomes readable when messages wait: the set of [`SignallingSocket::register_in`],
    /// if it is used.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

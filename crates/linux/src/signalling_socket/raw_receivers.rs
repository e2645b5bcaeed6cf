//! Raw sockets that receive messages: those of protocols that are always received by them, and of the others if BPF is
//! unavailable.
//!
//! ```text
//! socket             in transit                        for this host
//! IPv4, protocol N   router alert, protocol N          preselected packets of protocol N
//! IPv6, protocol N   -                                 preselected packets of protocol N, without the IP header
//! protocol 255       IPv6, one value of router alert   -
//! ```
//!
//! **In transit** a packet is consumed whether it is a message or not. So every other one with router alert is
//! forwarded from here, as a router would have; and so are fragments, which arrive one by one in IPv6. Multicast in
//! transit arrives only while the host is an active multicast router, and not in IPv6.
//!
//! **For this host** a packet arrives as a copy, if an application or the kernel receives it too: the kernel answers
//! pings, for instance. Fragments are reassembled.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;

use earmark_core::InterfaceId;

use super::OpenError;
use super::incoming::Incoming;
use super::packet::{Parsed, packet, payload6};
use super::packet_filter::{Local, PacketFilter};
use super::protocols::PROTOCOLS;
use super::socket_options::{raw_socket, set, set_receive_buffer};
use crate::sys::socket::Received;

/// `IPV6_ROUTER_ALERT_ISOLATE` (Linux 5.1).
const ROUTER_ALERT_ISOLATE: i32 = 30;

/// Purpose of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SocketKind {
    /// Whole IPv4 packets of this IP protocol, in transit and for this host.
    Ipv4(u8),
    /// Whole IPv6 packets in transit with this value of router alert.
    Transit6(u16),
    /// Payload of IPv6 packets for this host, of this IP protocol.
    Local6(u8),
}

/// Treatment of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Treatment<'a> {
    /// A message.
    Message(Incoming<'a>),
    /// Not a message; the router must forward it.
    Forward,
    /// Not a message, and nothing to forward.
    Ignore,
    /// The IP header is malformed.
    Malformed,
}

/// The sockets, and the protocols that they receive.
#[derive(Debug)]
pub(super) struct RawReceivers {
    sockets: Vec<(SocketKind, OwnedFd)>,
    /// Protocols of [`PROTOCOLS`], in that order, then added ones.
    protocols: Vec<(PacketFilter, Interfaces)>,
}

/// Interfaces from which the messages of a protocol are received.
#[derive(Debug)]
enum Interfaces {
    All,
    Only(BTreeSet<InterfaceId>),
}

impl RawReceivers {
    /// Opens the sockets of the protocols that are always received.
    ///
    /// # Errors
    /// The kernel's; a missing IPv6 stack is no error.
    pub(super) fn open() -> Result<RawReceivers, OpenError> {
        let mut receivers = RawReceivers::none();
        for (number, known) in PROTOCOLS.iter().enumerate() {
            let protocol = &known.protocol;
            if protocol.is_always_received {
                receivers.protocols[number].1 = Interfaces::All;
                receivers.open_for(&protocol.filter)?;
            }
        }
        Ok(receivers)
    }

    /// Returns receivers without sockets.
    pub(super) fn none() -> RawReceivers {
        let filters = PROTOCOLS.iter().map(|known| known.protocol.filter);
        let protocols = filters.map(|filter| (filter, Interfaces::Only(BTreeSet::new())));
        RawReceivers { sockets: Vec::new(), protocols: protocols.collect() }
    }

    /// Receives a protocol that is not in the table, from all interfaces.
    ///
    /// # Errors
    /// [`OpenError::ProtocolInUse`]; the kernel's.
    pub(super) fn add(&mut self, filter: PacketFilter) -> Result<(), OpenError> {
        let [protocol, _] = filter.ip_protocols;
        if self.protocols.iter().any(|(known, _)| known.ip_protocols.contains(&protocol)) {
            return Err(OpenError::ProtocolInUse { protocol });
        }
        self.open_for(&filter)?;
        self.protocols.push((filter, Interfaces::All));
        Ok(())
    }

    /// Sets the protocols, by their numbers in [`PROTOCOLS`], to receive from an interface, and opens the sockets for
    /// them that are not open yet.
    ///
    /// # Errors
    /// As for [`RawReceivers::open`].
    pub(super) fn receive_from(
        &mut self,
        interface: InterfaceId,
        wanted: &[usize],
    ) -> Result<(), OpenError> {
        for &number in wanted {
            self.open_for(&PROTOCOLS[number].protocol.filter)?;
        }
        for (number, (_, interfaces)) in self.protocols.iter_mut().enumerate() {
            if let Interfaces::Only(interfaces) = interfaces {
                match wanted.contains(&number) {
                    true => interfaces.insert(interface),
                    false => interfaces.remove(&interface),
                };
            }
        }
        Ok(())
    }

    /// Removes an interface.
    pub(super) fn remove(&mut self, interface: InterfaceId) {
        for (_, interfaces) in &mut self.protocols {
            if let Interfaces::Only(interfaces) = interfaces {
                interfaces.remove(&interface);
            }
        }
    }

    /// Returns the sockets.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &OwnedFd> {
        self.sockets.iter().map(|(_, socket)| socket)
    }

    /// Returns the socket with this number.
    pub(super) fn get(&self, number: usize) -> Option<&OwnedFd> {
        self.sockets.get(number).map(|(_, socket)| socket)
    }

    /// Returns a socket that receives packets for this host.
    pub(super) fn local(&self, is_ipv4: bool) -> Option<&OwnedFd> {
        let is_local = |kind: &SocketKind| match kind {
            SocketKind::Ipv4(_) => is_ipv4,
            SocketKind::Local6(_) => !is_ipv4,
            SocketKind::Transit6(_) => false,
        };
        self.sockets.iter().find(|(kind, _)| is_local(kind)).map(|(_, socket)| socket)
    }

    /// Returns the treatment of a packet that the socket with this number received.
    pub(super) fn classify<'a>(
        &self,
        number: usize,
        octets: &'a [u8],
        about: &Received,
    ) -> Treatment<'a> {
        let Some((kind, _)) = self.sockets.get(number) else { return Treatment::Ignore };
        let found = match *kind {
            SocketKind::Local6(protocol) => {
                payload6(octets, about).map(|datagram| Parsed { protocol, datagram })
            }
            SocketKind::Ipv4(_) | SocketKind::Transit6(_) => {
                about.interface.and_then(|interface| packet(octets, interface))
            }
        };
        let Some(Parsed { protocol, datagram }) = found else { return Treatment::Malformed };
        let is_group = datagram.destination.is_multicast();
        let is_local = match kind {
            SocketKind::Local6(_) => true,
            SocketKind::Transit6(_) => false,
            // The address from which the kernel would answer, and the packet's destination.
            SocketKind::Ipv4(_) => about.own == about.destination,
        };
        let is_wanted = |(filter, interfaces): &&(PacketFilter, Interfaces)| {
            filter.ip_protocols[usize::from(!datagram.destination.is_ipv4())] == protocol
                && !matches!(kind, SocketKind::Transit6(value) if *value != filter.router_alert6)
                && (!is_group || filter.local == Local::Consumed)
                && match interfaces {
                    Interfaces::All => true,
                    Interfaces::Only(interfaces) => interfaces.contains(&datagram.interface),
                }
                && (filter.is_message)(protocol, datagram.payload)
        };
        match self.protocols.iter().find(is_wanted) {
            Some((filter, _)) => {
                let is_copy = is_local && filter.local == Local::Copied;
                Treatment::Message(Incoming { protocol, is_copy, share_change: None, datagram })
            }
            // A packet to a group is a copy of one that is forwarded, except on a multicast router without BPF.
            None if is_local || is_group => Treatment::Ignore,
            None => Treatment::Forward,
        }
    }

    /// Opens the sockets of a protocol that are not open yet.
    fn open_for(&mut self, filter: &PacketFilter) -> Result<(), OpenError> {
        let [protocol4, protocol6] = filter.ip_protocols;
        self.open_if_missing(SocketKind::Ipv4(protocol4), |receivers| {
            let socket = raw_socket(socket2::Domain::IPV4, protocol4.into())?;
            receivers.preselect(filter, &socket, true)?;
            let ip = libc::IPPROTO_IP;
            set(&socket, "ask for router alerts", ip, libc::IP_ROUTER_ALERT, 1)?;
            set(&socket, "ask for packet information", ip, libc::IP_PKTINFO, 1)?;
            Ok(socket)
        })?;
        let outcome = self.open_if_missing(SocketKind::Local6(protocol6), |receivers| {
            let socket = raw_socket(socket2::Domain::IPV6, protocol6.into())?;
            receivers.preselect(filter, &socket, false)?;
            let ip = libc::IPPROTO_IPV6;
            for option in [libc::IPV6_RECVHOPLIMIT, libc::IPV6_RECVHOPOPTS, libc::IPV6_RECVPKTINFO]
            {
                set(&socket, "ask for hop limits, options and interfaces", ip, option, 1)?;
            }
            Ok(socket)
        });
        match outcome {
            Err(error) if error.is_missing_family() => return Ok(()),
            outcome => outcome?,
        }
        let alert = filter.router_alert6;
        self.open_if_missing(SocketKind::Transit6(alert), |_| {
            let socket = raw_socket(socket2::Domain::IPV6, libc::IPPROTO_RAW)?;
            let ip = libc::IPPROTO_IPV6;
            set(&socket, "ask for IPv6 router alerts", ip, libc::IPV6_ROUTER_ALERT, alert.into())?;
            // Without it the socket receives the packets of every namespace of the machine.
            set(&socket, "restrict a socket to this namespace", ip, ROUTER_ALERT_ISOLATE, 1)?;
            set(&socket, "ask for packet information", ip, libc::IPV6_RECVPKTINFO, 1)?;
            Ok(socket)
        })
    }

    fn open_if_missing(
        &mut self,
        kind: SocketKind,
        open: impl FnOnce(&Self) -> Result<OwnedFd, OpenError>,
    ) -> Result<(), OpenError> {
        if !self.sockets.iter().any(|(known, _)| *known == kind) {
            let socket = open(self)?;
            set_receive_buffer(&socket)?;
            self.sockets.push((kind, socket));
        }
        Ok(())
    }

    /// Applies the preselection of a protocol, and of those that share the socket with it.
    fn preselect(
        &self,
        filter: &PacketFilter,
        socket: &OwnedFd,
        is_ipv4: bool,
    ) -> Result<(), OpenError> {
        let all: Vec<PacketFilter> = self.protocols.iter().map(|(filter, _)| *filter).collect();
        filter
            .preselect(socket, is_ipv4, &all)
            .map_err(|source| OpenError::System { doing: "filter packets", source })
    }
}
